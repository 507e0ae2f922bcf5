"""A service of Apprise with a whole hub: from the page to the card, also if a worker is killed that has a message in
hand. Neither the hub's token nor what a person typed is in the log, however much is logged."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator

import pytest

from tests.support.apprise_receiver import Received, Service
from tests.support.client import Client
from tests.support.hub import RunningHub, wait_until
from tests.support.person import Person
from tests.support.policies import approval_wanted

PUBLIC = "http://hub.example"
PAGE = "/accounts/notifications/"


@pytest.fixture
def service() -> Iterator[Service]:
    made = Service()
    yield made
    made.close()


def test_a_message_that_a_killed_worker_had_in_hand_comes_again_and_leads_to_the_card(service: Service) -> None:
    hub = RunningHub(
        TASKHUB_APPRISE_URLS=f"desk={service.url}", PUBLIC_URL=PUBLIC, TASKHUB_OAUTH="False", LOG_LEVEL="DEBUG"
    )
    try:
        arrives(hub, service)
        log = hub.log.read_text()
        assert not [secret for secret in ("token-of-the-hub", "topic-of-ada") if secret in log]
    finally:
        hub.stop()


def arrives(hub: RunningHub, service: Service) -> None:
    done = threading.Event()
    came: list[Received] = []
    with Person(hub, "approver") as person, Client(hub.base, hub.tokens["agent-a"]) as alice:
        person.fill(PAGE, f"{PAGE}apprise/", address="desk:topic-of-ada")
        wait_until(lambda: service.received, "the message that asks to confirm", 30)
        assert service.received[0].path == "/token-of-the-hub/topic-of-ada"
        person.fill(service.received[0].link.removeprefix(PUBLIC))

        def slow(message: Received) -> None:
            came.append(message)
            done.wait(60)

        service.before_answer = slow
        arguments = {"seconds": 0.1}
        with approval_wanted(hub, "slow_compute", arguments):
            task = alice.create("slow_compute", arguments)
            try:
                wait_until(lambda: came, "a message under way", 30)
                ((worker,),) = hub.sql("SELECT pid FROM worker ORDER BY heartbeat_at DESC LIMIT 1")
                hub.process_of(int(worker)).send_signal(signal.SIGKILL)
            finally:
                done.set()
            # Its lease would run out in a minute.
            hub.sql(
                "UPDATE notice SET lease_until = clock_timestamp() - interval '1 second'"
                " WHERE state = 'due' AND channel = 'apprise' RETURNING id"
            )
            wait_until(lambda: len(came) == 2, "the message again, from another worker", 60)
            wait_until(
                lambda: hub.sql("SELECT 1 FROM notice WHERE kind = 'approval.asked' AND state = 'sent'"), "its end"
            )
            card = came[1].link.removeprefix(PUBLIC)
            assert task in card
            assert came[0].link == came[1].link
            person.decide(person.led_to(card))
            assert alice.until(task, "completed", "failed")["status"] == "completed"

"""Mails of a whole hub: from the page to the mailbox and back, also if a worker is killed that has one in hand."""

from __future__ import annotations

import re
import signal
import threading
from collections.abc import Iterator

import pytest

from tests.support.client import Client
from tests.support.hub import RunningHub, wait_until
from tests.support.mailbox import Mailbox, Received
from tests.support.person import Person
from tests.support.policies import approval_wanted

PUBLIC = "http://hub.example"
LINK = re.compile(rf"{PUBLIC}(/\S+)")


@pytest.fixture
def mailbox() -> Iterator[Mailbox]:
    made = Mailbox()
    yield made
    made.close()


def path(mail: Received, part: str) -> str:
    """The path of the link in the text that has this part."""
    (found,) = {link for link in LINK.findall(mail.text) if part in link}
    return str(found)


def test_a_mail_that_a_killed_worker_had_in_hand_comes_again_and_its_link_leads_to_the_card(mailbox: Mailbox) -> None:
    hub = RunningHub(TASKHUB_SMTP_URL=mailbox.url, PUBLIC_URL=PUBLIC, TASKHUB_OAUTH="False")
    try:
        arrives(hub, mailbox)
        assert "ada@example.com" not in hub.log.read_text()
    finally:
        hub.stop()


def arrives(hub: RunningHub, mailbox: Mailbox) -> None:
    done = threading.Event()
    came: list[Received] = []
    with Person(hub, "approver") as person, Client(hub.base, hub.tokens["agent-a"]) as alice:
        person.fill("/accounts/notifications/", "/accounts/notifications/mail/", address="ada@example.com")
        wait_until(lambda: mailbox.received, "the mail that asks to confirm", 30)
        confirm = path(mailbox.received[0], "/confirm/")
        person.fill(confirm)

        def slow(mail: Received) -> None:
            came.append(mail)
            done.wait(60)

        mailbox.answers = slow
        arguments = {"seconds": 0.1}
        with approval_wanted(hub, "slow_compute", arguments):
            task = alice.create("slow_compute", arguments)
            try:
                wait_until(lambda: came, "a mail under way", 30)
                ((worker,),) = hub.sql("SELECT pid FROM worker ORDER BY heartbeat_at DESC LIMIT 1")
                hub.process_of(int(worker)).send_signal(signal.SIGKILL)
            finally:
                done.set()
            # Its lease would run out in a minute.
            hub.sql(
                "UPDATE notice SET lease_until = clock_timestamp() - interval '1 second'"
                " WHERE state = 'due' AND channel = 'mail' RETURNING id"
            )
            wait_until(lambda: len(came) == 2, "the mail again, from another worker", 60)
            wait_until(
                lambda: hub.sql("SELECT 1 FROM notice WHERE kind = 'approval.asked' AND state = 'sent'"), "its end"
            )
            assert len({mail.header("Message-ID") for mail in came}) == 1
            assert {mail.to for mail in came} == {("ada@example.com",)}
            card = path(came[1], "/inbox/task/")
            assert task in card
            person.decide(person.led_to(card))
            assert alice.until(task, "completed", "failed")["status"] == "completed"

"""Slack with a whole hub: from the page to a click, also if a worker is killed that has a message in hand."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator

import pytest

from tests.support.client import Client
from tests.support.hub import RunningHub, wait_until
from tests.support.person import Person
from tests.support.policies import approval_wanted
from tests.support.slack import APP, BOT, Slack

PUBLIC = "http://hub.example"


@pytest.fixture
def slack() -> Iterator[Slack]:
    made = Slack()
    yield made
    made.close()


def test_a_message_that_a_killed_worker_had_in_hand_comes_once_and_a_click_decides(slack: Slack) -> None:
    hub = RunningHub(
        TASKHUB_SLACK_BOT_TOKEN=BOT,
        TASKHUB_SLACK_APP_TOKEN=APP,
        TASKHUB_SLACK_API_URL=slack.api_url,
        PUBLIC_URL=PUBLIC,
        TASKHUB_OAUTH="False",
    )
    try:
        comes_once(hub, slack)
        log = hub.log.read_text()
        assert not [secret for secret in (BOT, APP, "ticket=", "ada@example.com") if secret in log]
    finally:
        hub.stop()


def comes_once(hub: RunningHub, slack: Slack) -> None:
    account = slack.person("ada@example.com")
    posted = threading.Event()
    with Person(hub, "approver") as person, Client(hub.base, hub.tokens["agent-a"]) as alice:
        page = "/accounts/notifications/"
        person.fill(page, f"{page}slack/", address="ada@example.com")
        wait_until(lambda: slack.posted, "the message that asks to confirm", 30)
        person.fill(slack.posted[0].button("open")["url"].removeprefix(PUBLIC))

        def lost(method: str) -> bool:
            if method == "chat.postMessage":
                posted.set()
            return method == "chat.postMessage"

        slack.lose = lost
        arguments = {"seconds": 0.1}
        with approval_wanted(hub, "slow_compute", arguments):
            task = alice.create("slow_compute", arguments)
            assert posted.wait(30)
            ((worker,),) = hub.sql("SELECT pid FROM worker ORDER BY heartbeat_at DESC LIMIT 1")
            hub.process_of(int(worker)).send_signal(signal.SIGKILL)
            slack.lose = lambda method: False
            hub.sql(
                "UPDATE notice SET lease_until = clock_timestamp() - interval '1 second', due_at = clock_timestamp()"
                " WHERE state = 'due' AND channel = 'slack' RETURNING id"
            )
            wait_until(
                lambda: hub.sql("SELECT 1 FROM notice WHERE kind = 'approval.asked' AND state = 'sent'"), "its end", 60
            )
            wait_until(lambda: slack.connections, "another worker that hears clicks", 30)
            (message,) = slack.posted[1:]
            assert message.user == account
            slack.press(message, "reject")
            wait_until(lambda: slack.views, "the dialog", 30)
            slack.submit(slack.views[0], "not today", user=account)
            ended = alice.until(task, "completed", "failed")
            assert "not today" in str(ended)
            wait_until(lambda: "Rejected by" in message.text, "the card's end", 30)

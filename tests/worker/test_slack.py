"""Slack: messages arrive, each once, and a click decides what the person may decide now, and nothing else."""

from __future__ import annotations

import copy
import re
from collections.abc import Iterator
from datetime import UTC, datetime

import pytest
from django.conf import LazySettings
from django.db import connection

from taskhub.core.rules import Risk, Rule, Then, Verdict
from taskhub.core.states import Door, QuestionState
from taskhub.domain.notices import people as outbox
from taskhub.domain.notices.addresses import MAX_NAME, confirm, set_address
from taskhub.domain.notices.channels import Channel
from taskhub.domain.notices.people import begin_telling
from taskhub.domain.questions.answer import decide_approval, undo_decision
from taskhub.lib.signs import invisible
from taskhub.store.models import (
    Decision,
    Event,
    Membership,
    Notice,
    NoticeAddress,
    Question,
    Server,
    SlackCard,
    SlackMessage,
    Tool,
)
from taskhub.worker import engine
from tests.console.admin import browser
from tests.console.admin import words as text_of
from tests.domain import kit
from tests.domain.kit import World
from tests.domain.notices.kit import turn
from tests.domain.notices.people_kit import queue, reader
from tests.factories import ROOT, make_person, make_server, make_tool
from tests.support.hostile import TABLE
from tests.support.mailbox import free_port
from tests.support.slack import APP, BOT, TEAM, Posted, Slack, raw
from tests.worker.kit import Hall, wait_until

LINK = re.compile(r"/accounts/notifications/slack/confirm/([\w-]+)")


@pytest.fixture
def port(settings: LazySettings, monkeypatch: pytest.MonkeyPatch) -> int:
    """Where Slack listens, or not."""
    monkeypatch.setattr(engine, "NOTICES_SECONDS", 0.05)
    monkeypatch.setattr(outbox, "GATHER_SECONDS", 0.0)
    port = free_port()
    settings.TASKHUB_SLACK_BOT_TOKEN, settings.TASKHUB_SLACK_APP_TOKEN = BOT, APP
    settings.TASKHUB_SLACK_API_URL = f"http://127.0.0.1:{port}/api/"
    settings.PUBLIC_URL = "https://hub.example"
    return port


@pytest.fixture
def slack(port: int) -> Iterator[Slack]:
    made = Slack(port)
    yield made
    made.close()


@pytest.fixture
def world(hall: Hall) -> World:
    """The tenant of the worker, with a tool whose server is away."""
    server = make_server(hall.context.tenant)
    Server.objects.filter(pk=server.pk).update(enabled=False)
    return World(hall.context, make_tool(server))


def ask(world: World, sentence: str = "Deploy it", text: str = "hello", **fields: object) -> str:
    """An approval; its task's public id."""
    rule = Rule(name="r", when="", then=Then.ASK, sentence=sentence, **fields)  # type: ignore[arg-type]
    return kit.create(world, arguments={"text": text}, verdict=Verdict(Then.ASK, rule, 1)).public_id


def linked(world: World, slack: Slack, name: str = "ada", **wanted: object) -> tuple[str, int]:
    """A person with a Slack account: its id there, and the user's id here."""
    account = slack.person(f"{name}@example.com")
    person = reader(world, channel=Channel.SLACK, address=f"{TEAM}:{account}", **wanted)  # type: ignore[arg-type]
    return account, person.user_id


def came(slack: Slack, number: int = 1) -> list[Posted]:
    wait_until(lambda: len(slack.posted) >= number, "the messages")
    wait_until(lambda: Notice.objects.filter(state="sent").count() >= number, "stored as sent")
    assert len(slack.posted) == number
    return slack.posted


def heard(hall: Hall, slack: Slack) -> None:
    """A worker that hears clicks."""
    hall.start()
    wait_until(lambda: slack.connections, "a connection for clicks")


def says(message: Posted, words: str) -> None:
    wait_until(lambda: words in message.text, f"{words!r}, not {message.text!r}")


def question() -> Question:
    return Question.objects.get(kind="approval")


def test_it_says_what_will_happen_and_a_click_approves(
    hall: Hall, world: World, slack: Slack, settings: LazySettings
) -> None:
    settings.TASKHUB_UNDO_SECONDS = 60
    account, user = linked(world, slack)
    heard(hall, slack)
    task = ask(world, "Deploy {args.text}", "checkout")
    (message,) = came(slack)
    assert message.user == account
    assert message.args["text"] == "Decide: Deploy “checkout”"
    for words in ("Decide: Deploy “checkout”", world.tool.exposed_name, world.tool.server_name, world.context.name):
        assert words in message.text
    assert message.buttons() == ["approve", "reject", "open"]
    assert message.button("open")["url"] == f"https://hub.example/inbox/task/{task}/?key=approval"
    slack.press(message, "approve")
    decision = Decision.objects.get()
    assert (decision.verdict, decision.user_id, decision.door) == ("approve", user, Door.SLACK)
    assert Event.objects.get(action="question.approve").door == "slack"
    says(message, f"Approved by {decision.actor}.")
    assert message.buttons() == ["open"]
    assert decision.undo_until is not None, "it can be undone in the console"


def test_a_replayed_click_decides_nothing_more(hall: Hall, world: World, slack: Slack) -> None:
    linked(world, slack)
    heard(hall, slack)
    ask(world)
    (message,) = came(slack)
    old = Posted(message.ts, message.conversation, message.user, message.args)
    slack.press(old, "approve", number=77)
    says(message, "Approved by")
    slack.press(old, "approve", number=77)
    slack.press(old, "reject", number=78)
    assert slack.views == []
    assert Decision.objects.count() == 1
    assert "Not decided" not in message.text
    assert SlackCard.objects.get().refused == ""


def test_a_rejection_asks_for_its_reason(hall: Hall, world: World, slack: Slack) -> None:
    account, _ = linked(world, slack)
    heard(hall, slack)
    ask(world)
    (message,) = came(slack)
    slack.press(message, "reject")
    wait_until(lambda: slack.views, "the dialog")
    (view,) = slack.views
    assert "Deploy it" in str(view)
    assert not Decision.objects.exists()
    ack = slack.submit(view, "", user=account)
    assert ack["payload"]["response_action"] == "errors"
    assert "Enter a reason" in ack["payload"]["errors"]["reason"]
    assert message.buttons() == ["approve", "reject", "open"], "the card waits still"
    assert "payload" not in slack.submit(view, "Not on a Friday", user=account)
    decision = Decision.objects.get()
    assert (decision.verdict, decision.reason) == ("reject", "Not on a Friday")
    says(message, "Rejected by")


def test_whoever_may_not_decide_retires_the_card_and_it_stays_open(hall: Hall, world: World, slack: Slack) -> None:
    _, user = linked(world, slack)
    other = slack.person("eve@example.com")
    mine = Membership.objects.filter(user_id=user)
    heard(hall, slack)
    cases = (
        ("somebody else's account", {"user": other}, lambda: None, "is not linked to the TaskHub account"),
        ("of another workspace", {"team": "T0OTHER"}, lambda: None, "is not linked to the TaskHub account"),
        ("no longer linked", {}, lambda: NoticeAddress.objects.update(address=""), "is not linked"),
        ("an operator", {}, lambda: mine.update(role="operator"), "does not include"),
        ("a password is due", {}, lambda: mine.update(password_due=True), "password"),
        ("another tool", {}, lambda: Tool.objects.update(digest=b"x" * 32), "has changed since this message"),
    )
    address = NoticeAddress.objects.get().address
    for number, (case, how, before, why) in enumerate(cases, 1):
        ask(world)
        message = came(slack, number)[-1]
        asked = Question.objects.order_by("-id")[0]
        before()
        slack.press(message, "approve", **how)
        says(message, "Not decided by this message.")
        assert why in message.text, case
        assert message.buttons() == ["open"], case
        asked.refresh_from_db()
        assert asked.state == QuestionState.OPEN, case
        assert not Decision.objects.exists(), case
        NoticeAddress.objects.update(address=address, sent_at=None)
        mine.update(role="approver", password_due=False)
    assert Event.objects.filter(action="access.denied", door="slack").count() >= 3


def test_what_needs_more_than_a_word_is_approved_in_the_hub_alone(hall: Hall, world: World, slack: Slack) -> None:
    linked(world, slack)
    heard(hall, slack)
    without = (
        {"second_factor": True},
        {"risk": Risk.CRITICAL},
        {"sentence": ""},
    )
    for number, fields in enumerate(without, 1):
        ask(world, **{"sentence": "Deploy it", **fields})  # type: ignore[arg-type]
        message = came(slack, number)[-1]
        assert message.buttons() == ["reject", "open"], fields
        forged = Posted(message.ts, message.conversation, message.user, copy.deepcopy(message.args))
        forged.button("reject")["action_id"] = "approve"
        slack.press(forged, "approve")
        says(message, "Not decided by this message.")
        NoticeAddress.objects.update(sent_at=None)
    assert not Decision.objects.exists()
    ask(world, risk=Risk.HIGH)
    assert "Deploy it" in str(came(slack, 4)[-1].button("approve")["confirm"])


def test_who_made_the_call_and_a_card_that_is_none_decide_nothing(hall: Hall, world: World, slack: Slack) -> None:
    _, user = linked(world, slack)
    heard(hall, slack)
    ask(world, not_requester=True)
    (message,) = came(slack)
    # As it was sent: who made the call changes now, and the message may be drawn anew before anybody clicks.
    forged, sent = (
        Posted(message.ts, message.conversation, message.user, copy.deepcopy(message.args)) for _ in range(2)
    )
    with connection.cursor() as cursor:
        cursor.execute(
            "UPDATE auth_context SET issuer = 'taskhub/oauth', subject = %s WHERE id = %s",
            [f"user:{user}", world.context.pk],
        )
    for value in ("", "msg_none", "1", "x" * 2_000):
        forged.button("approve")["value"] = value
        slack.press(forged, "approve")
    slack.press(sent, "approve")
    says(message, "You made this call")
    assert message.buttons() == ["open"]
    assert not Decision.objects.exists()
    assert question().state == QuestionState.OPEN


def test_a_second_word_and_one_for_the_quorum(hall: Hall, world: World, slack: Slack) -> None:
    linked(world, slack, "ada")
    linked(world, slack, "bob")
    heard(hall, slack)
    ask(world, quorum=2)
    first, second = came(slack, 2)
    slack.press(first, "approve")
    says(first, "1 of 2 approvals so far")
    assert second.buttons() == ["approve", "reject", "open"]
    slack.press(first, "open")
    slack.press(second, "approve")
    for message in (first, second):
        says(message, "Approved by")
        assert message.buttons() == ["open"]
    assert question().state == QuestionState.ANSWERED


def test_what_is_decided_elsewhere_is_drawn_and_what_is_undone_waits_again(
    hall: Hall, world: World, slack: Slack
) -> None:
    linked(world, slack)
    heard(hall, slack)
    ask(world)
    (message,) = came(slack)
    asked = question()
    decider = kit.approver(asked.task_id)
    decide_approval(asked.task_id, kit.opened(asked.task_id), approve=True, actor=decider, undo_seconds=60)
    says(message, f"Approved by {decider.name}.")
    assert message.buttons() == ["open"]
    undo_decision(asked.task_id, asked.id, actor=decider)
    wait_until(lambda: message.buttons() == ["approve", "reject", "open"], "its buttons again")
    assert len(slack.posted) == 1


def test_what_comes_together_is_one_message_with_a_card_each(hall: Hall, world: World, slack: Slack) -> None:
    linked(world, slack)
    for number in range(12):
        ask(world, "Deploy {args.text}", f"number {number}")
    queue()
    heard(hall, slack)
    wait_until(lambda: Notice.objects.filter(state="sent").count() == 12, "sent")
    (message,) = slack.posted
    assert "12 approvals" in message.args["text"]
    assert "And 2 more, in the inbox." in message.text
    assert SlackCard.objects.count() == 10
    slack.press(message, "approve", card=3)
    says(message, "Approved by")
    assert "And 2 more, in the inbox." in message.text
    assert [message.buttons(card) for card in (2, 3)] == [["approve", "reject", "open"], ["open"]]
    assert Decision.objects.get().question.task.arguments == {"text": "number 3"}


def test_an_account_is_linked_by_a_link_to_it(hall: Hall, world: World, slack: Slack) -> None:
    account = slack.person("ada@example.com")
    person = make_person("approver", world.context.tenant)
    who = {"tenant_id": person.tenant_id, "user_id": person.user_id, "channel": Channel.SLACK}
    begin_telling()
    heard(hall, slack)
    set_address(**who, address="ada@example.com", actor=ROOT)
    (message,) = came(slack)
    assert (message.user, message.buttons()) == (account, ["open"])
    assert person.username in message.text
    token = LINK.search(message.button("open")["url"])
    assert token is not None
    assert confirm(**who, token=token[1], actor=ROOT) == f"{TEAM}:{account}"
    ask(world)
    slack.press(came(slack, 2)[-1], "approve")
    assert Decision.objects.get().user_id == person.user_id


def test_a_linked_account_is_shown_by_its_name_in_slack(hall: Hall, world: World, slack: Slack) -> None:
    """Not by its ids, however it was typed; a name may be long, or missing."""
    begin_telling()
    hall.start()
    for number, (profile, shown) in enumerate(
        (
            ({"display_name": "Ada L.", "real_name": "Ada Lovelace"}, "Ada L."),
            ({"display_name": "", "real_name": "Bob Builder"}, "Bob Builder"),
            ({"display_name": "n" * 300}, "n" * MAX_NAME),
            ({}, ""),
        ),
        1,
    ):
        account = slack.person(f"person{number}@example.com")
        slack.profiles[account] = profile
        person = make_person("approver", world.context.tenant)
        own = browser(person)
        typed = account if number % 2 else f"person{number}@example.com"
        own.post("/accounts/notifications/slack/", {"address": typed})
        token = LINK.search(came(slack, number)[-1].button("open")["url"])
        assert token is not None
        own.post(f"/accounts/notifications/slack/confirm/{token[1]}")
        account_page, page = (
            text_of(own.get(path).content.decode()) for path in ("/accounts/", "/accounts/notifications/")
        )
        assert (f"Messages go to {shown} ." in page) is bool(shown), page
        assert (shown or f"{TEAM}:{account}") in account_page
        assert (f"{TEAM}:{account}" in account_page) is not bool(shown)
        own.post("/accounts/notifications/slack/", {"address": ""})
        assert "Messages go to" not in own.get("/accounts/notifications/").content.decode()


def test_an_account_that_slack_does_not_know_is_said_at_once(hall: Hall, world: World, slack: Slack) -> None:
    person = make_person("approver", world.context.tenant)
    begin_telling()
    hall.start()
    set_address(
        tenant_id=person.tenant_id,
        user_id=person.user_id,
        channel=Channel.SLACK,
        address="nobody@example.com",
        actor=ROOT,
    )
    wait_until(lambda: Notice.objects.get().state == "failed", "the end")
    assert Notice.objects.get().problem == "Slack knows nobody with this address"


def test_slack_that_was_down_gets_everything_once(hall: Hall, world: World, port: int) -> None:
    begin_telling()
    people = [reader(world, channel=Channel.SLACK, address=f"{TEAM}:U{number:04}ABC") for number in range(3)]
    hall.start()
    ask(world)
    for tries in (1, 2, 3):
        failed = Notice.objects.filter(attempts=tries, lease_until=None)
        wait_until(lambda failed=failed: failed.all().count() == 3, f"{tries} tries")
        assert set(Notice.objects.values_list("state", flat=True)) == {"due"}
        turn(3_600)
    slack = Slack(port)
    try:
        for number in range(3):
            slack.person(f"{number}@example.com")
        turn(60)
        came(slack, 3)
        assert len({message.user for message in slack.posted}) == len(people)
        wait_until(lambda: slack.connections, "a connection for clicks, again")
        slack.press(slack.posted[0], "approve")
        assert Decision.objects.count() == 1
    finally:
        hall.stop()
        slack.close()


def test_slack_that_wants_it_later_gets_it_later(hall: Hall, world: World, slack: Slack) -> None:
    linked(world, slack)
    limited = {"ok": False, "error": "ratelimited"}
    slack.answers = lambda method, args: (
        (429, {"Retry-After": "1800"}, limited) if method == "chat.postMessage" else None
    )
    hall.start()
    ask(world)
    wait_until(lambda: Notice.objects.filter(attempts=1, lease_until=None).exists(), "the refusal")
    notice = Notice.objects.get()
    assert (notice.state, notice.problem) == ("due", "Slack refused: ratelimited")
    assert 1_800 <= (notice.due_at - notice.queued_at).total_seconds() < 2_100
    slack.answers = lambda method, args: None
    turn(2_100)
    came(slack)


def test_a_message_whose_answer_was_lost_is_not_posted_twice(hall: Hall, world: World, slack: Slack) -> None:
    linked(world, slack)
    slack.lose = lambda method: method == "chat.postMessage"
    hall.start()
    ask(world)
    wait_until(lambda: Notice.objects.filter(attempts=1, lease_until=None).exists(), "the first try")
    assert len(slack.posted) == 1
    slack.lose = lambda method: False
    turn(60)
    (message,) = came(slack)
    wait_until(lambda: slack.connections, "a connection for clicks")
    slack.press(message, "approve")
    says(message, "Approved by")


def test_another_worker_follows_one_that_is_gone(hall: Hall, world: World, slack: Slack) -> None:
    linked(world, slack)
    heard(hall, slack)
    ask(world)
    (message,) = came(slack)
    hall.stop()
    asked = question()
    decider = kit.approver(asked.task_id)
    decide_approval(asked.task_id, kit.opened(asked.task_id), approve=False, actor=decider)
    hall.start()
    # The one before may have held it for a minute.
    SlackMessage.objects.exclude(look_at=None).update(look_at=datetime.now(UTC))
    says(message, f"Rejected by {decider.name}.")
    assert len(slack.posted) == 1


def test_a_connection_that_breaks_is_made_again(hall: Hall, world: World, slack: Slack) -> None:
    linked(world, slack)
    heard(hall, slack)
    ask(world)
    (message,) = came(slack)
    slack.hang_up()
    wait_until(lambda: slack.connections, "another connection")
    slack.press(message, "approve")
    assert Decision.objects.count() == 1


def test_values_of_a_call_do_nothing_in_slack(hall: Hall, world: World, slack: Slack) -> None:
    linked(world, slack)
    hall.start()
    texts = ["<!channel> <@U0000ABC> <https://evil.example|here> *bold* :tada: &amp; & <>", *(one for one in TABLE)]
    for number, text in enumerate(texts, 1):
        ask(world, "Deploy {args.text}", str(text)[:400] or "x")
        message = came(slack, number)[-1]
        for one in (message.args["text"], *raw(message.blocks)):
            assert not re.search(r"[<>]|&(?!amp;|lt;|gt;)", one), one
            assert invisible(one) == [], one
        assert all(part["type"] == "plain_text" and part["emoji"] is False for part in plain(message.blocks))
        assert message.args["mrkdwn"] is False
        NoticeAddress.objects.update(sent_at=None)


def plain(of: object) -> list[dict[str, object]]:
    """Every object with a text."""
    if isinstance(of, dict):
        mine = [of] if isinstance(of.get("text"), str) else []
        return mine + [one for value in of.values() for one in plain(value)]
    return [one for value in of for one in plain(value)] if isinstance(of, list) else []

"""Which news becomes a notice for which webhook, and what it says."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import Any

import pytest
from django.test import override_settings
from django.utils import timezone

from taskhub.core.rules import Otherwise, Rule, Then, Verdict
from taskhub.core.states import QuestionKind
from taskhub.core.versions import DECIDED_ONLY
from taskhub.domain.notices import queueing
from taskhub.domain.notices.kinds import Kind
from taskhub.domain.notices.webhooks import set_enabled
from taskhub.domain.questions.answer import decide_approval
from taskhub.domain.tasks.cancel import request_cancel
from taskhub.domain.tasks.sweep import sweep
from taskhub.store.models import Event, FeedConsumer, Notice, Webhook
from tests.domain import kit
from tests.domain.kit import World
from tests.domain.notices.kit import DOWN, OK, come_due, deliver, hook, queue, told, types
from tests.factories import ROOT, make_question

ARGUMENTS = {"text": "the argument of the call"}


@pytest.fixture
def careful(transactional_db: None) -> World:
    return kit.make_world(asks={"quorum": 2})


def test_an_approval_is_told_when_it_is_asked_and_when_the_last_word_is_said(careful: World) -> None:
    ours = hook(careful.context.tenant_id)
    task = kit.create(careful, arguments=ARGUMENTS)
    decide_approval(task.id, kit.opened(task.id), approve=True, actor=kit.approver(task.id, "ana"))
    queue()
    assert types(ours) == [Kind.ASKED]
    decide_approval(task.id, kit.opened(task.id), approve=True, actor=kit.approver(task.id, "bo"))
    queue()
    asked, decided = told(ours)
    data = {
        "task": task.public_id,
        "tool": careful.tool.exposed_name,
        "server": careful.tool.server_name,
        "client": careful.context.name,
        "question": "approval",
    }
    assert asked["data"] == {**data, "state": "input_required"}
    assert decided["data"] == {**data, "state": "queued", "verdict": "approve"}
    assert (asked["type"], decided["type"]) == ("approval.asked", "approval.decided")
    assert "the argument" not in json.dumps([asked, decided])


def test_both_votes_at_once_are_one_decision(careful: World) -> None:
    ours = hook(careful.context.tenant_id)
    task = kit.create(careful)
    for name in ("ana", "bo"):
        decide_approval(task.id, kit.opened(task.id), approve=True, actor=kit.approver(task.id, name))
    queue()
    assert types(ours) == [Kind.ASKED, Kind.DECIDED]


def test_a_no_ends_the_task_too(careful: World) -> None:
    ours = hook(careful.context.tenant_id)
    task = kit.create(careful)
    decide_approval(task.id, kit.opened(task.id), approve=False, actor=kit.approver(task.id, "ana"))
    queue()
    assert types(ours) == [Kind.ASKED, Kind.DECIDED, Kind.FINISHED]
    assert [body["data"].get("verdict") for body in told(ours)] == [None, "reject", None]
    assert told(ours)[2]["data"]["tool_error"] is True


@pytest.mark.parametrize(
    ("otherwise", "kinds"),
    [
        (Otherwise.DENY, [Kind.ASKED, Kind.EXPIRED, Kind.FINISHED]),
        (Otherwise.ALLOW, [Kind.ASKED, Kind.EXPIRED]),
        (Otherwise.ESCALATE, [Kind.ASKED, Kind.ESCALATED, Kind.ASKED]),
    ],
)
def test_nobody_decided(world: World, otherwise: Otherwise, kinds: list[Kind]) -> None:
    ours = hook(world.context.tenant_id)
    group = "leads" if otherwise is Otherwise.ESCALATE else ""
    rule = Rule(name="r", when="", then=Then.ASK, otherwise=otherwise, escalate_to=group)
    task = kit.create(world, verdict=Verdict(Then.ASK, rule, 1))
    kit.turn_back(task.id, "due_at", 1, table="question")
    assert sweep() == 1
    queue()
    assert types(ours) == kinds
    if otherwise is Otherwise.ESCALATE:
        assert [body["data"].get("group") for body in told(ours)] == [None, "leads", "leads"]
    else:
        assert told(ours)[1]["data"]["verdict"] == str(otherwise)


def test_nobody_decided_within_the_time_that_the_program_gave(world: World) -> None:
    """Of that the rule says nothing, so what it says for the end of its own time is not done."""
    ours = hook(world.context.tenant_id)
    rule = Rule(name="r", when="", then=Then.ASK, otherwise=Otherwise.ALLOW)
    task = kit.create(
        world, revision=DECIDED_ONLY, permit_seconds=60, wanted_seconds=60, verdict=Verdict(Then.ASK, rule, 1)
    )
    kit.turn_back(task.id, "due_at", 1, table="question")
    assert sweep() == 1
    queue()
    assert types(ours) == [Kind.ASKED, Kind.EXPIRED, Kind.FAILED]
    assert "verdict" not in told(ours)[1]["data"]
    (event,) = Event.objects.filter(task_id=task.id, action="question.undecided")
    assert event.actor != "rule r"
    assert event.after is not None
    assert (event.after["key"], event.after["rule"], "otherwise" in event.after) == ("approval", "r", False)


def test_people_are_reminded(world: World) -> None:
    ours = hook(world.context.tenant_id)
    rule = Rule(name="r", when="", then=Then.ASK, group="ops", remind_minutes=10)
    task = kit.create(world, verdict=Verdict(Then.ASK, rule, 1))
    kit.turn_back(task.id, "remind_at", 1, table="question")
    assert sweep() == 1
    assert sweep() == 0
    queue()
    assert types(ours) == [Kind.ASKED, Kind.REMINDED]
    assert [body["data"].get("group") for body in told(ours)] == ["ops", "ops"]


def test_without_webhooks_no_event_is_looked_at(world: World) -> None:
    ours = hook(world.context.tenant_id)
    queue()
    set_enabled(tenant_id=world.context.tenant_id, webhook_id=ours, enabled=False, actor=ROOT)
    kit.create(world)
    kit.finish(kit.claim_one())
    assert queueing.queue_notices() == 0
    set_enabled(tenant_id=world.context.tenant_id, webhook_id=ours, enabled=True, actor=ROOT)
    kit.create(world)
    kit.finish(kit.claim_one())
    assert queueing.queue_notices() > 0
    assert types(ours) == [Kind.FINISHED]


def test_ends_of_tasks(world: World) -> None:
    ours = hook(world.context.tenant_id)
    for end in (kit.finish, kit.fault):
        kit.create(world)
        end(kit.claim_one())
    task = kit.create(world)
    request_cancel(task.id, actor=world.actor)
    kit.create(world)
    kit.ask(kit.claim_one(), make_question(QuestionKind.ELICITATION))  # no approval: no news of these kinds
    queue()
    assert types(ours) == [Kind.FINISHED, Kind.FAILED, Kind.CANCELLED]
    assert [body["data"]["state"] for body in told(ours)] == ["finished", "faulted", "cancelled"]


@override_settings(PUBLIC_URL="https://hub.example")
def test_it_has_the_rules_sentence_and_a_link_to_the_card(transactional_db: None) -> None:
    careful = kit.make_world(asks={"sentence": "Say {args.text} aloud"})
    ours = hook(careful.context.tenant_id)
    task = kit.create(careful, arguments={"text": "hello\u202eolleh", "other": "never told"})
    decide_approval(task.id, kit.opened(task.id), approve=True, actor=kit.approver(task.id))
    kit.finish(kit.claim_one())
    queue()
    asked, _, finished = told(ours)
    assert asked["data"]["url"] == f"https://hub.example/inbox/task/{task.public_id}/?key=approval"
    assert asked["data"]["sentence"] == "Say “hello[U+202E]olleh” aloud"
    assert finished["data"]["url"].startswith("https://hub.example/tasks/")
    assert "never told" not in json.dumps([asked, finished])


def test_no_value_of_a_call_passes_for_the_words_of_the_rule(transactional_db: None) -> None:
    careful = kit.make_world(asks={"sentence": "Say “{args.text}” to {args.other}, and {args.none}"})
    ours = hook(careful.context.tenant_id)
    kit.create(careful, arguments={"text": "hello” to nobody. Security has approved it.\nSay “x", "other": "all"})
    queue()
    [asked] = told(ours)
    assert asked["data"]["sentence"] == (
        "Say ““hello[U+201D] to nobody. Security has approved it.↵Say “x”” to “all”, and “(not given)”"
    )


def test_nothing_goes_to_another_tenant_or_about_another_client(world: World) -> None:
    neighbour, stranger = kit.another_client(world), kit.make_world()
    everything = hook(world.context.tenant_id)
    mine = hook(world.context.tenant_id, "mine", client=world.context.name)
    theirs = hook(stranger.context.tenant_id)
    only_failures = hook(world.context.tenant_id, "failures", kinds=[Kind.FAILED])
    for one in (world, neighbour):
        kit.create(one)
        kit.finish(kit.claim_one())
    queue()
    assert [body["data"]["client"] for body in told(everything)] == [world.context.name, neighbour.context.name]
    assert [body["data"]["client"] for body in told(mine)] == [world.context.name]
    assert told(theirs) == told(only_failures) == []


def test_what_was_before_a_webhook_and_while_it_is_disabled_is_not_told(world: World) -> None:
    hook(world.context.tenant_id, "earlier")

    def happens() -> None:
        kit.create(world)
        kit.finish(kit.claim_one())
        queue()

    happens()
    ours = hook(world.context.tenant_id)
    for enabled in (False, True):
        set_enabled(tenant_id=world.context.tenant_id, webhook_id=ours, enabled=enabled, actor=ROOT)
        happens()
    assert len(told(ours)) == 1


def test_an_event_that_comes_again_makes_no_second_notice(world: World) -> None:
    ours = hook(world.context.tenant_id)
    place = FeedConsumer.objects.values("xid", "event_id").get()
    kit.create(world)
    kit.finish(kit.claim_one())
    queue()
    with kit.superuser_past_the_guards() as raw:  # as after a restore of that one row
        raw.execute("UPDATE feed_consumer SET xid = %(xid)s, event_id = %(event_id)s", place)
    queue()
    assert types(ours) == [Kind.FINISHED]


def test_what_waits_for_a_receiver_is_bounded(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(queueing, "MAX_WAITING", 5)
    monkeypatch.setattr(queueing, "MAX_WAITING_FAILING", 2)
    ours = hook(world.context.tenant_id)

    def ends(tasks: int) -> list[str]:
        for _ in range(tasks):
            kit.create(world)
            kit.finish(kit.claim_one())
        queue()
        found: list[Any] = list(Notice.objects.filter(webhook_id=ours).order_by("id").values_list("state", flat=True))
        return found

    assert ends(3) == ["due"] * 3  # it may answer
    deliver(DOWN)
    assert ends(1) == ["due"] * 4, "one refusal in a burst costs no other message"
    Webhook.objects.update(failing_since=timezone.now() - timedelta(seconds=queueing.FAILING_SECONDS + 1))
    assert ends(1) == ["due"] * 4 + ["failed"]
    assert "too many wait" in Notice.objects.latest("id").problem
    come_due()
    deliver(OK, 1)
    assert sorted(ends(2)) == [*["due"] * 5, "failed", "sent"]
    assert sorted(ends(1)) == [*["due"] * 5, *["failed"] * 2, "sent"], "one that answers, but is slow, is bounded too"

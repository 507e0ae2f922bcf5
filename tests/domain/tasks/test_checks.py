"""A read-only companion is asked whether a lost run ran, and rules where the policy says what its answer means."""

from __future__ import annotations

import json
from typing import Any

import pytest
from django.utils import timezone

from taskhub.core.errors import Invalid
from taskhub.core.policy import Policy, check_policy
from taskhub.core.records import Actor
from taskhub.core.states import Door, State
from taskhub.domain.catalogue.writes import set_tool_policy
from taskhub.domain.questions.answer import AnswerOutcome, rule_outcome
from taskhub.domain.questions.rulings import LostCall, lost_call
from taskhub.domain.tasks import run
from taskhub.domain.tasks.checks import Check, end_check, put_off, take_checks
from taskhub.store.models import Decision, Event, OutcomeCheck, Question, Server, Tool
from tests import factories
from tests.domain import kit
from tests.domain.kit import World
from tests.factories import WORKER

pytestmark = pytest.mark.django_db(transaction=True)

ADA = Actor(name="ada", door=Door.WEB, reason="seen")
LOOK = {"tool": "look", "arguments": {"order": {"argument": "text"}, "verbose": {"value": True}}}
RULES = {**LOOK, "field": "state", "ran": "shipped", "unrun": "open"}


def world_with(companion: dict[str, Any], **columns: Any) -> World:
    world = kit.make_world(companion=companion)
    server = Tool.objects.get(pk=world.tool.id).server
    factories.make_tool(server, "look", **{"read_only": True, **columns})
    return world


def lost(world: World) -> int:
    task = kit.create(world)
    run.lose(kit.claim_one(), told="The connection was lost: outcome unknown", actor=WORKER)
    return task.id


def taken(task_id: int) -> Check:
    (check,) = take_checks()
    assert check.task_id == task_id
    return check


def answer(check: Check, **structured: Any) -> None:
    content = [{"type": "text", "text": json.dumps(structured)}]
    end_check(check, result={"content": content, "structuredContent": structured}, actor=WORKER)


def seen(task_id: int) -> LostCall:
    return lost_call(Question.objects.get(task_id=task_id, kind="outcome").pk)


def test_its_arguments_follow_from_those_of_the_call() -> None:
    task_id = lost(world_with(LOOK))
    check = taken(task_id)
    assert (check.name, check.exposed_name, check.problem) == ("look", "look", "")
    assert check.arguments == {"order": "hello", "verbose": True}
    assert take_checks() == [], "one worker has it"


def test_a_tool_without_a_companion_is_not_checked() -> None:
    lost(kit.make_world())
    assert take_checks() == []
    assert not OutcomeCheck.objects.exists()


def test_its_answer_is_shown_and_a_person_rules() -> None:
    task_id = lost(world_with(LOOK))
    answer(taken(task_id), state="shipped")
    call = seen(task_id)
    assert call.checked
    assert call.checked_at is not None
    assert json.loads(call.check_result or "")["structuredContent"] == {"state": "shipped"}
    assert json.loads(call.check_arguments or "") == {"order": "hello", "verbose": True}
    assert kit.look(task_id).state is State.INPUT_REQUIRED
    event = Event.objects.get(task_id=task_id, action="task.outcome.checked")
    assert event.after == {"key": "outcome-1", "tool": "look", "answered": True}
    assert take_checks() == []


@pytest.mark.parametrize(("state", "verdict", "after"), [("shipped", "ran", "finished"), ("open", "unrun", "queued")])
def test_it_rules_where_the_policy_says_what_it_means(state: str, verdict: str, after: str) -> None:
    task_id = lost(world_with(RULES))
    answer(taken(task_id), state=state)
    assert kit.look(task_id).state == after
    decision = Decision.objects.get()
    assert (decision.actor, decision.door, decision.verdict) == ("look", "policy", verdict)
    assert decision.reason == f'state is "{state}"'
    if verdict == "ran":
        text = json.loads(kit.look(task_id).result_json or "")["content"][0]["text"]
        assert 'has run, as look ruled: state is "shipped"' in text


def test_the_json_of_its_only_text_counts_too() -> None:
    task_id = lost(world_with(RULES))
    end_check(taken(task_id), result={"content": [{"type": "text", "text": '{"state": "open"}'}]}, actor=WORKER)
    assert kit.look(task_id).state is State.QUEUED


@pytest.mark.parametrize(
    "result",
    [
        {"content": [], "structuredContent": {"state": "lost"}},
        {"content": [], "structuredContent": {"state": ["shipped"]}},
        {"content": [], "structuredContent": {"other": "shipped"}},
        {"content": [], "structuredContent": {"state": "shipped"}, "isError": True},
        {"content": [{"type": "text", "text": "shipped"}]},
        {"content": [{"type": "text", "text": "{"}, {"type": "text", "text": "}"}]},
        {"content": [{"type": "image", "data": "", "mimeType": "image/png"}]},
    ],
)
def test_any_other_answer_leaves_it_to_people(result: dict[str, Any]) -> None:
    task_id = lost(world_with(RULES))
    end_check(taken(task_id), result=result, actor=WORKER)
    assert kit.look(task_id).state is State.INPUT_REQUIRED
    assert not Decision.objects.exists()


def test_true_is_not_one() -> None:
    task_id = lost(world_with({**LOOK, "field": "n", "ran": 1}))
    answer(taken(task_id), n=True)
    assert kit.look(task_id).state is State.INPUT_REQUIRED


def test_whoever_ruled_before_it_has_ruled() -> None:
    task_id = lost(world_with(RULES))
    check = taken(task_id)
    question = kit.opened(task_id)
    assert rule_outcome(task_id, question, ran=True, result=kit.FINAL, actor=ADA) is AnswerOutcome.ANSWERED
    answer(check, state="open")
    assert kit.look(task_id).state is State.FINISHED
    assert Decision.objects.get().actor == "ada"


def test_it_is_asked_again_while_its_server_is_away() -> None:
    task_id = lost(world_with(LOOK))
    for tries in (1, 2):
        check = taken(task_id)
        assert check.tries == tries
        put_off(check, "Server x cannot be reached")
        assert take_checks() == []
        assert seen(task_id).check_problem == "Server x cannot be reached"
        OutcomeCheck.objects.update(next_at="2020-01-01T00:00:00Z")
    answer(taken(task_id), state="shipped")
    assert seen(task_id).tries == 3


def test_a_worker_that_is_lost_with_it_is_followed_by_another() -> None:
    task_id = lost(world_with(LOOK))
    first = taken(task_id)
    OutcomeCheck.objects.update(next_at="2020-01-01T00:00:00Z")
    second = taken(task_id)
    answer(first, state="late")
    assert seen(task_id).check_result is None
    answer(second, state="shipped")
    assert seen(task_id).check_result is not None


@pytest.mark.parametrize(
    ("columns", "problem"),
    [
        ({"read_only": False}, "does not say any more that it only reads"),
        ({"gone_at": "2020-01-01T00:00:00Z"}, "is not offered any more"),
        ({"rejected": "bad"}, "is not offered any more"),
    ],
)
def test_a_companion_that_is_none_any_more_is_not_called(columns: dict[str, Any], problem: str) -> None:
    assert problem in taken(lost(world_with(LOOK, **columns))).problem


def test_a_companion_that_waits_to_be_confirmed_is_not_called() -> None:
    world = world_with(LOOK)
    Server.objects.update(review=True)
    Tool.objects.filter(name="look").update(confirmed_digest="")
    assert "is not offered any more" in taken(lost(world)).problem


@pytest.mark.parametrize(
    ("schema", "problem"),
    [
        ({"properties": {"target": {}}}, "look has changed: it has no argument order."),
        ({"required": ["order", "target"]}, "look has changed: it needs target."),
    ],
)
def test_a_companion_that_takes_other_arguments_now_is_not_called(schema: dict[str, Any], problem: str) -> None:
    """What it would answer is about something else than the call."""
    world = world_with(LOOK)
    look = Tool.objects.get(name="look")
    Tool.objects.filter(pk=look.pk).update(definition={**look.definition, "inputSchema": {"type": "object", **schema}})
    assert taken(lost(world)).problem == problem


def test_of_a_question_that_was_closed_nothing_is_asked() -> None:
    task_id = lost(world_with(LOOK))
    rule_outcome(task_id, kit.opened(task_id), ran=True, result=kit.FINAL, actor=ADA)
    assert taken(task_id).problem == "The question was closed before."


def test_an_answer_that_is_too_large_is_not_kept_but_counts() -> None:
    task_id = lost(world_with(RULES))
    answer(taken(task_id), state="shipped", more="x" * 100_000)
    assert seen(task_id).check_result is None
    assert "was not kept" in seen(task_id).check_problem
    assert kit.look(task_id).state is State.FINISHED


# --- what a policy may say

SCHEMA = {"type": "object", "properties": {"order": {"type": "string"}, "verbose": {}}, "required": ["order"]}


@pytest.mark.parametrize(
    ("companion", "field", "problem"),
    [
        ({"tool": "nothing"}, "companion_tool", "another tool of the same server"),
        ({"tool": "writes"}, "companion_tool", "does not say that it only reads"),
        ({"tool": "ship"}, "companion_tool", "another tool of the same server"),
        ({"tool": "look", "arguments": {}}, "companion_arguments", "look needs order"),
        ({"tool": "look", "arguments": {"id": {"value": 1}}}, "companion_arguments", "has no argument id"),
        ({"tool": "look", "arguments": {"order": {"argument": "x"}}}, "companion_arguments", "has no argument x"),
    ],
)
def test_a_companion_fits_or_is_refused(companion: dict[str, Any], field: str, problem: str) -> None:
    server = factories.make_server(tenant := factories.make_tenant())
    Server.objects.filter(pk=server.pk).update(catalogue_at=timezone.now())
    tool = factories.make_tool(server, "ship")
    Tool.objects.filter(pk=tool.id).update(definition={"name": "ship", "inputSchema": SCHEMA})
    look = factories.make_tool(server, "look", read_only=True)
    Tool.objects.filter(pk=look.id).update(definition={"name": "look", "inputSchema": SCHEMA})
    factories.make_tool(server, "writes")
    with pytest.raises(Invalid, match=problem) as refused:
        set_tool_policy(tenant_id=tenant.pk, tool_id=tool.id, policy=Policy(companion=companion), actor=ADA)
    assert refused.value.data["field"] == field
    fit = {"tool": "look", "arguments": {"order": {"argument": "order"}, "verbose": {"value": None}}}
    assert set_tool_policy(tenant_id=tenant.pk, tool_id=tool.id, policy=Policy(companion=fit), actor=ADA)


@pytest.mark.parametrize(
    "companion",
    [
        {"arguments": {}},
        {"tool": ""},
        {"tool": "look", "more": 1},
        {"tool": "look", "arguments": {"a": {}}},
        {"tool": "look", "arguments": {"a": {"argument": 1}}},
        {"tool": "look", "arguments": {"a": {"value": "x" * 2_000}}},
        {"tool": "look", "arguments": {str(n): {"value": n} for n in range(30)}},
        {"tool": "look", "field": "state"},
        {"tool": "look", "ran": "done"},
        {"tool": "look", "field": "state", "ran": "done", "unrun": "done"},
        {"tool": "look", "arguments": {"a": {"value": "\0"}}},
    ],
)
def test_a_companion_of_another_shape_is_refused(companion: dict[str, Any]) -> None:
    with pytest.raises(Invalid) as refused:
        check_policy(Policy(companion=companion))
    assert refused.value.data["field"].startswith("companion_")

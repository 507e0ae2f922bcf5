"""What becomes of a call whose client answers a question with an error."""

from __future__ import annotations

import json
from typing import Any

import pytest

from taskhub.core.states import State
from taskhub.domain.questions.answer import AnswerOutcome, refuse_question
from taskhub.domain.questions.reads import AnsweredByError, response_to
from taskhub.domain.tasks.deferred import ask_deferred, take_polls
from taskhub.store.models import Attempt, Event, Question
from tests.domain import kit
from tests.domain.kit import World
from tests.factories import WORKER, make_question

ERROR = {"code": -1, "message": "The user\0 said no", "data": {"x": 1}}
STORED = {**ERROR, "message": "The user� said no"}


def refuse(world: World, task_id: int, key: str = "q") -> AnswerOutcome:
    return refuse_question(task_id, kit.opened(task_id, key), ERROR, actor=world.actor)


def asking(world: World, *keys: str, live: bool) -> int:
    task = kit.create(world)
    assert kit.ask(kit.claim_one(), *(make_question(key=key) for key in keys or ("q",)), live=live)
    return task.id


def event_of(task_id: int) -> tuple[str, str, Any]:
    found = Event.objects.get(task_id=task_id, action="question.refused")
    return found.actor, found.reason, found.after


def test_a_tool_that_waits_for_the_answer_gets_the_error_and_runs_on(world: World) -> None:
    task_id = asking(world, live=True)
    before = kit.column(task_id, "lease_until")
    assert refuse(world, task_id) is AnswerOutcome.ANSWERED
    now = kit.look(task_id)
    assert (now.state, now.message, now.error_json) == (State.WORKING, "", None)
    assert kit.column(task_id, "lease_until") == before
    assert Attempt.objects.get(task_id=task_id).outcome == ""
    assert Question.objects.get(task_id=task_id).state == "superseded"
    with pytest.raises(AnsweredByError) as caught:
        response_to(task_id, "q")
    assert caught.value.error == STORED
    assert event_of(task_id) == (world.actor.name, STORED["message"], {"key": "q", "kind": "elicitation"})


def test_its_other_questions_stay_open(world: World) -> None:
    task_id = asking(world, "q", "r", live=True)
    assert refuse(world, task_id) is AnswerOutcome.ANSWERED
    now = kit.look(task_id)
    assert (now.state, now.message) == (State.INPUT_REQUIRED, "1 more answer needed")
    assert [question.key for question in now.questions] == ["r"]
    assert refuse(world, task_id, "r") is AnswerOutcome.ANSWERED
    assert kit.look(task_id).state is State.WORKING


def test_a_call_that_would_be_made_again_with_the_answers_fails_with_it(world: World) -> None:
    task_id = asking(world, "q", "r", live=False)
    assert refuse(world, task_id) is AnswerOutcome.ANSWERED
    now = kit.look(task_id)
    assert (now.state, now.message, now.questions) == (State.FAULTED, STORED["message"], ())
    assert json.loads(now.error_json or "") == STORED
    assert {each.state for each in Question.objects.filter(task_id=task_id)} == {"superseded"}
    assert event_of(task_id)[0] == world.actor.name


@pytest.mark.parametrize("live", [True, False])
def test_after_an_answer_it_is_late(world: World, live: bool) -> None:
    task_id = asking(world, live=live)
    question = kit.opened(task_id)
    refuse(world, task_id)
    before = kit.look(task_id)
    assert refuse_question(task_id, question, ERROR, actor=world.actor) is AnswerOutcome.LATE
    assert kit.look(task_id) == before
    assert Event.objects.filter(task_id=task_id, action="question.refused").count() == 1


@pytest.mark.parametrize(("revision", "state"), [("2025-11-25", State.WORKING), ("2026-07-28", State.FAULTED)])
def test_a_servers_task_gets_it_where_its_revision_has_a_way(world: World, revision: str, state: State) -> None:
    task = kit.create(world)
    kit.defer(kit.claim_one(), revision=revision)
    servers = {world.tool.server_id: 1}
    (poll,) = take_polls("worker-2", servers)
    ask_deferred(poll, [make_question(key="q", upstream_key="who")], message="", delay_ms=60_000, actor=WORKER)
    assert refuse(world, task.id) is AnswerOutcome.ANSWERED
    assert kit.look(task.id).state is state
    (again,) = take_polls("worker-2", servers)
    goes_on = state is State.WORKING
    assert (again.ended, again.errors) == (not goes_on, {"who": STORED} if goes_on else {})

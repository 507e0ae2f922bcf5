"""A run that is lost while its tool runs: people are asked whether it ran, once, and what they say is what happens."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import pytest
from django.db import transaction

from taskhub.core.errors import Invalid
from taskhub.core.records import Actor, Claim
from taskhub.core.states import Audience, Door, QuestionKind, State
from taskhub.domain.catalogue.writes import remove_server
from taskhub.domain.questions.answer import AnswerOutcome, answer_question, rule_outcome
from taskhub.domain.questions.rulings import LostCall, ruled_result
from taskhub.domain.tasks import run
from taskhub.domain.tasks.cancel import request_cancel
from taskhub.domain.tasks.removed import end_calls_of_removed
from taskhub.domain.tasks.sweep import sweep
from taskhub.store.models import Attempt, Decision, Event, Question
from tests import factories
from tests.domain import kit
from tests.domain.kit import Crew, World
from tests.factories import WORKER, make_question

ADA = Actor(name="ada", door=Door.WEB, reason="the log of the server says so")
TOLD = "The connection to server files was lost while the tool ran: outcome unknown"


def swept(taken: Claim) -> None:
    kit.turn_back(taken.task_id, "lease_until", 1)
    assert sweep() == 1


WAYS: dict[str, tuple[Callable[[Claim], object], str]] = {
    "worker_lost": (swept, "The worker was lost while the tool ran: outcome unknown"),
    "worker_stopped": (
        lambda taken: run.release(taken, started=True, delay_seconds=0, reason="Its worker was stopped", actor=WORKER),
        "The worker was stopped while the tool ran: outcome unknown",
    ),
    "server_lost": (lambda taken: run.lose(taken, told=TOLD, actor=WORKER), TOLD),
}


def lost(world: World, way: str = "server_lost", **fields: Any) -> Claim:
    """A claim whose run was lost that way."""
    kit.create(world, **fields)
    taken = kit.claim_one()
    WAYS[way][0](taken)
    return taken


def rule(taken: Claim, *, ran: bool, actor: Actor = ADA) -> AnswerOutcome:
    question = kit.opened(taken.task_id)
    return rule_outcome(taken.task_id, question, ran=ran, result=kit.FINAL if ran else None, actor=actor)


def outcomes(task_id: int) -> list[str]:
    return list(Attempt.objects.filter(task_id=task_id).order_by("number").values_list("outcome", flat=True))


def why_of(task_id: int) -> Any:
    return json.loads(kit.look(task_id).error_json or "{}").get("data")


# --- what is asked


@pytest.mark.parametrize("way", WAYS)
def test_people_are_asked_whether_a_lost_run_ran(world: World, way: str) -> None:
    taken = lost(world, way)
    now, told = kit.look(taken.task_id), WAYS[way][1]
    assert now.state is State.INPUT_REQUIRED
    assert now.message == f"{told}. Waiting for a person who says whether the tool ran"
    question = kit.opened(taken.task_id)
    assert (question.key, question.kind, question.audience) == ("outcome-1", QuestionKind.OUTCOME, Audience.OPERATOR)
    params = question.params
    assert (params["why"], params["told"], params["worker"], params["attempt"]) == (way, told, "worker-1", 1)
    assert params["began"] < params["lost"]
    assert outcomes(taken.task_id) == ["lost"]
    assert kit.column(taken.task_id, "crashes") == 1
    assert kit.claim() == [], "nothing runs before the ruling"
    event = Event.objects.get(task_id=taken.task_id, action="task.outcome.unknown")
    assert event.after == {"key": "outcome-1", "why": way, "worker": "worker-1", "epoch": 1}


def test_it_takes_the_place_of_a_question_that_the_tool_asked(world: World) -> None:
    kit.create(world)
    taken = kit.claim_one()
    kit.ask(taken, make_question(), live=True)
    version = kit.look(taken.task_id).version
    swept(taken)
    assert kit.opened(taken.task_id).kind is QuestionKind.OUTCOME
    assert kit.look(taken.task_id).version > version
    assert list(Question.objects.order_by("id").values_list("state", flat=True)) == ["superseded", "open"]


@pytest.mark.parametrize(("attempts", "state"), [(3, State.QUEUED), (1, State.FAULTED)])
def test_nobody_is_asked_about_a_tool_that_may_run_twice(transactional_db: None, attempts: int, state: State) -> None:
    taken = lost(kit.make_world(idempotent=True, max_attempts=attempts))
    assert kit.look(taken.task_id).state is state
    assert not Question.objects.exists()
    if state is State.QUEUED:
        assert kit.look(taken.task_id).message.endswith("was lost; queued to run again")
        assert kit.claim() == [], "after a pause only"
        kit.turn_back(taken.task_id, "runnable_at", 1)
        assert kit.claim_one().epoch == 2
    else:
        assert why_of(taken.task_id) == {"reason": "outcome_unknown"}


def test_nobody_is_asked_where_that_is_the_setting(world: World, settings: Any) -> None:
    settings.TASKHUB_OUTCOME_HOURS = 0
    taken = lost(world)
    assert (kit.look(taken.task_id).state, why_of(taken.task_id)) == (State.FAULTED, {"reason": "outcome_unknown"})


def test_a_lost_run_that_was_to_be_cancelled_is_cancelled(world: World) -> None:
    kit.create(world)
    taken = kit.claim_one()
    request_cancel(taken.task_id, actor=ADA)
    assert run.lose(taken, told=TOLD, actor=WORKER) is True
    now = kit.look(taken.task_id)
    assert (now.state, now.message) == (State.CANCELLED, "Cancelled; the tool did not confirm that it stopped")


def test_a_worker_that_lost_its_task_loses_no_run(world: World) -> None:
    taken = lost(world, "worker_lost")
    assert run.lose(taken, told=TOLD, actor=WORKER) is False
    assert kit.actions(taken.task_id)[-1] == "task.write.stale"


# --- rulings


@pytest.mark.parametrize("way", WAYS)
def test_it_ran(world: World, way: str) -> None:
    taken = lost(world, way)
    assert rule(taken, ran=True) is AnswerOutcome.ANSWERED
    now = kit.look(taken.task_id)
    assert (now.state, json.loads(now.result_json or ""), now.is_error) == (State.FINISHED, kit.FINAL, False)
    assert now.message == ADA.reason
    decision = Decision.objects.get()
    assert (decision.actor, decision.verdict, decision.reason, decision.door) == ("ada", "ran", ADA.reason, "web")
    assert kit.actions(taken.task_id)[-2:] == ["question.ran", "task.finished"]
    event = Event.objects.get(task_id=taken.task_id, action="question.ran")
    assert (event.actor, event.reason, event.after["kind"]) == ("ada", ADA.reason, "outcome")


@pytest.mark.parametrize("way", WAYS)
def test_it_did_not_run_and_runs_again(world: World, way: str) -> None:
    taken = lost(world, way)
    assert rule(taken, ran=False) is AnswerOutcome.ANSWERED
    assert kit.look(taken.task_id).state is State.QUEUED
    assert kit.wake_ups() == 1
    again = kit.claim_one("w2")
    assert (again.epoch, again.arguments, again.answers) == (2, taken.arguments, None)
    assert kit.finish(again) is True
    assert kit.actions(taken.task_id)[-4:] == ["question.unrun", "task.answered", "task.claimed", "task.finished"]
    assert outcomes(taken.task_id) == ["lost", "finished"]


def test_a_run_that_is_lost_once_more_is_asked_about_once_more(world: World) -> None:
    taken = lost(world)
    rule(taken, ran=False)
    again = kit.claim_one()
    run.lose(again, told=TOLD, actor=WORKER)
    assert kit.opened(taken.task_id).key == "outcome-2"
    assert rule(again, ran=True) is AnswerOutcome.ANSWERED


def test_it_goes_on_with_what_it_was_told_before(world: World) -> None:
    """The answers to the tool's questions and its state are those of the lost run."""
    kit.create(world)
    kit.ask(kit.claim_one(), make_question(key="q", upstream_key="q"))
    task_id = Question.objects.get().task_id
    answer_question(task_id, kit.opened(task_id), {"action": "accept", "content": {"name": "Ada"}}, actor=ADA)
    taken = kit.claim_one()
    run.lose(taken, told=TOLD, actor=WORKER)
    rule(taken, ran=False)
    again = kit.claim_one()
    assert (again.answers, again.upstream_state) == (taken.answers, taken.upstream_state)


def test_whoever_comes_second_is_late(world: World) -> None:
    taken = lost(world)
    question = kit.opened(taken.task_id)
    assert rule(taken, ran=False) is AnswerOutcome.ANSWERED
    assert rule_outcome(taken.task_id, question, ran=True, result=kit.FINAL, actor=ADA) is AnswerOutcome.LATE


def test_the_client_cannot_answer_it(world: World) -> None:
    taken = lost(world)
    with pytest.raises(Invalid, match="decided by people"):
        answer_question(taken.task_id, kit.opened(taken.task_id), {"action": "accept"}, actor=world.actor)


# --- how it ends without a ruling


def test_it_fails_in_the_end(world: World) -> None:
    taken = lost(world)
    kit.turn_back(taken.task_id, "due_at", 1, table="question")
    assert sweep() == 1
    now = kit.look(taken.task_id)
    assert (now.state, why_of(taken.task_id)) == (State.FAULTED, {"reason": "outcome_unknown"})
    assert now.message == f"{TOLD}; nobody said in time whether the tool ran"
    assert Question.objects.get().state == "expired"


def test_it_does_not_expire_for_its_client_before(world: World) -> None:
    taken = lost(world, ttl_ms=1_000)
    kit.turn_back(taken.task_id, "expires_at", 60)
    sweep()
    assert kit.look(taken.task_id).state is State.INPUT_REQUIRED
    assert kit.count_rows("SELECT count(*) FROM task WHERE expires_at > clock_timestamp()") == 1


def test_cancelled_it_says_that_it_is_not_known(world: World) -> None:
    taken = lost(world)
    assert request_cancel(taken.task_id, actor=world.actor) is State.CANCELLED
    assert kit.look(taken.task_id).message == "Cancelled; whether the tool ran is not known"


@pytest.mark.parametrize(("write", "state"), [(kit.finish, State.FINISHED), (kit.fault, State.FAULTED)])
def test_the_late_outcome_of_the_run_settles_it(world: World, write: Callable[[Claim], bool], state: State) -> None:
    taken = lost(world, "worker_lost")
    assert write(taken) is True
    now = kit.look(taken.task_id)
    assert (now.state, now.questions) == (state, ())
    assert Question.objects.get().state == "superseded"
    assert not Decision.objects.exists()
    assert outcomes(taken.task_id) == [str(state)]


@pytest.mark.parametrize("again", [False, True])
def test_after_the_ruling_it_changes_nothing(world: World, again: bool) -> None:
    taken = lost(world, "worker_lost")
    rule(taken, ran=False)
    if again:
        kit.claim_one("w2")
    assert kit.finish(taken) is False
    assert kit.look(taken.task_id).state is (State.WORKING if again else State.QUEUED)
    assert kit.actions(taken.task_id)[-1] == "task.write.stale"


def test_with_its_server_it_goes_and_still_says_that_it_is_not_known(world: World) -> None:
    taken = lost(world)
    with transaction.atomic():
        remove_server(tenant_id=world.context.tenant_id, server_id=world.tool.server_id, actor=ADA)
    assert end_calls_of_removed(world.tool.server_id, actor=ADA) == 1
    assert why_of(taken.task_id) == {"reason": "outcome_unknown"}
    assert kit.look(taken.task_id).message == f"{TOLD}; its server has been removed"


# --- races: two connections, a barrier, and a look at every round

ROUNDS = 40


@pytest.fixture
def crew(world: World) -> Iterator[Crew]:
    made = Crew(2)
    yield made
    made.close()


def person(name: str) -> Actor:
    return Actor(name=name, door=Door.WEB, user_id=factories.make_user(name).pk, reason="seen")


@pytest.mark.long
def test_of_two_rulings_at_once_one_counts(world: World, crew: Crew) -> None:
    ada, bob = person("ada"), person("bob")
    seen: Counter[str] = Counter()
    for _ in range(ROUNDS):
        taken = lost(world)
        question = kit.opened(taken.task_id)
        ruled = crew.race(
            partial(rule_outcome, taken.task_id, question, ran=True, result=kit.FINAL, actor=ada),
            partial(rule_outcome, taken.task_id, question, ran=False, actor=bob),
        )
        assert sorted(ruled) == [AnswerOutcome.ANSWERED, AnswerOutcome.LATE]
        (decision,) = Decision.objects.filter(question__task_id=taken.task_id)
        ran = ruled[0] is AnswerOutcome.ANSWERED
        assert (decision.actor, decision.verdict) == (("ada", "ran") if ran else ("bob", "unrun"))
        assert kit.look(taken.task_id).state is (State.FINISHED if ran else State.QUEUED)
        assert len(kit.claim()) == (0 if ran else 1)
        seen[decision.actor] += 1
        request_cancel(taken.task_id, actor=ADA)
    assert seen.total() == ROUNDS


AGAINST: dict[str, tuple[Callable[[Claim], Any], set[State]]] = {
    "a cancellation": (lambda taken: request_cancel(taken.task_id, actor=ADA), {State.CANCELLED}),
    "its end in time": (lambda taken: sweep(), {State.FAULTED}),
    "a late result": (kit.finish, {State.FINISHED}),
    "a late error": (kit.fault, {State.FAULTED}),
}


@pytest.mark.long
@pytest.mark.parametrize("ran", [True, False])
@pytest.mark.parametrize("other", AGAINST)
def test_a_ruling_and_another_end_are_an_order(world: World, crew: Crew, other: str, ran: bool) -> None:
    do, ends = AGAINST[other]
    for _ in range(ROUNDS):
        taken = lost(world, "worker_lost")
        question = kit.opened(taken.task_id)
        if other == "its end in time":
            kit.turn_back(taken.task_id, "due_at", 1, table="question")
        ruled, came = crew.race(
            partial(rule_outcome, taken.task_id, question, ran=ran, result=kit.FINAL if ran else None, actor=ADA),
            partial(do, taken),
        )
        now = kit.look(taken.task_id)
        decided = Decision.objects.filter(question__task_id=taken.task_id).count()
        if ruled is AnswerOutcome.ANSWERED:
            after = {State.FINISHED} if ran else {State.QUEUED}
            if other == "a cancellation" and not ran:
                after = {State.CANCELLED}  # of what is queued again
            assert decided == 1
            assert now.state in after
            assert other not in ("a late result", "a late error") or came is False
        else:
            assert ruled is AnswerOutcome.LATE
            assert decided == 0
            assert now.state in ends
        runs = kit.claim()
        assert len(runs) == (1 if now.state is State.QUEUED else 0)
        request_cancel(taken.task_id, actor=ADA)
        for again in runs:
            run.settle_cancel(again, message="", actor=WORKER)


# --- results that people give

PLAIN = LostCall("deploy", {"name": "deploy"})
TYPED = LostCall("deploy", {"outputSchema": {"type": "object", "properties": {"n": {"type": "integer"}}}})


def test_without_a_result_the_caller_is_told_not_to_call_again() -> None:
    found = ruled_result(PLAIN, by="ada", reason="seen in the log")
    assert "isError" not in found
    (block,) = found["content"]
    assert block["text"].startswith("deploy has run, as ada ruled: seen in the log. ")
    assert found["_meta"] == {"taskhub/ruling": {"verdict": "ran", "by": "ada", "reason": "seen in the log"}}
    typed = ruled_result(TYPED, by="ada", reason="seen in the log")
    assert typed["isError"] is True, "nothing else fits its output schema"
    assert typed["content"][0]["text"] == (
        f"{block['text']} It is marked as an error only because an output schema wants the answer."
    )
    assert typed["_meta"] == found["_meta"]


def test_a_result_is_text_or_json() -> None:
    assert ruled_result(PLAIN, by="ada", reason="r", text="done")["content"] == [{"type": "text", "text": "done"}]
    found = ruled_result(TYPED, by="ada", reason="r", json_text='{"n": 7}')
    assert (found["structuredContent"], found["content"][0]["text"]) == ({"n": 7}, '{"n": 7}')


@pytest.mark.parametrize(
    ("call", "given", "problem"),
    [
        (TYPED, {"text": "done"}, "answers with JSON"),
        (TYPED, {"json_text": '{"n": "seven"}'}, "does not fit the tool’s output schema: .*integer"),
        (PLAIN, {"json_text": "[1]"}, "is a JSON object"),
        (PLAIN, {"json_text": "{"}, "is no JSON"),
        (PLAIN, {"json_text": '{"a": "\\u0000"}'}, "U.0000"),
        (PLAIN, {"text": "x" * 70_000}, "at most 65,536 bytes"),
    ],
)
def test_a_result_that_cannot_be_is_refused(call: LostCall, given: dict[str, str], problem: str) -> None:
    with pytest.raises(Invalid, match=problem) as refused:
        ruled_result(call, by="ada", reason="r", **given)
    assert refused.value.data["field"] == "result"

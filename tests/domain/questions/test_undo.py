"""Decisions that are undone: until their time is over nothing follows from them, and afterwards they stand."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import psycopg
import pytest
from django.db import connection

from taskhub.control import questions
from taskhub.control.caller import Caller, of_person, of_shell
from taskhub.core.errors import Forbidden, Invalid, LimitReached, NotFound
from taskhub.core.records import Person, TaskRecord
from taskhub.core.rules import Rule, Then, Verdict
from taskhub.core.states import Door, State
from taskhub.core.versions import DECIDED_ONLY
from taskhub.domain.questions import inbox
from taskhub.domain.questions.answer import AnswerOutcome
from taskhub.domain.questions.inbox import InboxItem, Obstacle, UndoOutcome
from taskhub.domain.rules.reads import present
from taskhub.domain.tasks import run
from taskhub.domain.tasks.cancel import request_cancel
from taskhub.domain.tasks.sweep import sweep
from taskhub.store.models import AuthContext, Decision, Event, Question, Task
from tests.domain import kit
from tests.domain.kit import World
from tests.domain.tasks.test_decided_again import create as create_plain
from tests.domain.tasks.test_edit_races import together
from tests.domain.tasks.test_edits import OTHER, called, edit, edited
from tests.factories import WORKER, make_person, make_tenant

pytestmark = pytest.mark.django_db(transaction=True)

TWO = Rule(name="asks", when="", then=Then.ASK, quorum=2, group="ops")


@pytest.fixture(autouse=True)
def time_to_undo(settings: Any) -> None:
    settings.TASKHUB_UNDO_SECONDS = 60


def by(person: Person, door: Door = Door.WEB) -> Caller:
    return of_person(person, door=door)


def person(world: World, *groups: str, role: str = "approver") -> Person:
    return make_person(role, world.context.tenant, groups=list(groups))


def newest(task: TaskRecord) -> int:
    return Question.objects.filter(task_id=task.id).latest("id").pk


def item(who: Person, task: TaskRecord) -> InboxItem:
    return questions.find_question(by(who), newest(task))


def decide(
    who: Person, task: TaskRecord, *, approve: bool = True, reason: str = "seen", door: Door = Door.WEB
) -> AnswerOutcome:
    return questions.decide_approval(by(who, door), item(who, task), approve=approve, reason=reason)


def undo(who: Person, task: TaskRecord) -> UndoOutcome:
    (outcome,) = questions.undo_decisions(by(who), [newest(task)])
    return outcome


def its_time_is_over(task: TaskRecord) -> None:
    """As if nobody had undone the decision in time."""
    with connection.cursor() as cursor:
        cursor.execute("ALTER TABLE decision DISABLE TRIGGER decision_append_only")
        cursor.execute("UPDATE decision SET undo_until = clock_timestamp() WHERE undo_until IS NOT NULL")
        cursor.execute("ALTER TABLE decision ENABLE TRIGGER decision_append_only")
    kit.turn_back(task.id, "runnable_at", 0)


def stored(task: TaskRecord) -> dict[str, Any]:
    """All that is stored of the task's newest question."""
    return Question.objects.filter(pk=newest(task)).values().get()


# --- what waits


def test_no_worker_takes_the_call_until_its_decision_stands() -> None:
    world, task = called()
    assert decide(person(world), task) is AnswerOutcome.ANSWERED
    assert kit.claim() == []
    assert kit.look(task.id).state is State.QUEUED
    its_time_is_over(task)
    assert kit.claim_one().task_id == task.id


def test_the_database_refuses_a_worker_that_does_not_look_at_the_time() -> None:
    world, task = called()
    decide(person(world), task)
    with connection.cursor() as cursor, pytest.raises(Exception, match="may still be undone"):
        cursor.execute(
            "UPDATE task SET state = 'working', worker = 'w', lease_epoch = 1, lease_until = now() WHERE id = %s",
            [task.id],
        )


def test_without_time_to_undo_the_call_runs_at_once(settings: Any) -> None:
    settings.TASKHUB_UNDO_SECONDS = 0
    world, task = called()
    ann = person(world)
    decide(ann, task)
    assert undo(ann, task) is UndoOutcome.LATE
    assert kit.claim_one().task_id == task.id


def test_a_rule_that_asks_nobody_holds_nothing() -> None:
    world = kit.make_world()
    task = kit.create(world)
    assert kit.claim_one().task_id == task.id


def test_only_what_is_decided_in_the_console_waits() -> None:
    world, task = called()
    decide(person(world), task, door=Door.API)
    assert kit.claim_one().task_id == task.id


def test_a_client_that_makes_its_call_itself_gets_its_permit_at_once() -> None:
    world, asked = called()
    verdict = Verdict(Then.ASK, present(world.context.tenant_id).rules[0], 1)
    task = kit.create(world, verdict=verdict, revision=DECIDED_ONLY, permit_seconds=60)
    assert task.id != asked.id
    ann = person(world)
    assert decide(ann, task) is AnswerOutcome.ANSWERED
    assert Task.objects.get(pk=task.id).ended_at is not None
    assert undo(ann, task) is UndoOutcome.LATE


def test_workers_are_told_when_they_may_take_it() -> None:
    world, task = called()
    with psycopg.connect(**connection.get_connection_params(), autocommit=True) as listener:  # type: ignore[arg-type]
        listener.execute("LISTEN taskhub")
        decide(person(world), task)
        heard = [note.payload for note in listener.notifies(timeout=kit.BOUND, stop_after=10) if note.payload[0] == "h"]
    (held,) = heard
    assert 58_000 < int(held.split()[1]) <= 60_000


# --- undone


def test_undone_it_is_as_it_was() -> None:
    world, task = called()
    ann = person(world)
    before, shown = stored(task), kit.look(task.id)
    decide(ann, task)
    assert undo(ann, task) is UndoOutcome.UNDONE
    assert stored(task) == before
    after = kit.look(task.id)
    assert (after.state, after.message) == (shown.state, shown.message)
    assert not Decision.objects.exists()
    assert item(ann, task).mine
    assert kit.claim() == []


def test_undone_it_counts_for_the_limit_of_its_client_again_and_beyond_it(settings: Any) -> None:
    settings.TASKHUB_CONTEXT_APPROVALS = 1
    world, task = called()
    ann = person(world)
    decide(ann, task)
    other = create_plain(world)
    assert undo(ann, task) is UndoOutcome.UNDONE
    open_now = set(Question.objects.filter(state="open", kind="approval").values_list("task_id", flat=True))
    assert open_now == {task.id, other.id}
    with pytest.raises(LimitReached, match=r"2 calls of this client .* already, more than the 1 that may"):
        create_plain(world)


def test_the_log_has_both_the_decision_and_that_it_was_undone() -> None:
    world, task = called()
    ann = person(world)
    decide(ann, task)
    undo(ann, task)
    told = Event.objects.filter(task_id=task.id, action__in=["question.approve", "question.undone"])
    decided, undone = told.order_by("id")
    assert decided.action == "question.approve"
    assert undone.after == {"key": "approval", "kind": "approval", "verdict": "approve", "reopened": True}
    assert (undone.actor, undone.user_id, undone.door) == (ann.username, ann.user_id, "web")


def test_it_can_be_decided_again_and_otherwise() -> None:
    world, task = called()
    ann = person(world)
    decide(ann, task)
    undo(ann, task)
    assert decide(ann, task, approve=False, reason="not today") is AnswerOutcome.ANSWERED
    its_time_is_over(task)
    assert kit.claim() == []
    ended = kit.look(task.id)
    assert (ended.state, ended.message) == (State.FINISHED, "not today")


def test_of_two_approvals_the_first_is_undone_and_then_is_not_counted() -> None:
    world, task = called(TWO)
    ann, ben = person(world, "ops"), person(world, "ops")
    told = kit.look(task.id).message
    assert decide(ann, task) is AnswerOutcome.COUNTED
    assert undo(ann, task) is UndoOutcome.UNDONE
    assert kit.look(task.id).message == told
    assert decide(ben, task) is AnswerOutcome.COUNTED
    assert item(ann, task).approvals == 1
    (event,) = Event.objects.filter(action="question.undone")
    assert event.after is not None
    assert event.after["reopened"] is False


def test_of_two_approvals_the_second_is_undone_and_the_first_stays() -> None:
    world, task = called(TWO)
    ann, ben = person(world, "ops"), person(world, "ops")
    decide(ann, task)
    assert decide(ben, task) is AnswerOutcome.ANSWERED
    assert undo(ann, task) is UndoOutcome.LATE
    assert undo(ben, task) is UndoOutcome.UNDONE
    seen = item(ann, task)
    assert (seen.approvals, seen.obstacle) == (1, Obstacle.DECIDED)
    assert [vote.actor for vote in inbox.votes(seen.id)] == [ann.username]


def test_edited_arguments_do_not_stay_with_the_task() -> None:
    world, task = called()
    ann = person(world)
    edit(ann, task, OTHER)
    assert edited(task) is not None
    assert undo(ann, task) is UndoOutcome.UNDONE
    assert edited(task) is None
    assert item(ann, task).runs_with == OTHER  # the question about the call as it was edited
    decide(ann, task)
    its_time_is_over(task)
    assert kit.claim_one().arguments == OTHER


# --- a rejection


def test_a_rejection_is_told_to_nobody_until_it_stands() -> None:
    world, task = called()
    ann = person(world)
    assert decide(ann, task, approve=False, reason="too big") is AnswerOutcome.ANSWERED
    waiting = kit.look(task.id)
    assert (waiting.state, waiting.ended_at) == (State.QUEUED, None)
    assert undo(ann, task) is UndoOutcome.UNDONE
    assert item(ann, task).mine
    assert kit.opened(task.id).key == "approval"


@pytest.mark.parametrize("ends", [kit.claim, sweep])
def test_a_rejection_that_stands_ends_the_call_as_one_without_time_to_undo(ends: Any, settings: Any) -> None:
    world, task = called()
    ann, at_once = person(world), create_plain(world)
    decide(ann, task, approve=False, reason="too big")
    settings.TASKHUB_UNDO_SECONDS = 0
    decide(ann, at_once, approve=False, reason="too big")
    its_time_is_over(task)
    ends()
    told = [
        Task.objects.values_list("state", "is_error", "ended_as", "message", "result").get(pk=one.id)
        for one in (task, at_once)
    ]
    assert told[0][:3] == (State.FINISHED, True, "rejected")
    assert told[0] == told[1]
    assert kit.claim() == []


def test_a_rejected_call_never_runs_whatever_has_changed() -> None:
    world, task = called()
    decide(person(world), task, approve=False, reason="too big")
    AuthContext.objects.filter(pk=world.context.pk).update(disabled_at="2026-01-01T00:00:00Z")
    its_time_is_over(task)
    assert kit.claim() == []
    assert kit.look(task.id).message == "too big"


# --- too late, and not theirs


def test_after_its_time_it_stands() -> None:
    world, task = called()
    ann = person(world)
    decide(ann, task)
    its_time_is_over(task)
    assert undo(ann, task) is UndoOutcome.LATE
    assert kit.claim_one().task_id == task.id


def test_a_call_that_was_cancelled_stays_so() -> None:
    world, task = called()
    ann = person(world)
    decide(ann, task)
    request_cancel(task.id, actor=WORKER)
    assert undo(ann, task) is UndoOutcome.LATE
    assert kit.look(task.id).state is State.CANCELLED


def test_nobody_undoes_what_somebody_else_decided() -> None:
    world, task = called()
    ann, ben = person(world), person(world)
    decide(ann, task)
    assert undo(ben, task) is UndoOutcome.UNKNOWN
    assert questions.undoable(by(ben), [item(ben, task)]) == ()
    (mine,) = questions.undoable(by(ann), [item(ann, task)])
    assert mine.question == newest(task)
    assert mine.until > datetime.now(UTC)
    assert Decision.objects.count() == 1


def test_who_may_not_decide_does_not_undo_and_another_tenant_finds_nothing() -> None:
    world, task = called()
    decide(person(world), task)
    with pytest.raises(Forbidden):
        undo(person(world, role="viewer"), task)
    with pytest.raises(NotFound):
        undo(make_person("approver", make_tenant()), task)
    for wrong in ([], [newest(task)] * 101):
        with pytest.raises(Invalid):
            questions.undo_decisions(of_shell(), wrong)


def test_a_decision_that_stands_cannot_be_deleted_nor_its_question_opened() -> None:
    world, task = called()
    decide(person(world), task)
    with connection.cursor() as cursor:
        with pytest.raises(Exception, match="stays with its question"):
            cursor.execute("DELETE FROM decision")
        its_time_is_over(task)
        with pytest.raises(Exception, match="stays as it is"):
            cursor.execute("UPDATE question SET state = 'open', closed_at = NULL, response = NULL")


# --- at the same moment


def test_either_a_worker_takes_it_or_it_is_undone() -> None:
    for _ in range(20):
        world, task = called()
        ann = person(world)
        decide(ann, task)
        kit.turn_back(task.id, "runnable_at", 0)  # a worker may take it while it may still be undone
        taken, undone = together(
            lambda: run.claim_tasks(worker="w", limit=1, lease_seconds=60, per_context=9, actor=WORKER).tasks,
            lambda one=task, who=ann: undo(who, one),
        )
        assert undone in (UndoOutcome.UNDONE, UndoOutcome.LATE)
        state = kit.look(task.id).state
        if undone is UndoOutcome.UNDONE:
            assert (taken, state) == ([], State.INPUT_REQUIRED)
        elif taken:
            assert state is State.WORKING
            kit.finish(taken[0])
        else:
            # The claim passed over the lock of the other: the decision is neither undone nor lost.
            assert state is State.QUEUED
            kit.finish(kit.claim_one())
        if undone is UndoOutcome.UNDONE:
            request_cancel(task.id, actor=WORKER)


def test_of_an_undo_and_another_decision_neither_is_lost() -> None:
    for _ in range(10):
        world, task = called(TWO)
        ann, ben = person(world, "ops"), person(world, "ops")
        decide(ann, task)
        undone, second = together(lambda one=task, who=ann: undo(who, one), lambda one=task, who=ben: decide(who, one))
        assert (undone, second) in (
            (UndoOutcome.UNDONE, AnswerOutcome.COUNTED),
            (UndoOutcome.LATE, AnswerOutcome.ANSWERED),
        )
        left = {decision.actor for decision in Decision.objects.filter(question__task_id=task.id)}
        assert left == ({ben.username} if undone is UndoOutcome.UNDONE else {ann.username, ben.username})

"""Deferred calls in the database: who polls, whose turn counts, and what ends a call that nobody polls."""

from __future__ import annotations

import pytest
from pytest_django import Settings

from taskhub.core.records import Poll, UpstreamTask
from taskhub.core.states import State
from taskhub.domain.catalogue.writes import remove_server
from taskhub.domain.questions.answer import AnswerOutcome, rule_outcome
from taskhub.domain.tasks import deferred
from taskhub.domain.tasks.cancel import request_cancel
from taskhub.domain.tasks.deferred import PutBack, take_polls
from taskhub.domain.tasks.removed import end_calls_of_removed
from taskhub.domain.tasks.run import renew_leases
from taskhub.domain.tasks.sweep import sweep
from taskhub.domain.workers.sessions import session_ended, take_session
from taskhub.store.models import Deferred, Worker
from tests.domain import kit
from tests.domain.kit import World
from tests.factories import WORKER, make_question

pytestmark = pytest.mark.django_db


@pytest.fixture
def world() -> World:
    return kit.make_world()


def make(world: World, **fields: object) -> int:
    """A deferred call, due to be polled."""
    task = kit.create(world)
    assert kit.defer(kit.claim_one(), **fields)
    return task.id


def take(world: World, worker: str = "worker-2", most: int = 10) -> list[Poll]:
    return take_polls(worker, {world.tool.server_id: most})


def take_one(world: World) -> Poll:
    (taken,) = take(world)
    return taken


def test_a_deferred_call_is_nobodys_and_is_not_lost(world: World) -> None:
    task = kit.create(world)
    taken = kit.claim_one()
    assert kit.defer(taken)
    assert kit.look(task.id).state is State.WORKING
    assert renew_leases(worker="worker-1", held=[(task.id, taken.epoch)], lease_seconds=30) == {}
    assert sweep() == 0
    assert kit.claim() == []
    assert Deferred.objects.count() == 1


def test_the_id_of_its_session_is_stored_encrypted_while_it_is_polled(world: World, settings: Settings) -> None:
    task = kit.create(world)
    deferred.defer(
        kit.claim_one(),
        UpstreamTask("up-1", "2025-11-25", "working", "", None, here=True),
        poll_ms=1_000,
        ran_seconds=0.0,
        home="worker-2",
        session="5ecret",
        delay_ms=0,
        actor=WORKER,
    )
    assert b"5ecret" not in bytes(Deferred.objects.get().session or b"")
    taken = take_one(world)
    assert taken.session == "5ecret"
    assert "5ecret" not in repr(taken)
    kit.turn_back(task.id, "poll_at", 1, table="deferred")
    settings.SECRET_KEY = "another" * 8
    assert take_one(world).session == ""
    kit.finish(taken.claim)
    assert Deferred.objects.get().session is None


def test_a_worker_that_lost_the_task_defers_nothing(world: World) -> None:
    task = kit.create(world)
    taken = kit.claim_one()
    kit.turn_back(task.id, "lease_until", 1)
    assert sweep() == 1
    assert not kit.defer(taken)
    assert not Deferred.objects.exists()
    assert kit.actions(task.id)[-1] == "task.write.stale"


def test_polls_are_taken_when_they_are_due_each_by_one_worker_and_no_more_than_it_has_room_for(world: World) -> None:
    tasks = [make(world) for _ in range(3)]
    first, second = take(world, most=2), take(world, "worker-3")
    assert sorted(each.claim.task_id for each in [*first, *second]) == tasks
    assert (len(first), take(world)) == (2, [])
    assert take_polls("worker-2", {}) == []
    deferred.put_back_polls([PutBack(each, 0) for each in first], actor=WORKER)
    assert {each.turn for each in take(world)} == {2}
    kit.turn_back(second[0].claim.task_id, "poll_at", 1, table="deferred")  # as if its lease had run out
    assert take_one(world).turn == 2


def test_a_poll_without_news_leaves_the_task_as_it_is(world: World) -> None:
    task = make(world)
    version = kit.look(task).version
    deferred.put_back_polls([PutBack(take_one(world), 0)], actor=WORKER)
    assert kit.look(task).version == version
    deferred.put_back_polls([PutBack(take_one(world), 0, "Half\x00way")], actor=WORKER)
    assert (kit.look(task).version, kit.look(task).message) == (version + 1, "Half\ufffdway")


def test_a_worker_whose_turn_has_passed_changes_nothing(world: World) -> None:
    task = make(world)
    late = take_one(world)
    kit.turn_back(task, "poll_at", 1, table="deferred")
    take_one(world)
    before = Deferred.objects.get(task_id=task).poll_at
    deferred.put_back_polls([PutBack(late, 0, "late")], actor=WORKER)
    assert not deferred.ask_deferred(late, [make_question(key="q")], message="", delay_ms=0, actor=WORKER)
    assert not deferred.ask_deferred(late, None, message="", delay_ms=0, actor=WORKER)
    error = {"code": -32603, "message": "late"}
    assert not deferred.fault_deferred(late, error, status="failed", kind="-32603", actor=WORKER)
    assert not deferred.lose_deferred(late, told="late", actor=WORKER)
    assert not deferred.cancel_deferred(late, status="cancelled", message="late", actor=WORKER)
    assert not deferred.end_poll(late, status="cancelled")
    assert (kit.look(task).state, kit.look(task).message) == (State.WORKING, "")
    assert Deferred.objects.get(task_id=task).poll_at == before


def test_a_late_worker_of_an_earlier_attempt_has_no_turn_of_the_next(world: World) -> None:
    task = make(world)
    late = take_one(world)
    assert deferred.lose_deferred(late, told="Forgotten", actor=WORKER)
    assert kit.look(task).message == "Forgotten. Waiting for a person who says whether the tool ran"
    assert not deferred.lose_deferred(late, told="Forgotten", actor=WORKER)
    assert rule_outcome(task, kit.opened(task), ran=False, result=None, actor=WORKER) is AnswerOutcome.ANSWERED
    assert kit.defer(kit.claim_one(), id="up-2")
    assert deferred.put_back_polls([PutBack(late, 0, "late")], actor=WORKER) == set()
    assert not deferred.end_poll(late, status="cancelled")
    now = take_one(world)
    assert (now.claim.epoch, now.upstream_id, now.turn) == (2, "up-2", 3)
    assert kit.look(task).message == ""


def test_a_lost_task_whose_call_is_to_be_cancelled_is_cancelled(world: World) -> None:
    task = make(world)
    taken = take_one(world)
    request_cancel(task, actor=world.actor)
    assert deferred.lose_deferred(taken, told="Forgotten", actor=WORKER)
    assert kit.look(task).message == "Cancelled; the tool did not confirm that it stopped"
    assert Deferred.objects.get(task_id=task).status == "unknown"


def test_a_task_that_only_one_worker_reaches_is_polled_by_it_until_it_is_silent(world: World) -> None:
    task = make(world)
    other = kit.create(world)
    claim = kit.claim_one()
    up = UpstreamTask("up-2", "2026-07-28", "working", "", None)
    Worker.objects.create(name="home", host="h", pid=1, version="1", slots=1)
    assert deferred.defer(claim, up, poll_ms=100, ran_seconds=0, home="home", delay_ms=0, actor=WORKER)
    assert [each.claim.task_id for each in take(world)] == [task]
    assert [each.claim.task_id for each in take(world, "home")] == [other.id]
    kit.turn_back(other.id, "poll_at", 1, table="deferred")
    assert take(world) == []
    Worker.objects.update(stopped_at="2026-01-01T00:00Z")
    Worker.objects.create(name="next", host="h", pid=1, version="1", slots=1)
    where = {"server_id": world.tool.server_id, "context_id": world.context.pk}
    assert take_session(**where, worker="next") == ""
    assert take(world) == []
    session_ended(**where, worker="next", why="it was not used for long")
    assert [each.claim.task_id for each in take(world)] == [other.id]


def test_a_cancellation_that_no_worker_can_pass_on_is_carried_out_by_the_sweep(world: World) -> None:
    task = make(world)
    assert request_cancel(task, actor=world.actor) is State.WORKING
    assert sweep() == 0
    kit.turn_back(task, "cancel_at", 21, table="deferred")
    assert sweep() == 1
    assert kit.look(task).message == "Cancelled; the tool did not confirm that it stopped"
    left = take_one(world)  # the server's task is to be cancelled still
    assert (left.ended, left.cancelling) == (True, True)
    kit.turn_back(task, "cancel_at", 3_700, table="deferred")
    assert sweep() == 0
    assert Deferred.objects.get(task_id=task).status == "unknown"


def test_the_calls_of_a_removed_server_end(world: World) -> None:
    task = make(world)
    remove_server(tenant_id=world.context.tenant_id, server_id=world.tool.server_id, actor=WORKER)
    assert end_calls_of_removed(world.tool.server_id, actor=WORKER) == 1
    assert kit.look(task).message == "Not continued: its server has been removed"


def test_questions_without_an_answer_end_the_call_and_its_servers_task(world: World) -> None:
    task = make(world)
    assert deferred.ask_deferred(take_one(world), [make_question(key="q")], message="?", delay_ms=0, actor=WORKER)
    assert kit.look(task).state is State.INPUT_REQUIRED
    kit.turn_back(task, "due_at", 1, table="question")
    assert sweep() == 1
    assert kit.look(task).message == "Nobody answered in time"
    assert take_one(world).ended

"""Cancellation in each state, and what time alone brings about."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

from taskhub.core.errors import NotFound
from taskhub.core.records import Claim, LogLine
from taskhub.core.states import State
from taskhub.domain.questions.answer import AnswerOutcome, answer_question
from taskhub.domain.tasks import run
from taskhub.domain.tasks.cancel import cancel_now, request_cancel
from taskhub.domain.tasks.reads import owned_task
from taskhub.domain.tasks.sweep import CANCEL_GRACE_SECONDS, purge, sweep
from taskhub.store.models import Attempt, Event, Question, Task
from tests.domain import kit
from tests.domain.kit import World
from tests.factories import WORKER, make_question


def settle(taken: Claim) -> bool:
    return run.settle_cancel(taken, message="Cancelled while it ran", actor=WORKER)


def reason(task_id: int) -> str:
    """Why the task was faulted."""
    return str(json.loads(kit.look(task_id).error_json or "")["data"]["reason"])


# --- cancel


def test_a_queued_task_is_cancelled_at_once(world: World) -> None:
    task = kit.create(world)
    assert request_cancel(task.id, actor=world.actor) is State.CANCELLED
    now = kit.look(task.id)
    assert now.ended_at is not None
    assert now.cancel_requested_at is not None
    assert kit.claim() == []
    assert kit.actions(task.id) == ["task.created", "task.cancelled"]


@pytest.mark.parametrize("cancel", [request_cancel, cancel_now])
def test_what_ran_a_round_is_not_cancelled_before_it_ran(world: World, cancel: Callable[..., object]) -> None:
    unrun, ran = kit.create(world), kit.create(world)
    cancel(unrun.id, actor=world.actor)
    kit.ask(kit.claim_one(), make_question())
    cancel(ran.id, actor=world.actor)
    assert kit.look(unrun.id).message == "Cancelled before it ran"
    assert kit.look(ran.id).message == "Cancelled while it waited to go on"


def test_a_parked_question_is_withdrawn_by_a_cancellation(world: World) -> None:
    task = kit.create(world)
    kit.ask(kit.claim_one(), make_question(key="q"))
    question = kit.opened(task.id)
    assert request_cancel(task.id, actor=world.actor) is State.CANCELLED
    assert kit.look(task.id).questions == ()
    accept = {"action": "accept", "content": {"name": "Ada"}}
    assert answer_question(task.id, question, accept, actor=world.actor) is AnswerOutcome.LATE
    assert Question.objects.get().state == "superseded"


def test_a_running_task_goes_on_until_its_worker_stopped_it(world: World) -> None:
    task = kit.create(world)
    taken = kit.claim_one()
    assert request_cancel(task.id, actor=world.actor) is State.WORKING
    assert kit.look(task.id).message == "Cancel requested"
    assert settle(taken) is True
    assert (kit.look(task.id).state, kit.look(task.id).message) == (State.CANCELLED, "Cancelled while it ran")
    assert kit.actions(task.id) == ["task.created", "task.claimed", "task.cancel.requested", "task.cancelled"]
    assert Attempt.objects.get().outcome == "cancelled"


def test_a_tool_that_waits_in_the_middle_is_told_too(world: World) -> None:
    task = kit.create(world)
    taken = kit.claim_one()
    kit.ask(taken, make_question(), live=True)
    assert request_cancel(task.id, actor=world.actor) is State.INPUT_REQUIRED
    assert settle(taken) is True
    assert (kit.look(task.id).state, kit.look(task.id).questions) == (State.CANCELLED, ())


def test_a_result_that_comes_before_the_stop_wins(world: World) -> None:
    task = kit.create(world)
    taken = kit.claim_one()
    request_cancel(task.id, actor=world.actor)
    assert kit.finish(taken) is True
    assert settle(taken) is False
    assert kit.look(task.id).state is State.FINISHED


def test_a_result_that_comes_after_the_stop_changes_nothing(world: World) -> None:
    task = kit.create(world)
    taken = kit.claim_one()
    request_cancel(task.id, actor=world.actor)
    settle(taken)
    assert kit.finish(taken) is False
    assert kit.look(task.id).state is State.CANCELLED


def test_nothing_is_settled_that_nobody_asked_for(world: World) -> None:
    task = kit.create(world)
    assert settle(kit.claim_one()) is False
    assert kit.look(task.id).state is State.WORKING


@pytest.mark.parametrize("end", [kit.finish, kit.fault])
def test_an_ended_task_stays_as_it_is(world: World, end: Callable[[Claim], bool]) -> None:
    task = kit.create(world)
    end(kit.claim_one())
    before = kit.look(task.id)
    assert request_cancel(task.id, actor=world.actor) is before.state
    assert kit.look(task.id) == before


def test_asking_twice_is_harmless(world: World) -> None:
    task = kit.create(world)
    kit.claim_one()
    request_cancel(task.id, actor=world.actor)
    before = kit.look(task.id)
    assert request_cancel(task.id, actor=world.actor) is State.WORKING
    assert kit.look(task.id) == before
    assert kit.actions(task.id).count("task.cancel.requested") == 1


def test_a_task_that_is_not_there_is_not_found(world: World) -> None:
    with pytest.raises(NotFound):
        request_cancel(10**9, actor=world.actor)


# --- sweep


def test_a_sweep_of_healthy_tasks_changes_nothing(world: World) -> None:
    kit.create(world)
    running = kit.create(world)
    kit.turn_back(running.id, "runnable_at", 60)
    assert kit.claim_one().task_id == running.id
    kit.create(world)
    before = list(Task.objects.order_by("id").values())
    assert sweep() == 0
    assert list(Task.objects.order_by("id").values()) == before


def test_a_tool_that_may_run_twice_is_tried_until_its_attempts_are_used_up(transactional_db: None) -> None:
    world = kit.make_world(idempotent=True, max_attempts=3)
    task = kit.create(world)
    for number in (1, 2, 3):
        taken = kit.claim_one()
        assert taken.epoch == number
        kit.turn_back(task.id, "lease_until", 1)
        assert sweep() == 1
        assert kit.look(task.id).state is (State.QUEUED if number < 3 else State.FAULTED)
    assert reason(task.id) == "outcome_unknown"
    assert kit.claim() == []
    assert list(Attempt.objects.values_list("outcome", flat=True)) == ["lost"] * 3


def test_being_given_back_costs_no_attempt(transactional_db: None) -> None:
    task = kit.create(kit.make_world(idempotent=True, max_attempts=1))
    for _ in range(3):
        run.release(kit.claim_one(), started=False, delay_seconds=0, reason="", actor=WORKER)
    assert kit.look(task.id).state is State.QUEUED


def test_a_lost_task_has_a_wake_up(transactional_db: None) -> None:
    task = kit.create(kit.make_world(idempotent=True))
    kit.claim_one()
    kit.count_rows("WITH gone AS (DELETE FROM procrastinate_jobs RETURNING 1) SELECT count(*) FROM gone")
    kit.turn_back(task.id, "lease_until", 1)
    sweep()
    assert kit.wake_ups() == 1


def test_losing_the_worker_closes_its_live_question(transactional_db: None) -> None:
    task = kit.create(kit.make_world(idempotent=True))
    kit.ask(kit.claim_one(), make_question(), live=True)
    kit.turn_back(task.id, "lease_until", 1)
    sweep()
    assert (kit.look(task.id).state, kit.look(task.id).questions) == (State.QUEUED, ())
    assert Question.objects.get().state == "superseded"
    assert kit.actions(task.id)[-1] == "task.released"


def test_a_tool_that_does_not_stop_within_the_grace_is_cancelled_all_the_same(world: World) -> None:
    task = kit.create(world)
    taken = kit.claim_one(lease=600)
    request_cancel(task.id, actor=world.actor)
    assert sweep() == 0
    with kit.superuser_past_the_guards() as raw:
        raw.execute(
            "UPDATE task SET cancel_requested_at = cancel_requested_at - make_interval(secs => %s) WHERE id = %s",
            (CANCEL_GRACE_SECONDS + 1, task.id),
        )
    assert sweep() == 1
    now = kit.look(task.id)
    assert (now.state, now.message) == (State.CANCELLED, "Cancelled; the tool did not confirm that it stopped")
    assert kit.finish(taken) is False


@pytest.mark.parametrize("idempotent", [True, False])
def test_a_lost_task_that_was_to_be_cancelled_is_cancelled(transactional_db: None, idempotent: bool) -> None:
    world = kit.make_world(idempotent=idempotent)
    task = kit.create(world)
    kit.claim_one()
    request_cancel(task.id, actor=world.actor)
    kit.turn_back(task.id, "lease_until", 1)
    assert sweep() == 1
    assert kit.look(task.id).state is State.CANCELLED


def test_a_question_nobody_answered_in_time_ends_the_task(world: World) -> None:
    task = kit.create(world)
    kit.ask(kit.claim_one(), make_question(key="due"), make_question(key="later"))
    assert sweep() == 0
    with kit.superuser_past_the_guards() as raw:
        raw.execute("UPDATE question SET due_at = clock_timestamp() - interval '1 second' WHERE key = 'due'")
    assert sweep() == 1
    now = kit.look(task.id)
    assert (now.state, now.ended_as, reason(task.id)) == (State.FAULTED, "expired", "input_timeout")
    assert dict(Question.objects.values_list("key", "state")) == {"due": "expired", "later": "superseded"}


def test_a_question_is_due_when_its_asker_says(world: World) -> None:
    task = kit.create(world)
    kit.ask(kit.claim_one(), make_question(due_seconds=-1))
    assert sweep() == 1
    assert reason(task.id) == "input_timeout"


def test_a_task_nobody_took_before_its_time_is_faulted(world: World) -> None:
    late, fresh = kit.create(world), kit.create(world)
    kit.turn_back(late.id, "expires_at", 1)
    assert sweep() == 1
    assert (kit.look(late.id).state, kit.look(late.id).ended_as, reason(late.id)) == (
        State.FAULTED, "expired", "expired",
    )  # fmt: skip
    assert kit.look(fresh.id).state is State.QUEUED


def test_a_task_without_a_time_to_live_waits_for_ever(world: World) -> None:
    task = kit.create(world, ttl_ms=None)
    assert sweep() == 0
    assert kit.look(task.id).state is State.QUEUED


def test_the_time_to_live_slides_while_people_are_waited_for(world: World) -> None:
    task = kit.create(world, ttl_ms=60_000)
    kit.ask(kit.claim_one(), make_question())
    before = kit.look(task.id)
    sweep()
    now = kit.look(task.id)
    assert now.ttl_ms is not None
    assert now.ttl_ms > 3_500_000
    assert kit.column(task.id, "expires_at > clock_timestamp() + interval '59 minutes'") is True
    assert (now.version, now.updated_at, now.state) == (before.version, before.updated_at, State.INPUT_REQUIRED)
    assert owned_task(world.context.pk, task.public_id) is not None


def test_the_time_to_live_of_a_running_task_does_not_slide(world: World) -> None:
    task = kit.create(world, ttl_ms=60_000)
    kit.claim_one(lease=600)
    sweep()
    assert kit.look(task.id).ttl_ms == 60_000


def test_a_forgotten_runnable_task_gets_a_wake_up_again(world: World) -> None:
    task = kit.create(world)
    kit.count_rows("WITH gone AS (DELETE FROM procrastinate_jobs RETURNING 1) SELECT count(*) FROM gone")
    sweep()
    assert kit.wake_ups() == 0
    kit.turn_back(task.id, "runnable_at", 10)
    sweep()
    assert kit.wake_ups() == 1


def test_a_sweep_does_no_more_than_its_limit(world: World) -> None:
    for _ in range(3):
        kit.turn_back(kit.create(world).id, "expires_at", 1)
    assert sweep(limit=2) == 2
    assert sweep(limit=2) == 1


# --- purge


def test_purge_deletes_what_ended_long_ago_with_all_that_hangs_on_it(world: World) -> None:
    old, fresh, live = kit.create(world), kit.create(world), kit.create(world)
    claims = {taken.task_id: taken for taken in kit.claim(limit=2)}
    run.note(claims[old.id], [LogLine("info", "hello")])
    kit.ask(claims[old.id], make_question(key="q"))
    accept = {"action": "accept", "content": {"name": "Ada"}}
    answer_question(old.id, kit.opened(old.id), accept, actor=world.actor)
    request_cancel(old.id, actor=world.actor)
    kit.finish(claims[fresh.id])
    with kit.superuser_past_the_guards() as raw:
        raw.execute("UPDATE task SET ended_at = ended_at - interval '40 days' WHERE id = %s", (old.id,))
    told = kit.actions(old.id)
    assert purge(retention_days=30) == 1
    assert set(Task.objects.values_list("pk", flat=True)) == {fresh.id, live.id}
    assert Attempt.objects.count() == 1
    assert kit.actions(old.id) == told
    assert Event.objects.filter(task_id=old.id).exists()
    assert purge(retention_days=30) == 0


def test_purge_does_no_more_than_its_limit(world: World) -> None:
    for _ in range(3):
        request_cancel(kit.create(world).id, actor=world.actor)
    assert purge(retention_days=-1, limit=2) == 2
    assert purge(retention_days=-1, limit=2) == 1

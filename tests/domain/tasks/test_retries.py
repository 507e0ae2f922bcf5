"""Errors that a tool's policy names are tried again, up to its attempts, with growing pauses."""

from __future__ import annotations

from typing import Any

import pytest

from taskhub.core.errors import Invalid
from taskhub.core.policy import Policy, check_policy
from taskhub.core.records import Claim
from taskhub.core.states import State
from taskhub.domain.tasks import run
from taskhub.domain.tasks.cancel import request_cancel
from taskhub.store.models import Attempt, Tool
from tests.domain import kit
from tests.factories import WORKER

pytestmark = pytest.mark.django_db(transaction=True)


def failed(taken: Claim, kind: str = "-32001", code: int = -32001) -> bool:
    return run.fault(taken, {"code": code, "message": "busy"}, kind=kind, actor=WORKER)


def again(task_id: int) -> Claim:
    """The next claim of the task, which waits for its time."""
    assert kit.look(task_id).state is State.QUEUED
    kit.turn_back(task_id, "runnable_at", 1)
    return kit.claim_one()


def pause(task_id: int) -> float:
    return float(kit.count_rows(
        "SELECT round(1000 * extract(epoch FROM runnable_at - clock_timestamp())) FROM task WHERE id = %s", (task_id,)
    )) / 1000  # fmt: skip


@pytest.mark.parametrize("kind", ["connect", "timeout", "-32001"])
def test_an_error_that_the_policy_names_is_tried_again(kind: str) -> None:
    task = kit.create(kit.make_world(retry_on=[kind], max_attempts=3))
    taken = kit.claim_one()
    for number in (1, 2):
        assert failed(taken, kind) is True
        assert kit.look(task.id).message == f"Attempt {number} of 3 failed, another follows: busy"
        assert kit.claim() == [], "not before its pause is over"
        taken = again(task.id)
    assert failed(taken, kind) is True
    assert (kit.look(task.id).state, kit.look(task.id).message) == (State.FAULTED, "busy")
    told = list(Attempt.objects.order_by("number").values_list("number", "outcome", "error"))
    assert told == [(1, "retried", "busy"), (2, "retried", "busy"), (3, "faulted", "busy")]
    assert kit.actions(task.id).count("task.released") == 2
    assert kit.wake_ups() == 1


def test_pauses_double_and_vary() -> None:
    task = kit.create(kit.make_world(retry_on=["connect"], retry_seconds=10, max_attempts=5))
    taken = kit.claim_one()
    for low, high in ((5, 15), (10, 30), (20, 60), (40, 120)):
        failed(taken, "connect")
        assert low - 1 <= pause(task.id) <= high
        taken = again(task.id)


def test_a_pause_is_5_minutes_and_a_half_at_most() -> None:
    task = kit.create(kit.make_world(retry_on=["connect"], retry_seconds=300, max_attempts=4))
    taken = kit.claim_one()
    for _ in range(3):
        failed(taken, "connect")
        assert pause(task.id) <= 450
        taken = again(task.id)


@pytest.mark.parametrize(
    ("policy", "kind"), [([], "connect"), (["connect"], "timeout"), (["-32001"], "-32002"), (["connect"], "")]
)
def test_any_other_error_ends_the_task(policy: list[str], kind: str) -> None:
    task = kit.create(kit.make_world(retry_on=policy))
    failed(kit.claim_one(), kind)
    assert kit.look(task.id).state is State.FAULTED


def test_a_result_that_says_error_is_a_result() -> None:
    task = kit.create(kit.make_world(retry_on=["connect", "timeout", "-32603"]))
    kit.finish(kit.claim_one(), {**kit.FINAL, "isError": True})
    assert (kit.look(task.id).state, kit.look(task.id).is_error) == (State.FINISHED, True)


def test_the_policy_of_the_moment_of_the_error_counts() -> None:
    world = kit.make_world(retry_on=["connect"])
    task = kit.create(world)
    Tool.objects.filter(pk=world.tool.id).update(retry_on=[])
    failed(kit.claim_one(), "connect")
    assert kit.look(task.id).state is State.FAULTED


def test_lost_runs_count_as_attempts() -> None:
    task = kit.create(kit.make_world(retry_on=["connect"], max_attempts=2, idempotent=True))
    run.lose(kit.claim_one(), told="lost", actor=WORKER)
    failed(again(task.id), "connect")
    assert kit.look(task.id).state is State.FAULTED


def test_what_is_to_be_cancelled_is_not_tried_again() -> None:
    task = kit.create(kit.make_world(retry_on=["connect"]))
    taken = kit.claim_one()
    request_cancel(task.id, actor=WORKER)
    failed(taken, "connect")
    assert kit.look(task.id).state is State.FAULTED


def test_a_question_of_the_tool_ends_with_its_run() -> None:
    task = kit.create(kit.make_world(retry_on=["timeout"]))
    taken = kit.claim_one()
    kit.ask(taken, kit.factories.make_question(), live=True)
    failed(taken, "timeout")
    assert (kit.look(task.id).state, kit.look(task.id).questions) == (State.QUEUED, ())


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"retry_on": ["isError"]}, "retry_on"),
        ({"retry_on": ["0"]}, "retry_on"),
        ({"retry_on": [str(-number) for number in range(1, 40)]}, "retry_on"),
        ({"retry_seconds": 0}, "retry_seconds"),
        ({"retry_seconds": 301}, "retry_seconds"),
    ],
)
def test_a_policy_names_errors_that_there_are(changes: dict[str, Any], field: str) -> None:
    with pytest.raises(Invalid) as refused:
        check_policy(Policy(**changes))
    assert refused.value.data["field"] == field

"""A worker that was thought dead comes back to a tool that still runs, and whose outcome is unknown by now."""

from __future__ import annotations

import json

import pytest
from pytest_django import Settings

from taskhub.core.records import OpenQuestion
from taskhub.core.states import Audience, QuestionKind, State
from taskhub.domain.questions.answer import rule_outcome
from taskhub.domain.tasks.sweep import sweep
from taskhub.lib.lanes import Lanes
from taskhub.store.models import Question
from taskhub.worker.engine import Engine
from tests.domain import kit
from tests.factories import WORKER
from tests.upstream.servers import gates
from tests.worker.kit import Hall, attempts, call, ended, hint, wait_until


@pytest.fixture(autouse=True)
def _often(settings: Settings) -> None:
    settings.TASKHUB_LEASE_SECONDS = 0.6


def lost(worker: Engine, task_id: int) -> None:
    """Nobody has heard of the worker for longer than its lease."""
    wait_until(gates.entered.is_set, "the tool to start")

    def swept() -> bool:
        # Again if the worker, which lives, has renewed the lease in between.
        kit.turn_back(task_id, "lease_until", 1)
        sweep()
        return kit.look(task_id).state is State.INPUT_REQUIRED

    wait_until(swept, "the lease to be over")
    worker.slots.running[task_id].started -= 10  # not so new that it may have just ended


def rule(task_id: int, *, ran: bool) -> None:
    key = Question.objects.get(task_id=task_id, state="open").key
    question = OpenQuestion(key, QuestionKind.OUTCOME, {}, Audience.OPERATOR, "", 1, 0)
    rule_outcome(task_id, question, ran=ran, result={"content": []} if ran else None, actor=WORKER)


def renewals(worker: Engine, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Gets an entry for each renewal of leases that has ended."""
    ends: list[int] = []
    renew = worker.slots.renew

    async def counted(pulse: Lanes) -> None:
        await renew(pulse)
        ends.append(len(ends))

    monkeypatch.setattr(worker.slots, "renew", counted)
    return ends


def test_the_tool_runs_on_until_somebody_rules_and_its_result_counts(
    hall: Hall, monkeypatch: pytest.MonkeyPatch
) -> None:
    tool = hall.tool(hall.server(), "wait_for_gate")
    worker = hall.start(slots=1)
    ends = renewals(worker, monkeypatch)
    task = call(tool)
    lost(worker, task)
    before = len(ends)
    wait_until(lambda: len(ends) >= before + 3, "leases to be renewed")
    assert kit.look(task).state is State.INPUT_REQUIRED
    gates.opened.set()
    done = ended(task)
    assert json.loads(done.result_json or "")["content"][0]["text"] == "let go"
    assert Question.objects.get(task_id=task).state == "superseded"
    assert attempts(task) == ["finished"]


def test_it_is_stopped_once_somebody_says_that_it_ran(hall: Hall) -> None:
    tool = hall.tool(hall.server(), "hold")
    worker = hall.start(slots=1)
    task = call(tool)
    lost(worker, task)
    rule(task, ran=True)
    wait_until(gates.cancelled.is_set, "the tool to be stopped")
    wait_until(lambda: not worker.slots.running, "a free slot")
    assert kit.look(task).state is State.FINISHED


@pytest.mark.usefixtures("drains_briefly")
def test_it_is_stopped_when_the_same_worker_runs_it_again(hall: Hall, settings: Settings) -> None:
    settings.TASKHUB_LEASE_SECONDS = 30  # it is claimed before leases are renewed again
    tool = hall.tool(hall.server(), "hold")
    worker = hall.start(slots=2)
    task = call(tool)
    lost(worker, task)
    before = worker.slots.running[task].work
    assert before is not None
    rule(task, ran=False)
    hint("w")
    wait_until(lambda: len(gates.starts) == 2 and before.done(), "the other run, and the end of the first")
    assert gates.cancelled.is_set()
    assert [run.claim.epoch for run in worker.slots.running.values()] == [2]
    assert kit.look(task).state is State.WORKING
    assert attempts(task) == ["lost", ""]

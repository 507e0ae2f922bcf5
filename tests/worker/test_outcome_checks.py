"""A worker asks a tool's companion whether a lost run ran."""

from __future__ import annotations

import json
from typing import Any

import pytest

from taskhub.core.records import Claim
from taskhub.core.states import State
from taskhub.domain.tasks import run
from taskhub.domain.tasks.checks import CHECK_SECONDS
from taskhub.store.models import Decision, OutcomeCheck, Server
from taskhub.upstream.target import Target
from taskhub.worker import engine, servers
from tests.domain import kit
from tests.factories import WORKER
from tests.upstream import kit as upstream
from tests.worker.kit import Hall, call, ended, wait_until

NOWHERE = Target("python", "tests.upstream.nowhere:server")


@pytest.fixture(autouse=True)
def _often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine, "SWEEP_SECONDS", 0.2)
    # What the listing says is not stored: the workshop's tools do not say that they only read.
    monkeypatch.setattr(servers, "store_snapshot", lambda *args, **listed: None)


def lost(hall: Hall, server: Server, companion: dict[str, Any], name: str = "echo") -> int:
    """A task whose run was lost before there is a worker, of a tool with a companion of that name."""
    hall.tool(server, companion["tool"], read_only=True)
    task_id = call(hall.tool(server, name, companion=companion), text="A-1")
    (taken,) = kit.claim()
    assert isinstance(taken, Claim)
    run.lose(taken, told="lost", actor=WORKER)
    return task_id


def checked(task_id: int) -> OutcomeCheck:
    """The check, once it has ended."""
    found: OutcomeCheck = wait_until(
        lambda: OutcomeCheck.objects.filter(question__task_id=task_id, ended_at__isnull=False).first(), "the check"
    )
    return found


def test_what_it_answers_is_kept(hall: Hall) -> None:
    server = hall.server(state="ready")
    task_id = lost(hall, server, {"tool": "text_of_size", "arguments": {"size": {"value": 3}}})
    hall.start()
    assert json.loads(checked(task_id).result or "")["content"][0]["text"] == "xxx"
    assert kit.look(task_id).state is State.INPUT_REQUIRED


def test_it_rules(hall: Hall) -> None:
    rule = {"tool": "point", "arguments": {}, "field": "x", "ran": 3.0}
    task_id = lost(hall, hall.server(state="ready"), rule)
    hall.start()
    assert ended(task_id).state is State.FINISHED
    assert Decision.objects.get().door == "policy"


@pytest.mark.parametrize(
    ("companion", "problem"),
    [
        ({"tool": "protocol_error", "arguments": {}}, "no such luck"),
        ({"tool": "ask", "arguments": {}}, "It asks questions, which nobody answers."),
    ],
)
def test_why_it_does_not_answer_is_kept(hall: Hall, companion: dict[str, Any], problem: str) -> None:
    task_id = lost(hall, hall.server(state="ready"), companion)
    hall.start()
    found = checked(task_id)
    assert (found.result, found.problem) == (None, problem)


def test_a_server_that_is_away_is_asked_later(hall: Hall) -> None:
    task_id = lost(hall, hall.server(NOWHERE, state="ready"), {"tool": "look", "arguments": {}})
    hall.start()
    found = wait_until(lambda: OutcomeCheck.objects.exclude(problem="").first(), "a reason")
    assert "cannot be reached" in found.problem
    assert found.ended_at is None
    assert kit.look(task_id).state is State.INPUT_REQUIRED


def test_one_that_asks_in_the_middle_is_refused(hall: Hall) -> None:
    task_id = lost(hall, hall.server(upstream.OLD, state="ready"), {"tool": "ask", "arguments": {}})
    hall.start()
    assert checked(task_id).question.state == "open"
    assert CHECK_SECONDS > 0

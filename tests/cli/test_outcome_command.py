"""`manage.py outcome`: unknown outcomes are listed and ruled on from a shell."""

from __future__ import annotations

import io
import json
from pathlib import Path

import pytest
from django.core.management.base import CommandError

from taskhub.core.states import State
from taskhub.domain.clients.principals import default_tenant
from taskhub.domain.tasks import run as runs
from taskhub.domain.tasks.reads import task_by_id
from taskhub.store.models import Decision, Event, Question, Task, Tool
from tests.cli.shell import run
from tests.domain import kit
from tests.domain.kit import World
from tests.factories import WORKER, make_context, make_server, make_tool

pytestmark = pytest.mark.django_db

SCHEMA = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}


@pytest.fixture
def world() -> World:
    tenant = default_tenant()
    return World(make_context(tenant, "agent-a"), make_tool(make_server(tenant, "demo"), "deploy"))


def lost(world: World) -> Task:
    """A task whose outcome is unknown."""
    kit.create(world)
    runs.lose(kit.claim_one(), told="The connection to server demo was lost while the tool ran", actor=WORKER)
    return Question.objects.get(kind="outcome", state="open").task


def rule(task: Task, *arguments: str, reason: str = "I looked") -> str:
    code, out, err = run("outcome", "rule", task.public_id, "--reason", reason, *arguments)
    assert (code, err) == (0, "")
    return out


def result(task: Task) -> dict[str, object]:
    record = task_by_id(task.pk)
    assert record is not None
    assert record.state is State.FINISHED
    found: dict[str, object] = json.loads(record.result_json or "{}")
    return found


def test_they_are_listed(world: World) -> None:
    assert run("outcome", "list")[1] == "No task waits for a ruling.\n"
    task = lost(world)
    line, why = run("outcome", "list")[1].splitlines()
    assert line.startswith(f"{task.public_id}  ")
    assert line.endswith(" UTC  deploy  agent-a")
    assert "was lost while the tool ran" in why
    (row,) = json.loads(run("outcome", "list", "--json")[1])
    assert (row["task"], row["tool"], row["server"], row["client"]) == (task.public_id, "deploy", "demo", "agent-a")


def test_it_ran_with_what_a_file_says(world: World, tmp_path: Path) -> None:
    task, file = lost(world), tmp_path / "answer"
    file.write_text("shipped\n")
    assert rule(task, "--ran", "--result", str(file)) == f"Task {task.public_id} has ended: its tool ran.\n"
    assert result(task)["content"] == [{"type": "text", "text": "shipped\n"}]
    decision = Decision.objects.get()
    assert (decision.actor, decision.door, decision.verdict, decision.reason) == ("manage.py", "cli", "ran", "I looked")
    assert Event.objects.filter(task_id=task.pk, action="question.ran", actor="manage.py", door="cli").exists()


def test_it_ran_with_json_from_standard_input(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    task = lost(world)
    monkeypatch.setattr("sys.stdin", io.StringIO('{"n": 3}'))
    rule(task, "--ran", "--result", "-", "--result-json")
    assert result(task)["structuredContent"] == {"n": 3}


def test_what_a_tool_with_a_schema_answered_is_json_that_fits(world: World, tmp_path: Path) -> None:
    task, file = lost(world), tmp_path / "answer"
    Tool.objects.update(definition=json.dumps({"name": "deploy", "inputSchema": {}, "outputSchema": SCHEMA}))
    file.write_text('{"n": "three"}')
    with pytest.raises(CommandError, match="does not fit the tool’s output schema"):
        rule(task, "--ran", "--result", str(file))
    file.write_text('{"n": 3}')
    rule(task, "--ran", "--result", str(file))
    assert result(task)["structuredContent"] == {"n": 3}


def test_it_did_not_run_and_runs_again(world: World) -> None:
    task = lost(world)
    with pytest.raises(CommandError, match="What did not run has no result"):
        rule(task, "--did-not-run", "--result", "/dev/null")
    assert rule(task, "--did-not-run") == f"Task {task.public_id} is queued to run again.\n"
    assert kit.claim_one().public_id == task.public_id


@pytest.mark.parametrize("arguments", [["--ran"], ["--did-not-run"]])
def test_one_ruling_counts(world: World, arguments: list[str]) -> None:
    task = lost(world)
    rule(task, "--ran")
    with pytest.raises(CommandError, match=f"No question about the outcome of task {task.public_id} is open"):
        rule(task, *arguments)


def test_what_is_not_known_is_not_ruled(world: World) -> None:
    running = kit.create(world)
    for task in ("no-such-task", running.public_id):
        with pytest.raises(CommandError, match="No question about the outcome"):
            run("outcome", "rule", task, "--ran", "--reason", "seen")
    task = lost(world)
    with pytest.raises(CommandError, match="Enter a reason"):
        rule(task, "--ran", reason=" ")

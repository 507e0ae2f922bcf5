"""Errors that a tool's policy names, each as a worker meets it."""

from __future__ import annotations

import pytest

from taskhub.core.states import State
from taskhub.upstream.target import Target
from tests.domain import kit
from tests.upstream import kit as upstream
from tests.worker.kit import Hall, attempts, call, ended, in_state
from tests.worker.test_running import fault_of

pytestmark = pytest.mark.usefixtures("looks_often")

NOWHERE = Target("python", "tests.upstream.nowhere:server")
CODE = "-32042"


@pytest.mark.parametrize("named", [True, False])
def test_a_server_that_cannot_be_reached(hall: Hall, named: bool) -> None:
    tool = hall.tool(hall.server(NOWHERE), "echo", retry_on=["connect"] if named else [CODE], max_attempts=2)
    hall.start()
    task = call(tool, text="hello")
    assert "cannot be reached" in fault_of(task)
    assert attempts(task) == (["retried", "faulted"] if named else ["faulted"])


def test_a_tool_that_runs_too_long(hall: Hall) -> None:
    tool = hall.tool(hall.server(), "hold", run_seconds=1, retry_on=["timeout"], max_attempts=2)
    hall.start()
    task = call(tool)
    assert fault_of(task) == "The tool ran longer than 1 s and was stopped"
    assert attempts(task) == ["retried", "faulted"]


@pytest.mark.parametrize("named", [True, False])
def test_a_code(hall: Hall, named: bool) -> None:
    tool = hall.tool(hall.server(), "protocol_error", retry_on=[CODE if named else "-32000"], max_attempts=3)
    hall.start()
    task = call(tool)
    assert ended(task).state is State.FAULTED
    assert attempts(task) == (["retried", "retried", "faulted"] if named else ["faulted"])


def test_a_tools_own_error_is_its_result(hall: Hall) -> None:
    tool = hall.tool(hall.server(), "refuse", retry_on=["connect", "timeout", "-32603"], max_attempts=3)
    hall.start()
    task = call(tool)
    assert (ended(task).state, ended(task).is_error) == (State.FINISHED, True)
    assert attempts(task) == ["finished"]


def test_a_connection_that_is_lost_runs_a_repeatable_tool_again_and_asks_about_any_other(hall: Hall) -> None:
    server = hall.server(upstream.OLD)
    again = hall.tool(server, "die", policy_at_least_once=True, max_attempts=2)
    other = hall.tool(hall.server(upstream.OLD), "die")
    hall.start()
    repeated, asked = call(again), call(other)
    in_state(asked, State.INPUT_REQUIRED)
    assert kit.opened(asked).params["why"] == "server_lost"
    assert "outcome unknown" in fault_of(repeated)
    assert attempts(repeated) == ["lost", "lost"]

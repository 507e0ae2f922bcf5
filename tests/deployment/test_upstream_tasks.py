"""A server's own task outlives every part of the hub: its result arrives, and its tool ran once."""

from __future__ import annotations

import json
import signal
from collections.abc import Iterator
from typing import Any

import psutil
import pytest

from tests.support.client import Client, accept
from tests.support.embedded import embedded_hub, open_directory
from tests.support.hasty import HASTY
from tests.support.hub import RunningHub, wait_until
from tests.upstream.session_tasks_http import SessionTasksServer
from tests.upstream.tasking_server import TaskingServer, question, text

pytestmark = pytest.mark.processes

PEOPLE = {"caps": {"extensions": {"io.modelcontextprotocol/tasks": {}}, "elicitation": {}}}


@pytest.fixture(scope="module")
def upstream() -> Iterator[TaskingServer]:
    with TaskingServer(pollIntervalMs=500) as server:
        yield server


@pytest.fixture(scope="module")
def older() -> Iterator[SessionTasksServer]:
    """Of 2025-11-25, each of whose sessions has tasks of its own."""
    with SessionTasksServer() as server:
        yield server


@pytest.fixture(scope="module")
def hub(upstream: TaskingServer, older: SessionTasksServer) -> Iterator[RunningHub]:
    servers = (f"tasking={upstream.target.target}", f"older={older.target.target}")
    running = RunningHub(servers=servers, **HASTY)
    try:
        yield running
    finally:
        running.stop()


def deferred(hub: RunningHub, client: Client, tool: str = "research") -> str:
    task = client.create(tool, **PEOPLE)
    taken = "SELECT 1 FROM deferred JOIN task ON task.id = task_id WHERE public_id = %s AND turn > 0"
    wait_until(lambda: hub.sql(taken, [task]), "a polled call", 45)  # a part may still be starting again
    return task


def outcomes(hub: RunningHub, task: str) -> list[tuple[Any, ...]]:
    return hub.sql("SELECT number, outcome FROM attempt JOIN task ON task.id = task_id WHERE public_id = %s", [task])


@pytest.mark.parametrize("part", ["worker", "web"])
def test_a_killed_part_costs_neither_the_result_nor_a_second_run(
    hub: RunningHub, upstream: TaskingServer, part: str
) -> None:
    runs = len(upstream.runs)
    with Client(hub.base, hub.tokens["agent-a"]) as client:
        task = deferred(hub, client)
        hub.part(part).kill()
        upstream.become("completed", result=text(f"without the {part}"))
        wait_until(lambda: hub.sql("SELECT 1 FROM task WHERE public_id = %s AND state = 'finished'", [task]), "it", 45)
    with Client(hub.base, hub.tokens["agent-a"]) as client:
        done = wait_until(lambda: _got(client, task), "the result", 45)
    assert done["result"]["content"][0]["text"] == f"without the {part}"
    assert len(upstream.runs) == runs + 1
    assert outcomes(hub, task) == [(1, "finished")]


@pytest.mark.parametrize("part", ["worker", "web"])
def test_a_task_of_an_older_server_goes_on_in_the_session_that_made_it(
    hub: RunningHub, older: SessionTasksServer, part: str
) -> None:
    runs = len(older.created)
    with Client(hub.base, hub.tokens["agent-a"]) as client:
        task, asking = deferred(hub, client, "wait"), deferred(hub, client, "ask")
        (key,) = client.until(asking, "input_required")["inputRequests"]
        hub.part(part).kill()
    older.release()
    # A worker counts as lost after 30 s.
    wait_until(lambda: hub.sql("SELECT 1 FROM task WHERE public_id = %s AND state = 'finished'", [task]), "it", 90)
    with Client(hub.base, hub.tokens["agent-a"]) as client:
        done = wait_until(lambda: _got(client, task), "the result", 45)
        assert done["result"]["content"][0]["text"] == "released"
        client.update(asking, {key: accept(who="Ada")})
        done = client.until(asking, "completed", "failed", seconds=45)
        assert done["result"]["content"][0]["text"] == "hello Ada"
    assert len(older.created) == runs + 2
    assert [outcomes(hub, each) for each in (task, asking)] == [[(1, "finished")]] * 2
    kept = "SELECT count(*) FROM deferred WHERE session IS NOT NULL AND poll_at IS NULL"
    assert hub.sql(kept) == [(0,)]


def test_a_killed_database_costs_neither_the_result_nor_a_second_run(
    upstream: TaskingServer, tmp_path_factory: pytest.TempPathFactory
) -> None:
    runs = len(upstream.runs)
    directory = open_directory(tmp_path_factory.mktemp("killed"))
    with embedded_hub(directory, f"tasking={upstream.target.target}") as (base, data, _):
        token = json.loads((data / "credentials.json").read_text())["tokens"]["agent-a"]
        with Client(base, token) as client:
            task = client.create("research", **PEOPLE)
            polls = upstream.polls()
            wait_until(lambda: upstream.polls() > polls, "a poll")
            postmaster = psutil.Process(int((data / "pg" / "postmaster.pid").read_text().splitlines()[0]))
            postmaster.send_signal(signal.SIGKILL)
            upstream.become("completed", result=text("without the database"))
            done = wait_until(lambda: _got(client, task), "the result", 60)
    assert done["result"]["content"][0]["text"] == "without the database"
    assert len(upstream.runs) == runs + 1


def test_an_answer_given_while_the_worker_is_away_is_sent_by_the_next(hub: RunningHub, upstream: TaskingServer) -> None:
    upstream.on_answers = lambda given: {"status": "completed", "result": text(given["who"]["content"]["name"])}
    with Client(hub.base, hub.tokens["agent-a"]) as client:
        task = deferred(hub, client)
        upstream.become("input_required", inputRequests={"who": question()})
        assert list(client.until(task, "input_required")["inputRequests"]) == ["who"]
        hub.part("worker").kill()
        client.update(task, {"who": accept(name="Ada")})
        done = client.until(task, "completed", "failed", seconds=45)
    assert done["result"]["content"][0]["text"] == "Ada"
    assert upstream.given[-1] == {"who": accept(name="Ada")}


def _got(client: Client, task: str) -> dict[str, Any] | None:
    try:
        found = client.get(task).result
    except Exception:  # noqa: BLE001 - the web process is being started again
        return None
    return found if found["status"] == "completed" else None

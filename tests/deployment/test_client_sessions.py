"""A command and an HTTP server that keep something for their clients, behind a hub with two workers."""

from __future__ import annotations

import signal
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.support.client import Client
from tests.support.hub import RunningHub, wait_until
from tests.upstream.notebook_http import NotebookServer

pytestmark = pytest.mark.processes

COMMAND = f"book=stdio:{sys.executable} -m tests.upstream.notebook"
WORKERS = "SELECT count(DISTINCT worker) FROM upstream_session WHERE ended_at IS NULL"
ROUNDS = 8


@pytest.fixture(scope="module")
def hub() -> Iterator[RunningHub]:
    with NotebookServer() as server:
        hub = RunningHub(
            "--workers",
            "2",
            servers=(COMMAND, f"web={server.target.target}"),
        )
        try:
            yield hub
        finally:
            hub.stop(20)


@pytest.fixture
def clients(hub: RunningHub, request: pytest.FixtureRequest) -> Iterator[list[Client]]:
    """Four clients whom nobody knows yet."""
    made = [Client(hub.base, hub.token(f"{request.node.name[:40]} {number}")) for number in range(4)]
    try:
        yield made
    finally:
        for client in made:
            client.close()


def tool_names(hub: RunningHub, server: str) -> dict[str, str]:
    return dict(
        hub.sql(
            "SELECT t.name, t.exposed_name FROM tool t JOIN server s ON s.id = t.server_id WHERE s.name = %s", (server,)
        )
    )


def said(client: Client, task: str, seconds: float = 20) -> str:
    found = client.until(task, "completed", seconds=seconds)
    return str(found["result"]["content"][0]["text"])


@pytest.mark.parametrize("server", ["book", "web"])
def test_each_client_finds_its_own_state_on_every_call_and_never_anothers(
    hub: RunningHub, clients: list[Client], server: str
) -> None:
    names = tool_names(hub, server)
    kept: dict[int, list[str]] = {number: [] for number in range(len(clients))}
    for turn in range(ROUNDS):
        asked = []
        for number, client in enumerate(clients):
            word = f"{number}-{turn}"
            asked.append((number, word, client.create(names["remember"], {"word": word})))
        for number, word, task in asked:
            kept[number].append(word)
            assert said(clients[number], task) == " ".join(kept[number])
    assert hub.sql(WORKERS)[0][0] > 1, "else the test tells nothing of two workers"
    workers = (
        "SELECT count(DISTINCT a.worker) FROM attempt a JOIN task t ON t.id = a.task_id WHERE a.outcome = 'finished'"
    )
    per_client = hub.sql(f"{workers} AND t.tool_name = %s GROUP BY t.context_id", (names["remember"],))
    assert {count for (count,) in per_client} == {1}


@pytest.mark.parametrize("server", ["book", "web"])
def test_three_long_calls_of_a_client_run_side_by_side(hub: RunningHub, clients: list[Client], server: str) -> None:
    names, client = tool_names(hub, server), clients[0]
    said(client, client.create(names["words"], {}))
    begin = time.monotonic()
    with ThreadPoolExecutor(3) as pool:
        tasks = list(pool.map(lambda _: client.create(names["wait"], {"seconds": 2}), range(3)))
    for task in tasks:
        said(client, task)
    took = time.monotonic() - begin
    print(f"three calls of 2 s at {server}: {took:.2f} s")
    assert took < 3


@pytest.mark.parametrize("server", ["book", "web"])
def test_an_open_question_of_one_client_makes_no_call_of_another_longer(
    hub: RunningHub, clients: list[Client], server: str
) -> None:
    names = tool_names(hub, server)
    asking, other, third, _ = clients
    for client in clients:
        said(client, client.create(names["words"], {}))

    def seconds(client: Client) -> list[float]:
        found = []
        for _ in range(10):
            begin = time.monotonic()
            said(client, client.create(names["words"], {}))
            found.append(time.monotonic() - begin)
        return sorted(found)

    before = seconds(other)
    tasks = [client.create(names["ask"], {}) for client in (asking, asking, third)]
    for task in tasks:
        wait_until(
            lambda task=task: hub.sql("SELECT 1 FROM task WHERE public_id = %s AND state = 'input_required'", (task,)),
            "the question",
        )
    during, own = seconds(other), seconds(asking)
    print(
        f"a call at {server}: median {before[5]:.3f} s, beside questions of others {during[5]:.3f} s,"
        f" beside its client's own {own[5]:.3f} s"
    )
    assert during[5] < 2 * before[5] + 0.05
    for task in tasks:
        (asking if task in tasks[:2] else third).cancel(task)
    assert said(asking, asking.create(names["words"], {})) == ""


@pytest.mark.parametrize("server", ["book", "web"])
def test_cancelling_one_call_leaves_the_others_and_the_state(
    hub: RunningHub, clients: list[Client], server: str
) -> None:
    names, client = tool_names(hub, server), clients[0]
    said(client, client.create(names["remember"], {"word": "kept"}))
    cancelled, other = (client.create(names["wait"], {"seconds": seconds}) for seconds in (60, 1.5))
    running = "SELECT 1 FROM task WHERE public_id = %s AND state = 'working'"
    for task in (cancelled, other):
        wait_until(lambda task=task: hub.sql(running, (task,)), "it to run")
    client.cancel(cancelled)
    client.until(cancelled, "cancelled", seconds=5)
    assert said(client, other) == "kept"
    assert said(client, client.create(names["remember"], {"word": "on"})) == "kept on"
    assert (
        hub.sql("SELECT l.text FROM task_log l JOIN task t ON t.id = l.task_id WHERE t.public_id = %s", (other,)) == []
    )


def test_when_its_worker_is_killed_the_client_is_told_what_it_lost(hub: RunningHub, clients: list[Client]) -> None:
    names, client = tool_names(hub, "book"), clients[0]
    said(client, client.create(names["remember"], {"word": "x"}))
    ((worker,),) = hub.sql(
        "SELECT worker FROM upstream_session s JOIN auth_context c ON c.id = s.context_id"
        " WHERE s.ended_at IS NULL ORDER BY s.opened_at DESC LIMIT 1"
    )
    hub.process_of(int(worker.rpartition(":")[2])).send_signal(signal.SIGKILL)
    task = client.create(names["words"], {})
    assert said(client, task, 60) == ""  # until the worker counts as silent
    lines = hub.sql("SELECT text FROM task_log l JOIN task t ON t.id = l.task_id WHERE t.public_id = %s", (task,))
    assert len(lines) == 1
    assert "is lost: the worker that had it was lost or stopped" in lines[0][0]

"""Real processes, really killed: nothing that was acknowledged is lost, nothing runs twice that must not."""

from __future__ import annotations

import signal
import threading
import urllib.error
import urllib.request
from collections.abc import Iterator
from typing import Any

import httpx2
import pytest

from tests.support.client import Client
from tests.support.hasty import HASTY
from tests.support.hub import FIXTURES, RunningHub, wait_until

pytestmark = pytest.mark.processes

DEMO = "python:taskhub.demo.server:server"


@pytest.fixture(scope="module")
def hub() -> Iterator[RunningHub]:
    """A hub of this file's own, with a short lease: its processes are about to be killed. Each test leaves it whole."""
    running = RunningHub(servers=(DEMO, FIXTURES), **HASTY)
    try:
        yield running
    finally:
        running.stop()


def attempts(hub: RunningHub, task: str) -> list[tuple[Any, ...]]:
    """What became of each attempt at the task."""
    return hub.sql(
        "SELECT number, outcome FROM attempt JOIN task ON task.id = task_id WHERE public_id = %s ORDER BY number",
        [task],
    )


def goes_on(hub: RunningHub, task: str) -> bool:
    """Whether the task has made some of its way."""
    return bool(hub.sql("SELECT 1 FROM task WHERE public_id = %s AND progress > 0", [task]))


def test_killed_worker_repeatable_task_is_taken_up_again_and_ends_once(hub: RunningHub) -> None:
    before = len(hub.log.read_text())
    with Client(hub.base, hub.tokens["agent-a"]) as client:
        task = client.create("countdown", {"seconds": 4, "steps": 16})
        wait_until(lambda: goes_on(hub, task), "progress")
        hub.part("worker").kill()
        done = client.until(task, "completed", "failed", seconds=45)
        assert done["status"] == "completed"
    assert attempts(hub, task) == [(1, "lost"), (2, "finished")]
    ends = "SELECT count(*) FROM event JOIN task ON task.id = task_id WHERE action = 'task.finished' AND public_id = %s"
    assert hub.sql(ends, [task]) == [(1,)]
    assert "worker 1 ended (signal 9); starting it again" in hub.log.read_text()[before:]


def test_killed_worker_other_task_waits_with_its_outcome_unknown(hub: RunningHub) -> None:
    hub.sql("UPDATE tool SET policy_at_least_once = false WHERE name = 'slow_compute'")
    hub.sql("NOTIFY taskhub, 'c'")
    with Client(hub.base, hub.tokens["agent-a"]) as client:

        def once() -> str | None:
            """A task under that policy, of which the web process hears in its own time."""
            made = client.create("slow_compute", {"seconds": 30, "label": "x"})
            if hub.sql("SELECT 1 FROM task WHERE public_id = %s AND NOT at_least_once", [made]):
                return made
            client.cancel(made)
            return None

        task = wait_until(once, "the policy to be in force")
        running = "SELECT 1 FROM task WHERE state = 'working' AND public_id = %s"
        wait_until(lambda: hub.sql(running, [task]), "a running task")
        hub.part("worker").kill()
        asked = "SELECT 1 FROM question q JOIN task t ON t.id = q.task_id WHERE q.kind = 'outcome' AND t.public_id = %s"
        wait_until(lambda: hub.sql(asked, [task]), "the question", 45)
        now = client.get(task).result
        assert now["status"] == "working"
        assert "outcome unknown. Waiting for a person" in now["statusMessage"]
    assert len(attempts(hub, task)) == 1


def test_stopped_worker_gives_its_repeatable_task_back_at_once(hub: RunningHub) -> None:
    with Client(hub.base, hub.tokens["agent-a"]) as client:
        task = client.create("countdown", {"seconds": 4, "steps": 16})
        wait_until(lambda: goes_on(hub, task), "progress")
        hub.part("worker").send_signal(signal.SIGTERM)
        done = client.until(task, "completed", "failed", seconds=45)
        assert done["status"] == "completed"
    assert attempts(hub, task) == [(1, "released"), (2, "finished")]


def test_killed_web_process_loses_no_acknowledged_task(hub: RunningHub) -> None:
    acknowledged: list[str] = []
    unclear = 0
    lock = threading.Lock()
    started = threading.Barrier(51)

    def call(number: int) -> None:
        nonlocal unclear
        with Client(hub.base, hub.tokens["agent-a"]) as client:
            started.wait(30)
            try:
                for step in range(20):  # more than there is time for
                    task = client.create("countdown", {"seconds": 1, "steps": number % 3 + step % 4 + 1})
                    with lock:
                        acknowledged.append(task)
            except (httpx2.HTTPError, AssertionError):
                with lock:
                    unclear += 1

    threads = [threading.Thread(target=call, args=(number,)) for number in range(50)]
    web = hub.part("web")
    for thread in threads:
        thread.start()
    started.wait(30)
    wait_until(lambda: len(acknowledged) >= 20, "calls in flight")
    web.kill()
    for thread in threads:
        thread.join(60)
    assert acknowledged
    assert unclear, "the web process was killed too late to matter"

    wait_until(lambda: _answers(f"{hub.base}/readyz"), "the web process", 30)
    with Client(hub.base, hub.tokens["agent-a"]) as client:
        for task in acknowledged:
            assert client.until(task, "completed", seconds=60)["status"] == "completed"
    finished = hub.sql(
        "SELECT task_id, count(*) FROM event WHERE action = 'task.finished' GROUP BY 1 HAVING count(*) > 1"
    )
    assert finished == []


def _answers(url: str) -> bool:
    try:
        with urllib.request.urlopen(url, timeout=2) as answer:
            return bool(answer.status == 200)
    except (urllib.error.URLError, OSError):
        return False

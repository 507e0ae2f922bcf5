"""Real processes, really killed: nothing that was acknowledged is lost, nothing runs twice that must not."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import httpx2
import psutil
import pytest

from tests.support.client import Client
from tests.support.hub import FIXTURES, ROOT, RunningHub, wait_until

pytestmark = pytest.mark.processes

DEMO = "python:taskhub.demo.server:server"


@pytest.fixture
def hub() -> Iterator[RunningHub]:
    """A hub of the test's own, with a short lease: its processes are about to be killed."""
    running = RunningHub(servers=(DEMO, FIXTURES), TASKHUB_LEASE_SECONDS="4")
    try:
        yield running
    finally:
        running.stop()


def part_of(hub: RunningHub, name: str) -> psutil.Process:
    """The supervisor's child that runs `manage.py NAME`."""
    for child in psutil.Process(hub.process.pid).children():
        if name in child.cmdline():
            return child
    raise AssertionError(f"no {name} process")


def test_killed_worker_repeatable_task_is_taken_up_again_and_ends_once(hub: RunningHub) -> None:
    with Client(hub.base, hub.tokens["agent-a"]) as client:
        task = client.create("countdown", {"seconds": 6, "steps": 12})
        wait_until(lambda: hub.sql("SELECT 1 FROM task WHERE progress > 0"), "progress")
        part_of(hub, "worker").kill()
        done = client.until(task, "completed", "failed", seconds=45)
        assert done["status"] == "completed"
    attempts = hub.sql("SELECT number, outcome FROM attempt ORDER BY number")
    assert attempts == [(1, "lost"), (2, "finished")]
    assert hub.sql("SELECT count(*) FROM event WHERE action = 'task.finished'") == [(1,)]
    assert "worker 1 ended (signal 9); starting it again" in hub.log.read_text()


def test_killed_worker_other_task_is_faulted_with_its_outcome_unknown(hub: RunningHub) -> None:
    hub.sql("UPDATE tool SET policy_at_least_once = false WHERE name = 'slow_compute'")
    hub.sql("NOTIFY taskhub, 'c'")
    with Client(hub.base, hub.tokens["agent-a"]) as client:
        task = client.create("slow_compute", {"seconds": 30, "label": "x"})
        wait_until(lambda: hub.sql("SELECT 1 FROM task WHERE state = 'working'"), "a running task")
        part_of(hub, "worker").kill()
        done = client.until(task, "completed", "failed", seconds=45)
        assert done["status"] == "failed"
        assert done["error"]["data"] == {"reason": "outcome_unknown"}
    assert hub.sql("SELECT count(*) FROM attempt") == [(1,)]


def test_stopped_worker_gives_its_repeatable_task_back_at_once(hub: RunningHub) -> None:
    with Client(hub.base, hub.tokens["agent-a"]) as client:
        task = client.create("countdown", {"seconds": 8, "steps": 16})
        wait_until(lambda: hub.sql("SELECT 1 FROM task WHERE progress > 0"), "progress")
        part_of(hub, "worker").send_signal(signal.SIGTERM)
        done = client.until(task, "completed", "failed", seconds=45)
        assert done["status"] == "completed"
    assert hub.sql("SELECT number, outcome FROM attempt ORDER BY number") == [(1, "released"), (2, "finished")]


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
                for step in range(4):
                    task = client.create("countdown", {"seconds": 1, "steps": number % 3 + step + 1})
                    with lock:
                        acknowledged.append(task)
            except (httpx2.HTTPError, AssertionError):
                with lock:
                    unclear += 1

    threads = [threading.Thread(target=call, args=(number,)) for number in range(50)]
    for thread in threads:
        thread.start()
    started.wait(30)
    wait_until(lambda: len(acknowledged) >= 20, "calls in flight")
    part_of(hub, "web").kill()
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


@pytest.fixture
def embedded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, Path, subprocess.Popen[bytes]]]:
    """`up` with its own embedded Postgres: (address, data directory, process)."""
    directory = tmp_path_factory.mktemp("embedded")
    for parent in (directory, directory.parent, directory.parent.parent):
        parent.chmod(0o755)
    port = _free_port()
    data = directory / "data"
    environment = {
        key: value for key, value in os.environ.items() if not key.startswith(("TASKHUB_", "DATABASE_", "SECRET_"))
    }
    command = [sys.executable, "manage.py", "up", "--no-demo", "--data-dir", str(data), "--port", str(port)]
    with (directory / "log").open("wb") as log:
        process = subprocess.Popen([*command, "--server", DEMO], cwd=ROOT, env=environment, stdout=log, stderr=log)
    base = f"http://127.0.0.1:{port}"
    try:
        wait_until(lambda: b"is ready" in (directory / "log").read_bytes(), "a ready hub", 60)
        yield base, data, process
    finally:
        process.terminate()
        process.wait(15)


def _free_port() -> int:
    import socket

    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def test_postgres_restart_under_load_heals_by_itself(embedded: tuple[str, Path, subprocess.Popen[bytes]]) -> None:
    import json

    base, data, _ = embedded
    token = json.loads((data / "credentials.json").read_text())["tokens"]["agent-a"]
    acknowledged: list[str] = []
    stop = threading.Event()

    def load() -> None:
        with Client(base, token) as client:
            while not stop.is_set():
                try:
                    acknowledged.append(client.create("countdown", {"seconds": 0.2, "steps": 2}))
                except (httpx2.HTTPError, AssertionError):
                    stop.wait(0.05)

    threads = [threading.Thread(target=load) for _ in range(4)]
    for thread in threads:
        thread.start()
    wait_until(lambda: len(acknowledged) >= 10, "load")
    postmaster = psutil.Process(int((data / "pg" / "postmaster.pid").read_text().splitlines()[0]))
    before = len(acknowledged)
    # A crash, not a shutdown: the write-ahead log has to bring everything back.
    postmaster.send_signal(signal.SIGQUIT)
    postmaster.wait(15)
    at = time.monotonic()
    wait_until(lambda: len(acknowledged) >= before + 20, "new tasks after the restart", 30)
    assert time.monotonic() - at < 30
    stop.set()
    for thread in threads:
        thread.join(30)
    with Client(base, token) as client:
        for task in acknowledged:
            assert client.until(task, "completed", "failed", seconds=45)["status"] == "completed"


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_up_stops_everything_within_ten_seconds_and_finds_it_again(
    embedded: tuple[str, Path, subprocess.Popen[bytes]], number: signal.Signals
) -> None:
    _, data, process = embedded
    family = psutil.Process(process.pid).children(recursive=True)
    postmaster = psutil.Process(int((data / "pg" / "postmaster.pid").read_text().splitlines()[0]))
    process.send_signal(number)
    assert process.wait(10) == 0
    left = [item for item in [*family, postmaster] if item.is_running() and item.status() != psutil.STATUS_ZOMBIE]
    assert left == []
    assert (data / "credentials.json").stat().st_mode & 0o777 == 0o600

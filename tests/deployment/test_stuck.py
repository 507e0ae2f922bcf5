"""A part that lives and does nothing, where nobody watches it: it ends by itself, and its health check tells."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import httpx2
import pytest

from tests.cli.shell import Command
from tests.support.hub import ROOT, RunningHub, wait_until

pytestmark = pytest.mark.processes


@pytest.fixture
def hub() -> Iterator[RunningHub]:
    """A hub whose own parts have ended: its database and its settings."""
    running = RunningHub(servers=())
    running.end()
    try:
        yield running
    finally:
        running.drop()


def part(hub: RunningHub, directory: Path, *words: str, **environment: str) -> subprocess.Popen[bytes]:
    """`manage.py WORDS`, as Compose or systemd starts it."""
    known = {**hub.environment, "TASKHUB_DATA_DIR": str(hub.data), **environment}
    with (directory / "log").open("wb") as log:
        return subprocess.Popen([sys.executable, "manage.py", *words], cwd=ROOT, env=known, stdout=log, stderr=log)


@pytest.mark.parametrize("kind", ["worker", "web"])
def test_a_part_whose_interpreter_is_held_ends_and_says_where(hub: RunningHub, tmp_path: Path, kind: str) -> None:
    hold = tmp_path / "hold"
    words = ("worker",) if kind == "worker" else ("web", "--port", str(hub.port))
    process = part(hub, tmp_path, *words, DJANGO_SETTINGS_MODULE="tests.support.held", HOLD=str(hold))
    try:

        def begun() -> bool:
            assert process.poll() is None, (tmp_path / "log").read_text()
            if kind == "worker":
                return bool(hub.sql("SELECT 1 FROM worker WHERE pid = %s AND stopped_at IS NULL", [process.pid]))
            try:
                return httpx2.get(f"{hub.base}/healthz", trust_env=False).status_code == 200
            except httpx2.TransportError:
                return False

        wait_until(begun, "its start", 60)
        hold.touch()
        assert process.wait(120) == 1
    finally:
        process.kill()
        process.wait()
    log = (tmp_path / "log").read_text()
    assert "Timeout (0:00:20)!" in log
    assert "held.py" in log


def test_the_health_check_of_a_worker_tells_whether_one_of_this_machine_is_alive(
    hub: RunningHub, tmp_path: Path
) -> None:
    where = {**hub.environment, "TASKHUB_DATA_DIR": str(hub.data)}

    def check(name: str, **more: str) -> Command:
        return Command(tmp_path / name, "worker", "--check", environment={**where, **more})

    worker = part(hub, tmp_path, "worker")
    try:
        alive = "SELECT 1 FROM worker WHERE pid = %s AND stopped_at IS NULL"
        wait_until(lambda: hub.sql(alive, [worker.pid]), "a worker", 60)
        with check("alive") as found:
            assert found.outcome() == (0, "")
        worker.send_signal(signal.SIGSTOP)
        hub.sql("UPDATE worker SET heartbeat_at = heartbeat_at - interval '1 minute'")
        with check("silent") as found:
            assert found.refusal().endswith(" was heard of for 30 s.")
        away = hub.environment["DATABASE_URL"].replace(hub.database, "there_is_none")
        with check("away", DATABASE_URL=away) as found:
            assert found.refusal().startswith("CommandError: The database cannot tell: ")
    finally:
        worker.kill()
        worker.wait()

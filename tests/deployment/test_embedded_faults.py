"""`up` with its embedded Postgres, which crashes under load or ends with everything else."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from tests.deployment.test_faults import DEMO
from tests.support.hub import ROOT, wait_until
from tests.support.load import all_completed, load

pytestmark = pytest.mark.processes


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the first `up` makes its data directory, and the next ones find it."""
    made = tmp_path_factory.mktemp("embedded")
    for parent in (made, made.parent, made.parent.parent):
        parent.chmod(0o755)
    return made


@pytest.fixture
def embedded(directory: Path) -> Iterator[tuple[str, Path, subprocess.Popen[bytes]]]:
    """`up` with its own embedded Postgres: (address, data directory, process)."""
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
        wait_until(lambda: b"is ready" in (directory / "log").read_bytes(), "a ready hub", 120)
        yield base, data, process
    finally:
        process.terminate()
        process.wait(15)


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def test_postgres_restart_under_load_heals_by_itself(embedded: tuple[str, Path, subprocess.Popen[bytes]]) -> None:
    base, data, _ = embedded
    token = json.loads((data / "credentials.json").read_text())["tokens"]["agent-a"]
    with load(base, token) as acknowledged:
        wait_until(lambda: len(acknowledged) >= 10, "load")
        postmaster = psutil.Process(int((data / "pg" / "postmaster.pid").read_text().splitlines()[0]))
        before = len(acknowledged)
        # A crash, not a shutdown: the write-ahead log has to bring everything back.
        postmaster.send_signal(signal.SIGQUIT)
        postmaster.wait(15)
        wait_until(lambda: len(acknowledged) >= before + 20, "new tasks after the restart", 30)
    all_completed(base, token, acknowledged)


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

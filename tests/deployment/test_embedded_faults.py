"""`up` with its embedded Postgres, which crashes under load or ends with everything else."""

from __future__ import annotations

import json
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from tests.deployment.test_faults import DEMO
from tests.support.embedded import embedded_hub, open_directory
from tests.support.hub import wait_until
from tests.support.load import all_completed, load

pytestmark = pytest.mark.processes


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the first `up` makes its data directory, and the next ones find it."""
    return open_directory(tmp_path_factory.mktemp("embedded"))


@pytest.fixture
def embedded(directory: Path) -> Iterator[tuple[str, Path, subprocess.Popen[bytes]]]:
    """See `embedded_hub`."""
    with embedded_hub(directory, DEMO) as found:
        yield found


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

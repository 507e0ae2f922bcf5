"""A process that follows its supervisor: it ends with it, and until then the watch costs nothing."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

FOLLOWER = """
import os, sys
from taskhub.lib.ending import follow_supervisor
os.environ["TASKHUB_SUPERVISOR"] = str(os.getppid())
follow_supervisor()
print(os.getpid(), flush=True)
sys.stdin.read()
"""
SUPERVISOR = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {FOLLOWER!r}])"


@pytest.fixture
def supervisor() -> Iterator[subprocess.Popen[str]]:
    """What started a follower, which holds both pipes too."""
    command = [sys.executable, "-c", SUPERVISOR]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        yield process
        process.kill()


def states(pid: int) -> str:
    """A letter for each thread: S sleeps, R runs or would."""
    threads = Path(f"/proc/{pid}/task").iterdir()
    return "".join((thread / "stat").read_text().rpartition(") ")[2][0] for thread in threads)


def test_a_follower_sleeps_until_its_supervisor_is_killed_and_ends_then(supervisor: subprocess.Popen[str]) -> None:
    assert supervisor.stdout is not None
    pid = int(supervisor.stdout.readline())
    assert sum(states(pid) == "SS" for _ in range(1_000)) > 500
    supervisor.kill()
    assert supervisor.stdout.read() == "", "the pipe ends with the last who holds it"

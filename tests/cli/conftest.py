"""Commands that need no hub; for the rest see `tests/support/fixtures.py` and `tests/store/flushing.py`."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.cli.shell import Command
from tests.store.flushing import _flush_past_the_guards
from tests.support.fixtures import alice, hub

__all__ = ["_flush_past_the_guards", "alice", "hub"]


@pytest.fixture(scope="session")
def silent_port() -> Iterator[int]:
    """A port that is taken, and at which nobody answers."""
    with socket.socket() as holder:
        holder.bind(("127.0.0.1", 0))
        found: int = holder.getsockname()[1]
        yield found


@pytest.fixture
def free_port() -> int:
    """A port that nobody has."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        found: int = probe.getsockname()[1]
        return found


@pytest.fixture(scope="session")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the commands of `refused` were started."""
    return tmp_path_factory.mktemp("refused")


@pytest.fixture(scope="session")
def refused(place: Path, silent_port: int) -> Iterator[dict[str, Command]]:
    """`up` where it cannot run, all at once: each takes a second only to start."""
    (place / "file").write_text("a file, below which not even root can write")
    away = {"DATABASE_URL": f"postgresql://taskhub:correct-horse@127.0.0.1:{silent_port}/taskhub"}
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        free = str(probe.getsockname()[1])
    started = {
        "port": Command(place / "1", "up", "--port", str(silent_port), "--data-dir", str(place / "unused")),
        "data": Command(place / "2", "up", "--port", free, "--data-dir", str(place / "file" / "data")),
        "database": Command(place / "3", "up", "--port", free, "--data-dir", str(place / "kept"), environment=away),
    }
    with ExitStack() as running:
        for command in started.values():
            running.enter_context(command)
        yield started

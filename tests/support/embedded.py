"""`up` with its own embedded Postgres."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.support.hub import ROOT, wait_until


@contextmanager
def embedded_hub(directory: Path, server: str) -> Iterator[tuple[str, Path, subprocess.Popen[bytes]]]:
    """A hub with this server and a database of its own: (address, data directory, process)."""
    port = _free_port()
    data = directory / "data"
    environment = {
        key: value for key, value in os.environ.items() if not key.startswith(("TASKHUB_", "DATABASE_", "SECRET_"))
    }
    command = [sys.executable, "manage.py", "up", "--no-demo", "--data-dir", str(data), "--port", str(port)]
    with (directory / "log").open("wb") as log:
        process = subprocess.Popen([*command, "--server", server], cwd=ROOT, env=environment, stdout=log, stderr=log)
    base = f"http://127.0.0.1:{port}"
    try:
        wait_until(lambda: b"is ready" in (directory / "log").read_bytes(), "a ready hub", 120)
        yield base, data, process
    finally:
        process.terminate()
        process.wait(15)


def open_directory(path: Path) -> Path:
    """The directory, in which the user of the embedded Postgres may look."""
    for parent in (path, path.parent, path.parent.parent):
        parent.chmod(0o755)
    return path


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port

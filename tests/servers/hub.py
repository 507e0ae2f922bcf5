"""A TaskHub for the matrix."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Final

import httpx2

ROOT: Final = Path(__file__).resolve().parents[2]


class Failed(Exception):
    """A cell is not as it must be."""


def free_port() -> int:
    """A port that nobody has now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def reachable(process: subprocess.Popen[bytes], port: int, seconds: float = 60.0) -> None:
    """Wait until somebody listens at the port."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1):
            return
        if process.poll() is not None:
            break
        time.sleep(0.1)
    raise Failed(f"{process.args} does not listen")


class Hub:
    """A TaskHub of its own, without demo."""

    def __init__(self, place: Path, *options: str) -> None:
        self._lock = threading.Lock()
        self.data = place / "data"
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}/mcp"
        self.log = (place / "hub.log").open("wb")
        command = ["manage.py", "up", "--no-demo", "--verbose", "--port", str(self.port), "--data-dir", str(self.data)]
        self._process = subprocess.Popen(
            [sys.executable, *command, *options], cwd=ROOT, stdout=self.log, stderr=self.log
        )
        deadline = time.monotonic() + 120
        while not self._ready():
            if self._process.poll() is not None or time.monotonic() > deadline:
                raise Failed(f"the hub does not start: {self.log.name}")
            time.sleep(0.2)
        database = (self.data / "database_url").read_text().strip()
        self._shell = subprocess.Popen(
            [sys.executable, "-m", "tests.support.shell"],
            cwd=ROOT,
            env={**os.environ, "TASKHUB_DATA_DIR": str(self.data), "DATABASE_URL": database},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def _ready(self) -> bool:
        with contextlib.suppress(httpx2.HTTPError):
            return httpx2.get(self.url.replace("/mcp", "/readyz"), trust_env=False).status_code == 200
        return False

    def manage(self, *words: str) -> str:
        """What `manage.py` prints with these words."""
        assert self._shell.stdin is not None
        assert self._shell.stdout is not None
        with self._lock:
            self._shell.stdin.write(f"{json.dumps(words)}\n")
            self._shell.stdin.flush()
            said = json.loads(self._shell.stdout.readline())
        if "error" in said:
            raise Failed(f"{words}: {said['error']}")
        return str(said["out"]).strip()

    def stop(self) -> None:
        self._shell.communicate()
        self._process.send_signal(signal.SIGTERM)
        self._process.wait(30)
        self.log.close()

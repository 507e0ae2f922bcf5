"""One more web process of a hub, with settings of its own: all that a test of these needs, for a third of a hub's
cost."""

from __future__ import annotations

import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx2

from tests.support.hub import ROOT, STOP_SECONDS, RunningHub, wait_until


class Web:
    """Started by the constructor, in the environment of `hub` and what is given, where `None` stands for the default;
    see `ready`."""

    def __init__(self, hub: RunningHub, **environment: str | None) -> None:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port: int = probe.getsockname()[1]
        self.hub = hub
        self.base = f"http://127.0.0.1:{self.port}"
        self.log = hub.directory / f"web-{self.port}"
        wanted = {**hub.environment, "TASKHUB_DATA_DIR": str(hub.data), **environment}
        self._environment = {name: value for name, value in wanted.items() if value is not None}
        self.start()

    def start(self) -> None:
        """Begin, or begin again after its end, at the same address."""
        command = [sys.executable, "manage.py", "web", "--port", str(self.port)]
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(command, cwd=ROOT, env=self._environment, stdout=log, stderr=log)

    @property
    def data(self) -> Path:
        """The data directory it shares with its hub."""
        return self.hub.data

    def ready(self) -> bool:
        """Whether it answers."""
        assert self.process.poll() is None, self.log.read_text()
        try:
            return httpx2.get(f"{self.base}/readyz", trust_env=False).status_code == 200
        except httpx2.TransportError:
            return False

    def kill(self) -> None:
        """kill -9."""
        self.process.kill()
        self.process.wait()

    def end(self) -> None:
        """SIGTERM, and wait; nothing if it has ended."""
        if self.process.poll() is None:
            self.process.terminate()
            self.process.wait(STOP_SECONDS)


@contextmanager
def webs(hub: RunningHub, number: int = 2, **environment: str | None) -> Iterator[list[Web]]:
    """So many web processes, ended with the block."""
    running = [Web(hub, **environment) for _ in range(number)]
    try:
        for each in running:
            wait_until(each.ready, "a web process", 60)
        yield running
    finally:
        for each in running:
            each.end()


@contextmanager
def web(hub: RunningHub, **environment: str | None) -> Iterator[Web]:
    """One of them."""
    with webs(hub, 1, **environment) as (one,):
        yield one

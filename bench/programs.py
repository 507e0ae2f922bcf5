"""Processes that the benchmark starts, and the end of exactly these."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Self

ROOT = Path(__file__).resolve().parent.parent
HOST = "127.0.0.1"
STOP_S = 15.0  # between the polite signal and the hard one
Command = list[str | Path]


class CannotRunError(Exception):
    """Something that the comparison needs is missing, or broke."""


class Program:
    """A child process in a group of its own, writing to a log file.

    Leaving the context sends SIGTERM to the process, waits, and then kills what is
    left of its group.
    """

    def __init__(
        self,
        name: str,
        command: Command,
        log: Path,
        environment: Mapping[str, str],
    ) -> None:
        self.name = name
        self.log = log
        with log.open("ab") as output:
            self._process = subprocess.Popen(
                command,
                cwd=ROOT,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        self.pid = self._process.pid

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        with suppress(ProcessLookupError):
            self._process.terminate()
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(STOP_S)
        with suppress(ProcessLookupError):
            os.killpg(self.pid, signal.SIGKILL)
        self._process.wait()

    def check(self) -> None:
        """Raises `CannotRunError` with the end of the log if the process has ended."""
        if (status := self._process.poll()) is not None:
            raise CannotRunError(f"{self.name} ended with status {status}:\n{self.tail()}")

    def tail(self, lines: int = 15) -> str:
        return "\n".join(self.log.read_text(errors="replace").splitlines()[-lines:])


def attempts(program: Program, awaited: str, seconds: float) -> Iterator[None]:
    """Yields until the caller stops asking; raises when time or `program` ends."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        program.check()
        yield
        time.sleep(0.1)
    raise CannotRunError(f"no {awaited} within {seconds:g} s:\n{program.tail()}")


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind((HOST, 0))
        port: int = probe.getsockname()[1]
        return port

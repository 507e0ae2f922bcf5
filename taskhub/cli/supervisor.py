"""Runs web, workers and the embedded Postgres as one: what dies is started again, and all of it
ends together."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from types import FrameType

from taskhub.cli.embedded import Embedded

STOP_SECONDS = 6.5


@dataclass
class Part:
    """One child process; `starts` holds the times of its recent starts."""

    name: str
    command: list[str]
    process: subprocess.Popen[bytes] | None = None
    starts: list[float] = field(default_factory=list)
    not_before: float = 0.0


class Supervisor:
    """Start with `run`; ends on SIGINT or SIGTERM, or when `stop` is called."""

    def __init__(self, database: Embedded | None, say: Callable[[str], None]) -> None:
        self.database = database
        self.say = say
        self.parts: list[Part] = []
        self.stopping = False

    def add(self, name: str, *arguments: str) -> None:
        """A part that runs `manage.py ARGUMENTS`."""
        self.parts.append(Part(name, [sys.executable, sys.argv[0], *arguments]))

    def start(self) -> None:
        """Start every part; from here on signals stop them all."""
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, self._on_signal)
        for part in self.parts:
            self._start(part)

    def watch(self) -> None:
        """Start again what dies, until stopped."""
        while not self.stopping:
            self.check()
            time.sleep(0.25)

    def check(self) -> None:
        """One look at everything."""
        if self.database is not None and not self.database.running() and not self.stopping:
            self.say("Postgres is gone; starting it again")
            try:
                self.database.start()
            except Exception as error:  # noqa: BLE001 - tried again at the next look
                self.say(f"Postgres did not start: {error}")
                time.sleep(1.0)
        for part in self.parts:
            if part.process is None:
                if time.monotonic() >= part.not_before and not self.stopping:
                    self._start(part)
            elif (code := part.process.poll()) is not None and not self.stopping:
                how = f"signal {-code}" if code < 0 else f"exit code {code}"
                recent = [at for at in part.starts if at > time.monotonic() - 60]
                pause = 0.0 if len(recent) < 3 else min(2.0 ** (len(recent) - 2), 20.0)
                self.say(f"{part.name} ended ({how}); starting it again{f' in {pause:.0f} s' if pause else ''}")
                part.process, part.starts = None, recent
                part.not_before = time.monotonic() + pause

    def stop(self) -> None:
        """End every part within the grace period, then the database."""
        self.stopping = True
        alive = [part.process for part in self.parts if part.process is not None and part.process.poll() is None]
        for process in alive:
            process.terminate()
        deadline = time.monotonic() + STOP_SECONDS
        for process in alive:
            try:
                process.wait(max(0.1, deadline - time.monotonic()))
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        if self.database is not None:
            self.database.stop()

    def _start(self, part: Part) -> None:
        part.starts.append(time.monotonic())
        environment = {**os.environ, "TASKHUB_SUPERVISOR": str(os.getpid())}
        # A session of its own: Ctrl-C reaches the supervisor alone, which then stops the parts in order.
        part.process = subprocess.Popen(part.command, env=environment, start_new_session=True)  # noqa: S603 - our own command

    def _on_signal(self, number: int, frame: FrameType | None) -> None:
        self.stopping = True

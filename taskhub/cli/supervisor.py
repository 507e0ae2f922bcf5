"""Runs web, workers and the embedded Postgres: restarts a part that dies or hangs, and ends all of them together."""

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
from taskhub.cli.logfile import LogFile
from taskhub.cli.vitals import Vitals, watch

STOP_SECONDS = 6.5


@dataclass
class Part:
    """A child process that is restarted when it ends. `starts` has the times (`time.monotonic`) of its recent starts,
    `silent` the id of a process that hangs, and `lacking` the sign of life that is missing."""

    name: str
    command: list[str]
    vitals: Vitals
    process: subprocess.Popen[bytes] | None = None
    starts: list[float] = field(default_factory=list)
    not_before: float = 0.0
    silent: int | None = None
    lacking: str = ""
    logged: int = 0
    """The size of the log file, in bytes, when the present process was started."""

    def pid(self) -> int | None:
        """The id of the present process; `None` if there is none."""
        process = self.process
        return None if process is None else process.pid

    def fell_silent(self, pid: int, lacking: str) -> None:
        """Note that the process `pid` hangs, and which sign of life is `lacking`."""
        self.silent, self.lacking = pid, lacking


class Stopped(Exception):
    """SIGINT or SIGTERM came while the parts were still starting."""


class Supervisor:
    """Runs the parts and the database. Call `heed_signals` first, and `stop` at the end, also after a signal."""

    def __init__(self, say: Callable[[str], None]) -> None:
        self.database: Embedded | None = None
        self.log: LogFile | None = None
        """The parts' log file; `None` for this process's standard error."""
        self.say = say
        self.parts: list[Part] = []
        self.stopping = False
        self._changed: dict[str, str] = {}
        self._waited_for = ""

    def heed_signals(self) -> None:
        """Let SIGINT and SIGTERM only set `stopping`, which `go_on` and `watch` check."""
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, self._on_signal)

    def go_on(self) -> None:
        """Raise `Stopped` after SIGINT or SIGTERM. Call this between two steps of the start."""
        if self.stopping:
            raise Stopped

    def waits(self, why: str) -> None:
        """Print `why`, the reason for which the start of the database waits, unless it was printed last. Raises
        `Stopped` as `go_on` does."""
        self.go_on()
        if why != self._waited_for:
            self.say(f"waiting for Postgres: {why}")
            self._waited_for = why

    def add(self, name: str, vitals: Vitals, *arguments: str) -> None:
        """Add a part that runs `manage.py ARGUMENTS`; `vitals` checks whether it hangs."""
        self.parts.append(Part(name, [sys.executable, sys.argv[0], *arguments], vitals))

    def start(self) -> None:
        """Start every part, and a thread for each that checks whether it hangs."""
        for part in self.parts:
            self._start(part)
            watch(part.vitals, part.pid, part.fell_silent)

    def watch(self) -> None:
        """Restart parts that die or hang, until SIGINT or SIGTERM."""
        while not self.stopping:
            self.check()
            time.sleep(0.25)

    def changed(self, file: str, everywhere: bool) -> None:
        """Restart, at the next check, the parts that use the changed `file`: all of them if `everywhere`, else the web
        server. Thread-safe."""
        for part in self.parts:
            if everywhere or part.name == "web":
                self._changed[part.name] = file

    def check(self) -> None:
        """Start a Postgres or a part that has ended, and kill and restart a part that hangs."""
        self._reload()
        if self.log is not None:
            self.log.keep_small()
        if self.database is not None and not self.database.running() and not self.stopping:
            self.say("Postgres is gone; starting it again")
            try:
                self.database.start(self.waits)
            except Stopped:
                return
            except Exception as error:  # noqa: BLE001 - tried again at the next check
                self.say(f"Postgres did not start: {error}")
                time.sleep(1.0)
        for part in self.parts:
            if part.process is None:
                if time.monotonic() >= part.not_before and not self.stopping:
                    self._start(part)
            elif self.stopping:
                pass
            elif (code := part.process.poll()) is not None:
                self._again(part, f"ended ({f'signal {-code}' if code < 0 else f'exit code {code}'})")
            elif part.silent == part.process.pid:
                # SIGKILL, because no other signal ends a stopped process, or one that never releases the GIL.
                part.process.kill()
                part.process.wait()
                self._again(part, f"hung ({part.lacking}) and was killed")

    def _reload(self) -> None:
        """End the parts whose files changed, so that `check` starts them again. Their earlier deaths are forgotten."""
        stale = {part.name: self._changed.pop(part.name) for part in self.parts if part.name in self._changed}
        if not stale or self.stopping:
            return
        parts = [part for part in self.parts if part.name in stale]
        self.say(f"{stale[parts[0].name]} changed; starting {', '.join(stale)} again")
        _end([part.process for part in parts if part.process is not None])
        for part in parts:
            part.process, part.silent, part.starts, part.not_before = None, None, [], 0.0

    def _again(self, part: Part, what: str) -> None:
        recent = [at for at in part.starts if at > time.monotonic() - 60]
        pause = 0.0 if len(recent) < 3 else min(2.0 ** (len(recent) - 2), 20.0)
        self.say(f"{part.name} {what}; starting it again{f' in {pause:.0f} s' if pause else ''}")
        self.tell_log(part.logged)
        part.process, part.silent, part.starts = None, None, recent
        part.not_before = time.monotonic() + pause

    def tell_log(self, since: int) -> None:
        """Print the last lines of the log after byte `since`, for people who see only the terminal."""
        if self.log is not None:
            lines = self.log.last_lines(since)
            self.say("\n".join([f"the end of {self.log.path}:", *(f"  {line}" for line in lines or ["nothing"])]))

    def stop(self) -> None:
        """End every part within `STOP_SECONDS`, then the database."""
        self.stopping = True
        _end([part.process for part in self.parts if part.process is not None])
        if self.database is not None:
            self.database.stop()

    def _start(self, part: Part) -> None:
        part.starts.append(time.monotonic())
        environment = {**os.environ, "TASKHUB_SUPERVISOR": str(os.getpid())}
        # In a session of its own, so that Ctrl-C reaches only the supervisor. The supervisor then stops the parts in
        # order.
        log = None if self.log is None else self.log.stream
        part.logged = 0 if self.log is None else self.log.size()
        part.process = subprocess.Popen(  # noqa: S603 - our own command
            part.command, env=environment, start_new_session=True, stdout=log, stderr=log
        )

    def _on_signal(self, number: int, frame: FrameType | None) -> None:
        self.stopping = True


def _end(processes: list[subprocess.Popen[bytes]]) -> None:
    """End all of these processes, and kill those that take longer than `STOP_SECONDS`."""
    alive = [process for process in processes if process.poll() is None]
    for process in alive:
        process.terminate()
    deadline = time.monotonic() + STOP_SECONDS
    for process in alive:
        try:
            process.wait(max(0.1, deadline - time.monotonic()))
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()

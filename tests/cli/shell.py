"""What somebody at a shell does: start `manage.py`, read along, press Ctrl-C, look at the exit code."""

from __future__ import annotations

import fcntl
import io
import os
import pty
import re
import signal
import struct
import subprocess
import sys
import termios
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType, TracebackType
from typing import Final

from django.core.management import call_command

from tests.support.hub import ROOT

PATIENCE: Final = 150.0
"""Seconds after which a command counts as hung. On a busy machine a start takes many, as several start at once."""
_OURS: Final = ("DATABASE_URL", "TASKHUB_TOKEN", "SECRET_KEY_FILE", "PUBLIC_URL")
_ABOUT_TERMINALS: Final = ("FORCE_COLOR", "NO_COLOR", "TTY_COMPATIBLE", "TTY_INTERACTIVE", "COLUMNS", "LINES", "TERM")
CONTROL: Final = re.compile(r"[\x00-\x09\x0b-\x1f\x7f-\x9f]")
"""Any control character but the end of a line."""


class Terminal:
    """A terminal of 100 columns, without a person in front of it."""

    def __init__(self) -> None:
        self._ours, self.theirs = pty.openpty()
        fcntl.ioctl(self.theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 100, 0, 0))
        os.set_blocking(self._ours, False)
        self._seen = b""

    def text(self) -> str:
        """All that was written so far, with every control sequence."""
        while True:
            try:
                found = os.read(self._ours, 65_536)
            except BlockingIOError:
                break
            if not found:
                break
            self._seen += found
        return self._seen.decode(errors="replace")

    def close(self) -> None:
        """Switch it off."""
        os.close(self.theirs)
        os.close(self._ours)


class Command:
    """`manage.py …` as a process of its own, without a database unless one is given. Its words go to
    files, or stderr to a terminal, so that nobody has to read along. Use it as a context manager."""

    def __init__(
        self,
        directory: Path,
        *arguments: str,
        terminal: Terminal | None = None,
        environment: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        self._out, self._err = directory / "stdout", directory / "stderr"
        kept = {key: value for key, value in os.environ.items() if key not in (*_OURS, *_ABOUT_TERMINALS)}
        if terminal is not None:
            kept["TERM"] = "xterm-256color"
        # Started from a script in the background, the tests ignore Ctrl-C, and a child would inherit that.
        before = signal.signal(signal.SIGINT, signal.default_int_handler)
        try:
            with self._out.open("wb") as out, self._err.open("wb") as err:
                self._process = subprocess.Popen(
                    [sys.executable, "manage.py", *arguments],
                    cwd=ROOT,
                    env={**kept, **environment},
                    stdin=subprocess.DEVNULL,
                    stdout=out,
                    stderr=err if terminal is None else terminal.theirs,
                )
        finally:
            signal.signal(signal.SIGINT, before)

    def __enter__(self) -> Command:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> None:
        self._process.kill()
        self._process.wait()

    @property
    def pid(self) -> int:
        """Its process."""
        return self._process.pid

    @property
    def out(self) -> str:
        """What is on stdout by now."""
        return self._out.read_bytes().decode()

    @property
    def err(self) -> str:
        """What is on stderr by now, unless that is a terminal."""
        return self._err.read_bytes().decode()

    def interrupt(self, number: signal.Signals = signal.SIGINT) -> None:
        """Ctrl-C, or another signal."""
        self._process.send_signal(number)

    def code(self) -> int:
        """The exit code, once it has ended by itself."""
        return self._process.wait(PATIENCE)

    def outcome(self) -> tuple[int, str]:
        """Exit code and stdout, once it has ended by itself."""
        return self.code(), self.out

    def refusal(self) -> str:
        """The one line on stderr of a command that did nothing and says why; fails for anything else."""
        code = self.code()
        assert code != 0
        assert self.out == ""
        assert "Traceback" not in self.err
        assert not CONTROL.search(self.err)
        (line,) = self.err.splitlines()
        return line


def run(*arguments: str) -> tuple[int, str, str]:
    """A command in this process, on the test's database: exit code, stdout, stderr. What it refuses
    it raises, as `CommandError`."""
    out, err = io.StringIO(), io.StringIO()
    code: object = 0
    try:
        call_command(*arguments, stdout=out, stderr=err)
    except SystemExit as end:
        code = end.code
    assert isinstance(code, int)
    return code, out.getvalue(), err.getvalue()

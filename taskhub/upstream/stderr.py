"""Logs what a `stdio:` server writes to its standard error, and to its standard output between messages."""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final, TextIO

from taskhub.lib import logs
from taskhub.lib.buckets import Buckets

MAX_LINE: Final = 2_000
"""The most bytes of a line that are logged."""
LINES_PER_SECOND: Final = 20
LINES_SECONDS: Final = 5.0
"""A burst may have `LINES_PER_SECOND` times this many lines. Lines beyond that are only counted."""

logger = logging.getLogger(__name__)

OnLine = Callable[[str], None]


@contextmanager
def logged(server: str, shown: Callable[[str], str] = str, on_line: OnLine = lambda text: None) -> Iterator[TextIO]:
    """A file to be used as the standard error of a process of this server. Lines that are not logged are read too,
    because a full pipe would block the process. `shown` removes the server's secrets from a line. `on_line` gets each
    line that is logged, in another thread."""
    reading, writing = os.pipe()
    lines = Lines(server, shown, on_line)
    threading.Thread(target=_read, args=(lines, reading), name=f"stderr-{server}", daemon=True).start()
    with os.fdopen(writing, "w") as file:
        yield file


def _read(lines: Lines, reading: int) -> None:
    while chunk := os.read(reading, 65_536):
        lines.take(chunk)
    lines.end()
    os.close(reading)


class Lines:
    """Logs the lines of one stream of a process: each up to `MAX_LINE` bytes, and `LINES_PER_SECOND` of them."""

    def __init__(self, server: str, shown: Callable[[str], str], on_line: OnLine) -> None:
        self._server = server
        self._shown = shown
        self._on_line = on_line
        self._begun = b""
        self._rate = Buckets(LINES_PER_SECOND, seconds=LINES_SECONDS)
        self._left_out = 0

    def take(self, chunk: bytes) -> None:
        """Log the lines that end in this chunk."""
        *whole, rest = (self._begun + chunk).split(b"\n")
        for line in whole:
            self.say(line)
        # The rest of a line that is longer than the limit is not kept.
        self._begun = rest[: MAX_LINE + 1]

    def end(self) -> None:
        """Log what is left when the stream has ended."""
        self.say(self._begun)
        self._begun = b""
        if self._left_out:
            self._tell(f"and {self._left_out} lines more")
            self._left_out = 0

    def say(self, line: bytes) -> None:
        """Log a line."""
        if not line.strip():
            return
        if self._rate.take(self._server):
            self._left_out += 1
            return
        if self._left_out:
            self._tell(f"{self._left_out} lines are left out here")
            self._left_out = 0
        text = self._shown(line[:MAX_LINE].decode(errors="replace")).rstrip()
        self._tell(text + ("…" if len(line) > MAX_LINE else ""))

    def _tell(self, text: str) -> None:
        with logs.about({"server": self._server}):
            logger.info("server %s: %s", self._server, text)
        self._on_line(text)

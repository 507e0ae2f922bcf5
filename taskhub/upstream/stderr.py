"""Logs the lines that a `stdio:` server writes to its standard error."""

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
"""Seconds' worth of `LINES_PER_SECOND` that may come in one burst. Lines beyond it are only counted."""

logger = logging.getLogger(__name__)


@contextmanager
def logged(server: str, shown: Callable[[str], str] = str) -> Iterator[TextIO]:
    """A file to be used as the standard error of a process of this server. All of it is read, also lines that are not
    logged, because a full pipe would block the process. `shown` removes the server's secrets from a line."""
    reading, writing = os.pipe()
    threading.Thread(target=_read, args=(server, reading, shown), name=f"stderr-{server}", daemon=True).start()
    with os.fdopen(writing, "w") as file:
        yield file


def _read(server: str, reading: int, shown: Callable[[str], str]) -> None:
    lines = _Lines(server, shown)
    with logs.about({"server": server}):
        while chunk := os.read(reading, 65_536):
            lines.take(chunk)
        lines.end()
    os.close(reading)


class _Lines:
    def __init__(self, server: str, shown: Callable[[str], str]) -> None:
        self._server = server
        self._shown = shown
        self._begun = b""
        self._rate = Buckets(LINES_PER_SECOND, seconds=LINES_SECONDS)
        self._left_out = 0

    def take(self, chunk: bytes) -> None:
        *whole, rest = (self._begun + chunk).split(b"\n")
        for line in whole:
            self._say(line)
        # The rest of a line that is longer than the limit is not kept.
        self._begun = rest[: MAX_LINE + 1]

    def end(self) -> None:
        self._say(self._begun)
        if self._left_out:
            logger.info("server %s: and %d lines more", self._server, self._left_out)

    def _say(self, line: bytes) -> None:
        if not line.strip():
            return
        if self._rate.take(self._server):
            self._left_out += 1
            return
        if self._left_out:
            logger.info("server %s: %d lines are left out here", self._server, self._left_out)
            self._left_out = 0
        text = self._shown(line[:MAX_LINE].decode(errors="replace")).rstrip()
        logger.info("server %s: %s%s", self._server, text, "…" if len(line) > MAX_LINE else "")

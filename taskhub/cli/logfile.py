"""Where `up` and its parts log: a file in the data directory, which does not grow without end."""

from __future__ import annotations

import contextlib
import logging
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from taskhub.lib.signs import spelled

MAX_BYTES: Final = 20 * 2**20
"""Beyond it the file begins anew; what it held is kept once, beside it."""
TOLD_LINES: Final = 10
"""So many of a part's last lines are told when it ends by itself."""
_TOLD_BYTES: Final = 8_192


class LogFile:
    """`taskhub.log` in `data_dir`, readable by its owner only. Parts write to its descriptor themselves, so that they
    neither wait for `up` nor lose what they say when it is killed."""

    def __init__(self, data_dir: Path) -> None:
        self.path = data_dir / "taskhub.log"
        self.before = data_dir / "taskhub.log.1"
        # Appending, each write goes to the end that the file has at that moment, also after it was emptied.
        handle = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o600)
        self.stream = os.fdopen(handle, "a", encoding="utf-8", errors="backslashreplace")

    def close(self) -> None:
        """Let it go; parts that still run write on."""
        self.stream.close()

    def size(self) -> int:
        """How many bytes it has."""
        return os.fstat(self.stream.fileno()).st_size

    def keep_small(self) -> None:
        """Begin anew where it has grown too large. Lines that are written at this very moment may be lost: the parts
        hold it open, so that it has to be copied and emptied."""
        size = self.size()
        if size <= MAX_BYTES:
            return
        part = self.before.with_suffix(".new")
        try:
            part.unlink(missing_ok=True)
            made = os.fdopen(os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb")
            with made as new, self.path.open("rb") as old:
                shutil.copyfileobj(old, new)
            part.replace(self.before)
        except OSError:  # a full disk: what there is stays for as long as that is bearable
            with contextlib.suppress(OSError):
                part.unlink(missing_ok=True)
            if size <= 2 * MAX_BYTES:
                return
        os.ftruncate(self.stream.fileno(), 0)

    def last_lines(self, since: int) -> list[str]:
        """The last lines from this byte on, as a terminal can show them."""
        size = self.size()
        begin = max(since if since <= size else 0, size - _TOLD_BYTES)
        with self.path.open("rb") as file:
            file.seek(begin)
            lines = file.read(_TOLD_BYTES).decode("utf-8", "replace").splitlines()
        return [spelled(line) for line in lines[-TOLD_LINES:]]

    @contextlib.contextmanager
    def instead_of_stderr(self) -> Iterator[None]:
        """What this process itself logs goes to the file as well, for as long as the block lasts."""
        handlers = [one for one in logging.getLogger().handlers if isinstance(one, logging.StreamHandler)]
        streams = [one.setStream(self.stream) for one in handlers]
        try:
            yield
        finally:
            for handler, stream in zip(handlers, streams, strict=True):
                if stream is not None:
                    handler.setStream(stream)

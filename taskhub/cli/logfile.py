"""The file in the data directory that `up` and its parts log to, kept from growing without end."""

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
"""Beyond it the file begins anew; its former content is kept beside it, once."""
TOLD_LINES: Final = 10
"""How many of a part's last lines are shown when the part ends by itself."""
_TOLD_BYTES: Final = 8_192


class LogFile:
    """`taskhub.log` in `data_dir`, readable by its owner only. Parts write to its descriptor themselves, so that they
    never wait for `up`, and lose no line when `up` is killed."""

    def __init__(self, data_dir: Path) -> None:
        self.path = data_dir / "taskhub.log"
        self.before = data_dir / "taskhub.log.1"
        # With O_APPEND each write goes to the end that the file has at that moment, also after it was emptied.
        handle = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o600)
        self.stream = os.fdopen(handle, "a", encoding="utf-8", errors="backslashreplace")

    def close(self) -> None:
        """Close our side; parts that still run go on writing."""
        self.stream.close()

    def size(self) -> int:
        """How many bytes it has."""
        return os.fstat(self.stream.fileno()).st_size

    def keep_small(self) -> None:
        """Begin anew where the file has grown too large. It is copied and emptied, since the parts hold it open: lines
        that are written at this very moment may be lost."""
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
        except OSError:  # a full disk: the file stays as it is while there is room
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
        """What this process itself logs goes to the file, for as long as the block lasts."""
        handlers = [one for one in logging.getLogger().handlers if isinstance(one, logging.StreamHandler)]
        streams = [one.setStream(self.stream) for one in handlers]
        try:
            yield
        finally:
            for handler, stream in zip(handlers, streams, strict=True):
                if stream is not None:
                    handler.setStream(stream)

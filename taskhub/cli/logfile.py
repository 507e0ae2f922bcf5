"""The log file of `up` and of the processes that it starts: in the data directory, limited in size."""

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
"""Above this size the file is copied over `taskhub.log.1` and emptied."""
TOLD_LINES: Final = 10
"""How many of the file's last lines are printed when a part ends by itself."""
_TOLD_BYTES: Final = 8_192


class LogFile:
    """`taskhub.log` in `data_dir`, readable by its owner only. The parts of `up` inherit its descriptor and write to
    the file themselves, so they never wait for `up`, and lose no line when `up` is killed."""

    def __init__(self, data_dir: Path) -> None:
        self.path = data_dir / "taskhub.log"
        self.before = data_dir / "taskhub.log.1"
        # With O_APPEND each write goes to the end of the file, also after the file was truncated.
        handle = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o600)
        self.stream = os.fdopen(handle, "a", encoding="utf-8", errors="backslashreplace")

    def close(self) -> None:
        """Close the file in this process; parts that still run go on writing."""
        self.stream.close()

    def size(self) -> int:
        """The size of the file in bytes."""
        return os.fstat(self.stream.fileno()).st_size

    def keep_small(self) -> None:
        """Copy a file larger than `MAX_BYTES` to `taskhub.log.1` and truncate it; it cannot be renamed, since the parts
        hold it open. Lines that are written meanwhile may be lost."""
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
        """The last lines, at most `TOLD_LINES`, after byte `since`, safe to print on a terminal."""
        size = self.size()
        begin = max(since if since <= size else 0, size - _TOLD_BYTES)
        with self.path.open("rb") as file:
            file.seek(begin)
            lines = file.read(_TOLD_BYTES).decode("utf-8", "replace").splitlines()
        return [spelled(line) for line in lines[-TOLD_LINES:]]

    @contextlib.contextmanager
    def instead_of_stderr(self) -> Iterator[None]:
        """In the block, send the log of this process to the file instead of standard error."""
        handlers = [one for one in logging.getLogger().handlers if isinstance(one, logging.StreamHandler)]
        streams = [one.setStream(self.stream) for one in handlers]
        try:
            yield
        finally:
            for handler, stream in zip(handlers, streams, strict=True):
                if stream is not None:
                    handler.setStream(stream)

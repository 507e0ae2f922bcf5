"""One `up` for each data directory: a second would stop the first one's Postgres with its own end."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from django.core.management.base import CommandError


@contextmanager
def alone_in(data_dir: Path) -> Iterator[None]:
    """The right to run `up` in this directory, for as long as the block lasts; a process that is killed loses
    it. Raises `CommandError` naming the process that has it."""
    with os.fdopen(os.open(data_dir / "up.lock", os.O_RDWR | os.O_CREAT, 0o600), "r+") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            who = lock.read(20).strip() or "?"
            raise CommandError(f"Another `up` (process {who}) runs in {data_dir}. Choose another --data-dir.") from None
        lock.write(f"{os.getpid()}\n")
        lock.truncate()
        lock.flush()
        yield

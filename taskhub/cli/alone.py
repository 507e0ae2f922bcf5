"""One `up` for each data directory: when a second one ended, it would stop the first one's Postgres."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TextIO

from django.core.management.base import CommandError


@contextmanager
def alone_in(data_dir: Path, url: str) -> Iterator[None]:
    """Hold the right to run `up` in this directory, at this address, for as long as the block lasts; a process that is
    killed loses it. Raises `CommandError` naming the `up` that has it."""
    with os.fdopen(os.open(data_dir / "up.lock", os.O_RDWR | os.O_CREAT, 0o600), "r+") as lock:
        _take(lock, data_dir)
        lock.write(f"{os.getpid()}\n{url}\n")
        lock.truncate()
        lock.flush()
        yield


def refuse_second(data_dir: Path) -> None:
    """Raises `CommandError` as `alone_in` does, but takes nothing and makes no file."""
    try:
        lock = (data_dir / "up.lock").open("r+")
    except OSError:  # none runs; or the file is not ours to read, which is told when the directory is written to
        return
    with lock:
        _take(lock, data_dir)


def _take(lock: TextIO, data_dir: Path) -> None:
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        pid, url = [*lock.read(4_096).splitlines(), "", ""][:2]
        raise CommandError(
            f"A TaskHub of the data directory {data_dir} runs already{f' at {url}' if url else ''} "
            f"(process {pid or '?'}). For one more, choose another --data-dir and another --port."
        ) from None

"""Allows only one `up` per data directory: a second one would, at its end, stop the Postgres of the first."""

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
    """Hold the lock of the data directory in the block, with this process and `url` noted in it. A process that is
    killed loses the lock. Raises `CommandError`, naming the `up` that holds it, if there is one."""
    with os.fdopen(os.open(data_dir / "up.lock", os.O_RDWR | os.O_CREAT, 0o600), "r+") as lock:
        _take(lock, data_dir)
        lock.write(f"{os.getpid()}\n{url}\n")
        lock.truncate()
        lock.flush()
        yield


def refuse_second(data_dir: Path) -> None:
    """Raise `CommandError` if an `up` holds the lock of `alone_in`. Takes no lock and makes no file."""
    try:
        lock = (data_dir / "up.lock").open("r+")
    except OSError:  # no `up` runs; or the file cannot be opened, which is reported at the first write to the directory
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

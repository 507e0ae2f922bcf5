"""Which process keeps Postgres from starting over a directory: what is left of a killed server does, until the system
has ended it."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

import psutil


class LockHeld(Exception):
    """A process that does not end is in the way; the message names it."""


def holder(database: Path, place: Path, owner: int) -> str | None:
    """Which process keeps a Postgres of the user `owner` from starting over `database` with its socket in `place`, as
    text for people; `None` for none. It is the process whose id stands in a lock file, a zombie too, if `owner` runs
    it; or a process that is left of a server that was killed."""
    for file in (database / "postmaster.pid", *sorted(place.glob(".s.PGSQL.*.lock"))):
        with contextlib.suppress(OSError, ValueError, IndexError, psutil.Error):
            process = psutil.Process(int(file.read_text().splitlines()[0]))
            if process.uids().real == owner:
                return f"{_named(process)} holds {file}"
    for process in _left_in(database):
        return f"{_named(process)} of an earlier server is at work in {database}"
    return None


def _left_in(database: Path) -> Iterator[psutil.Process]:
    for process in psutil.process_iter():
        with contextlib.suppress(OSError, psutil.Error):
            if process.name() == "postgres" and Path(process.cwd()) == database.resolve():
                yield process


def _named(process: psutil.Process) -> str:
    with process.oneshot():
        words = f"process {process.pid} ({process.name()})"
        if process.status() != psutil.STATUS_ZOMBIE:
            return words
        parent = process.parent()
        whose = "its parent" if parent is None else f"process {parent.pid} ({parent.name()})"
        return f"{words}, which has ended and was not collected by {whose},"

"""Finds the process that keeps Postgres from starting in a directory, such as a process of a killed server that has not
ended yet."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

import psutil


class LockHeld(Exception):
    """A process that does not end keeps Postgres from starting; the message names it."""


def holder(database: Path, place: Path, owner: int) -> str | None:
    """The process that keeps a Postgres of the user `owner` from starting in `database` with its socket in `place`, as
    text for people; `None` if there is none. Such a process belongs to `owner` and has its id in a lock file (it may be
    a zombie), or is left over from a killed server."""
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

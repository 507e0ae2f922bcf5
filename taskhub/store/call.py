"""Runs every statement of `statements.sql`, in one round trip and without the ORM.

It runs on Django's own connection (so it joins an open transaction, and a lane keeps its
statements prepared) but without the ORM's and the cursor wrapper's work, which cost more
than the query: four threads read 2,200 rows a second by key through the ORM, 5,600 through a cursor.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Sequence
from typing import Final, TypeVar

import psycopg
from django.db import DatabaseError, InterfaceError, connection
from psycopg.sql import quote

from taskhub.core.errors import DiskFull, Unavailable
from taskhub.store import room
from taskhub.store.backend.base import Cursor, Overdue

R = TypeVar("R")
LACKING: Final = "a table, column or function of this release is missing in the database: run manage.py migrate"
UNANSWERED: Final = "The database does not answer; try again shortly."
_PLACE = re.compile(rb"\$(\d+)")


def run(sql: bytes, params: Sequence[object], fetch: Callable[[Cursor], R], *, again: bool, prepare: bool) -> R:
    """Execute `sql` and return the result of `fetch`. Raises `psycopg.Error` as the database sent it, or `Unavailable`
    when the connection is lost; the next call opens a new one. Without `prepare`, Postgres plans the statement for
    these values.

    A connection that was closed while it was idle is replaced first. If the connection is lost during the statement,
    the statement is run once more on a new connection, if `again` is set (for reads, so that a restart of the database
    goes unnoticed) or Postgres reported that the statement was undone. In any other case it is unknown whether a write
    has committed."""
    _connect()
    try:
        return _run(sql, params, fetch, prepare)
    except Unavailable as error:
        # Never after a timeout, even if the connection was lost too: the statement would take as long again.
        late = connection.connection is not None or isinstance(error.__cause__, Overdue)
        if connection.in_atomic_block or late or not (again or _undone(error.__cause__)):
            raise
    _connect()
    return _run(sql, params, fetch, prepare)


def _undone(error: BaseException | None) -> bool:
    """Whether the error proves that nothing was committed. Postgres sends this error when it ends a session before or
    during a statement; after a commit it would have answered first. A pooler's error proves nothing: it names no source
    function of Postgres."""
    if not isinstance(error, (psycopg.errors.AdminShutdown, psycopg.errors.IdleSessionTimeout)):
        return False
    return error.diag.source_function is not None


def _connect() -> None:
    try:
        connection.ensure_connection()
    except Exception as error:
        raise_for(error)
        raise


def _run(sql: bytes, params: Sequence[object], fetch: Callable[[Cursor], R], prepare: bool) -> R:
    try:
        with Cursor(connection.connection) as cursor:
            started = time.monotonic()
            if prepare:
                cursor.execute(sql, params, prepare=True)
            else:
                cursor.execute(_with_literals(sql, params, cursor), prepare=False)
            found = fetch(cursor)
            if connection.queries_logged:  # as Django's own cursor does, for tests and debugging
                took = f"{time.monotonic() - started:.3f}"
                connection.queries_log.append({"sql": _with_literals(sql, params, cursor).decode(), "time": took})
    except Exception as error:
        raise_for(error)
        raise
    return found


def _with_literals(statement: bytes, params: Sequence[object], cursor: Cursor) -> bytes:
    """The statement with its parameters as literals, so that it is planned for these values."""
    quoted = [quote(param, cursor).encode() for param in params]
    return _PLACE.sub(lambda place: quoted[int(place[1]) - 1], statement)


def raise_for(error: Exception) -> None:
    """Raise `Unavailable` for an error of a database that is away, full, read-only or too busy, and close a connection
    that is lost. Returns for any other error."""
    cause = error if isinstance(error, psycopg.Error) else error.__cause__
    # These two kinds of OperationalError leave the connection usable.
    if isinstance(cause, psycopg.errors.DiskFull):
        room.note_full()
        raise DiskFull(f"{room.FULL} Try again later.", retry_after=room.RETRY_SECONDS) from error
    if isinstance(cause, psycopg.errors.OutOfMemory):
        raise Unavailable("The database is out of memory; try again shortly.") from error
    lost = isinstance(cause, (psycopg.OperationalError, psycopg.InterfaceError)) and not isinstance(
        cause, (psycopg.errors.QueryCanceled, psycopg.errors.LockNotAvailable)
    )
    if isinstance(cause, psycopg.errors.ReadOnlySqlTransaction):
        room.note_only_reads()
        # Perhaps another server has become the primary: the next connection finds it.
        if not connection.in_atomic_block:
            connection.close()
        raise Unavailable(f"{room.ONLY_READS} Try again later.", retry_after=room.RETRY_SECONDS) from error
    if lost or isinstance(error, InterfaceError):  # an error that Django raises itself has no cause
        if not connection.in_atomic_block:
            connection.close()
        silent = isinstance(cause, (Overdue, psycopg.errors.ConnectionTimeout))
        raise Unavailable(UNANSWERED if silent else "The database is away; try again shortly.") from error
    if isinstance(cause, (psycopg.errors.QueryCanceled, psycopg.errors.LockNotAvailable)):
        raise Unavailable("The database is too busy; try again shortly.") from error


def lacking(error: BaseException) -> bool:
    """Whether the error is a missing table, column or function. Trying again does not help."""
    cause = error if isinstance(error, psycopg.Error) else error.__cause__
    missing = psycopg.errors
    return isinstance(cause, (missing.UndefinedTable, missing.UndefinedColumn, missing.UndefinedFunction))


def explained(error: BaseException) -> BaseException:
    """`Unavailable` for an error of Django or psycopg that means that the database is away, full or
    too busy; any other error as it is."""
    try:
        if isinstance(error, (psycopg.Error, DatabaseError, InterfaceError)):
            raise_for(error)
    except Unavailable as known:
        return known
    return error

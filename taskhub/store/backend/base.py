"""TaskHub's connections to Postgres: the module that Django imports for `ENGINE`.

The client sets a deadline for each statement. `statement_timeout` alone is not enough: the server enforces it, and a
frozen server never does, while its socket looks like that of a busy server. At the deadline the client closes the
connection. Whether the statement was executed is then unknown, as with any connection that breaks.
"""

from __future__ import annotations

import math
import re
import select
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from types import MappingProxyType
from typing import Any, Final, TypeVar

import psycopg
from django.db import OperationalError
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.backends.postgresql import base
from psycopg import IsolationLevel
from psycopg.abc import PQGen
from psycopg.adapt import AdaptersMap
from psycopg.errors import ConnectionTimeout
from psycopg.pq import TransactionStatus

from taskhub.lib.lanes import seconds_left
from taskhub.store import room
from taskhub.store.session import begin

R = TypeVar("R")

LEAST_SECONDS: Final = 2
"""The least `connect_timeout`: psycopg rounds lower values up to this."""
MORE_SECONDS = 2.0
"""Seconds from `statement_timeout` to the deadline, so that a server that is only slow cancels the statement itself and
keeps the connection."""
_TIMEOUT = re.compile(r"\s*(\d+(?:\.\d+)?)\s*(us|ms|s|min|h|d)?\s*")
_UNITS = {"us": 1e-6, None: 0.001, "ms": 0.001, "s": 1.0, "min": 60.0, "h": 3_600.0, "d": 86_400.0}


_unanswered = float("-inf")


class Overdue(psycopg.OperationalError):
    """There was no answer within the deadline, and the connection was closed."""


def unanswered() -> float:
    """The `time.monotonic` at which the database last left a statement, or an attempt to connect, without an answer."""
    return _unanswered


def note_unanswered() -> None:
    """Record that the database has just left a call without an answer."""
    global _unanswered
    _unanswered = time.monotonic()


class Punctual(psycopg.Connection[Any]):
    """A connection whose statements raise `Overdue` if there is no answer within `seconds`. With `None` there is no
    limit."""

    seconds: float | None = None
    overdue = False
    """Whether the connection was closed because a statement was not answered in time."""
    session: Mapping[str, str] = MappingProxyType({})
    """TaskHub's settings of this session, by name, as Postgres spells their values."""
    own_adapters: AdaptersMap
    """Django's adapters, except that psycopg's own loader, written in C, loads times. It returns them in the session's
    time zone, which Django sets to UTC. Django's loader, in Python, would replace the zone of each time."""
    waits_for_disk = True
    """Whether commits wait for the disk (`synchronous_commit`). Only the thread that sends hints turns it off
    (`domain/hints/announce.py`)."""

    def ended(self) -> bool:
        """Whether the connection was closed while it was idle: by `pg_terminate_backend`, a restart, a pooler or a
        firewall. Takes no round trip: Postgres sends nothing to an idle session, so if the socket is readable, the
        session has ended, or there is a notice, for which a new connection does no harm."""
        if self.closed:
            return not self.overdue
        if self.pgconn.transaction_status != TransactionStatus.IDLE:
            return False
        waiting = select.poll()
        waiting.register(self.pgconn.socket, select.POLLIN)
        return bool(waiting.poll(0))

    def wait(self, gen: PQGen[R], interval: float = 0.1, timeout: float | None = None) -> R:
        """See `psycopg.Connection.wait`, which every statement calls. Raises `Overdue` at the deadline."""
        if timeout is not None or self.seconds is None:
            return super().wait(gen, interval, timeout)
        try:
            return super().wait(gen, interval, self.seconds)
        except psycopg.errors._WaitTimeout as error:
            self.overdue = True
            note_unanswered()
            self.pgconn.finish()  # else a late answer would be read as the answer to the next statement
            raise Overdue(f"no answer within {self.seconds:g} s") from error


class Cursor(psycopg.RawCursor[tuple[Any, ...]]):
    """A cursor of a `Punctual` connection, for statements that do not go through Django."""

    @property
    def adapters(self) -> AdaptersMap:
        """See `Punctual.own_adapters`."""
        connection = self._conn
        return connection.own_adapters if isinstance(connection, Punctual) else connection.adapters


_TIMES: Any = psycopg.adapters.get_loader(psycopg.adapters.types["timestamptz"].oid, psycopg.pq.Format.TEXT)


def deadline(statement_timeout: str) -> float | None:
    """The deadline in seconds for a connection with this `statement_timeout`; `None` if that is off."""
    found = _TIMEOUT.fullmatch(statement_timeout)
    if found is None or not float(found[1]):
        return None
    return float(found[1]) * _UNITS[found[2]] + MORE_SECONDS


@contextmanager
def unhurried(wrapper: BaseDatabaseWrapper) -> Iterator[None]:
    """In the block, the statements of the open connection have no deadline: for work that also turns off
    `statement_timeout`."""
    wrapper.ensure_connection()
    connection: Punctual = wrapper.connection
    before, connection.seconds = connection.seconds, None
    try:
        yield
    finally:
        connection.seconds = before


class DatabaseWrapper(base.DatabaseWrapper):
    """Django's wrapper with `Punctual` connections, which have TaskHub's settings (`SESSION`). It replaces a connection
    that was closed while it was idle."""

    def get_new_connection(self, conn_params: dict[str, Any]) -> Punctual:
        """A connection with the settings of `SESSION`. Django's options for a pool and an isolation level are not
        supported, because TaskHub's settings cannot ask for them."""
        session: dict[str, str] = self.settings_dict["SESSION"]
        self.isolation_level = IsolationLevel.READ_COMMITTED
        given = {**conn_params, "connect_timeout": _patience(conn_params.get("connect_timeout"))}
        try:
            made = Punctual.connect(**given, autocommit=True)
        except ConnectionTimeout:
            note_unanswered()
            raise
        made.seconds = deadline(session["statement_timeout"])
        made.own_adapters = AdaptersMap(made.adapters)
        made.own_adapters.register_loader("timestamptz", _TIMES)
        try:
            made.session = begin(made, session)
        except BaseException:
            made.close()
            raise
        _note_writes(made)
        return made

    def ensure_connection(self) -> None:
        """Connect, if there is no open connection. Django calls this before every statement, and would still use a
        connection that was closed while idle."""
        raw: Punctual | None = self.connection
        if raw is not None and self.autocommit and not self.in_atomic_block and raw.ended():
            self.close()
        super().ensure_connection()

    def get_autocommit(self) -> bool:
        """Django's value, without connecting first: Django calls this before each request, where a failure to connect
        would not be handled."""
        return self.autocommit if self.connection is not None else super().get_autocommit()

    def is_usable(self) -> bool:
        """Whether the connection works. Raises `OperationalError` if the database does not answer, because a new
        connection would not help."""
        raw: Punctual = self.connection
        usable = super().is_usable()
        if raw.overdue:
            raise OperationalError("no answer to the health check") from Overdue()
        return usable


def _note_writes(made: Punctual) -> None:
    """Note whether this session accepts writes, which Postgres reports at the start of a session."""
    reported = {made.pgconn.parameter_status(name) for name in (b"default_transaction_read_only", b"in_hot_standby")}
    if b"on" in reported:
        room.note_only_reads()
    elif None not in reported:  # a pooler may not pass these parameters on
        room.note_writes()


def _patience(given: Any) -> Any:
    """The `connect_timeout` in seconds: as set, but at most the time until the caller stops waiting."""
    left = seconds_left()
    if left == math.inf:
        return given
    try:
        wanted = int(float(given))
    except (TypeError, ValueError):
        return given  # psycopg reports what is wrong with it
    most = max(LEAST_SECONDS, int(left))
    return min(wanted, most) if wanted > 0 else most

"""Our connections to Postgres: the module that Django looks for behind `ENGINE`.

Each statement has a deadline in the client. `statement_timeout` runs in the server: one that is frozen never fires it,
and neither TCP nor a unix socket can tell it from a server that is computing. A statement that is not answered within
the deadline ends here, with its connection. Whether it was carried out is then unknown, as with any connection that
breaks.
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
"""The least time to make a connection: psycopg rounds anything less up to this."""
MORE_SECONDS = 2.0
"""How much later than `statement_timeout` the deadline is: a server that is only slow refuses the statement itself, and
the connection stays."""
_TIMEOUT = re.compile(r"\s*(\d+(?:\.\d+)?)\s*(us|ms|s|min|h|d)?\s*")
_UNITS = {"us": 1e-6, None: 0.001, "ms": 0.001, "s": 1.0, "min": 60.0, "h": 3_600.0, "d": 86_400.0}


_unanswered = float("-inf")


class Overdue(psycopg.OperationalError):
    """There was no answer within the deadline, and the connection was closed."""


def unanswered() -> float:
    """When the database last left a statement or an attempt to connect without an answer, by `time.monotonic`."""
    return _unanswered


def note_unanswered() -> None:
    """Record that the database has just left a call without an answer."""
    global _unanswered
    _unanswered = time.monotonic()


class Punctual(psycopg.Connection[Any]):
    """A connection each of whose statements is answered within `seconds`, or raises `Overdue`."""

    seconds: float | None = None
    overdue = False
    """Whether it was closed because a statement was not answered in time."""
    session: Mapping[str, str] = MappingProxyType({})
    """Our settings in this session, as Postgres spells them."""
    own_adapters: AdaptersMap
    """Django's, but times are read by psycopg, in C, in the zone of the session, which Django sets to UTC. Django's own
    loader sets the zone of each in Python."""
    waits_for_disk = True
    """Whether its commits do. Only the thread that announces hints turns it off (`domain/hints/announce.py`)."""

    def ended(self) -> bool:
        """Whether the server has closed it while it was idle: `pg_terminate_backend`, a restart, a pooler or a
        firewall in between. It costs no round trip: an idle session is sent nothing, so if there is something to read,
        the session has ended, or it is a notice that a new connection does not need."""
        if self.closed:
            return not self.overdue
        if self.pgconn.transaction_status != TransactionStatus.IDLE:
            return False
        waiting = select.poll()
        waiting.register(self.pgconn.socket, select.POLLIN)
        return bool(waiting.poll(0))

    def wait(self, gen: PQGen[R], interval: float = 0.1, timeout: float | None = None) -> R:
        """See `psycopg.Connection.wait`: every statement passes here."""
        if timeout is not None or self.seconds is None:
            return super().wait(gen, interval, timeout)
        try:
            return super().wait(gen, interval, self.seconds)
        except psycopg.errors._WaitTimeout as error:
            self.overdue = True
            note_unanswered()
            self.pgconn.finish()  # a late answer would be taken for that of the next statement
            raise Overdue(f"no answer within {self.seconds:g} s") from error


class Cursor(psycopg.RawCursor[tuple[Any, ...]]):
    """A cursor of a `Punctual` connection for statements of ours."""

    @property
    def adapters(self) -> AdaptersMap:
        """See `Punctual.own_adapters`."""
        connection = self._conn
        return connection.own_adapters if isinstance(connection, Punctual) else connection.adapters


_TIMES: Any = psycopg.adapters.get_loader(psycopg.adapters.types["timestamptz"].oid, psycopg.pq.Format.TEXT)


def deadline(statement_timeout: str) -> float | None:
    """The deadline in seconds for a connection with this setting; `None` if the server has no limit either."""
    found = _TIMEOUT.fullmatch(statement_timeout)
    if found is None or not float(found[1]):
        return None
    return float(found[1]) * _UNITS[found[2]] + MORE_SECONDS


@contextmanager
def unhurried(wrapper: BaseDatabaseWrapper) -> Iterator[None]:
    """No deadline for the statements in this block, on the open connection: for work that also lifts
    `statement_timeout`."""
    wrapper.ensure_connection()
    connection: Punctual = wrapper.connection
    before, connection.seconds = connection.seconds, None
    try:
        yield
    finally:
        connection.seconds = before


class DatabaseWrapper(base.DatabaseWrapper):
    """Django's own, with connections of the class `Punctual`, with our settings, and which replaces a connection that
    was closed while it was idle."""

    def get_new_connection(self, conn_params: dict[str, Any]) -> Punctual:
        """A connection with the settings of `SESSION`. Django's pool and isolation levels are left out: our settings
        have no way to ask for them."""
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
        """As Django's own, which assumes that an open connection is usable. Every statement begins here."""
        raw: Punctual | None = self.connection
        if raw is not None and self.autocommit and not self.in_atomic_block and raw.ended():
            self.close()
        super().ensure_connection()

    def get_autocommit(self) -> bool:
        """As Django's own, without making a connection first: Django calls this before each request, where a failure to
        connect would not be handled."""
        return self.autocommit if self.connection is not None else super().get_autocommit()

    def is_usable(self) -> bool:
        """As Django's own, but raises when the database does not answer: a new connection would not help."""
        raw: Punctual = self.connection
        usable = super().is_usable()
        if raw.overdue:
            raise OperationalError("no answer to the health check") from Overdue()
        return usable


def _note_writes(made: Punctual) -> None:
    """Note whether this session accepts writes, which Postgres reports at the start of each."""
    reported = {made.pgconn.parameter_status(name) for name in (b"default_transaction_read_only", b"in_hot_standby")}
    if b"on" in reported:
        room.note_only_reads()
    elif None not in reported:  # a pooler may not pass it on
        room.note_writes()


def _patience(given: Any) -> Any:
    """The seconds to make a connection: as set, but no more than the caller has left."""
    left = seconds_left()
    if left == math.inf:
        return given
    try:
        wanted = int(float(given))
    except (TypeError, ValueError):
        return given  # psycopg reports what is wrong with it
    most = max(LEAST_SECONDS, int(left))
    return min(wanted, most) if wanted > 0 else most

"""A deadline in the client for every statement.

`statement_timeout` runs in the server: one that is frozen never fires it, and neither TCP nor a unix socket
tells that from a server that thinks. A statement that is not answered within the deadline ends here, with its
connection; whether it was carried out is then unknown, as with any connection that breaks.
"""

from __future__ import annotations

import re
import select
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from types import MappingProxyType
from typing import Any, TypeVar

import psycopg
from django.db.backends.base.base import BaseDatabaseWrapper
from psycopg.abc import PQGen
from psycopg.pq import TransactionStatus

R = TypeVar("R")

MORE_SECONDS = 2.0
"""So much later than `statement_timeout`: a server that is only slow says so itself, and keeps its connection."""
_TIMEOUT = re.compile(r"\s*(\d+(?:\.\d+)?)\s*(us|ms|s|min|h|d)?\s*")
_UNITS = {"us": 1e-6, None: 0.001, "ms": 0.001, "s": 1.0, "min": 60.0, "h": 3_600.0, "d": 86_400.0}


_unanswered = float("-inf")


class Overdue(psycopg.OperationalError):
    """No answer within the deadline; the connection is gone."""


def unanswered() -> float:
    """When last the database left a statement, or a connection that was to be made, without an answer, by
    `time.monotonic`."""
    return _unanswered


def note_unanswered() -> None:
    """The database has just left a call without an answer."""
    global _unanswered
    _unanswered = time.monotonic()


class Punctual(psycopg.Connection[Any]):
    """A connection each of whose statements is answered within `seconds`, or raises `Overdue`."""

    seconds: float | None = None
    overdue = False
    """Whether it ended so."""
    session: Mapping[str, str] = MappingProxyType({})
    """Its settings as they were set, in the spelling of Postgres."""
    waits_for_disk = True
    """Whether its commits do; only who announces says otherwise (`domain/hints/announce.py`)."""

    def ended(self) -> bool:
        """Whether the server has ended it while nothing was asked of it: `pg_terminate_backend`, a restart, a pooler
        or a firewall in between. No round trip: who waits to be asked has nothing to say, so that there is
        something to read means an end, or nothing that a new connection would miss."""
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
            self.pgconn.finish()  # its answer may still come, and would be taken for the next one's
            raise Overdue(f"no answer within {self.seconds:g} s") from error


def deadline(statement_timeout: str) -> float | None:
    """The seconds for a connection with this setting; none where the server has no limit either."""
    found = _TIMEOUT.fullmatch(statement_timeout)
    if found is None or not float(found[1]):
        return None
    return float(found[1]) * _UNITS[found[2]] + MORE_SECONDS


@contextmanager
def unhurried(wrapper: BaseDatabaseWrapper) -> Iterator[None]:
    """No deadline for the statements within, on the connection that is open: for what lifts
    `statement_timeout` as well."""
    wrapper.ensure_connection()
    connection: Punctual = wrapper.connection
    before, connection.seconds = connection.seconds, None
    try:
        yield
    finally:
        connection.seconds = before

"""The module that Django looks for behind `ENGINE`."""

from __future__ import annotations

import math
from typing import Any, Final

from django.db import OperationalError
from django.db.backends.postgresql import base
from psycopg import IsolationLevel
from psycopg.errors import ConnectionTimeout

from taskhub.lib.lanes import seconds_left
from taskhub.store import room
from taskhub.store.deadline import Overdue, Punctual, deadline, note_unanswered
from taskhub.store.session import begin

LEAST_SECONDS: Final = 2
"""To make a connection: psycopg takes less for this."""


class DatabaseWrapper(base.DatabaseWrapper):
    """Django's own, but for the class of its connections, their settings, and that one which ended while nobody used
    it is replaced."""

    def get_new_connection(self, conn_params: dict[str, Any]) -> Punctual:
        """With the settings of `SESSION`. Without Django's pool and isolation levels, which our settings cannot ask
        for."""
        session: dict[str, str] = self.settings_dict["SESSION"]
        self.isolation_level = IsolationLevel.READ_COMMITTED
        given = {**conn_params, "connect_timeout": _patience(conn_params.get("connect_timeout"))}
        try:
            made = Punctual.connect(**given, autocommit=True)
        except ConnectionTimeout:
            note_unanswered()
            raise
        made.seconds = deadline(session["statement_timeout"])
        try:
            made.session = begin(made, session)
        except BaseException:
            made.close()
            raise
        _note_writes(made)
        return made

    def ensure_connection(self) -> None:
        """As Django's own, which takes any connection for a good one. Every statement begins here."""
        raw: Punctual | None = self.connection
        if raw is not None and self.autocommit and not self.in_atomic_block and raw.ended():
            self.close()
        super().ensure_connection()

    def get_autocommit(self) -> bool:
        """As Django's own, but does not look at the connection that it is about: Django asks before each request, where
        nobody would know what to do if a new one could not be made."""
        return self.autocommit if self.connection is not None else super().get_autocommit()

    def is_usable(self) -> bool:
        """As Django's own, but raises when the database does not answer: a new connection would not help."""
        raw: Punctual = self.connection
        usable = super().is_usable()
        if raw.overdue:
            raise OperationalError("no answer to the health check") from Overdue()
        return usable


def _note_writes(made: Punctual) -> None:
    """Whether this session takes writes, as Postgres reports it with each connection."""
    reported = {made.pgconn.parameter_status(name) for name in (b"default_transaction_read_only", b"in_hot_standby")}
    if b"on" in reported:
        room.note_only_reads()
    elif None not in reported:  # a pooler may keep it to itself
        room.note_writes()


def _patience(given: Any) -> Any:
    """The seconds to make a connection: as they are set, and no more than the caller has left."""
    left = seconds_left()
    if left == math.inf:
        return given
    try:
        wanted = int(float(given))
    except (TypeError, ValueError):
        return given  # psycopg says what is wrong with it
    most = max(LEAST_SECONDS, int(left))
    return min(wanted, most) if wanted > 0 else most

"""TaskHub's Postgres settings of each session: set in one round trip, right after it has begun.

They are not sent as startup options, because PgBouncer refuses those, or drops them if it is told to ignore them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import psycopg
from django.conf import settings
from django.db import DEFAULT_DB_ALIAS, connection, connections
from django.db.backends.base.base import BaseDatabaseWrapper


def wanted() -> Mapping[str, str]:
    """The settings by name: TaskHub's, overridden by `options=` in DATABASE_URL (`config/env.py`)."""
    database: dict[str, Any] = settings.DATABASES[DEFAULT_DB_ALIAS]
    session: dict[str, str] = database["SESSION"]
    return session


def begin(raw: psycopg.Connection[Any], session: Mapping[str, str]) -> dict[str, str]:
    """Set the settings `session` on a connection in autocommit. Returns them as Postgres spells their values."""
    found = raw.execute(*_setting(session)).fetchone()
    return dict(zip(session, found or (), strict=True))


async def begin_async(raw: psycopg.AsyncConnection[Any]) -> None:
    """Set the settings `wanted()` on a connection that is in no transaction."""
    autocommit = raw.autocommit
    await raw.set_autocommit(True)
    await raw.execute(*_setting(wanted()))
    await raw.set_autocommit(autocommit)


def begun() -> Mapping[str, str]:
    """TaskHub's settings of Django's current session, as Postgres spelled them when they were set."""
    connection.ensure_connection()
    session: Mapping[str, str] = connection.connection.session
    return session


def _setting(session: Mapping[str, str]) -> tuple[bytes, list[str]]:
    each = b", ".join([b"set_config(%s, %s, false)"] * len(session))
    return b"SELECT " + each, [part for setting in session.items() for part in setting]


def found(names: list[str]) -> dict[str, str]:
    """The current values of these settings in this session, by name; an empty string for an unknown setting."""
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT n.name, coalesce(current_setting(n.name, true), '') FROM unnest(%s::text[]) AS n (name)", [names]
        )
        return dict(cursor.fetchall())


def is_shared() -> bool:
    """Whether a pooler in front of Postgres gives each transaction any free session, as PgBouncer does except with
    `pool_mode = session`. Settings, prepared statements and `LISTEN` would then end up in other sessions."""
    other = connections.create_connection(DEFAULT_DB_ALIAS)
    try:
        pids = [(_pid(connection), _pid(other)) for _ in range(3)]
    finally:
        other.close()
    ours, theirs = map(set, zip(*pids, strict=True))
    return len(ours) > 1 or len(theirs) > 1 or ours == theirs


def _pid(wrapper: BaseDatabaseWrapper) -> int:
    # The server is asked, because the driver only knows the id that PgBouncer reported.
    with wrapper.cursor() as cursor:
        cursor.execute("SELECT pg_backend_pid()")
        return int(cursor.fetchone()[0])

"""Empties the database after a test that commits. Django's own flush is refused: the audit tables
are append-only and refuse TRUNCATE, as they should. So a superuser does it, past the triggers."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

import psycopg
import pytest
from django.apps import apps
from django.db import connection
from django.test import TransactionTestCase
from psycopg import sql

_KEPT = {"django_content_type", "auth_permission", "django_migrations"}
"""Filled by migrations; tests do not touch them."""

_UNMANAGED = ["procrastinate_events", "procrastinate_periodic_defers", "procrastinate_jobs"]

_LARGE = 1024 * 1024
"""The bytes of a table from which on the room of its deleted rows costs more than an empty file for each table."""


def superuser(**options: Any) -> psycopg.Connection[Any]:
    """A connection to the test database as `postgres`."""
    return psycopg.connect(
        host=os.environ["TASKHUB_TEST_SUPERUSER_HOST"],
        user="postgres",
        dbname=str(connection.settings_dict["NAME"]),
        **options,
    )


def flush_everything() -> None:
    """Delete all rows of all tables."""
    tables = [
        sql.Identifier(table)
        for table in (
            *_UNMANAGED,
            *(model._meta.db_table for model in apps.get_models(include_auto_created=True) if model._meta.managed),
        )
        if table not in _KEPT
    ]
    looked = sql.SQL("SELECT {}, EXISTS (SELECT FROM {}), pg_relation_size({})")
    every = sql.SQL(" UNION ALL ").join(looked.format(name.as_string(), name, name.as_string()) for name in tables)
    try:
        _flush(tables, every)
    except psycopg.OperationalError:  # tests end connections, this one among them
        _flush(tables, every)


_raw: psycopg.Connection[Any] | None = None
"""The connection of `flush_everything`, kept: a new one reads of each table anew what it is, which takes longer than
all else of an emptying."""


def _flush(tables: list[sql.Identifier], looked: sql.Composed) -> None:
    global _raw
    if _raw is None or _raw.closed:
        _raw = superuser(autocommit=True)
        _raw.execute("SET session_replication_role = replica")
    with _raw.transaction():
        rows = _raw.execute(looked, prepare=True).fetchall()
        if any(size > _LARGE for _, _, size in rows):
            _raw.execute(sql.SQL("TRUNCATE {}").format(sql.SQL(", ").join(tables)))
        else:
            for table in [table for table, filled, _ in rows if filled]:
                _raw.execute(f"DELETE FROM {table}")


@pytest.fixture(scope="session", autouse=True)
def _flush_past_the_guards(django_db_setup: None, django_db_blocker: Any) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        # Instead of the whole of Django's, which then makes all content types and permissions anew.
        patch.setattr(TransactionTestCase, "_fixture_teardown", lambda self: flush_everything())
        yield
    if _raw is not None:
        _raw.close()
    # The hints' thread never ends and keeps its connection; the database could not be dropped.
    with superuser(autocommit=True) as raw:
        raw.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
            " WHERE datname = current_database() AND pid <> pg_backend_pid()"
        )

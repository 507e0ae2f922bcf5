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
from django.db.backends.postgresql.operations import DatabaseOperations
from psycopg import sql

_KEPT = {"django_content_type", "auth_permission", "django_migrations"}
"""Filled by migrations; tests do not touch them."""

_UNMANAGED = ["procrastinate_events", "procrastinate_periodic_defers", "procrastinate_jobs"]


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
    tables = [model._meta.db_table for model in apps.get_models(include_auto_created=True) if model._meta.managed]
    with superuser() as raw:
        raw.execute("SET session_replication_role = replica")
        for table in [*_UNMANAGED, *tables]:
            if table not in _KEPT:
                raw.execute(sql.SQL("DELETE FROM {}").format(sql.Identifier(table)))


@pytest.fixture(scope="session", autouse=True)
def _flush_past_the_guards(django_db_setup: None, django_db_blocker: Any) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(DatabaseOperations, "execute_sql_flush", lambda self, sql_list: flush_everything())
        yield
    # The hints' thread never ends and keeps its connection; the database could not be dropped.
    with superuser(autocommit=True) as raw:
        raw.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
            " WHERE datname = current_database() AND pid <> pg_backend_pid()"
        )

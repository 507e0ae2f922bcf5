"""How many rows of a table some work looks at, as Postgres itself counts them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from django.db import connection, transaction


def rows_looked_at(table: str, work: Callable[[], object]) -> int:
    """Rows of `table` that `work` made Postgres visit, by whole scans and through indexes, those that a
    filter then threw away included. All of `work` must run on this connection."""
    with transaction.atomic(), connection.cursor() as cursor:
        before = _visited(cursor, table)
        work()
        return _visited(cursor, table) - before


def _visited(cursor: Any, table: str) -> int:
    cursor.execute(
        "SELECT coalesce(seq_tup_read, 0) + coalesce(idx_tup_fetch, 0) FROM pg_stat_xact_user_tables"
        " WHERE relname = %s",
        [table],
    )
    return int(cursor.fetchone()[0])

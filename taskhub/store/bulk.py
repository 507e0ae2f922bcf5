"""For the made-up history of a demo alone: inserting tasks past their guards, and vacuuming after many rows."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from django.db import connection, transaction

from taskhub.store.backend.base import unhurried

_GUARDS: Final = ("task_guard", "task_record_new")
"""A task is born queued and recorded now: history is neither. What is checked at the commit stays on."""

_FILLED: Final = ("task", "event", "attempt", "question", "decision", "task_log", "seal")


@contextmanager
def tasks_as_given() -> Iterator[None]:
    """A transaction that inserts tasks as they are given, and writes their events itself.

    The guards are off for no other transaction: until the commit, when they are on again, others can read tasks but
    not write them."""
    with transaction.atomic(), connection.cursor() as cursor:
        for guard in _GUARDS:
            cursor.execute(f"ALTER TABLE task DISABLE TRIGGER {guard}")
        yield
        # Now, not at the commit: a table with pending checks cannot be altered.
        cursor.execute("SET CONSTRAINTS ALL IMMEDIATE")
        for guard in _GUARDS:
            cursor.execute(f"ALTER TABLE task ENABLE TRIGGER {guard}")


def tidy() -> None:
    """Vacuum and analyze, as autovacuum would do later, so that plans made from now on are for all the rows."""
    with unhurried(connection), connection.cursor() as cursor:
        cursor.execute("SET statement_timeout = 0")
        try:
            for table in _FILLED:
                cursor.execute(f"VACUUM (ANALYZE) {table}")
        finally:
            cursor.execute("RESET statement_timeout")

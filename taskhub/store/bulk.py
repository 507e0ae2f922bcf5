"""What only whoever makes up a whole history may do: write past a guard, and tidy up after many rows."""

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

    The guards are off for nobody else: until the commit, which finds them on again, others can read tasks and not
    write them."""
    with transaction.atomic(), connection.cursor() as cursor:
        for guard in _GUARDS:
            cursor.execute(f"ALTER TABLE task DISABLE TRIGGER {guard}")
        yield
        # Now, not at the commit: a table with checks to come cannot be altered.
        cursor.execute("SET CONSTRAINTS ALL IMMEDIATE")
        for guard in _GUARDS:
            cursor.execute(f"ALTER TABLE task ENABLE TRIGGER {guard}")


def tidy() -> None:
    """What autovacuum would do in its own time: what is planned from now on knows of all the rows."""
    with unhurried(connection), connection.cursor() as cursor:
        cursor.execute("SET statement_timeout = 0")
        try:
            for table in _FILLED:
                cursor.execute(f"VACUUM (ANALYZE) {table}")
        finally:
            cursor.execute("RESET statement_timeout")

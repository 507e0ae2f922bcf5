"""Inserts the generated history of a demo, bypassing the guards of tasks, and vacuums afterwards. Use it for nothing
else."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from django.db import connection, transaction

from taskhub.store.backend.base import unhurried

_GUARDS: Final = ("task_guard", "task_record_new")
"""The triggers that require a new task to be queued, and record its creation with the time of the insert. A generated
history needs neither. Constraint triggers, which run at the commit, stay enabled."""

_FILLED: Final = ("task", "event", "attempt", "question", "decision", "task_log", "seal")


@contextmanager
def tasks_as_given() -> Iterator[None]:
    """A transaction that may insert tasks in any state, and has to write their events itself.

    Other transactions never see the guards disabled: until the commit, which enables them again, they can read tasks
    but not write them."""
    with transaction.atomic(), connection.cursor() as cursor:
        for guard in _GUARDS:
            cursor.execute(f"ALTER TABLE task DISABLE TRIGGER {guard}")
        yield
        # Deferred checks run now and not at the commit: a table with pending ones cannot be altered.
        cursor.execute("SET CONSTRAINTS ALL IMMEDIATE")
        for guard in _GUARDS:
            cursor.execute(f"ALTER TABLE task ENABLE TRIGGER {guard}")


def tidy() -> None:
    """Vacuum and analyze, as autovacuum would do later, so that new plans are made for all the rows."""
    with unhurried(connection), connection.cursor() as cursor:
        cursor.execute("SET statement_timeout = 0")
        try:
            for table in _FILLED:
                cursor.execute(f"VACUUM (ANALYZE) {table}")
        finally:
            cursor.execute("RESET statement_timeout")

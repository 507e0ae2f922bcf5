"""What the tests of reads share: a clock that is turned, and a count of what goes over the wire."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path

from django.db import connection

_STATEMENT = re.compile(r"F\t\d+\t(?:Query|Execute)\t")


def statements(work: Callable[[], object]) -> int:
    """How many statements `work` sends to Postgres, read off the protocol itself: the hot reads use
    the driver's cursor, which Django's own count never sees."""
    connection.ensure_connection()
    wire = connection.connection.pgconn
    with tempfile.NamedTemporaryFile() as trace:
        wire.trace(trace.fileno())
        try:
            work()
        finally:
            wire.untrace()
        return len(_STATEMENT.findall(Path(trace.name).read_text(errors="replace")))


@contextmanager
def past_the_guards() -> Iterator[None]:
    """Statements inside meet no trigger of `task`: for ages that no test could wait for. Undone with
    the test's transaction."""
    with connection.cursor() as cursor:
        cursor.execute("SET CONSTRAINTS ALL IMMEDIATE; ALTER TABLE task DISABLE TRIGGER USER")
        yield
        cursor.execute("ALTER TABLE task ENABLE TRIGGER USER; SET CONSTRAINTS ALL DEFERRED")


def make_old(ages: Mapping[int, timedelta]) -> None:
    """Each task was made, and ended if it has, that long ago."""
    with past_the_guards(), connection.cursor() as cursor:
        cursor.executemany(
            "UPDATE task t SET created_at = w.at, ended_at = CASE WHEN t.ended_at IS NOT NULL THEN w.at END"
            " FROM (SELECT clock_timestamp() - make_interval(secs => %s) AS at) w WHERE t.id = %s",
            [(age.total_seconds(), task_id) for task_id, age in ages.items()],
        )

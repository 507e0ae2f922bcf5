"""Chores in a row: one that fails is told of, and stops no other."""

from __future__ import annotations

import logging

import psycopg
import pytest
from django.db import OperationalError

from taskhub.store.chores import ChoresFailed, run_each


def test_every_chore_has_its_turn_and_each_failure_is_logged_and_named(caplog: pytest.LogCaptureFixture) -> None:
    done = []

    def fails() -> None:
        raise OSError("no room")

    with pytest.raises(ChoresFailed, match=r"^first, third$"):
        run_each({"first": fails, "second": lambda: done.append(2), "third": fails, "fourth": lambda: done.append(4)})
    assert done == [2, 4]
    assert [record.getMessage().partition(":")[0] for record in caplog.records] == ["first", "third"]
    assert all("no room" in str(record.exc_info) for record in caplog.records)


@pytest.mark.django_db
def test_a_database_that_is_away_is_a_line_and_the_chore_has_failed(caplog: pytest.LogCaptureFixture) -> None:
    def fails() -> None:
        raise OperationalError("connection failed") from psycopg.OperationalError("connection failed")

    with pytest.raises(ChoresFailed, match=r"^sweeping$"):
        run_each({"sweeping": fails})
    [record] = caplog.records
    assert (record.levelno, record.exc_info) == (logging.WARNING, None)
    assert record.getMessage() == "sweeping: The database is away; try again shortly."


def test_nothing_is_raised_where_nothing_fails() -> None:
    run_each({"one": lambda: None})

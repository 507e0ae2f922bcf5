"""Chores in a row: one that fails is told of, and stops no other."""

from __future__ import annotations

import pytest

from taskhub.lib.chores import ChoresFailed, run_each


def test_every_chore_has_its_turn_and_each_failure_is_logged_and_named(caplog: pytest.LogCaptureFixture) -> None:
    done = []

    def fails() -> None:
        raise OSError("no room")

    with pytest.raises(ChoresFailed, match=r"^first, third$"):
        run_each({"first": fails, "second": lambda: done.append(2), "third": fails, "fourth": lambda: done.append(4)})
    assert done == [2, 4]
    assert [record.getMessage().partition(":")[0] for record in caplog.records] == ["first", "third"]
    assert all("no room" in str(record.exc_info) for record in caplog.records)


def test_nothing_is_raised_where_nothing_fails() -> None:
    run_each({"one": lambda: None})

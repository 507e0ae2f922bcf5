"""The guards of deferred calls: rows by straight SQL, as the application's role."""

from __future__ import annotations

from typing import Any

import pytest

from taskhub.core.states import State
from tests.store import raw as sql
from tests.store.raw import Raw, refused, violates


def deferred_call(raw: Raw, **values: Any) -> int:
    """A task that its server runs, as `defer_task` leaves it."""
    of = sql.owner(raw)
    task = sql.task(raw, of, state=State.WORKING)
    raw.execute("UPDATE task SET lease_until = 'infinity', worker = '' WHERE id = %s", (task,))
    given = {
        "task_id": task,
        "epoch": 1,
        "server_id": of.server,
        "upstream_id": "up",
        "revision": "2026-07-28",
        **values,
    }
    columns = ", ".join(given)
    raw.execute(
        f"INSERT INTO deferred ({columns}, poll_at) VALUES ({', '.join(['%s'] * len(given))}, now())",
        list(given.values()),
    )
    return task


def commit(raw: Raw) -> None:
    """Make the checks of a commit."""
    raw.execute("SET CONSTRAINTS ALL IMMEDIATE")


def test_a_lease_without_end_is_that_of_a_deferred_call(raw: Raw) -> None:
    deferred_call(raw)
    commit(raw)
    alone = sql.task(raw, state=State.WORKING)
    with refused("TH011"):
        raw.execute("UPDATE task SET lease_until = 'infinity', worker = '' WHERE id = %s", (alone,))


def test_a_deferred_call_is_that_of_a_task_without_a_worker(raw: Raw) -> None:
    task = deferred_call(raw)
    raw.execute("UPDATE task SET worker = 'w', lease_until = now() WHERE id = %s", (task,))
    with refused("TH011"):
        commit(raw)


def test_a_live_task_is_polled_until_it_ends(raw: Raw) -> None:
    task = deferred_call(raw)
    commit(raw)
    with refused("TH011"):
        raw.execute("UPDATE deferred SET poll_at = NULL, status = 'completed' WHERE task_id = %s", (task,))


@pytest.mark.parametrize(
    "change",
    [
        "upstream_id = 'other'",
        "epoch = epoch + 1",
        "server_id = server_id + 1",
        "revision = '2025-11-25'",
        "home = 'w'",
        "turn = turn + 2",
    ],
)
def test_which_task_of_which_server_it_is_never_changes(raw: Raw, change: str) -> None:
    task = deferred_call(raw)
    with refused("TH011"):
        raw.execute(f"UPDATE deferred SET {change} WHERE task_id = {task}")


def test_a_deferred_call_that_is_over_stays_as_it_is_and_goes_with_its_task(raw: Raw) -> None:
    task = deferred_call(raw)
    sql.move(raw, task, State.FINISHED)
    commit(raw)
    row = raw.execute("SELECT status, poll_at FROM deferred WHERE task_id = %s", (task,)).fetchone()
    assert row == ("completed", None)
    with raw.transaction(force_rollback=True), refused("TH011"):
        raw.execute("UPDATE deferred SET turn = turn + 1 WHERE task_id = %s", (task,))
    with raw.transaction(force_rollback=True), refused("TH008"):
        raw.execute("DELETE FROM deferred WHERE task_id = %s", (task,))
    raw.execute("DELETE FROM task WHERE id = %s", (task,))
    assert raw.execute("SELECT count(*) FROM deferred").fetchone() == (0,)


@pytest.mark.parametrize(
    ("constraint", "values"),
    [
        ("deferred_has_an_id", {"upstream_id": ""}),
        ("deferred_poll_range", {"poll_ms": 99}),
        ("deferred_poll_range", {"poll_ms": 60_001}),
        ("deferred_polled_until_over", {"status": "completed"}),
    ],
)
def test_a_check_of_a_deferred_call_holds(raw: Raw, constraint: str, values: dict[str, Any]) -> None:
    with violates(constraint):
        deferred_call(raw, **values)

"""Reads of single tasks, as the wire needs them."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

from taskhub.core.records import Audience, OpenQuestion, QuestionKind, State, StoredLine, TaskRecord
from taskhub.store import call

COLUMNS = (
    "id, public_id, revision, state, message, progress, total, created_at, updated_at, ended_at, ttl_ms,"
    " poll_interval_ms, result, error, is_error, cancel_requested_at, version, tool_name, open_questions,"
    " session_id, progress_token, handle, client_task_id, keep_ms"
)
_BY_OWNER = f"SELECT {COLUMNS}, expires_at FROM task_view WHERE public_id = %s AND context_id = %s"
PAGE = 100
"""Log lines read at once."""

_MANY_BY_OWNER = (
    f"SELECT {', '.join('v.' + c.strip() for c in COLUMNS.split(','))}, v.expires_at, w.place"
    " FROM unnest(%s::text[], %s::bigint[]) WITH ORDINALITY AS w(public_id, context_id, place)"
    # LIMIT keeps this a look-up by key per id, also in a plan that was made on an empty table.
    " CROSS JOIN LATERAL (SELECT * FROM task_view t WHERE t.public_id = w.public_id"
    " AND t.context_id = w.context_id LIMIT 1) v"
)
_BY_ID = f"SELECT {COLUMNS} FROM task_view WHERE id = %s"
_BY_TENANT = f"SELECT {COLUMNS} FROM task_view WHERE public_id = %s AND tenant_id = %s"


def owned_task(context_id: int, public_id: str) -> TaskRecord | None:
    """The task, if it belongs to the context and the wire has not forgotten it: an ended task
    past its ttl is gone for its owner, though the console still keeps it."""
    found = call.reread(_BY_OWNER, (public_id, context_id))
    if not found:
        return None
    row = found[0]
    task = record(row[:-1])
    expires_at = row[-1]
    if task.ended_at is not None and expires_at is not None and expires_at < datetime.now(UTC):
        return None
    return task


def owned_tasks(wanted: Sequence[tuple[int, str]]) -> list[TaskRecord | None]:
    """`owned_task` for many (context id, public id) pairs in one round trip, in their order."""
    found = call.reread(
        _MANY_BY_OWNER, ([public_id for _, public_id in wanted], [context_id for context_id, _ in wanted])
    )
    now = datetime.now(UTC)
    answers: list[TaskRecord | None] = [None] * len(wanted)
    for row in found:
        task = record(row[:-2])
        expires_at, place = row[-2:]
        if task.ended_at is None or expires_at is None or expires_at >= now:
            answers[place - 1] = task
    return answers


def task_by_id(task_id: int) -> TaskRecord | None:
    """The task, whoever owns it: for callers that have checked."""
    found = call.reread(_BY_ID, (task_id,))
    return record(found[0]) if found else None


def tenant_task(tenant_id: int, public_id: str) -> TaskRecord | None:
    """The task, if it belongs to the tenant."""
    found = call.reread(_BY_TENANT, (public_id, tenant_id))
    return record(found[0]) if found else None


def lines_after(task_id: int, line_id: int, limit: int = PAGE) -> list[StoredLine]:
    """Log lines of a task with ids above `line_id`, oldest first."""
    found = call.reread(
        "SELECT id, level, text, progress, total, at FROM task_log WHERE task_id = %s AND id > %s ORDER BY id LIMIT %s",
        (task_id, line_id, limit),
    )
    return [StoredLine(*row) for row in found]


def record(row: tuple[Any, ...]) -> TaskRecord:
    """A `task_view` row in the order of `COLUMNS`."""
    return TaskRecord(
        id=row[0],
        public_id=row[1],
        revision=row[2],
        state=State(row[3]),
        message=row[4],
        progress=row[5],
        total=row[6],
        created_at=row[7],
        updated_at=row[8],
        ended_at=row[9],
        ttl_ms=row[10],
        poll_interval_ms=row[11],
        result_json=row[12],
        error_json=row[13],
        is_error=row[14],
        cancel_requested_at=row[15],
        version=row[16],
        tool_name=row[17],
        questions=tuple(
            OpenQuestion(
                key=q["key"],
                kind=QuestionKind(q["kind"]),
                params=q["params"],
                audience=Audience(q["audience"]),
                group=q["group"],
                quorum=q["quorum"],
                approvals=q["approvals"],
                id=q["id"],
            )
            for q in row[18] or ()
        ),
        session_id=row[19],
        progress_token=row[20],
        handle=row[21],
        client_task_id=row[22],
        keep_ms=row[23],
    )

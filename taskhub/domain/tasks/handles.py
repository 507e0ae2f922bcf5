"""Tasks as the 2025 revisions look them up: by handle, session and idempotency key."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from django.db import transaction

from taskhub.core.records import Actor, TaskRecord
from taskhub.domain.audit.record import record_event
from taskhub.store import statements

LOOKED_AT = 500
"""How many of a client's newest tasks `tasks/list` searches for a page. Only if they do not fill the page, another
index is used."""

_ASKING = statements.many("asking_tasks", TaskRecord)
_KEYED = statements.maybe("keyed_task", TaskRecord)
_CHANGED = statements.many("changed_tasks", tuple[TaskRecord, bool])
_HANDED_OUT = statements.many("handed_out", TaskRecord)
_HANDED_OUT_IN_SESSION = statements.many("handed_out_in_session", TaskRecord)
_NEWEST = 2**63 - 1
_HAND_OUT = statements.none("hand_out")
_FORGET = statements.maybe("forget_task", str)


def asking_tasks(session_id: int) -> list[TaskRecord]:
    """The session's tasks that wait for an answer. The question of a call without a handle is asked on the stream of
    that call. Until there is that stream, the task is left out: otherwise its question would be asked twice."""
    return _ASKING(session=session_id)


def keyed_task(context_id: int, key: str) -> TaskRecord | None:
    """The context's task with this idempotency key; `None` if there is none, or it has expired for its owner."""
    return _KEYED(context=context_id, key=key)


def changed_tasks(session_id: int, since: datetime) -> list[tuple[TaskRecord, bool]]:
    """The session's tasks with a handle that changed after `since`, each with whether a stream serves it, in the order
    of the changes; at most 100."""
    return _CHANGED(session=session_id, since=since)


def handed_out(
    context_id: int, revisions: Sequence[str], before: int | None, limit: int, *, session_id: int | None = None
) -> list[tuple[int, TaskRecord]]:
    """The context's tasks of these revisions whose handles were given out and that have not expired for their owner,
    newest first, with internal ids below `before`; with `session_id` only those of the session."""
    before, wanted = _NEWEST if before is None else before, list(revisions)
    if session_id is None:
        found = _HANDED_OUT(context=context_id, revisions=wanted, before=before, looked_at=LOOKED_AT, most=limit)
    else:
        found = _HANDED_OUT_IN_SESSION(
            session=session_id, context=context_id, revisions=wanted, before=before, most=limit
        )
    return [(task.id, task) for task in found]


def hand_out(task_id: int) -> None:
    """Record that a caller that had waited for the task was given its handle."""
    _HAND_OUT(task=task_id)


def forget_task(task_id: int, *, tenant_id: int, target: str, actor: Actor) -> bool:
    """Make an ended task expire for its owner now; the console keeps it until its retention is over. Returns `False`
    for a task that has not ended (T1686-15)."""
    with transaction.atomic():
        public_id = _FORGET(task=task_id)
        if public_id is not None:
            record_event("task.deleted", tenant_id=tenant_id, target=target, actor=actor, after={"task": public_id})
    return public_id is not None

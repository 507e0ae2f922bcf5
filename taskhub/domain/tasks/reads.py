"""Reads of single tasks, as the wire needs them."""

from __future__ import annotations

from collections.abc import Sequence

from taskhub.core.records import StoredLine, TaskRecord
from taskhub.store import statements

PAGE = 100
"""Log lines read at once."""

_OWNED = statements.maybe("owned_task", TaskRecord)
_MANY_OWNED = statements.many("owned_tasks", tuple[int, TaskRecord])
_VERSIONS = statements.many("task_versions", tuple[str, int])
_BY_ID = statements.maybe("task_by_id", TaskRecord)
_ID_IN = statements.maybe("task_id_in", int)
_LINES = statements.many("lines_after", StoredLine)


def owned_task(context_id: int, public_id: str) -> TaskRecord | None:
    """The task, if it belongs to the context and the wire has not forgotten it: an ended task
    past its ttl is gone for its owner, though the console still keeps it."""
    return _OWNED(public_id=public_id, context=context_id)


def owned_tasks(wanted: Sequence[tuple[int, str]]) -> list[TaskRecord | None]:
    """`owned_task` for many (context id, public id) pairs in one round trip, in their order."""
    answers: list[TaskRecord | None] = [None] * len(wanted)
    for place, task in _MANY_OWNED(
        public_ids=[public_id for _, public_id in wanted], contexts=[context_id for context_id, _ in wanted]
    ):
        answers[place - 1] = task
    return answers


def task_versions(public_ids: Sequence[str]) -> dict[str, int]:
    """How far each of these tasks is, whoever owns it, by its public id. What is gone is left out."""
    return dict(_VERSIONS(public_ids=list(public_ids)))


def task_by_id(task_id: int) -> TaskRecord | None:
    """The task, whoever owns it: for callers that have checked."""
    return _BY_ID(task=task_id)


def task_id_in(tenant_id: int, public_id: str) -> int | None:
    """The internal id of a task of the tenant."""
    return None if "\0" in public_id else _ID_IN(tenant=tenant_id, public_id=public_id)


def lines_after(task_id: int, line_id: int, limit: int = PAGE) -> list[StoredLine]:
    """Log lines of a task with ids above `line_id`, oldest first."""
    return _LINES(task=task_id, line=line_id, most=limit)

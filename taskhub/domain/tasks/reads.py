"""Single tasks as clients read them, and the record of these reads: when a client last asked for a task, and which
clients were given its result. Web processes count both in memory and write them in batches, so that a read does not
cost a write."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from taskhub.core.records import StoredLine, TaskRecord
from taskhub.store import statements

PAGE = 100
"""Log lines that one query reads."""

MOST_READS: Final = 20_000
"""The most pairs of task and client that are counted between two batches. Further pairs are not counted."""

_OWNED = statements.maybe("owned_task", TaskRecord)
_MANY_OWNED = statements.many("owned_tasks", tuple[int, TaskRecord])
_VERSIONS = statements.many("task_versions", tuple[str, int])
_BY_ID = statements.maybe("task_by_id", TaskRecord)
_MANY_BY_ID = statements.many("tasks_by_id", TaskRecord)
_ID_IN = statements.maybe("task_id_in", int)
_LINES = statements.many("lines_after", StoredLine)
_STORE_POLLS = statements.none("store_polls")
_STORE_READS = statements.none("store_reads")


def owned_task(context_id: int, public_id: str) -> TaskRecord | None:
    """The task, if it belongs to the context and has not expired: an ended task past its ttl is gone for its owner,
    though the console still keeps it."""
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
    """The version of each of these tasks, whoever owns it, by its public id. Missing tasks are left out."""
    return dict(_VERSIONS(public_ids=list(public_ids)))


def task_by_id(task_id: int) -> TaskRecord | None:
    """The task, whoever owns it: for code that has checked the owner."""
    return _BY_ID(task=task_id)


def tasks_by_id(task_ids: Sequence[int]) -> list[TaskRecord | None]:
    """`task_by_id` for many ids in one round trip, in their order."""
    found = {task.id: task for task in _MANY_BY_ID(tasks=list(set(task_ids)))}
    return [found.get(task_id) for task_id in task_ids]


def task_id_in(tenant_id: int, public_id: str) -> int | None:
    """The internal id of the tenant's task with this public id; `None` if there is none."""
    return None if "\0" in public_id else _ID_IN(tenant=tenant_id, public_id=public_id)


def lines_after(task_id: int, line_id: int, limit: int = PAGE) -> list[StoredLine]:
    """Log lines of a task with ids above `line_id`, oldest first."""
    return _LINES(task=task_id, line=line_id, most=limit)


def store_polls(polled: Mapping[int, float]) -> None:
    """Record the latest poll of each live task; `polled` maps task ids to Unix times."""
    _STORE_POLLS(tasks=list(polled), polled=list(polled.values()))


@dataclass
class Read:
    """How often a client was given the result of a task, and the first and last time, as Unix times."""

    first: float
    last: float
    count: int = 1


Batch = dict[tuple[int, int], Read]
"""The reads, by task id and context id."""


class Reads:
    """Counts the results that are given to clients, until the next batch is taken."""

    def __init__(self, most: int = MOST_READS) -> None:
        self._most = most
        self._found: Batch = {}

    def note(self, task_id: int, context_id: int) -> None:
        """Count that the client was given the result of the task, now."""
        now = time.time()
        self._add((task_id, context_id), Read(now, now))

    def take(self) -> Batch:
        """Return the counted reads, to be stored, and begin a new batch."""
        found, self._found = self._found, {}
        return found

    def put_back(self, batch: Batch) -> None:
        """Add a batch that could not be stored to the next one."""
        for key, read in batch.items():
            self._add(key, read)

    def _add(self, key: tuple[int, int], read: Read) -> None:
        known = self._found.get(key)
        if known is not None:
            known.first, known.last = min(known.first, read.first), max(known.last, read.last)
            known.count += read.count
        elif len(self._found) < self._most:
            self._found[key] = read


def store_reads(batch: Mapping[tuple[int, int], Read]) -> None:
    """Add a batch to the stored counts. Reads of tasks that were purged are left out."""
    _STORE_READS(
        tasks=[task for task, _ in batch],
        contexts=[context for _, context in batch],
        firsts=[read.first for read in batch.values()],
        lasts=[read.last for read in batch.values()],
        counts=[read.count for read in batch.values()],
    )

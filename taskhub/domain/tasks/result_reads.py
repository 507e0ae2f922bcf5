"""Who was given what came of a task: counted in memory by the web process and written in batches, because a read
must not cost a write."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from taskhub.store import statements

MOST_READS: Final = 20_000
"""Pairs of task and client counted between two batches. Beyond it what is new is not counted."""

_STORE = statements.none("store_reads")


@dataclass
class Read:
    """When first and last, as Unix times, and how often."""

    first: float
    last: float
    count: int = 1


Batch = dict[tuple[int, int], Read]
"""By task and client."""


class Reads:
    """What was read since the last batch."""

    def __init__(self, most: int = MOST_READS) -> None:
        self._most = most
        self._found: Batch = {}

    def note(self, task_id: int, context_id: int) -> None:
        """The client was given it, now."""
        now = time.time()
        self._add((task_id, context_id), Read(now, now))

    def take(self) -> Batch:
        """All of it, to be stored."""
        found, self._found = self._found, {}
        return found

    def put_back(self, batch: Batch) -> None:
        """It could not be stored: it comes with the next one."""
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
    """Add to what is on record of tasks that are still there."""
    _STORE(
        tasks=[task for task, _ in batch],
        contexts=[context for _, context in batch],
        firsts=[read.first for read in batch.values()],
        lasts=[read.last for read in batch.values()],
        counts=[read.count for read in batch.values()],
    )

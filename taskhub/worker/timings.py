"""Counts how long this worker's calls waited and ran, and adds the counts to all workers' sums in the database."""

from __future__ import annotations

from bisect import bisect_left

from taskhub.core.timings import BOUNDS, Timing, TimingKind
from taskhub.domain.tasks.timings import store_timings
from taskhub.lib.lanes import Lanes


class _Counted:
    __slots__ = ("counts", "seconds")

    def __init__(self) -> None:
        self.counts = [0] * (len(BOUNDS) + 1)
        self.seconds = 0.0


class Timings:
    """The counts of this worker that are not stored yet, for each server and kind. For the worker's event loop only."""

    def __init__(self, lanes: Lanes) -> None:
        self._lanes = lanes
        self._counted: dict[tuple[int, TimingKind], _Counted] = {}

    def add(self, server_id: int, kind: TimingKind, seconds: float) -> None:
        """Count one time of this kind, in seconds."""
        counted = self._counted.get((server_id, kind))
        if counted is None:
            counted = self._counted[server_id, kind] = _Counted()
        counted.counts[bucket(seconds)] += 1
        counted.seconds += seconds

    async def store(self) -> None:
        """Add the counts to the sums in the database. If that raises, such as `Unavailable`, the counts are kept for
        the next call."""
        taken, self._counted = self._counted, {}
        if not taken:
            return
        timings = [Timing(*key, tuple(found.counts), found.seconds) for key, found in taken.items()]
        try:
            await self._lanes.run(store_timings, timings)
        except BaseException:
            for key, found in self._counted.items():
                before = taken.setdefault(key, _Counted())
                before.counts = [a + b for a, b in zip(before.counts, found.counts, strict=True)]
                before.seconds += found.seconds
            self._counted = taken
            raise


def bucket(seconds: float) -> int:
    """The index of the histogram bucket for this time."""
    return bisect_left(BOUNDS, seconds)

"""How long calls waited and ran, by server, summed over all workers."""

from __future__ import annotations

from collections.abc import Sequence

from taskhub.core.timings import BOUNDS, ServerTiming, Timing
from taskhub.store import statements

_STORE = statements.none("store_timings")
_TIMINGS = statements.many("server_timings", ServerTiming)


def store_timings(timings: Sequence[Timing]) -> None:
    """Add timings to the stored sums. Timings of a removed server are dropped."""
    _STORE(
        servers=[timing.server_id for timing in timings],
        kinds=[timing.kind.value for timing in timings],
        seconds=[timing.seconds for timing in timings],
        counts=[count for timing in timings for count in timing.counts],
        buckets=len(BOUNDS) + 1,
    )


def server_timings() -> list[ServerTiming]:
    """The sums for metrics, since the server was created or the database last recovered from a crash: like any
    counters, they may restart at 0."""
    return _TIMINGS()

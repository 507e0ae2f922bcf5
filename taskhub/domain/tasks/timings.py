"""How long calls took and waited, by server: the sum of what all workers counted."""

from __future__ import annotations

from collections.abc import Sequence

from taskhub.core.timings import BOUNDS, ServerTiming, Timing
from taskhub.store import statements

_STORE = statements.none("store_timings")
_TIMINGS = statements.many("server_timings", ServerTiming)


def store_timings(timings: Sequence[Timing]) -> None:
    """Add them to the sums. Those of a server that was deleted are dropped."""
    _STORE(
        servers=[timing.server_id for timing in timings],
        kinds=[timing.kind.value for timing in timings],
        seconds=[timing.seconds for timing in timings],
        counts=[count for timing in timings for count in timing.counts],
        buckets=len(BOUNDS) + 1,
    )


def server_timings() -> list[ServerTiming]:
    """The sums, for scrapers, since the servers were made or the database last recovered from a crash: counters may
    start again at 0."""
    return _TIMINGS()

"""How long calls took and waited, by server, as all workers counted it."""

from __future__ import annotations

from collections.abc import Sequence

from taskhub.core.timings import BOUNDS, Timing
from taskhub.store import statements

_STORE = statements.none("store_timings")


def store_timings(timings: Sequence[Timing]) -> None:
    """Add them to what is stored. Those of a server that is gone go with it."""
    _STORE(
        servers=[timing.server_id for timing in timings],
        kinds=[timing.kind.value for timing in timings],
        seconds=[timing.seconds for timing in timings],
        counts=[count for timing in timings for count in timing.counts],
        buckets=len(BOUNDS) + 1,
    )

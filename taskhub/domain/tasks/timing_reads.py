"""How long calls took and waited, for scrapers."""

from __future__ import annotations

from taskhub.core.timings import ServerTiming
from taskhub.store import statements

_TIMINGS = statements.many("server_timings", ServerTiming)


def server_timings() -> list[ServerTiming]:
    """Since the servers were made, or the database was last recovered from a crash: counters may begin anew."""
    return _TIMINGS()

"""The parts of the audit log. Each holds the events of about a month, so that a month can be archived and dropped."""

from __future__ import annotations

from typing import Final

from taskhub.store import statements

SIZE: Final = 100_000_000
"""How many ids a part has, for about 50 GB of events. A month with more events goes on in the next part."""

FEWEST: Final = 100_000
"""Fewest events in a part before a new month begins another part. Few parts are better, because reading a task's events
looks at all parts."""

_TURN = statements.maybe("turn_event_part", str)


def turn_part(*, size: int = SIZE, fewest: int = FEWEST) -> str | None:
    """Create the parts that will be needed next, and begin a part if a new month has begun. Returns the name of the
    part that was begun, or `None`. Safe to run from any number of processes at once, and at any time."""
    return _TURN(size=size, fewest=fewest)

"""The parts of the audit log. A month's events lie in one, so that a month can be archived and dropped."""

from __future__ import annotations

from typing import Final

from taskhub.store import statements

SIZE: Final = 100_000_000
"""Ids of one part, about 50 GB of events. Where a month has more, they go on in the next."""

FEWEST: Final = 100_000
"""Events that a part has at least before a new month gets one of its own: every look at a task goes through all."""

_TURN = statements.maybe("turn_event_part", str)


def turn_part(*, size: int = SIZE, fewest: int = FEWEST) -> str | None:
    """Make the parts that will be needed next, and let a new month begin with one of its own, whose name is
    returned. Safe to run from any number of processes at once, and as often as one likes."""
    return _TURN(size=size, fewest=fewest)

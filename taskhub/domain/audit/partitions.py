"""The parts of the audit log. Each holds the events of about a month, so that a month can be archived and dropped."""

from __future__ import annotations

from typing import Final

from taskhub.store import statements

SIZE: Final = 100_000_000
"""Ids of one part, about 50 GB of events. A month with more goes on in the next part."""

FEWEST: Final = 100_000
"""Events that a part must have before a new month gets a part of its own: reading a task's events looks at all
parts."""

_TURN = statements.maybe("turn_event_part", str)


def turn_part(*, size: int = SIZE, fewest: int = FEWEST) -> str | None:
    """Make the parts that will be needed next, and let a new month begin a part of its own. Returns the name of that
    part, if there is one. Safe to run from any number of processes at once, and at any time."""
    return _TURN(size=size, fewest=fewest)

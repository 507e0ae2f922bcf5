"""How long calls take and wait, as workers count it: in buckets, by server."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

BOUNDS: Final = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0, 900.0, 3600.0)
"""The upper ends of the buckets, in seconds; what took longer is in one more."""


class TimingKind(StrEnum):
    """What was timed: the wait for a worker, or a call by how it ended."""

    WAITED = "waited"
    """From the moment it could run, or go on, until a worker took it."""
    FINISHED = "finished"
    ERROR = "error"
    """The tool's own result says that it failed."""
    ASKED = "asked"
    """It goes on when somebody has answered."""
    FAULTED = "faulted"
    TIMED_OUT = "timed_out"
    CANCELLED = "cancelled"
    GIVEN_BACK = "given_back"
    """Its worker was stopped."""
    LOST = "lost"
    """Its lease was: another worker has it."""


@dataclass(frozen=True, slots=True)
class Timing:
    """How many took how long: `counts` by bucket, and all their seconds together in `seconds`."""

    server_id: int
    kind: TimingKind
    counts: tuple[int, ...]
    seconds: float


@dataclass(frozen=True, slots=True)
class ServerTiming:
    """The sum of what all workers counted, for all servers of that name."""

    server: str
    kind: TimingKind
    counts: tuple[int, ...]
    seconds: float

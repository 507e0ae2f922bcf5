"""How long calls wait and run: histograms per server, counted by workers."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

BOUNDS: Final = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0, 900.0, 3600.0)
"""The upper bounds of the histogram's buckets, in seconds. One more bucket counts longer times."""


class TimingKind(StrEnum):
    """The time that a histogram counts: the wait for a worker, or the runs with one outcome."""

    WAITED = "waited"
    """From the moment when a task could run, or go on, until a worker claimed it."""
    FINISHED = "finished"
    ERROR = "error"
    """The tool's result says that it is an error (`isError`)."""
    ASKED = "asked"
    """The run ended with a question; the task goes on when it is answered."""
    FAULTED = "faulted"
    TIMED_OUT = "timed_out"
    CANCELLED = "cancelled"
    GIVEN_BACK = "given_back"
    """The worker was stopped, and the task returned to the queue."""
    LOST = "lost"
    """The worker lost the task's lease; another worker may have claimed it."""


@dataclass(frozen=True, slots=True)
class Timing:
    """A histogram of one worker. `counts` has a number for each bucket of `BOUNDS`; `seconds` is the sum of all
    times."""

    server_id: int
    kind: TimingKind
    counts: tuple[int, ...]
    seconds: float


@dataclass(frozen=True, slots=True)
class ServerTiming:
    """The sum of all workers' histograms, for all servers of one name."""

    server: str
    kind: TimingKind
    counts: tuple[int, ...]
    seconds: float

"""The live calls of a server that is removed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from taskhub.core.records import Actor
from taskhub.domain.changes import change, who
from taskhub.store import statements

COUNTED: Final = 10_001
ENDED_AT_ONCE: Final = 1_000


@dataclass(frozen=True, slots=True)
class LiveCalls:
    """The calls of a server that have not ended, at most `COUNTED`: `running` counts those that a worker has,
    `deferred` those that the server runs as tasks of its own, `waiting` all others, which are queued or wait for an
    answer."""

    waiting: int
    running: int
    deferred: int = 0

    @property
    def count(self) -> int:
        """How many calls have not ended."""
        return self.waiting + self.running + self.deferred


_LIVE = statements.one("live_calls", LiveCalls)
_END = statements.one("end_calls_of_removed", int)


def live_calls(server_id: int) -> LiveCalls:
    """The calls of the server that have not ended."""
    return _LIVE(server=server_id, most=COUNTED)


def end_calls_of_removed(server_id: int, *, actor: Actor) -> int:
    """Fault the calls of a removed server that no worker has, at most `ENDED_AT_ONCE`; returns how many. Other calls,
    and those that come back to the queue later, are ended by the claims of workers. A call that a worker has goes on:
    its result is stored. If the server runs a call as a task of its own, it is asked to cancel that
    (`worker.polling`)."""
    return change(_END, None, server=server_id, most=ENDED_AT_ONCE, who=who(actor))

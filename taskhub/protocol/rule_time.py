"""Lets rules decide in the event loop, and holds the loop for a moment only.

A decision that takes longer goes on in turns. The whole process has one turn in each round of the loop, and the
decisions of a tenant are made one after the other. Decisions that the same tenant needs meanwhile also wait for turns,
and so do all decisions of a tenant whose rules have used up its share of time. Whatever rules a tenant has, calls of
other tenants are served between two turns.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final, Generic, TypeVar

from taskhub.core.errors import LimitReached
from taskhub.domain.rules.decisions import Steps
from taskhub.domain.rules.expressions import Values
from taskhub.lib.buckets import Buckets

TURN_MS: Final = 1.0
"""Milliseconds for which a turn holds the loop. An expression that has begun by then is computed to its end."""
SHARE_MS: Final = 250
"""Milliseconds in each second that a tenant's rules may take before all decisions of the tenant wait for turns."""
MOST_WAITING: Final = 200
"""The most decisions of a tenant that wait for turns."""

T = TypeVar("T")


@dataclass
class _Line:
    """The decisions of one tenant that wait for turns. The decision that holds the lock gets the turns."""

    lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    waiting: int = 0


class _Decision(Generic[T]):
    """A decision that is being made."""

    def __init__(self, steps: Steps[T]) -> None:
        self._steps = steps
        self._values: Values | None = None
        self.found: T
        self.spent = 0.0
        """Seconds of this thread that its last turn took."""

    def turn(self) -> bool:
        """Go on with the decision for one turn. Returns whether the decision is made; then it is in `found`."""
        if self._values is not None:
            self._values.resume()
        began, until = time.thread_time(), time.perf_counter() + TURN_MS / 1000
        try:
            while True:
                self._values = next(self._steps)
                if time.perf_counter() >= until:
                    self._values.pause()
                    return False
        except StopIteration as end:
            self.found = end.value
            return True
        finally:
            self.spent = time.thread_time() - began


class RuleTime:
    """Gives the rules of this process time to decide. `clock` returns the time, in seconds, by which the share of a
    tenant fills again."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._left = Buckets(SHARE_MS / 1000, seconds=1.0, clock=clock)
        self._lines: dict[int, _Line] = {}
        self._turn = asyncio.Lock()

    async def run(self, tenant_id: int, steps: Steps[T]) -> T:
        """The result of the steps, by the tenant's rules. Raises `LimitReached` if `MOST_WAITING` decisions of the
        tenant wait."""
        decision = _Decision(steps)
        free = tenant_id not in self._lines and self._left.take(tenant_id, 0.0) == 0.0
        if free and self._turned(tenant_id, decision):
            return decision.found
        line = self._lines.setdefault(tenant_id, _Line())
        if line.waiting >= MOST_WAITING:
            raise LimitReached("The rules of this hub take too long for so many calls at once", retry_after=1)
        line.waiting += 1
        try:
            async with line.lock:
                while True:
                    async with self._turn:
                        made = self._turned(tenant_id, decision)
                        # Holds the lock until the event loop has gone round once, so that no two turns fall into one
                        # round.
                        await asyncio.sleep(0)
                    if made:
                        return decision.found
        finally:
            line.waiting -= 1
            if not line.waiting:
                self._lines.pop(tenant_id, None)

    def _turned(self, tenant_id: int, decision: _Decision[T]) -> bool:
        made = decision.turn()
        self._left.take(tenant_id, decision.spent)
        return made

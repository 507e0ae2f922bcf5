"""Rate limits as token buckets: an unused allowance adds up, to a bound, and may then be used at once."""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable, Hashable

MOST_KEPT = 10_000
"""The most keys with a bucket. Beyond it the least recently used key is dropped; its next bucket begins full."""


class Buckets:
    """One bucket for each key. It gains `per_second` each second, up to `per_second * seconds`."""

    def __init__(self, per_second: float, *, seconds: float, clock: Callable[[], float] = time.monotonic) -> None:
        """Raises `ValueError` for a rate or a span that is not above 0."""
        if per_second <= 0 or seconds <= 0:
            raise ValueError("a rate and its span are above 0")
        self._rate, self._full, self._clock = per_second, per_second * seconds, clock
        self._levels: OrderedDict[Hashable, tuple[float, float]] = OrderedDict()

    def take(self, key: Hashable, amount: float = 1.0) -> float:
        """Take `amount` and return 0, or take nothing and return the seconds until something may be taken again. While
        the level is above 0, any amount may be taken. The level may fall below 0 by that: then later calls have to wait
        until it is above 0."""
        now = self._clock()
        level, at = self._levels.pop(key, (self._full, now))
        level = min(self._full, level + (now - at) * self._rate)
        granted = level > 0
        self._levels[key] = (level - amount if granted else level, now)
        if len(self._levels) > MOST_KEPT:
            self._levels.popitem(last=False)
        return 0.0 if granted else max(-level / self._rate, 1e-3)

"""Limits how often a message is logged that would otherwise be logged at every request."""

from __future__ import annotations

import time


class Throttle:
    """Call it before logging: it returns `True` at most once in `seconds`."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._said_at = float("-inf")

    def __call__(self) -> bool:
        """Whether at least `seconds` have passed since the last `True`, or there was none."""
        now = time.monotonic()
        if now - self._said_at < self._seconds:
            return False
        self._said_at = now
        return True

"""Limits what would be logged for every request to once in a while."""

from __future__ import annotations

import time


class Throttle:
    """Call it before logging: true at most once in `seconds`."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._said_at = float("-inf")

    def __call__(self) -> bool:
        """Whether it is time again."""
        now = time.monotonic()
        if now - self._said_at < self._seconds:
            return False
        self._said_at = now
        return True

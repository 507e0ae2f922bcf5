"""Calls functions in an event loop that runs in another thread."""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
from collections.abc import Callable


class Crossing:
    """Calls functions in the loop `there`, in order, each in the context (`contextvars`) of its caller.

    Waking another thread costs a system call, and makes both threads wait for the GIL. So the functions of one
    iteration of the calling loop are handed over together, at its end. Not thread-safe: for one calling thread at a
    time.
    """

    def __init__(self, there: asyncio.AbstractEventLoop) -> None:
        self.there = there
        self._here: asyncio.AbstractEventLoop | None = None
        self._waiting: list[tuple[Callable[[], object], contextvars.Context]] = []

    def call(self, function: Callable[[], object]) -> None:
        """Schedule `function()` in the loop `there`, whose exception handler gets any exception."""
        here = asyncio.get_running_loop()
        if not self._waiting or here is not self._here:  # an earlier calling loop may have ended before it handed over
            self._here = here
            here.call_soon(self.hand_over)
        self._waiting.append((function, contextvars.copy_context()))

    def hand_over(self) -> None:
        """Hand over the waiting functions now, because the calling loop is about to end. They are dropped if the loop
        `there` is closed."""
        if self._waiting:
            waiting, self._waiting = self._waiting, []
            with contextlib.suppress(RuntimeError):
                self.there.call_soon_threadsafe(self._arrive, waiting)

    def _arrive(self, arrived: list[tuple[Callable[[], object], contextvars.Context]]) -> None:
        for function, context in arrived:
            self.there.call_soon(function, context=context)

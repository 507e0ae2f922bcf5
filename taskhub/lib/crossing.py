"""From one event loop to another, in another thread."""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
from collections.abc import Callable


class Crossing:
    """Calls functions in the loop `there`, in the order in which they came, each in the context of its caller.

    Waking another thread costs a system call, and makes both threads wait for the interpreter's lock. So what is called
    in one turn of a loop is handed over together at its end. For one thread at a time.
    """

    def __init__(self, there: asyncio.AbstractEventLoop) -> None:
        self.there = there
        self._here: asyncio.AbstractEventLoop | None = None
        self._waiting: list[tuple[Callable[[], object], contextvars.Context]] = []

    def call(self, function: Callable[[], object]) -> None:
        """Run `function()` in the other loop, soon. What it raises goes to that loop's exception handler."""
        here = asyncio.get_running_loop()
        if not self._waiting or here is not self._here:  # the former loop may have ended before it turned
            self._here = here
            here.call_soon(self.hand_over)
        self._waiting.append((function, contextvars.copy_context()))

    def hand_over(self) -> None:
        """Hand over now what waits, for a loop that will not turn again. Nothing goes to a loop that is closed."""
        if self._waiting:
            waiting, self._waiting = self._waiting, []
            with contextlib.suppress(RuntimeError):
                self.there.call_soon_threadsafe(self._arrive, waiting)

    def _arrive(self, arrived: list[tuple[Callable[[], object], contextvars.Context]]) -> None:
        for function, context in arrived:
            self.there.call_soon(function, context=context)

"""Chores: the work that a worker repeats beside its tasks. An error of a chore is logged, and the chore is tried again.
An error of a vital chore, without which a worker cannot work, ends the worker, unless the cause is that the database is
away."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Final

import psycopg
from procrastinate.exceptions import ConnectorException

from taskhub.core.errors import Unavailable
from taskhub.lib.throttle import Throttle

logger = logging.getLogger(__name__)

FAILED_SECONDS: Final = 60.0
"""The least time between two log entries for errors of the same type in one chore."""

Chore = Callable[[], Awaitable[object]]


_waiting: dict[str, str] = {}
"""For each chore that waits for the database, the last error, so that it is logged only when it changes."""
_failed: dict[tuple[str, type[Exception]], Throttle] = {}


class Chores:
    """The chores of one process, each a task of the running loop."""

    def __init__(self, on_failure: Callable[[str, Exception], None]) -> None:
        """`on_failure(what, error)` is called when a vital chore raises an error, unless the database is only away."""
        self._on_failure = on_failure
        self._loops: list[asyncio.Task[None]] = []
        self._aside: set[asyncio.Task[Exception | None]] = set()

    def every(self, what: str, seconds: float, do: Chore, *, vital: bool = False) -> None:
        """Call `do` every `seconds`, first after `seconds`. If the chore is `vital`, an error ends it, and `on_failure`
        is called, unless the database is only away."""

        async def loop() -> None:
            while True:
                await asyncio.sleep(seconds)
                error = await _guarded(what, do)
                if vital and error is not None:
                    self._on_failure(what, error)
                    return

        self._loops.append(asyncio.create_task(loop()))

    def forever(self, what: str, do: Chore) -> None:
        """Call `do`, which should run for ever. If it ends, call it again after a second."""

        async def loop() -> None:
            while True:
                await _guarded(what, do)
                await asyncio.sleep(1.0)

        self._loops.append(asyncio.create_task(loop()))

    def soon(self, what: str, do: Chore) -> None:
        """Call `do` once, in the background."""
        task = asyncio.create_task(_guarded(what, do))
        self._aside.add(task)
        task.add_done_callback(self._aside.discard)

    async def end(self) -> None:
        """Stop all repeated chores, and wait for their end."""
        for loop in self._loops:
            loop.cancel()
        await asyncio.gather(*self._loops, return_exceptions=True)


async def _guarded(what: str, do: Chore) -> Exception | None:
    """Call `do`, and log any error. Returns the error, or `None` if the database is only away, or there was none."""
    try:
        await do()
    except asyncio.CancelledError:
        raise
    except (Unavailable, ConnectorException, psycopg.OperationalError) as error:  # procrastinate raises the last two
        # Logged when the error begins or changes, not at every try.
        if _waiting.get(what) != str(error):
            logger.warning("%s: %s", what, error)
        _waiting[what] = str(error)
    except Exception as error:
        # Logged once in a while, so that the log is not flooded, but returned each time.
        again = _failed.setdefault((what, type(error)), Throttle(FAILED_SECONDS))
        if again():
            logger.exception("%s failed", what)
        return error
    else:
        if _waiting.pop(what, None) is not None:
            logger.warning("%s: goes on", what)
    return None

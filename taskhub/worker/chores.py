"""What a worker does again and again beside its tasks. A chore that fails is logged and tried again. A vital one, which
the worker cannot be without, ends the worker, unless the database is only away."""

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
"""A chore that fails again for the same reason is logged once in this time."""

Chore = Callable[[], Awaitable[object]]


_waiting: dict[str, str] = {}
"""By chore: why it last failed."""
_failed: dict[tuple[str, type[Exception]], Throttle] = {}


class Chores:
    """The chores of one process, each a task of the running loop."""

    def __init__(self, on_failure: Callable[[str, Exception], None]) -> None:
        """`on_failure(what, error)` is called when a vital chore meets an error that no retry can mend."""
        self._on_failure = on_failure
        self._loops: list[asyncio.Task[None]] = []
        self._aside: set[asyncio.Task[Exception | None]] = set()

    def every(self, what: str, seconds: float, do: Chore, *, vital: bool = False) -> None:
        """Do it this often, the first time after `seconds`. Where it is `vital`, an error that no retry can mend ends
        the chore, and `on_failure` is called."""

        async def loop() -> None:
            while True:
                await asyncio.sleep(seconds)
                error = await _guarded(what, do)
                if vital and error is not None:
                    self._on_failure(what, error)
                    return

        self._loops.append(asyncio.create_task(loop()))

    def forever(self, what: str, do: Chore) -> None:
        """Run what is not meant to end, and run it again when it has."""

        async def loop() -> None:
            while True:
                await _guarded(what, do)
                await asyncio.sleep(1.0)

        self._loops.append(asyncio.create_task(loop()))

    def soon(self, what: str, do: Chore) -> None:
        """Run it once, now, in the background."""
        task = asyncio.create_task(_guarded(what, do))
        self._aside.add(task)
        task.add_done_callback(self._aside.discard)

    async def end(self) -> None:
        """Stop the chores that repeat."""
        for loop in self._loops:
            loop.cancel()
        await asyncio.gather(*self._loops, return_exceptions=True)


async def _guarded(what: str, do: Chore) -> Exception | None:
    """The logged error, if no retry can mend it."""
    try:
        await do()
    except asyncio.CancelledError:
        raise
    except (Unavailable, ConnectorException, psycopg.OperationalError) as error:  # two are procrastinate's
        # When it begins or changes, not each second.
        if _waiting.get(what) != str(error):
            logger.warning("%s: %s", what, error)
        _waiting[what] = str(error)
    except Exception as error:
        # The log, which this would flood, has it once in a while; the caller is told each time.
        again = _failed.setdefault((what, type(error)), Throttle(FAILED_SECONDS))
        if again():
            logger.exception("%s failed", what)
        return error
    else:
        if _waiting.pop(what, None) is not None:
            logger.warning("%s: goes on", what)
    return None

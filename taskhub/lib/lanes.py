"""Lanes: a few fixed threads that run the synchronous database code of async callers.

Each lane keeps its own database connection for its life, so a call costs one queue hop
and no connection or executor set-up. `await lanes.run(function, ...)` raises what the
function raised.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import threading
from collections.abc import Callable
from queue import SimpleQueue
from typing import Any, ParamSpec, TypeVar

logger = logging.getLogger(__name__)

P = ParamSpec("P")
T = TypeVar("T")

_Job = tuple[Callable[[], Any], "asyncio.Future[Any]", asyncio.AbstractEventLoop]


class Lanes:
    """`count` daemon threads named `{name}-{n}`; `after` runs in the lane after each call
    (to drop a broken connection), `at_exit` when the lane ends."""

    def __init__(
        self,
        count: int,
        *,
        name: str = "lane",
        after: Callable[[], None] = lambda: None,
        at_exit: Callable[[], None] = lambda: None,
    ) -> None:
        self._queue: SimpleQueue[_Job | None] = SimpleQueue()
        self._after = after
        self._at_exit = at_exit
        self._threads = [threading.Thread(target=self._work, name=f"{name}-{n}", daemon=True) for n in range(count)]
        for thread in self._threads:
            thread.start()

    async def run(self, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """`function(*args, **kwargs)`, run in a lane. A caller that is cancelled stops waiting;
        the call itself runs to its end, so a commit is never cut in half."""
        loop = asyncio.get_running_loop()
        future: asyncio.Future[T] = loop.create_future()
        self._queue.put((lambda: function(*args, **kwargs), future, loop))
        return await future

    def close(self) -> None:
        """End all lanes after the calls already queued."""
        for _ in self._threads:
            self._queue.put(None)
        for thread in self._threads:
            thread.join(timeout=5)

    def _work(self) -> None:
        while (job := self._queue.get()) is not None:
            call, future, loop = job
            settle: Callable[[asyncio.Future[Any], Any], None] = _set_result
            try:
                outcome: Any = call()
            except BaseException as error:  # noqa: BLE001 - handed to the awaiting caller
                outcome, settle = error, _set_exception
            with contextlib.suppress(RuntimeError):  # the loop is closed: nobody waits any more
                loop.call_soon_threadsafe(settle, future, outcome)
            try:
                self._after()
            except Exception:  # a lane that died would leave every later caller waiting
                logger.exception("cleaning up after a call failed")
        self._at_exit()


def _set_result(future: asyncio.Future[Any], value: Any) -> None:
    if not future.done():
        future.set_result(value)


def _set_exception(future: asyncio.Future[Any], error: BaseException) -> None:
    if not future.done():
        if isinstance(error, StopIteration):  # a future refuses it, and its caller would wait for ever
            error = RuntimeError(f"the call raised {error!r}")
        future.set_exception(error)

"""Lanes: a few fixed threads that run the synchronous database code of async callers.

Each lane keeps its own database connection for its life, so a call costs one queue hop
and no connection or executor set-up. `await lanes.run(function, ...)` returns what the
function returns, and raises its exception as `explain` translates it.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import math
import threading
import time
from collections.abc import Callable
from queue import SimpleQueue
from typing import Any, ParamSpec, TypeVar

from taskhub.lib import logs

logger = logging.getLogger(__name__)

P = ParamSpec("P")
T = TypeVar("T")


FRESH_SECONDS = 0.5
"""Seconds. When the database leaves a call without an answer, calls that have waited longer than this fail too. Newer
calls are still begun, since perhaps only one connection is broken."""
_thread = threading.local()


class Crowded(Exception):
    """No lane was free in time; the call was not begun."""


class Unanswered(Crowded):
    """The call was not begun, because the database left a call without an answer while this one waited."""


def seconds_left() -> float:
    """Seconds until the caller of the function that this lane runs stops waiting; infinite outside of lanes."""
    until: float = getattr(_thread, "until", math.inf)
    return until - time.monotonic()


class _Job:
    """A call that waits for a lane. It has one ticket: if a lane takes it, the lane runs the call; if the caller takes
    it, the call is given up."""

    __slots__ = ("_ticket", "about", "asked", "call", "future", "loop", "until")

    def __init__(
        self,
        call: Callable[[], Any],
        future: asyncio.Future[Any],
        loop: asyncio.AbstractEventLoop,
        patience: float,
    ) -> None:
        self.asked = time.monotonic()
        self.until = self.asked + patience
        self.call = call
        self.future = future
        self.loop = loop
        self.about = logs.current()
        self._ticket = [None]

    def take(self) -> bool:
        """Take the ticket. `False` if it was taken before."""
        try:
            self._ticket.pop()  # atomic: no two threads get it
        except IndexError:
            return False
        return True


class Lanes:
    """A pool of `count` daemon threads named `{name}-{n}`. `after` runs in the lane after each call (to drop a broken
    connection), `at_exit` when the lane ends. `explain` translates the exception of a call into the one that its caller
    gets. At most `most` calls of `run` wait, and a call that waited longer than `patience` seconds is not begun; a
    caller beyond either limit gets `explain(Crowded())`.

    `unanswered` returns when (`time.monotonic`) the database last left a call without an answer. Calls that had waited
    for `FRESH_SECONDS` by then are not begun, and get `explain(Unanswered())`: with a database that hangs, they would
    run into their timeouts one after the other."""

    def __init__(
        self,
        count: int,
        *,
        name: str = "lane",
        after: Callable[[], None] = lambda: None,
        at_exit: Callable[[], None] = lambda: None,
        explain: Callable[[BaseException], BaseException] = lambda error: error,
        unanswered: Callable[[], float] = lambda: -math.inf,
        patience: float = math.inf,
        most: float = math.inf,
    ) -> None:
        self.patience = patience
        self.most = most
        self._queue: SimpleQueue[_Job | None] = SimpleQueue()
        self._after = after
        self._at_exit = at_exit
        self._explain = explain
        self._unanswered = unanswered
        self._in_line = 0
        self._working = [False] * count
        self._threads = [
            threading.Thread(target=self._work, args=(n,), name=f"{name}-{n}", daemon=True) for n in range(count)
        ]
        for thread in self._threads:
            thread.start()

    @property
    def size(self) -> int:
        """The number of lanes."""
        return len(self._working)

    @property
    def busy(self) -> int:
        """The number of lanes that run a call."""
        return sum(self._working)

    @property
    def waiting(self) -> int:
        """The number of calls that no lane has begun."""
        return self._queue.qsize()

    async def run(self, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """`function(*args, **kwargs)`, run in a lane. Cancelling the caller does not stop the call, so a commit is
        never interrupted."""
        if self._queue.qsize() >= self.most:
            raise self.crowded()
        loop = asyncio.get_running_loop()
        future: asyncio.Future[T] = loop.create_future()
        # The lane that takes the call checks how long it waited: a timer for each call would cost too much.
        self._queue.put(_Job(lambda: function(*args, **kwargs), future, loop, self.patience))
        return await future

    async def run_surely(self, call: Callable[[], T]) -> T:
        """`call()`, run in a lane, however long it waits for a lane. Use it for cleaning up."""
        loop = asyncio.get_running_loop()
        future: asyncio.Future[T] = loop.create_future()
        job = _Job(call, future, loop, math.inf)
        job.asked = math.inf
        self._queue.put(job)
        return await future

    def crowded(self) -> BaseException:
        """The error for a caller who got no lane in time."""
        return self._explain(Crowded())

    def vain(self, asked: float) -> BaseException | None:
        """The exception for a call that was queued at `asked` (`time.monotonic`) and must not be begun any more; `None`
        for a call that may be begun."""
        if asked + FRESH_SECONDS < self._unanswered():
            return self._explain(Unanswered())
        return self.crowded() if asked + self.patience < time.monotonic() else None

    async def run_soon(self, call: Callable[[], T], *, seconds: float, most: int) -> T:
        """`call()`, run in a lane. Raises `Crowded` if no lane begins it within `seconds`, or if `most` callers are in
        this method already; other exceptions are as in `run`. Cancelling the caller withdraws the call, unless a lane
        has begun it."""
        if self._in_line >= most:
            raise Crowded
        loop = asyncio.get_running_loop()
        future: asyncio.Future[T] = loop.create_future()
        job = _Job(call, future, loop, seconds)

        def give_up() -> None:
            if job.take() and not future.done():
                future.set_exception(Crowded())

        self._queue.put(job)
        self._in_line += 1
        patience = loop.call_later(seconds, give_up)
        try:
            return await future
        finally:
            patience.cancel()
            job.take()
            self._in_line -= 1

    def close(self) -> None:
        """End all lanes after the calls already queued."""
        for _ in self._threads:
            self._queue.put(None)
        for thread in self._threads:
            thread.join(timeout=5)

    def _work(self, number: int) -> None:
        while (job := self._queue.get()) is not None:
            if not job.take():
                continue
            self._working[number] = True
            settle: Callable[[asyncio.Future[Any], Any], None] = _set_result
            try:
                outcome: Any = self.vain(job.asked)
                if outcome is not None:
                    settle = _set_exception
                else:
                    logs.carry(job.about)
                    _thread.until = job.until
                    outcome = job.call()
            except BaseException as error:  # noqa: BLE001 - handed to the awaiting caller
                outcome, settle = self._explain(error), _set_exception
            with contextlib.suppress(RuntimeError):  # the loop is closed: nobody waits any more
                job.loop.call_soon_threadsafe(settle, job.future, outcome)
            try:
                self._after()
            except Exception:  # a lane that died would leave every later caller waiting
                logger.exception("cleaning up after a call failed")
            self._working[number] = False
        self._at_exit()


def _set_result(future: asyncio.Future[Any], value: Any) -> None:
    if not future.done():
        future.set_result(value)


def _set_exception(future: asyncio.Future[Any], error: BaseException) -> None:
    if not future.done():
        if isinstance(error, StopIteration):  # a future does not accept it, and the caller would wait for ever
            error = RuntimeError(f"the call raised {error!r}")
        future.set_exception(error)

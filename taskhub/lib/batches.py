"""Batches: calls that arrive at the same moment share one database round trip.

A thread hop, a query and a commit cost more than the row they move. While one batch runs, new
calls gather in the next one; when none runs, a call starts at once, without waiting for others.
(Two batches at a time were tried: they were smaller, and throughput of `tasks/get` fell by a tenth.)
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from typing import Generic, TypeVar

from taskhub.lib.lanes import Lanes

A = TypeVar("A")
R = TypeVar("R")


class Batches(Generic[A, R]):
    """Runs `work` in a lane with a list of up to `most` items, at most `under_way` lists at a time. `work` returns a
    result or an exception for each item, in order; if it raises, every caller of the batch gets that exception.

    `gather(n)` returns the seconds that a list of `n` items, fewer than `most`, waits for more before it is run."""

    def __init__(
        self,
        lanes: Lanes,
        work: Callable[[list[A]], Sequence[R | Exception]],
        *,
        most: int = 64,
        under_way: int = 1,
        gather: Callable[[int], float] = lambda n: 0.0,
    ) -> None:
        self._lanes = lanes
        self._work = work
        self._most = most
        self._allowed = under_way
        self._waiting: list[tuple[A, asyncio.Future[R], float]] = []
        self._under_way: set[asyncio.Task[None]] = set()
        self._gather = gather
        self._start_at: asyncio.Handle | None = None

    async def run(self, item: A) -> R:
        """The result for this item. Cancelling the caller does not stop the batch. If the item has waited longer than
        the lanes' `patience`, or the database left another batch without an answer meanwhile, the item is dropped, and
        the exception is raised that `Lanes.vain` returns."""
        if len(self._waiting) >= self._lanes.most:
            raise self._lanes.crowded()
        loop = asyncio.get_running_loop()
        future: asyncio.Future[R] = loop.create_future()
        self._waiting.append((item, future, time.monotonic()))
        self._schedule()
        return await future

    def _schedule(self) -> None:
        if len(self._under_way) >= self._allowed:
            return
        loop, waiting = asyncio.get_running_loop(), len(self._waiting)
        seconds = self._gather(waiting) if waiting < self._most else 0.0
        if self._start_at is None:
            # At the earliest in the next iteration of the loop, so that other calls of this iteration join the batch.
            self._start_at = loop.call_later(seconds, self._start) if seconds else loop.call_soon(self._start)
        elif not seconds and isinstance(self._start_at, asyncio.TimerHandle):
            self._start_at.cancel()
            self._start_at = loop.call_soon(self._start)

    def _start(self) -> None:
        self._start_at = None
        self._dismiss()
        if self._waiting and len(self._under_way) < self._allowed:
            batch, self._waiting = self._waiting[: self._most], self._waiting[self._most :]
            task = asyncio.ensure_future(self._run(batch))
            self._under_way.add(task)
            task.add_done_callback(self._finished)

    def _dismiss(self) -> None:
        # Items are in the order of their arrival: those that waited for too long come first.
        while self._waiting and (why := self._lanes.vain(self._waiting[0][2])) is not None:
            _, future, _ = self._waiting.pop(0)
            if not future.done():
                future.set_exception(why)

    def _finished(self, task: asyncio.Task[None]) -> None:
        self._under_way.discard(task)
        if self._waiting:
            self._schedule()

    async def _run(self, batch: list[tuple[A, asyncio.Future[R], float]]) -> None:
        found: Sequence[R | Exception]
        try:
            found = await self._lanes.run(self._work, [item for item, _, _ in batch])
        except Exception as error:  # noqa: BLE001 - handed to everyone who asked
            found = [error] * len(batch)
        for (_, future, _), outcome in zip(batch, found, strict=True):
            if future.done():
                continue
            if isinstance(outcome, Exception):
                future.set_exception(outcome)
            else:
                future.set_result(outcome)

"""Calls that come at the same moment share one round trip.

A thread hop, a query and a commit cost more than the row they move. While one batch is under
way the next gathers; when nothing is under way a call starts at once, without waiting for others.
(Two under way at a time were tried: smaller batches, and a tenth fewer `tasks/get`.)
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
    """`work` gets up to `most` items in a lane and returns for each, in order, its result or the
    error that its caller is to get; what `work` itself raises, all of them get."""

    def __init__(
        self, lanes: Lanes, work: Callable[[list[A]], Sequence[R | Exception]], *, most: int = 64, under_way: int = 1
    ) -> None:
        self._lanes = lanes
        self._work = work
        self._most = most
        self._allowed = under_way
        self._waiting: list[tuple[A, asyncio.Future[R], float]] = []
        self._under_way: set[asyncio.Task[None]] = set()
        self._scheduled = False

    async def run(self, item: A) -> R:
        """The result for this item. A caller that is cancelled stops waiting; the batch goes on. Raises what
        `Lanes.vain` returns, and leaves the item alone, when it waited longer than the lanes' `patience`, or while
        another batch was left without an answer."""
        if len(self._waiting) >= self._lanes.most:
            raise self._lanes.crowded()
        loop = asyncio.get_running_loop()
        future: asyncio.Future[R] = loop.create_future()
        self._waiting.append((item, future, time.monotonic()))
        if not self._scheduled and len(self._under_way) < self._allowed:
            self._scheduled = True
            # After this turn of the loop, so that calls which arrive in it join the batch.
            loop.call_soon(self._start)
        return await future

    def _start(self) -> None:
        self._scheduled = False
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
        self._start()

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

"""Reads of tasks that come at the same moment share one round trip.

A lane hop and a query cost more than the row they fetch. While one batch is under way the next
gathers; an idle hub reads at once, so nobody waits for company.
"""

from __future__ import annotations

import asyncio

from taskhub.core.records import TaskRecord
from taskhub.lib.lanes import Lanes
from taskhub.queries.tasks import owned_tasks

MAX_BATCH = 64
MAX_UNDER_WAY = 2

_Wanted = tuple[tuple[int, str], "asyncio.Future[TaskRecord | None]"]


class Reader:
    """One per web process."""

    def __init__(self, lanes: Lanes) -> None:
        self._lanes = lanes
        self._waiting: list[_Wanted] = []
        self._under_way: set[asyncio.Task[None]] = set()
        self._scheduled = False

    async def owned_task(self, context_id: int, public_id: str) -> TaskRecord | None:
        """As `queries.tasks.owned_task`; raises what the read raised."""
        loop = asyncio.get_running_loop()
        future: asyncio.Future[TaskRecord | None] = loop.create_future()
        self._waiting.append(((context_id, public_id), future))
        if not self._scheduled and len(self._under_way) < MAX_UNDER_WAY:
            self._scheduled = True
            # After this turn of the loop: requests that arrived with this one come along.
            loop.call_soon(self._start)
        return await future

    def _start(self) -> None:
        self._scheduled = False
        if self._waiting and len(self._under_way) < MAX_UNDER_WAY:
            batch, self._waiting = self._waiting[:MAX_BATCH], self._waiting[MAX_BATCH:]
            task = asyncio.ensure_future(self._read(batch))
            self._under_way.add(task)
            task.add_done_callback(self._finished)

    def _finished(self, task: asyncio.Task[None]) -> None:
        self._under_way.discard(task)
        self._start()

    async def _read(self, batch: list[_Wanted]) -> None:
        try:
            found = await self._lanes.run(owned_tasks, [wanted for wanted, _ in batch])
        except Exception as error:  # noqa: BLE001 - handed to everyone who asked
            for _, future in batch:
                if not future.done():
                    future.set_exception(error)
            return
        for (_, future), task in zip(batch, found, strict=True):
            if not future.done():
                future.set_result(task)

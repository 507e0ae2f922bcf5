"""What a worker knows of servers that cannot be reached. The truth is in the database (`domain.catalogue.breakers`)."""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress

from taskhub.core.errors import Unavailable
from taskhub.domain.catalogue.breakers import (
    PROBE_SECONDS,
    leave_probe,
    store_failure,
    store_reached,
    take_probe,
    troubled_servers,
)
from taskhub.lib.lanes import Lanes


class Breakers:
    """Says which servers' calls wait, and which one may try. All of it in the worker's loop; what it asks the database
    is never part of a claim, and nothing while every server is reached."""

    def __init__(self, lanes: Lanes, soon: Callable[[str, Callable[[], Awaitable[object]]], None]) -> None:
        """`soon(what, do)` does something that nobody waits for."""
        self._lanes = lanes
        self._soon = soon
        self._turn = asyncio.Lock()
        self._troubled: set[int] = set()
        """Servers whose last call, of any worker, could not connect: the next sign of life is worth telling."""
        self._open: dict[int, float] = {}
        """Of these, those whose calls wait, and when to ask for the next try."""
        self._ours: set[int] = set()
        """Of these, those that it is for this worker to try, with the next call it gets."""

    async def refresh(self) -> list[int]:
        """Look what is so. Returns the servers whose breaker is open and was not before."""
        async with self._turn:  # what was read first is not applied last
            found = await self._lanes.run(troubled_servers)
            now, before = time.monotonic(), self._open
            self._troubled = {each.server_id for each in found}
            waiting = {each.server_id: each.seconds for each in found if each.seconds is not None}
            self._ours &= waiting.keys()
            self._open = {
                server_id: before[server_id] if server_id in self._ours else now + seconds
                for server_id, seconds in waiting.items()
            }
        return [server_id for server_id in self._open if server_id not in before]

    async def ask(self) -> None:
        """Get hold of every try that is due, where no other worker has."""
        if self.patience() > 0:
            return
        late = False
        async with self._turn:
            now = time.monotonic()
            for server_id in [server_id for server_id, due in self._open.items() if due <= now]:
                self._ours.discard(server_id)
                if await self._lanes.run(take_probe, server_id):
                    self._ours.add(server_id)
                    self._open[server_id] = now + PROBE_SECONDS
                else:
                    self._open[server_id] = now + 1.0
                    late = True
        if late:
            await self.refresh()

    def patience(self) -> float:
        """So many seconds there is nothing to ask."""
        return max(0.0, min(self._open.values(), default=math.inf) - time.monotonic())

    def rooms(self) -> dict[int, int]:
        """How many calls the servers whose breaker is open take from this worker."""
        return {server_id: int(server_id in self._ours) for server_id in self._open}

    def begin(self, server_id: int) -> bool:
        """A call of this server is about to begin. Whether it is the one to try it."""
        if server_id in self._ours:
            self._ours.discard(server_id)
            return True
        return False

    async def failed(self, server_id: int, problem: str, *, probing: bool) -> bool:
        """It could not connect. Whether it waits, since the breaker was open before."""
        waits = await self._lanes.run(store_failure, server_id, problem, probing=probing)
        with suppress(Unavailable):  # it is counted, and must not be again
            await self.refresh()
        return waits

    def reached(self, server_id: int) -> None:
        """The server has let somebody in, or answered."""
        if server_id in self._troubled:
            self._troubled.discard(server_id)
            self._soon("breakers", lambda: self._lanes.run(store_reached, server_id))

    def leave(self, server_id: int) -> None:
        """The call that was to try it has ended without telling whether it can be reached."""
        if server_id in self._open:
            self._soon("breakers", lambda: self._leave(server_id))

    async def close(self) -> None:
        """Leave every try to others."""
        with suppress(Unavailable):
            for server_id in self._ours:
                await self._lanes.run(leave_probe, server_id)

    async def _leave(self, server_id: int) -> None:
        await self._lanes.run(leave_probe, server_id)
        await self.refresh()

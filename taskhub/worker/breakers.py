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
    """Knows the servers whose breaker is open, and which of them this worker may probe. For the worker's loop only. Its
    statements are never part of a claim, and there are none while every server can be reached."""

    def __init__(self, lanes: Lanes, soon: Callable[[str, Callable[[], Awaitable[object]]], None]) -> None:
        """`soon(what, do)` runs `do` in the background."""
        self._lanes = lanes
        self._soon = soon
        self._turn = asyncio.Lock()
        self._troubled: set[int] = set()
        """Servers whose last call, of any worker, could not connect: their next sign of life is to be stored."""
        self._open: dict[int, float] = {}
        """Those of them whose breaker is open, and when to ask for the next probe."""
        self._ours: set[int] = set()
        """Those of them that this worker is to probe, with the next call it gets."""

    async def refresh(self) -> list[int]:
        """Read the breakers. Returns the servers whose breaker is open and was not before."""
        async with self._turn:  # one at a time, so that an older reading never replaces a newer one
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
        """Take every probe that is due, unless another worker has it."""
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
        """Seconds until the next probe is due."""
        return max(0.0, min(self._open.values(), default=math.inf) - time.monotonic())

    def rooms(self) -> dict[int, int]:
        """How many calls the servers whose breaker is open take from this worker."""
        return {server_id: int(server_id in self._ours) for server_id in self._open}

    def begin(self, server_id: int) -> bool:
        """To be called before a call of this server begins. Returns whether the call is its probe."""
        if server_id in self._ours:
            self._ours.discard(server_id)
            return True
        return False

    async def failed(self, server_id: int, problem: str, *, probing: bool) -> bool:
        """A call could not connect. Returns whether it goes back to the queue, since the breaker was open already."""
        waits = await self._lanes.run(store_failure, server_id, problem, probing=probing)
        with suppress(Unavailable):  # the failure is counted by now, and must not be counted twice
            await self.refresh()
        return waits

    def reached(self, server_id: int) -> None:
        """The server has accepted a connection, or answered."""
        if server_id in self._troubled:
            self._troubled.discard(server_id)
            self._soon("breakers", lambda: self._lanes.run(store_reached, server_id))

    def leave(self, server_id: int) -> None:
        """The call that was the probe has ended without telling whether the server can be reached."""
        if server_id in self._open:
            self._soon("breakers", lambda: self._leave(server_id))

    async def close(self) -> None:
        """Leave every probe to other workers."""
        with suppress(Unavailable):
            for server_id in self._ours:
                await self._lanes.run(leave_probe, server_id)

    async def _leave(self, server_id: int) -> None:
        await self._lanes.run(leave_probe, server_id)
        await self.refresh()

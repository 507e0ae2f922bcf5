"""A worker's copy of the breakers of servers, which are in the database (`domain.catalogue.breakers`)."""

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
    """The servers whose breaker is open, and those of them that this worker may probe. Runs no SQL while every server
    can be reached, and none as part of a claim. Only for the worker's event loop."""

    def __init__(self, lanes: Lanes, soon: Callable[[str, Callable[[], Awaitable[object]]], None]) -> None:
        """`soon(what, do)` runs `do` in the background."""
        self._lanes = lanes
        self._soon = soon
        self._turn = asyncio.Lock()
        self._troubled: set[int] = set()
        """Servers to which the last call of any worker could not connect. When this worker reaches such a server, it
        stores that the server can be reached."""
        self._open: dict[int, float] = {}
        """Servers whose breaker is open, each with the `time.monotonic` at which to ask for its next probe."""
        self._ours: set[int] = set()
        """Servers whose probe this worker has taken: its next call of the server is the probe."""

    async def refresh(self) -> list[int]:
        """Read the breakers from the database. Returns the servers whose breaker has opened since the last reading."""
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
        """Take every probe that is due and that no other worker has."""
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
        """Seconds until the next probe is due; infinite if every breaker is closed."""
        return max(0.0, min(self._open.values(), default=math.inf) - time.monotonic())

    def rooms(self) -> dict[int, int]:
        """For each server whose breaker is open, the calls that this worker may make: 1 if it has the probe, else 0."""
        return {server_id: int(server_id in self._ours) for server_id in self._open}

    def begin(self, server_id: int) -> bool:
        """Note that a call of this server begins. Returns whether the call is the probe that this worker has taken."""
        if server_id in self._ours:
            self._ours.discard(server_id)
            return True
        return False

    async def failed(self, server_id: int, problem: str, *, probing: bool) -> bool:
        """Store that a call could not connect. Returns whether the breaker was open already, so that the call goes back
        to the queue."""
        waits = await self._lanes.run(store_failure, server_id, problem, probing=probing)
        with suppress(Unavailable):  # the failure is stored; if the caller tried again, it would be counted twice
            await self.refresh()
        return waits

    def reached(self, server_id: int) -> None:
        """Note that the server has accepted a connection, or answered."""
        if server_id in self._troubled:
            self._troubled.discard(server_id)
            self._soon("breakers", lambda: self._lanes.run(store_reached, server_id))

    def leave(self, server_id: int) -> None:
        """Give up this worker's probe, because the call ended without showing whether the server can be reached."""
        if server_id in self._open:
            self._soon("breakers", lambda: self._leave(server_id))

    async def close(self) -> None:
        """Give up every probe that this worker has, so that other workers can take them."""
        with suppress(Unavailable):
            for server_id in self._ours:
                await self._lanes.run(leave_probe, server_id)

    async def _leave(self, server_id: int) -> None:
        await self._lanes.run(leave_probe, server_id)
        await self.refresh()

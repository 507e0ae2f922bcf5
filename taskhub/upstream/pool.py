"""The connections to one server: borrowed for a call, kept for the next, dropped when broken."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections import defaultdict
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager
from typing import Any, TypeVar

import uvloop

from taskhub.upstream.connection import Connection, Profile, Target

logger = logging.getLogger(__name__)
T = TypeVar("T")

MAX_CONNECTIONS = {"python": 64, "stdio": 1, "http": 20}
"""Per server. A command is one process, because its state is its own: its calls take turns."""


class Pool:
    """All connections to one server, living in one event loop.

    An in-process server gets a loop and a thread of its own: code of others that blocks its loop
    stops only itself, never heartbeats, leases or the tasks of other servers.
    """

    def __init__(self, name: str, target: Target) -> None:
        self.name = name
        self.target = target
        self._idle: defaultdict[Profile, list[Connection]] = defaultdict(list)
        self._room = asyncio.Semaphore(MAX_CONNECTIONS[target.transport])
        self._own_loop: asyncio.AbstractEventLoop | None = None
        self.closed = False
        if target.transport == "python":
            self._own_loop = uvloop.new_event_loop()
            threading.Thread(target=self._own_loop.run_forever, name=f"server-{name}", daemon=True).start()

    async def run(self, work: Coroutine[Any, Any, T]) -> T:
        """`work`, in the loop where this server's connections live. Cancelling the caller cancels
        the work, and waits for it only as long as the caller does."""
        if self._own_loop is None:
            return await work
        return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(work, self._own_loop))

    @asynccontextmanager
    async def borrow(self, profile: Profile) -> AsyncIterator[Connection]:
        """A connection for one call. Raises `Unavailable` when the server cannot be reached. A
        connection whose call failed is not used again."""
        if self.target.transport == "stdio":
            profile = Profile(sampling=True, roots=True)  # one process serves everybody
        async with self._room:
            connection = await self._take(profile)
            healthy = False
            try:
                yield connection
                healthy = True
            finally:
                connection.bound = None
                if healthy and connection.alive and not self.closed:
                    self._idle[profile].append(connection)
                else:
                    await asyncio.shield(connection.stop())

    async def _take(self, profile: Profile) -> Connection:
        idle = self._idle[profile]
        while idle:
            connection = idle.pop()
            if connection.alive:
                return connection
        connection = Connection(self.target, profile)
        await connection.start()
        return connection

    async def close(self) -> None:
        """End every idle connection, and the thread."""
        self.closed = True
        if self._own_loop is None:
            await self._close_idle()
            return
        try:
            async with asyncio.timeout(5):
                await self.run(self._close_idle())
        except TimeoutError:
            logger.warning("server %s is busy and was left behind", self.name)
        self._own_loop.call_soon_threadsafe(self._own_loop.stop)

    async def _close_idle(self) -> None:
        held = [connection for idle in self._idle.values() for connection in idle]
        self._idle.clear()
        for connection in held:
            await connection.stop()

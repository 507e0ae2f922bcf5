"""Sessions at an HTTP server of 2025-11-25 that other workers opened, and in which the server runs tasks. When such a
worker is lost, another resumes its session to poll these tasks. A resumed session serves requests about tasks alone,
and is never ended here, since other workers may poll other tasks in it.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Final

from taskhub.upstream.connection import Connection

IDLE_SECONDS: Final = 150.0
"""Seconds for which the connection is kept after the last request: longer than the time between two polls."""

MOST_FORGOTTEN: Final = 1_000
"""The most sessions that are remembered as unknown to their server."""


@dataclass(eq=False, slots=True)
class _Held:
    connection: Connection
    users: int = 0
    ending: asyncio.TimerHandle | None = None


class ResumedSessions:
    """The resumed sessions at one server, by their ids. For one event loop only."""

    def __init__(self, connect: Callable[[str], Awaitable[Connection]]) -> None:
        """`connect` makes the connection that resumes the session with this id."""
        self._connect = connect
        self._held: dict[str, _Held] = {}
        self._opening = asyncio.Lock()
        self._forgotten: dict[str, None] = {}
        self._chores: set[asyncio.Task[None]] = set()

    def forgotten(self, session_id: str) -> bool:
        """Whether the server has said that it does not know the session any more."""
        return session_id in self._forgotten

    @asynccontextmanager
    async def lend(self, session_id: str, context_id: int) -> AsyncIterator[Connection]:
        """A connection in this session of the client, for any number of requests at the same time. Raises what requests
        of the SDK's client raise; check `forgotten` after an error."""
        async with self._opening:
            held = self._held.get(session_id)
            if held is None or not held.connection.alive:
                held = self._held[session_id] = _Held(await self._connect(session_id))
                held.connection.news.owner = context_id
        held.users += 1
        if held.ending is not None:
            held.ending.cancel()
            held.ending = None
        try:
            yield held.connection
        finally:
            held.users -= 1
            if held.connection.forgotten:
                self._forgotten[session_id] = None
                if len(self._forgotten) > MOST_FORGOTTEN:
                    del self._forgotten[next(iter(self._forgotten))]
            if not held.users:
                if held.connection.alive:
                    held.ending = asyncio.get_running_loop().call_later(IDLE_SECONDS, self._end, session_id, held)
                else:
                    self._end(session_id, held)

    def _end(self, session_id: str, held: _Held) -> None:
        if self._held.get(session_id) is held:
            del self._held[session_id]
        task = asyncio.get_running_loop().create_task(held.connection.stop())
        self._chores.add(task)
        task.add_done_callback(self._chores.discard)

    async def close(self) -> None:
        """Close every connection."""
        for session_id, held in list(self._held.items()):
            if held.ending is not None:
                held.ending.cancel()
            self._end(session_id, held)
        if self._chores:
            await asyncio.wait(set(self._chores))

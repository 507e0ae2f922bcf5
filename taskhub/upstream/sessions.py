"""The sessions at one server: a process of a command, or a session at an HTTP server that has sessions. A session
belongs to one client, whose state it holds, and carries all calls of that client; if it is `shared`, it carries the
calls of all clients."""

from __future__ import annotations

import asyncio
import logging
import time
from collections import defaultdict
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import Any, Final, Protocol

import mcp_types as types
from mcp import MCPError

from taskhub.core.errors import Unavailable
from taskhub.upstream.connection import Connection
from taskhub.upstream.failures import gone

logger = logging.getLogger(__name__)

HEED_SECONDS: Final = 3.0
"""Seconds in which a server has to answer a ping after a call was cancelled. If it does not, its session is ended."""
KEPT_SECONDS: Final = 150.0
"""The fewest seconds that a session is kept after a request about a task of its server: longer than the time between
two polls."""
CROWDED_SECONDS: Final = 1.0
"""The fewest seconds for which a call goes back to the queue if there is no place for its process."""


FOR_SESSIONS: Final = -1
"""The key, in place of a client, of the shared session in which callers with sessions are served."""


class Later(Unavailable):
    """The call cannot run here now: it is to be claimed again after `seconds`."""

    def __init__(self, message: str, *, seconds: float) -> None:
        super().__init__(message)
        self.seconds = seconds


class Keeper(Protocol):
    """Records which clients have a session in this worker, so that other workers leave the calls of these clients to
    it."""

    async def take(self, context_id: int) -> str:
        """Reserve the client for this worker, before a session is opened for it. Returns why the client's earlier
        session was lost; empty if it was not. Raises `Later` if another worker has a session of this client."""

    def opened(self, context_id: int, pid: int | None) -> None:
        """Record that the session was opened; `pid` is the process of a command, `None` for other servers."""

    def left(self, context_id: int, why: str) -> None:
        """Record that the session has ended, and why."""


class NoKeeper:
    """A `Keeper` that records nothing outside of this process."""

    def __init__(self) -> None:
        self._lost: dict[int, str] = {}

    async def take(self, context_id: int) -> str:
        """Why this client's earlier session was lost, if it was lost in this process. See `Keeper.take`."""
        return self._lost.pop(context_id, "")

    def opened(self, context_id: int, pid: int | None) -> None:
        """See `Keeper`."""

    def left(self, context_id: int, why: str) -> None:
        """See `Keeper`."""
        self._lost[context_id] = why


@dataclass(frozen=True, slots=True)
class Wanted:
    """For whom a session is opened. `sessions`, `roots`: whether the caller has sessions (`Profile.sessions`) and
    roots. `calls`: whether calls will be made in the session."""

    sessions: bool = False
    roots: bool = False
    calls: bool = True


@dataclass(eq=False)
class Session:
    """One session. `context_id` is `None` if it belongs to no client: it is for lists and reads, or is shared."""

    connection: Connection
    context_id: int | None
    users: int = 0
    used_at: float = field(default_factory=time.monotonic)
    kept_until: float = 0.0
    """Until when (`time.monotonic`) the session is kept although idle, because its server runs a task."""
    why: str = ""
    """Why the session is being ended; empty if it is not."""
    ending: asyncio.TimerHandle | None = None


class Places:
    """Bounds the number of processes for clients in one worker, of all commands together."""

    def __init__(self, most: int) -> None:
        self.most = most
        self._taken: dict[Sessions, int] = defaultdict(int)

    def take(self, sessions: Sessions) -> None:
        """Take a place. If none is free, end the process that has been idle for longest. Raises `Later` if none is
        idle."""
        if sum(self._taken.values()) >= self.most:
            idle = [(session.used_at, each, session) for each in self._taken for session in each.idle()]
            if not idle:
                raise Later("Waiting for a place: all processes of commands are in use", seconds=CROWDED_SECONDS)
            _, each, session = min(idle, key=lambda one: one[0])
            each.end(session, "it made room for another client's")
        self._taken[sessions] += 1

    def leave(self, sessions: Sessions) -> None:
        """Give a place back."""
        self._taken[sessions] -= 1
        if not self._taken[sessions]:
            del self._taken[sessions]


class Sessions:
    """The sessions at one server. All of it runs in the loop of the server's connections."""

    def __init__(
        self,
        connect: Callable[[Wanted], Awaitable[Connection]],
        *,
        shared: bool,
        idle_seconds: float,
        places: Places | None,
        keeper: Keeper | None = None,
    ) -> None:
        self._connect = connect
        self.shared = shared
        self._idle_seconds = idle_seconds
        self._places = places
        self._keeper = keeper or NoKeeper()
        self._of: dict[int | None, Session] = {}
        self._turns: defaultdict[int | None, asyncio.Lock] = defaultdict(asyncio.Lock)
        self._chores: set[asyncio.Task[Any]] = set()
        self._closed = False

    @asynccontextmanager
    async def lend(
        self, context_id: int, *, sessions: bool = False, roots: bool = False, of_task: bool = False
    ) -> AsyncIterator[Connection]:
        """Lend the client's session for a call; other calls of the client may use it at the same time. If there is no
        session, one is opened, which says to the server what the caller can do: `sessions` and `roots` (`Wanted`). If
        the server answers with and without sessions, `sessions` decides which. If the call is cancelled and the server
        then does not answer a ping, the session is ended; with `of_task` it is not, because a task of the server would
        end with it."""
        session = await self._own(context_id, Wanted(sessions, roots))
        if of_task:
            session.kept_until = time.monotonic() + KEPT_SECONDS
        async with self._using(session, patient=of_task) as connection:
            yield connection

    @asynccontextmanager
    async def look(self, context_id: int | None = None) -> AsyncIterator[Connection]:
        """Lend a session for a request that needs no state: the client's if it has one here, else one that belongs to
        no client. Without `context_id`, which is for listing the server, it is never a client's session, because that
        may list tools for its client alone."""
        found = self._of.get(context_id)
        if found is None or not found.connection.alive:
            found = await self._nobodys()
        async with self._using(found) as connection:
            yield connection

    def idle(self) -> list[Session]:
        """The clients' sessions that carry no call, and whose servers run no task."""
        now = time.monotonic()
        held = [each for each in self._of.values() if each.context_id is not None and not each.users]
        return [each for each in held if each.kept_until <= now]

    def has(self, context_id: int, session_id: str) -> bool:
        """Whether the client's session here is the one with this id at its HTTP server."""
        found = self._of.get(None if self.shared else context_id)
        return found is not None and found.connection.alive and found.connection.session.id == session_id

    def processes(self) -> list[int]:
        """The ids of the processes of the clients' sessions; empty at an HTTP server."""
        held = [each.connection.pid for each in list(self._of.values()) if each.context_id is not None]
        return [pid for pid in held if pid is not None]

    def end(self, session: Session, why: str) -> None:
        """End a session. Calls that it carries may still get their answers."""
        if session.why:
            return
        session.why = why
        session.connection.session.left = session.kept_until > time.monotonic()
        if session.ending is not None:
            session.ending.cancel()
        for key in [key for key, each in self._of.items() if each is session]:
            del self._of[key]
        if session.context_id is not None:
            if self._places is not None:
                self._places.leave(self)
            self._keeper.left(session.context_id, why)
        if not session.users:
            self._soon(session.connection.stop())

    async def close(self, why: str) -> None:
        """End every session, and wait for the end of those that carry no call."""
        self._closed = True
        for session in list(self._of.values()):
            self.end(session, why)
        if self._chores:
            await asyncio.wait(set(self._chores))

    async def _own(self, context_id: int, wanted: Wanted) -> Session:
        key = context_id if not self.shared else FOR_SESSIONS if wanted.sessions else None
        found = self._of.get(key)
        if found is not None and found.connection.alive:
            return found
        async with self._turns[key]:  # one at a time, so that the client gets one session
            found = self._of.get(key)
            if found is not None:
                if found.connection.alive:
                    return found
                self.end(found, _lost(found))
            return await self._open(key, wanted)

    async def _nobodys(self) -> Session:
        async with self._turns[None]:
            found = self._of.get(None)
            if found is not None:
                if found.connection.alive:
                    return found
                self.end(found, _lost(found))
            return await self._open(None, Wanted())

    async def _open(self, context_id: int | None, wanted: Wanted) -> Session:
        if context_id in (None, FOR_SESSIONS):
            # Declare everything: some servers list a tool only to clients that declare the capabilities it needs.
            told = Wanted(sessions=wanted.sessions, roots=True, calls=self.shared)
            session = self._of[context_id] = Session(await self._connect(told), None)
            return session
        lost = await self._keeper.take(context_id)
        placed = False
        try:
            if self._places is not None:
                self._places.take(self)
                placed = True
            session = Session(await self._connect(wanted), context_id)
        except BaseException:
            if placed and self._places is not None:
                self._places.leave(self)
            self._keeper.left(context_id, lost)
            raise
        session.connection.lost_before = lost
        session.connection.news.owner = context_id
        self._of[context_id] = session
        self._keeper.opened(context_id, session.connection.pid)
        return session

    @asynccontextmanager
    async def _using(self, session: Session, *, patient: bool = False) -> AsyncIterator[Connection]:
        session.users += 1
        if session.ending is not None:
            session.ending.cancel()
            session.ending = None
        try:
            yield session.connection
        except asyncio.CancelledError:
            # The SDK has sent `notifications/cancelled`. If the server still answers, its session and state are kept.
            if not patient:
                await asyncio.shield(self._soon(self._keep_if_living(session)))
            raise
        except MCPError as error:
            if gone(error) and session.connection.alive:
                await asyncio.shield(self._soon(self._keep_if_living(session)))
            raise
        finally:
            session.users -= 1
            session.used_at = time.monotonic()
            await self._used(session)

    async def _used(self, session: Session) -> None:
        if not session.why and not session.connection.alive:
            self.end(session, _lost(session))
            return
        if session.users:
            return
        if session.why:
            await asyncio.shield(self._soon(session.connection.stop()))
        elif session.context_id is not None:
            loop = asyncio.get_running_loop()
            idle = max(self._idle_seconds, session.kept_until - session.used_at)
            session.ending = loop.call_later(idle, self.end, session, "it was not used for long")

    async def _keep_if_living(self, session: Session) -> None:
        if not session.connection.alive or await _answers(session.connection):
            return
        self.end(session, "its server no longer answered")
        self._soon(session.connection.stop())  # even if it carries other calls, which would wait in vain

    def _soon(self, work: Any) -> asyncio.Task[Any]:
        task = asyncio.get_running_loop().create_task(work)
        self._chores.add(task)
        task.add_done_callback(self._chores.discard)
        return task


async def _answers(connection: Connection) -> bool:
    """Whether the server answers a ping within `HEED_SECONDS`, even if it answers with an error."""
    if connection.client is None:
        return False
    with suppress(TimeoutError):
        async with asyncio.timeout(HEED_SECONDS):
            try:
                await connection.client.session.send_request(types.PingRequest(), types.EmptyResult)
            except MCPError as error:
                return not gone(error)
            except Exception:  # noqa: BLE001 - it has answered something
                return True
            return True
    return False


def _lost(session: Session) -> str:
    return "its process ended" if session.connection.target.transport == "stdio" else "its server forgot it"

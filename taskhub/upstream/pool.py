"""A pool of the connections to one server: lent for a call, kept for the next, dropped when broken.

A connection without a session serves one call of any client at a time. A session (`upstream.sessions`) belongs to one
client and carries all its calls.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections import defaultdict
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any, TypeVar

from django.conf import settings
from mcp import MCPError

from taskhub.core.errors import Unavailable
from taskhub.core.records import LogLine
from taskhub.core.transports import CALLS_AT_ONCE
from taskhub.core.versions import OF_CALLER, Era, has_sessions
from taskhub.lib.crossing import Crossing
from taskhub.lib.loops import new_event_loop
from taskhub.lib.schemas import Checker
from taskhub.upstream.asks import Asks
from taskhub.upstream.connection import Connection, Profile
from taskhub.upstream.eras import Eras
from taskhub.upstream.failures import gone, reason
from taskhub.upstream.posts import Posts
from taskhub.upstream.resumed import ResumedSessions
from taskhub.upstream.session_tasks import SessionTasks
from taskhub.upstream.sessions import Keeper, Places, Sessions
from taskhub.upstream.target import Target

logger = logging.getLogger(__name__)
T = TypeVar("T")

SOON_SECONDS = 0.05
"""Seconds for which a call waits while as many calls as `Room`'s `soon` run."""
ABLE = Profile(sampling=frozenset({"tools"}), roots=True)
"""The capabilities declared on a connection that serves all callers. Those that neither a caller nor people can serve
are left out of that caller's calls, or the server's requests for them are refused (`Bound`). The part `context` of
sampling is not declared, because people cannot give it."""


class Pool:
    """All connections to one server, which live in one event loop.

    An in-process server has its own event loop in its own thread: if its code blocks the loop,
    heartbeats, leases and the tasks of other servers go on.
    """

    def __init__(
        self,
        name: str,
        target: Target,
        *,
        most: int | None = None,
        soon: int | None = None,
        era: Era | None = None,
        shared: bool = False,
        places: Places | None = None,
        keeper: Keeper | None = None,
    ) -> None:
        """`most`: the most calls at once; by default that of the transport (`CALLS_AT_ONCE`). `soon`: as in `Room`.
        `era`: the era in which the server last answered, if known. `shared`: whether clients share the server's
        processes or sessions."""
        self.name = name
        self.target = target
        self.eras = Eras(era)
        self._idle: defaultdict[Profile, list[Connection]] = defaultdict(list)
        self.most = most or CALLS_AT_ONCE[target.transport]
        self._room = Room(self.most, soon)
        self._shared, self._places, self._keeper = shared, places, keeper
        self.sessions = Sessions(
            lambda wanted: self._connect(
                replace(ABLE, sessions=wanted.sessions), calls=wanted.calls, roots=wanted.roots
            ),
            shared=shared,
            idle_seconds=settings.TASKHUB_COMMAND_IDLE_SECONDS,
            places=places,
            keeper=keeper,
        )
        self._with_session = {False, True} if target.transport == "stdio" or (target.sse and not shared) else set()
        """The values of `Profile.sessions` for which the server's connections are sessions. For an HTTP server, known
        only after it was connected."""
        self._resumed = ResumedSessions(self._resume)
        self._for_all: dict[bool, Connection] = {}
        """The connections of `shared`, by `Profile.sessions`."""
        self._opening = asyncio.Lock()
        self.asks = Asks(target) if target.transport == "http" else None
        """Makes small requests without a connection of the SDK; `None` for servers that are not reached by HTTP."""
        self._own_loop: asyncio.AbstractEventLoop | None = None
        self._over: Crossing | None = None
        self._back: Crossing | None = None
        """`_over` calls into the loop of an in-process server, `_back` brings results to the worker's loop."""
        self._working: set[asyncio.Task[Any]] = set()
        """The asyncio tasks of `run` in the loop of an in-process server."""
        self.closed = False
        self.on_lists_changed: Callable[[], None] = lambda: None
        self.on_updated: Callable[[str], None] = lambda uri: None
        """Called when the server announces a change, on any connection: older servers announce it only on the
        connection concerned."""
        self.on_connected: Callable[[], None] = lambda: None
        """Called when a new connection has been made."""
        self.on_line: Callable[[str], None] = lambda text: None
        """Called, in any thread, with each logged line that a command writes to its standard error, or to its output
        between messages."""
        self.on_task_changed: Callable[[str, bool, int | None], None] = lambda task, working, owner: None
        self.on_task_said: Callable[[str, LogLine, int | None], None] = lambda token, line, owner: None
        """Called for notifications about the server's tasks on any connection (`TaskNews`)."""
        self.mirrored: frozenset[tuple[str, str]] = frozenset()
        """The tools whose arguments are repeated in headers, as pairs of name and digest."""
        self.outputs: dict[str, Any] = {}
        """Output schemas by tool: `None` for a tool without one, no entry for a tool that was not listed yet."""
        self.only_as_tasks: frozenset[str] | None = None
        """The tools that a 2025-11-25 server runs only as tasks; `None` until they are known."""
        self.tasks = SessionTasks()
        """Tasks of a server of 2025-11-25."""
        self.interim: set[str] = set()
        """The tools that answer with questions (`InputRequiredResult`), which a session cannot carry."""
        self.checker = Checker()
        self.posts = Posts(target) if target.transport == "http" else None
        """Makes calls without a connection of the SDK; `None` for servers that are not reached by HTTP."""
        if target.transport == "python":
            self._own_loop = new_event_loop()
            self._over = Crossing(self._own_loop)
            threading.Thread(target=self._serve, args=(self._own_loop,), name=f"server-{name}", daemon=True).start()

    def _serve(self, loop: asyncio.AbstractEventLoop) -> None:
        while True:
            try:
                loop.run_forever()
            except BaseException:  # raised by a task that the server itself started, such as SystemExit: the loop stops
                logger.exception("server %s: its code tried to end the process it runs in", self.name)
            else:
                return

    def alike(self, target: Target) -> Pool:
        """A pool for the same server, with a target of its own, such as for another grant."""
        made = Pool(self.name, target, most=self.most, shared=self._shared, places=self._places, keeper=self._keeper)
        made.on_connected = self.on_connected
        made.on_task_changed, made.on_task_said = self.on_task_changed, self.on_task_said
        made.take_over(self)
        return made

    def take_over(self, other: Pool) -> None:
        """Copy what `other` knows about the server's tools."""
        self.mirrored, self.only_as_tasks = other.mirrored, other.only_as_tasks
        self.outputs = other.outputs or self.outputs

    def resize(self, most: int) -> None:
        """Change the limit of calls at once. Calls that already run do not count against the new limit."""
        self.most = most
        self._room = Room(most)

    async def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Run `work` in the loop of this server's connections and return its result. Cancelling the caller cancels the
        work and waits until it has stopped; a second cancellation ends the wait.

        Does not use `run_coroutine_threadsafe` and `wrap_future`: they need a third future with a lock between the two
        loops, and report "cancelled" before the work has stopped.
        """
        over = self._over
        if over is None:
            return await work
        here = asyncio.get_running_loop()
        back = self._back
        if back is None or back.there is not here:
            back = self._back = Crossing(here)
        answer: asyncio.Future[T] = here.create_future()
        started: list[asyncio.Task[T]] = []

        def start() -> None:
            task = over.there.create_task(work)
            started.append(task)
            self._working.add(task)
            task.add_done_callback(report)

        def report(task: asyncio.Task[T]) -> None:
            self._working.discard(task)
            back.call(lambda: _settle(answer, task))
            self._stop_when_idle()

        def stop() -> None:
            started[0].cancel()

        over.call(start)
        try:
            return await asyncio.shield(answer)
        except asyncio.CancelledError:
            if not answer.done():
                over.call(stop)
                await asyncio.wait({answer})
            raise

    def fitted(self, profile: Profile) -> Profile:
        """The profile of the connections that serve a caller with this profile."""
        if profile.sessions and (self.target.pinned != OF_CALLER or not self.eras.dual(sessions=True)):
            return replace(profile, sessions=False)  # all callers are served alike
        return profile

    def posts_for(self, profile: Profile, tool: str) -> Posts | None:
        """`posts`, if the tool can be called without a connection of the SDK. `None` if no call of this profile was
        made through the SDK yet, if the tool's arguments are repeated in headers, or if its output schema is not
        known."""
        if self.posts is None or not self.posts.ready(profile) or tool not in self.outputs:
            return None
        return None if any(name == tool for name, _ in self.mirrored) else self.posts

    @asynccontextmanager
    async def turn(self) -> AsyncIterator[None]:
        """Count one call against the limit of calls at once, and wait until there is room for it."""
        async with self._room:
            yield

    @asynccontextmanager
    async def borrow(self, profile: Profile, context_id: int) -> AsyncIterator[Connection]:
        """Lend a connection for one call of this client. If the server has sessions, it is the client's session, which
        may carry other calls of the client at the same time; any other connection is closed if the block raises. Raises
        `Unavailable` if the server cannot be reached, or if the code of an in-process server tries to end the process;
        `Later` if the call cannot run here now."""
        async with self._room:
            connection = None if profile.sessions in self._with_session else await self._take(profile)
            if connection is not None and self._belongs(connection):
                await connection.stop()  # the server has opened a session on it, which belongs to no client
                connection = None
            if connection is None:
                wanted = {"sessions": profile.sessions, "roots": profile.roots}
                async with self.sessions.lend(context_id, **wanted) as connection:
                    yield connection
                return
            healthy = False
            try:
                yield connection
                healthy = True
            except BaseException as error:
                if isinstance(error, Exception | GeneratorExit) or _is_cancelled():
                    raise
                raise Unavailable(f"its code tried to end the process it runs in ({reason(error)})") from None
            finally:
                if self.posts is not None:
                    self.posts.learn(profile, connection)
                if healthy and connection.alive and not self.closed:
                    self._idle[profile].append(connection)
                else:
                    await asyncio.shield(connection.stop())
                if connection.forgotten:  # the server was restarted, so it does not know the other sessions either
                    await asyncio.shield(self.close_idle())

    @asynccontextmanager
    async def look(self, profile: Profile, context_id: int | None = None) -> AsyncIterator[Connection]:
        """Lend a connection for a request that depends on no state; if possible, it is the client's session. Without
        `context_id`, which is for listing the server, a session is one that no client uses, unless clients share it.
        Raises as `borrow` does."""
        if profile.sessions not in self._with_session:
            async with self.borrow(profile, context_id or 0) as connection:
                yield connection
            return
        async with self._room, self.sessions.look(context_id) as connection:
            yield connection

    def processes(self) -> list[int]:
        """The processes of a command that clients have. Thread-safe."""
        return self.sessions.processes()

    def note(self, connection: Connection) -> None:
        """Note whether the server has sessions, which this connection to it shows."""
        self._belongs(connection)

    def _belongs(self, connection: Connection) -> bool:
        """Whether only one client may use the connection. Notes for an HTTP server whether it has sessions."""
        sessions = connection.profile.sessions
        if self.target.transport == "http":
            self._with_session.discard(sessions)
            if connection.has_session and not self._shared:
                self._with_session.add(sessions)
        return sessions in self._with_session

    @asynccontextmanager
    async def shared(self, context_id: int, revision: str, *, roots: bool = False) -> AsyncIterator[Connection]:
        """A connection for requests about the server's tasks, such as polls, in the era of `revision`; they do not
        count against the limit of calls. If the server has sessions, it is the session of this client; else a
        connection that any number of requests use at the same time. `roots`: whether the caller has roots. Raises as
        `borrow` does."""
        sessions = self.fitted(Profile(sessions=has_sessions(revision))).sessions
        connection = None if sessions in self._with_session else await self._one_for_all(sessions)
        if connection is None:
            async with self.sessions.lend(context_id, sessions=sessions, roots=roots, of_task=True) as connection:
                yield connection
            return
        try:
            yield connection
        except MCPError as error:
            if gone(error) and self._for_all.get(sessions) is connection:
                del self._for_all[sessions]
                await asyncio.shield(connection.stop())
            raise

    @asynccontextmanager
    async def of_task(
        self, context_id: int, revision: str, session_id: str, *, roots: bool = False
    ) -> AsyncIterator[Connection]:
        """A connection for requests about a task that the server made in the session `session_id`. If another worker
        opened that session, it is resumed here. Does the same as `shared` if the session is the client's own in this
        worker, if `session_id` is empty, or if the server no longer knows the session (`session_lost`)."""
        if not session_id or self.session_lost(session_id) or self.sessions.has(context_id, session_id):
            async with self.shared(context_id, revision, roots=roots) as connection:
                yield connection
            return
        async with self._resumed.lend(session_id, context_id) as connection:
            yield connection

    def session_lost(self, session_id: str) -> bool:
        """Whether the server has said that it no longer knows this session of a task."""
        return self._resumed.forgotten(session_id)

    async def _resume(self, session_id: str) -> Connection:
        connection = Connection(self.target, replace(ABLE, sessions=True), resumed=session_id)
        connection.news.on_changed, connection.news.on_said = self.on_task_changed, self.on_task_said
        await connection.start()
        return connection

    async def _one_for_all(self, sessions: bool) -> Connection | None:
        """The connection of `shared`; `None` if it has begun a session, which may serve one client only."""
        async with self._opening:
            held = self._for_all.get(sessions)
            if held is None or not held.alive:
                if held is not None:
                    await asyncio.shield(self._for_all.pop(sessions).stop())
                held = await self._connect(replace(ABLE, sessions=sessions))
                if self._belongs(held):
                    await held.stop()
                    return None
                self._for_all[sessions] = held
            return held

    @asynccontextmanager
    async def aside(self) -> AsyncIterator[None]:
        """While the block runs, a call that has a connection does not count against the limit of calls at once: it
        waits for people."""
        self._room.leave()
        try:
            yield
        finally:
            await self._room.enter_again()

    async def _take(self, profile: Profile) -> Connection:
        idle = self._idle[profile]
        while idle:
            connection = idle.pop()
            if connection.alive:
                return connection
        return await self._connect(profile)

    async def _connect(self, profile: Profile, *, calls: bool = True, roots: bool = True) -> Connection:
        connection = Connection(self.target, profile, self.eras, calls=calls, roots=roots)
        connection.on_lists_changed, connection.on_updated = self._lists_changed, self._updated
        connection.on_line = self._said
        connection.news.on_changed, connection.news.on_said = self.on_task_changed, self.on_task_said
        await connection.start()
        self.on_connected()
        return connection

    def _lists_changed(self) -> None:
        self.on_lists_changed()

    def _updated(self, uri: str) -> None:
        self.on_updated(uri)

    def _said(self, text: str) -> None:
        self.on_line(text)

    async def close(self) -> None:
        """Close every idle connection, and end the thread of an in-process server once its running calls have ended."""
        self.closed = True
        self.checker.close()
        if self.posts is not None:
            await self.posts.close()
        if self.asks is not None:
            await self.asks.close()
        if self._own_loop is None:
            await self.tasks.close()
            ended = self.sessions.close("its server was disconnected")
            await asyncio.gather(self.close_idle(), ended, self._resumed.close())
            return
        closing = asyncio.ensure_future(self.run(self.close_idle()))
        await asyncio.wait({closing}, timeout=5)
        if not closing.done():
            logger.warning("server %s is busy and was left behind", self.name)
        await give_up(closing)
        self._own_loop.call_soon_threadsafe(self._stop_when_idle)

    def _stop_when_idle(self) -> None:
        if self.closed and not self._working and self._own_loop is not None:
            if self._back is not None:
                self._back.hand_over()
            self._own_loop.stop()

    async def close_idle(self) -> None:
        """Close all connections that no call uses."""
        held = [connection for idle in self._idle.values() for connection in idle]
        self._idle.clear()
        if self.closed:
            held += self._for_all.values()
            self._for_all = {}
        await asyncio.gather(*(connection.stop() for connection in held))


class Room:
    """The room for a limited number of calls."""

    def __init__(self, most: int, soon: int | None = None) -> None:
        """`most`: the most calls at once. While `soon` of them run, if it is not `None`, a further call enters after it
        has waited for `SOON_SECONDS`. Short calls are then made one after the other, and the server works on some while
        the results of others are stored."""
        self._free = asyncio.Semaphore(most)
        self._over = 0
        """How many calls run beyond the limit, because they went on (`enter_again`) while there was no room."""
        self._soon = asyncio.Semaphore(most if soon is None else soon)
        self._late = 0
        """How many calls run beyond `soon`."""

    async def __aenter__(self) -> None:
        await self._free.acquire()
        if not self._soon.locked():
            await self._soon.acquire()
            return
        try:
            async with asyncio.timeout(SOON_SECONDS):
                await self._soon.acquire()
        except TimeoutError:
            self._late += 1
        except BaseException:
            self._free.release()
            raise

    async def __aexit__(self, *error: object) -> None:
        self.leave()

    def leave(self) -> None:
        """Make room."""
        if self._late:
            self._late -= 1
        else:
            self._soon.release()
        if self._over:
            self._over -= 1
        else:
            self._free.release()

    async def enter_again(self) -> None:
        """Take room without waiting, which may exceed the limit."""
        if self._soon.locked():
            self._late += 1
        else:
            await self._soon.acquire()
        if self._free.locked():
            self._over += 1
        else:
            await self._free.acquire()

    def locked(self) -> bool:
        """Whether there is no room."""
        return self._free.locked()


async def give_up(running: asyncio.Future[Any]) -> None:
    """End a call of `Pool.run`, without waiting longer for work that does not stop."""
    for _ in range(2):
        running.cancel()
        await asyncio.sleep(0)
    await asyncio.wait({running}, timeout=1)


def _is_cancelled() -> bool:
    """Whether the current asyncio task was cancelled: code of a tool may raise `CancelledError` by itself."""
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0


def _settle(answer: asyncio.Future[T], task: asyncio.Task[T]) -> None:
    if task.cancelled():
        answer.cancel()
    elif (error := task.exception()) is not None:
        if not answer.done():
            answer.set_exception(error)
    elif not answer.done():
        answer.set_result(task.result())

"""The servers to which this worker is connected, each with a pool and a watcher."""

from __future__ import annotations

import asyncio
import logging
import os
from collections import defaultdict, deque
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from dataclasses import replace
from functools import partial

import psutil
from django.conf import settings

from taskhub.core.errors import TaskHubError
from taskhub.core.records import LogLine
from taskhub.core.versions import Era
from taskhub.domain.catalogue.sync import SyncedServer, store_problem, store_snapshot
from taskhub.domain.credentials import listing
from taskhub.domain.credentials.records import Way
from taskhub.domain.relays.interests import announce_updates, mark_followed
from taskhub.domain.workers import lines
from taskhub.domain.workers.sessions import session_ended, session_opened, store_memory, take_session
from taskhub.lib.lanes import Lanes
from taskhub.upstream.catalogue import Snapshot, Watcher
from taskhub.upstream.pool import Pool, give_up
from taskhub.upstream.sessions import Later, Places
from taskhub.upstream.target import Target
from taskhub.worker.granted import Grants

logger = logging.getLogger(__name__)

LINES_SECONDS = 1.0
"""Seconds for which lines of commands are gathered before they are stored together."""
UPDATE_SECONDS = 0.05
"""Seconds for which changes of resources are gathered before they are announced together."""


class _Keeper:
    """Stores which clients have a session at one server in this worker, so that this worker gets their calls."""

    def __init__(self, lanes: Lanes, worker: str, row: SyncedServer) -> None:
        self._lanes, self._worker, self._row = lanes, worker, row
        self._storing: dict[int, asyncio.Task[None]] = {}
        """By client, the last change that is being stored. Changes are stored in order."""

    async def take(self, context_id: int) -> str:
        """See `upstream.sessions.Keeper`."""
        if (storing := self._storing.get(context_id)) is not None:
            await asyncio.wait({storing})
        try:
            lost = await self._lanes.run(take_session, self._row.id, context_id, worker=self._worker)
        except TaskHubError as error:
            raise Later(error.message, seconds=1.0) from None
        if lost is None:
            raise Later("Waiting for the worker that has its client's session", seconds=0.0)
        return lost

    def opened(self, context_id: int, pid: int | None) -> None:
        """See `upstream.sessions.Keeper`."""
        if pid is not None:
            self._soon(context_id, partial(session_opened, pid=pid))

    def left(self, context_id: int, why: str) -> None:
        """See `upstream.sessions.Keeper`."""
        self._soon(context_id, partial(session_ended, why=why))

    async def stored(self) -> None:
        """Wait until everything is stored."""
        if self._storing:
            await asyncio.wait(set(self._storing.values()), timeout=3)

    def _soon(self, context_id: int, store: Callable[..., None]) -> None:
        before = self._storing.get(context_id)
        task = asyncio.get_running_loop().create_task(self._store(context_id, store, before))
        self._storing[context_id] = task
        task.add_done_callback(partial(self._ended, context_id))

    async def _store(self, context_id: int, store: Callable[..., None], before: asyncio.Task[None] | None) -> None:
        if before is not None:
            await asyncio.wait({before})
        try:
            await self._lanes.run(store, self._row.id, context_id, worker=self._worker)
        except Exception:
            logger.exception("server %s: the session of a client was not stored", self._row.name)

    def _ended(self, context_id: int, task: asyncio.Task[None]) -> None:
        if self._storing.get(context_id) is task:
            del self._storing[context_id]


class _Said:
    """Stores the lines that the processes of one server write."""

    def __init__(self, lanes: Lanes, worker: str, row: SyncedServer) -> None:
        self._lanes, self._worker, self._row = lanes, worker, row
        self._loop = asyncio.get_running_loop()
        self._lines: deque[str] = deque(maxlen=lines.KEPT)
        self._later: asyncio.TimerHandle | None = None
        self._storing: set[asyncio.Task[None]] = set()

    def add(self, text: str) -> None:
        """Store a line soon. Thread-safe."""
        self._lines.append(text)
        if len(self._lines) == 1:
            with suppress(RuntimeError):  # the worker has ended
                self._loop.call_soon_threadsafe(self._wait)

    def _wait(self) -> None:
        if self._later is None:
            self._later = self._loop.call_later(LINES_SECONDS, self._store_now)

    def _store_now(self) -> None:
        self._later = None
        found = [self._lines.popleft() for _ in range(len(self._lines))]
        if found:
            task = self._loop.create_task(self._store(found))
            self._storing.add(task)
            task.add_done_callback(self._storing.discard)

    async def _store(self, found: list[str]) -> None:
        try:
            await self._lanes.run(lines.store_lines, self._row.id, found, worker=self._worker)
        except Exception:
            logger.exception("server %s: what it said was not stored", self._row.name)

    async def stored(self) -> None:
        """Wait until everything is stored."""
        if self._later is not None:
            self._later.cancel()
        self._store_now()
        if self._storing:
            await asyncio.wait(set(self._storing), timeout=3)


class _Held:
    def __init__(
        self, row: SyncedServer, pool: Pool, watcher: Watcher, keeper: _Keeper, said: _Said, task: asyncio.Task[None]
    ) -> None:
        self.row, self.pool, self.watcher, self.keeper, self.said, self.task = row, pool, watcher, keeper, said, task
        self.problem = ""
        """The problem of the server that was last logged; empty if there is none."""


class Servers:
    """The connections of a worker, kept in step with the table of servers. The worker connects to a new server,
    disconnects from a disabled one, and connects anew to one that has changed."""

    def __init__(self, lanes: Lanes, worker: str, on_reached: Callable[[int], None]) -> None:
        """`worker` is the worker's name. `on_reached(server_id)` is called, in the worker's loop, when a server has
        accepted a connection."""
        self._lanes = lanes
        self._worker = worker
        self._on_reached = on_reached
        self.on_task_changed: Callable[[int, str, bool, int | None], None] = lambda server, task, working, owner: None
        self.on_task_said: Callable[[int, str, LogLine, int | None], None] = lambda server, token, line, owner: None
        """Called as `on_said` of `upstream.task_news.TaskNews`, with the server's id as first argument."""
        self.grants = Grants(lanes)
        self._held: dict[int, _Held] = {}
        self._wanted: Mapping[int, frozenset[str]] = {}
        self._updated: defaultdict[int, set[str]] = defaultdict(set)
        self._following = asyncio.Lock()
        self._places = Places(settings.TASKHUB_COMMANDS)
        self.on_leave: Callable[[int], Awaitable[None]] = _leave
        """Called before this worker disconnects from a server that was disabled or removed."""

    def pool(self, server_id: int) -> Pool | None:
        """The server's pool of connections; `None` while this worker is not connected to it."""
        held = self._held.get(server_id)
        return held.pool if held else None

    async def pool_for(self, server_id: int, context_id: int, *, refused: str = "") -> Pool | None:
        """The connections for a call of this client; `None` while this worker is not connected to the server. At a
        server with OAuth, they have a valid token other than `refused`; raises `NeedsAuthorization` or `Unavailable` if
        there is none."""
        held = self._held.get(server_id)
        if held is None or not held.row.oauth:
            return held.pool if held else None
        return await self.grants.pool(held.pool, Way(held.row.oauth), server_id, context_id, refused=refused)

    def held(self) -> list[int]:
        """The ids of the servers that this worker can call."""
        return list(self._held)

    def narrow(self, size: int) -> dict[int, int]:
        """The servers that take fewer than `size` calls at once, each with its limit."""
        return {server_id: held.pool.most for server_id, held in self._held.items() if held.pool.most < size}

    async def follow(self, wanted: Mapping[int, frozenset[str]]) -> None:
        """Follow the changes of exactly these resources (URIs by server id). A resource that is followed already is
        reported as followed again, because a new stream may wait for that."""
        self._wanted = wanted
        for held in list(self._held.values()):
            uris = wanted.get(held.row.id, frozenset())
            held.watcher.follow(uris)
            if already := uris & held.watcher.following:
                await self._followed(held.row, already)

    def look_again(self, server_id: int) -> None:
        """List the server again soon."""
        held = self._held.get(server_id)
        if held is not None:
            self._forget_token(held)
            held.watcher.refresh()

    def ask_anew(self, server_id: int) -> None:
        """Find out again which eras the server speaks, and list it again soon."""
        held = self._held.get(server_id)
        if held is not None:
            self._forget_token(held)
            held.watcher.ask_anew()

    def _forget_token(self, held: _Held) -> None:
        if (bearer := held.pool.target.bearer) is not None:
            bearer.forget()

    async def refresh(self, rows: list[SyncedServer]) -> None:
        """Connect to the servers in `rows`, and disconnect all others."""
        async with self._following:
            wanted = {row.id: row for row in rows}
            for server_id, held in list(self._held.items()):
                row = wanted.get(server_id)
                if row is not None and row == replace(held.row, calls_at_once=row.calls_at_once):
                    if row != held.row:  # only the limit of calls changed, so the connections are kept
                        held.row = row
                        held.pool.resize(row.calls_at_once)
                else:
                    if row is None:
                        await self.on_leave(server_id)
                    del self._held[server_id]
                    await self._drop(held)
                    await self.grants.drop(server_id)
            await self.grants.prune()
            for row in rows:
                if row.id not in self._held:
                    self._held[row.id] = self._connect(row)

    async def weigh(self) -> None:
        """Store how much memory the processes of clients use."""
        pids = [pid for held in self._held.values() for pid in held.pool.processes()]
        if pids:
            await self._lanes.run(_weigh, self._worker, pids)

    async def close(self) -> None:
        """Close every connection, and end every watcher."""
        held, self._held = list(self._held.values()), {}
        await asyncio.gather(*(self._drop(item) for item in held), self.grants.close(), return_exceptions=True)

    def _connect(self, row: SyncedServer) -> _Held:
        target = Target.of(row)
        if row.oauth:
            target = replace(target, bearer=self.grants.bearer(row.id))
        keeper = _Keeper(self._lanes, self._worker, row)
        pool = Pool(
            row.name,
            target,
            most=row.calls_at_once,
            era=Era(row.era) if row.era else None,
            shared=row.shared or row.own_process,  # a server with a process of its own has only one
            places=self._places,
            keeper=keeper,
        )
        loop = asyncio.get_running_loop()

        def reached() -> None:
            loop.call_soon_threadsafe(self._on_reached, row.id)

        def stored(snapshot: Snapshot) -> None:
            loop.call_soon_threadsafe(self._say, row, "")
            loop.call_soon_threadsafe(lambda: loop.create_task(self._store(row, snapshot)))

        def failed(problem: str) -> None:
            loop.call_soon_threadsafe(self._say, row, problem)
            loop.call_soon_threadsafe(lambda: loop.create_task(self._problem(row, problem)))

        def unauthorized(problem: str, scopes: str) -> None:
            loop.call_soon_threadsafe(self._say, row, problem)
            loop.call_soon_threadsafe(lambda: loop.create_task(self._unauthorized(row, problem, scopes)))

        def followed(uris: frozenset[str]) -> None:
            loop.call_soon_threadsafe(lambda: loop.create_task(self._followed(row, uris)))

        def updated(uris: frozenset[str]) -> None:
            loop.call_soon_threadsafe(self._note_updates, row, uris)

        said = _Said(self._lanes, self._worker, row)
        pool.on_connected, pool.on_line = reached, said.add
        # Called in this loop, because only servers outside of this process send such notifications.
        pool.on_task_changed = lambda task, working, owner: self.on_task_changed(row.id, task, working, owner)
        pool.on_task_said = lambda token, line, owner: self.on_task_said(row.id, token, line, owner)
        watcher = Watcher(
            pool,
            on_snapshot=stored,
            on_problem=failed,
            on_unauthorized=unauthorized,
            on_followed=followed,
            on_updated=updated,
        )
        watcher.follow(self._wanted.get(row.id, frozenset()))

        async def watch() -> None:
            # Made here, not before: a task that is cancelled before it begins would never await it.
            await pool.run(watcher.run())

        return _Held(row, pool, watcher, keeper, said, asyncio.create_task(watch()))

    async def _drop(self, held: _Held) -> None:
        held.task.cancel()
        await asyncio.wait({held.task}, timeout=3)
        await give_up(held.task)
        await held.pool.close()
        await held.keeper.stored()
        await held.said.stored()

    async def _store(self, row: SyncedServer, snapshot: Snapshot) -> None:
        try:
            await self._lanes.run(
                store_snapshot,
                row.id,
                protocol=snapshot.protocol,
                info=snapshot.info,
                tools=snapshot.tools,
                era=snapshot.era,
                offers=snapshot.offers,
                unread=snapshot.unread,
                capabilities=snapshot.capabilities,
            )
            if row.oauth:
                await self._lanes.run(listing.listed, row.id, snapshot.scopes)
        except TaskHubError as error:
            logger.warning("server %s: its catalogue could not be stored: %s", row.name, error)
        except Exception:
            logger.exception("server %s: its catalogue could not be stored", row.name)

    def _say(self, row: SyncedServer, problem: str) -> None:
        """Log the server's problem if it differs from the last one. If `problem` is empty, log that the server is
        reached again."""
        held = self._held.get(row.id)
        if held is None or held.problem == problem:
            return
        held.problem = problem
        if problem:
            logger.warning("server %s: %s", row.name, held.pool.target.shown(problem))
        else:
            logger.info("server %s: reached again", row.name)

    async def _problem(self, row: SyncedServer, problem: str) -> None:
        try:
            await self._lanes.run(store_problem, row.id, problem)
        except Exception:
            logger.exception("server %s: its state could not be stored", row.name)

    async def _unauthorized(self, row: SyncedServer, problem: str, scopes: str) -> None:
        try:
            await self._lanes.run(listing.not_listed, row.id, problem, scopes)
        except Exception:
            logger.exception("server %s: its state could not be stored", row.name)

    async def _followed(self, row: SyncedServer, uris: frozenset[str]) -> None:
        try:
            await self._lanes.run(mark_followed, row.id, uris)
        except Exception:
            logger.exception("server %s: who follows its resources was not told", row.name)

    def _note_updates(self, row: SyncedServer, uris: frozenset[str]) -> None:
        """Gather changes of resources, which are announced together after `UPDATE_SECONDS`."""
        waiting = self._updated[row.id]
        if not waiting:
            loop = asyncio.get_running_loop()
            loop.call_later(UPDATE_SECONDS, lambda: loop.create_task(self._tell_updates(row)))
        waiting |= uris

    async def _tell_updates(self, row: SyncedServer) -> None:
        uris = self._updated.pop(row.id, set())
        try:
            await self._lanes.run(announce_updates, row.id, uris)
        except Exception:
            logger.exception("server %s: updates of its resources were not told", row.name)


async def _leave(server_id: int) -> None:
    pass


def _weigh(worker: str, pids: list[int]) -> None:
    memory = dict.fromkeys(pids, 0)
    # Each command leads a session of the operating system, to which the processes that it starts belong.
    for child in psutil.Process().children(recursive=True):
        with suppress(psutil.Error, OSError):
            leader = os.getsid(child.pid)
            if leader in memory:
                memory[leader] += child.memory_info().rss
    store_memory(worker, memory)

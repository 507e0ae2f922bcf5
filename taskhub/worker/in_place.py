"""Calls that a web process runs in place, without the queue: a plain call of a tool of an HTTP server of 2026-07-28.

The web process is a worker for these calls alone. It has the first lease of each such task, which is created under the
checks of a claim (`domain.tasks.create`). It renews the leases, runs the calls as every worker does (`worker.running`),
and answers the caller from memory. It takes no task from the queue, and has no session with a server. What it cannot
end by itself, such as a question, is left to the workers.
"""

from __future__ import annotations

import asyncio
import logging
import os
import socket
import time
from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial
from typing import Any, Final

from django.conf import settings
from django.db import connection
from mcp.shared.inbound import x_mcp_header_map

from taskhub.core.errors import TaskHubError, Unavailable
from taskhub.core.hints import CatalogueChanged, Hint, TaskCancelled, TaskHint, run_topic
from taskhub.core.policy import answerers
from taskhub.core.records import Actor, Claim, Created, NewTask, Place, TaskRecord
from taskhub.core.states import Door, State
from taskhub.core.transports import CALLS_AT_ONCE, SSE
from taskhub.core.versions import Era
from taskhub.domain.catalogue.sync import SyncedServer, enabled_servers
from taskhub.domain.catalogue.view import catalogue
from taskhub.domain.hints.announce import announce_together
from taskhub.domain.tasks import run as lifecycle
from taskhub.domain.tasks.run import Result
from taskhub.domain.workers.writes import goodbye, heartbeat
from taskhub.lib.caches import ExpiringCache
from taskhub.lib.lanes import Lanes
from taskhub.protocol.hub import Hub, RunInPlace
from taskhub.store.call import explained
from taskhub.upstream.pool import Pool
from taskhub.upstream.sessions import Later
from taskhub.upstream.target import Target
from taskhub.worker.breakers import Breakers
from taskhub.worker.chores import Chores
from taskhub.worker.claiming import SHARE, Slots
from taskhub.worker.granted import Grants
from taskhub.worker.running import Runner
from taskhub.worker.timings import Timings

logger = logging.getLogger(__name__)

GATHER_SECONDS: Final = 0.004
"""As `worker.running.GATHER_SECONDS`, but longer, because a web process needs its CPU for requests."""
HEARTBEAT_SECONDS: Final = 5.0
TIMINGS_SECONDS: Final = 5.0
SERVERS_SECONDS: Final = 30.0
"""Seconds between two looks at the servers, if no hint causes one."""
LONG_SECONDS: Final = 1.0
"""Seconds. A tool whose call in place takes longer is run by workers from then on, until `ELSEWHERE_SECONDS` after its
end."""
LARGE_BYTES: Final = 262_144
"""Bytes of a result as JSON. A tool whose result in place was larger is run by workers for a while, because reading
such a result holds up the other requests of the process."""
ELSEWHERE_SECONDS: Final = 300.0
"""Seconds for which workers run a tool instead, if a call of it in place was long, had a large result, or had none."""


class _NoSessions:
    """A `Keeper` that refuses every session: a client's session belongs to a worker."""

    def __init__(self, refused: Callable[[], None]) -> None:
        self._refused = refused

    async def take(self, context_id: int) -> str:
        """Always raises `Later`, so that the call goes to the queue."""
        self._refused()
        raise Later("Waiting for a worker, since its server opens sessions", seconds=0.0)

    def opened(self, context_id: int, pid: int | None) -> None:
        """Never called."""

    def left(self, context_id: int, why: str) -> None:
        """Never called."""


class _LeftToWorkers(Breakers):
    """Breakers that count nothing. If this process cannot reach a server, the call goes to the workers, which perhaps
    can, because only they are let into the server's network."""

    def __init__(self, lanes: Lanes, unreached: Callable[[int], None]) -> None:
        super().__init__(lanes, lambda what, do: None)
        self._unreached = unreached

    async def failed(self, server_id: int, problem: str, *, probing: bool) -> bool:
        """Leave the server to workers for a while. Returns `True`: the call goes back to the queue."""
        self._unreached(server_id)
        return True

    def reached(self, server_id: int) -> None:
        """Does nothing."""


@dataclass(slots=True)
class _Held:
    row: SyncedServer
    pool: Pool
    apart_until: float = 0.0
    """The time (`time.monotonic`) until which calls of the server are left to workers."""


class Reached:
    """The connections of a web process: to servers whose calls need no session and no grant."""

    def __init__(self, lanes: Lanes, share: int) -> None:
        """`share`: the most calls of one server that run in this process."""
        self.grants = Grants(lanes)
        self._lanes = lanes
        self._share = share
        self._held: dict[int, _Held] = {}
        self._refreshing = asyncio.Lock()

    def pool(self, server_id: int) -> Pool | None:
        """The connections to the server; `None` if its calls are not run in place."""
        held = self._held.get(server_id)
        return held.pool if held else None

    async def pool_for(self, server_id: int, context_id: int, *, refused: str = "") -> Pool | None:
        """The same as `pool`, because none of these servers is authorized by OAuth."""
        return self.pool(server_id)

    def most(self, server_id: int) -> int:
        """How many calls of the server may run in this process at once, which is how many connections to it there may
        be; 0 if its calls are not run in place."""
        held = self._held.get(server_id)
        return self._most(held.row) if held else 0

    def _most(self, row: SyncedServer) -> int:
        return min(row.calls_at_once, self._share) if row.limited else self._share

    def look_again(self, server_id: int) -> None:
        """Does nothing, since only workers list servers."""

    def held(self) -> list[int]:
        """See `worker.servers.Servers.held`."""
        return list(self._held)

    def narrow(self, size: int) -> dict[int, int]:
        """Always empty, because a call that does not fit is not run in place."""
        return {}

    def takes(self, server_id: int, tool: str) -> bool:
        """Whether calls of the tool are run in place."""
        held = self._held.get(server_id)
        if held is None or held.apart_until > time.monotonic() or tool not in held.pool.outputs:
            return False
        return held.pool.eras.last is Era.STATELESS

    def leave(self, server_id: int) -> None:
        """Leave the server's calls to workers for a while: this process cannot reach it, or it opens sessions."""
        if (held := self._held.get(server_id)) is not None:
            held.apart_until = time.monotonic() + ELSEWHERE_SECONDS

    async def refresh(self) -> None:
        """Read the servers and their tools, and drop the connections to those that have changed."""
        async with self._refreshing:
            found = await self._lanes.run(_fitting)
            for server_id, held in list(self._held.items()):
                row, _ = found.get(server_id, (None, {}))
                if row != held.row or held.pool.eras.last is not Era.STATELESS:
                    del self._held[server_id]
                    await held.pool.close()
            for server_id, (row, outputs) in found.items():
                if server_id not in self._held:
                    self._held[server_id] = self._connected(row)
                self._held[server_id].pool.outputs = outputs

    def _connected(self, row: SyncedServer) -> _Held:
        keeper, most = _NoSessions(partial(self.leave, row.id)), self._most(row)
        pool = Pool(row.name, Target.of(row), most=most, soon=max(1, most // 2), era=Era.STATELESS, keeper=keeper)
        return _Held(row, pool)

    async def close(self) -> None:
        """Close all connections."""
        held, self._held = list(self._held.values()), {}
        await asyncio.gather(*(one.pool.close() for one in held), self.grants.close(), return_exceptions=True)


def _fitting() -> dict[int, tuple[SyncedServer, dict[str, Any]]]:
    """The servers whose calls are run in place, each with the output schemas of its tools."""
    found = {}
    for row in enabled_servers():
        if not _fits(row):
            continue
        tools = [tool for tool in catalogue(row.tenant_id).tools if tool.server_id == row.id]
        # A tool whose arguments are repeated in headers is called through the SDK's client, which has to list it first.
        plain = [tool for tool in tools if not x_mcp_header_map(tool.definition["inputSchema"])]
        found[row.id] = row, {tool.name: tool.definition.get("outputSchema") for tool in plain}
    return found


def _fits(row: SyncedServer) -> bool:
    """Whether calls of the server may run in place: over HTTP, without sessions and OAuth. A server with a lower limit
    of calls than usual gets its calls from workers only."""
    http = row.transport == "http" and not row.target.startswith(SSE)
    stateless = row.era == Era.STATELESS and not row.pinned
    return http and stateless and not row.oauth and not row.unusable and row.calls_at_once >= CALLS_AT_ONCE["http"]


class InPlace:
    """Runs plain calls in a web process, as `protocol.hub.InPlace` says. Use it on one event loop only: call `start`
    there, and `close` before the lanes of the hub are closed."""

    def __init__(self, hub: Hub, slots: int) -> None:
        self._hub = hub
        self._lanes = hub.lanes
        self.name = f"{socket.gethostname()}:{os.getpid()}"
        self._chores = Chores(self._fail)
        self._timings = Timings(self._lanes)
        self._servers = Reached(self._lanes, max(1, slots // SHARE))
        self._actor = actor = Actor(name=self.name, door=Door.WORKER)
        breakers = _LeftToWorkers(self._lanes, self._servers.leave)
        runner = Runner(
            self._lanes, self._servers, breakers, self._timings, actor, tell=announce_together, gather=GATHER_SECONDS
        )
        runner.on_finished = self._finished
        self._slots = Slots(slots, self.name, runner, self._tell)
        self._making: Counter[tuple[str, int]] = Counter()
        """How many calls are being created with a place: of each client, at each server, and in all."""
        self._runs: dict[int, tuple[TaskRecord, RunInPlace]] = {}
        self._elsewhere: ExpiringCache[int, bool] = ExpiringCache(ELSEWHERE_SECONDS, most=10_000)
        self._draining: asyncio.Task[int] | None = None
        self._doubtful = False
        """Whether creating a task failed so that the task may be stored all the same, because the database's answer was
        lost."""

    @property
    def size(self) -> int:
        """The number of slots."""
        return self._slots.size

    @property
    def busy(self) -> int:
        """The number of calls that run."""
        return len(self._slots.running)

    def start(self) -> None:
        """Begin to take calls, as soon as the servers are known."""
        # Leases and heartbeats have their own lane, as in a worker.
        self._pulse = Lanes(1, name="pulse", after=_drop_broken, at_exit=_close, explain=explained)
        self._chores.every("heartbeat in place", HEARTBEAT_SECONDS, self._beat)
        self._chores.every("leases in place", settings.TASKHUB_LEASE_SECONDS / 3, self._renew, vital=True)
        self._chores.every("timings in place", TIMINGS_SECONDS, self._timings.store)
        self._chores.every("doubtful calls in place", HEARTBEAT_SECONDS, self._give_back)
        self._chores.every("servers in place", SERVERS_SECONDS, self._refresh)
        self._chores.soon("servers in place", self._refresh)

    def on_hint(self, hint: Hint) -> None:
        """Handle a hint that this process has heard."""
        if isinstance(hint, CatalogueChanged):
            self._chores.soon("servers in place", self._refresh)
        elif isinstance(hint, TaskHint) and (held := self._slots.running.get(hint.task_id)) is not None:
            held.answered.set()
            if isinstance(hint, TaskCancelled):
                held.cancel()

    def on_gap(self) -> None:
        """Handle a gap, in which hints may have been lost."""
        self._chores.soon("servers in place", self._refresh)
        self._chores.soon("leases in place", self._renew)

    async def create(
        self, new: NewTask, creating: Callable[[NewTask], Awaitable[Created]]
    ) -> tuple[Created, RunInPlace | None]:
        """See `protocol.hub.InPlace`."""
        if not self._takes(new):
            return await creating(new), None
        making = asyncio.ensure_future(self._make(new, creating))
        making.add_done_callback(_look)
        # Shielded: if the caller leaves now, the task may be stored already, and then it has to run.
        return await asyncio.shield(making)

    def _takes(self, new: NewTask) -> bool:
        tool, slots = new.tool, self._slots
        if slots.stopping or new.answers is not None or not self._servers.takes(tool.server_id, tool.name):
            return False
        if tool.server_away or self._elsewhere.get(tool.id):
            return False
        long_ago = time.monotonic() - LONG_SECONDS
        if any(held.claim.tool_id == tool.id and held.started < long_ago for held in slots.running.values()):
            return False
        running = [held.claim for held in slots.running.values()]
        of_client = (
            sum(claim.context_id == new.context_id for claim in running) + self._making["client", new.context_id]
        )
        at_server = sum(claim.server_id == tool.server_id for claim in running) + self._making["server", tool.server_id]
        if len(running) + self._making["all", 0] >= slots.size:
            return False
        # A call for which no connection is free would wait here in its slot, while a worker may have nothing to do.
        return of_client < slots.share and at_server < self._servers.most(tool.server_id)

    async def _make(
        self, new: NewTask, creating: Callable[[NewTask], Awaitable[Created]]
    ) -> tuple[Created, RunInPlace | None]:
        keys = (("all", 0), ("client", new.context_id), ("server", new.tool.server_id))
        self._making.update(keys)
        try:
            made = await creating(replace(new, place=Place(self.name, self._slots.share)))
            return made, self._begin(new, made.task) if made.in_place else None
        except Unavailable:
            self._doubtful = True
            raise
        finally:
            self._making.subtract(keys)
            for key in keys:
                if not self._making[key]:
                    del self._making[key]

    def _begin(self, new: NewTask, task: TaskRecord) -> RunInPlace:
        tool = new.tool
        audience, only_caller = answerers(tool.question_audience)
        claim = Claim(
            task_id=task.id,
            public_id=task.public_id,
            epoch=1,
            tenant_id=new.tenant_id,
            context_id=new.context_id,
            server_id=tool.server_id,
            server_name=tool.server_name,
            tool_id=tool.id,
            tool_name=tool.name,
            arguments=new.arguments,
            answers=None,
            upstream_state=None,
            client_capabilities=new.client_capabilities,
            trace=new.trace,
            question_audience=audience,
            run_seconds=tool.run_seconds,
            revision=new.revision,
            only_caller=only_caller,
        )
        going = RunInPlace()
        self._runs[task.id] = task, going
        held = self._slots.begin(claim)
        assert held.work is not None
        held.work.add_done_callback(partial(self._ended, claim, time.monotonic()))
        return going

    def _finished(self, ended: Result) -> None:
        """Keep the stored result, for the caller who waits for it."""
        if (known := self._runs.get(ended.claim.task_id)) is not None:
            task, going = known
            going.ended = replace(
                task,
                state=State.FINISHED,
                result_json=ended.text,
                is_error=ended.result.get("isError") is True,
                ended_at=datetime.now(UTC),
                version=task.version + 1,
            )
            if ended.too_large or len(ended.text) > LARGE_BYTES:
                self._leave(ended.claim.tool_id)

    def _ended(self, claim: Claim, began: float, work: asyncio.Task[None]) -> None:
        _, going = self._runs.pop(claim.task_id)
        if going.ended is None or time.monotonic() - began > LONG_SECONDS:
            self._leave(claim.tool_id)
        self._hub.hints.ring(claim.public_id)
        self._hub.hints.ring(run_topic(claim.public_id))

    def _leave(self, tool_id: int) -> None:
        """Leave calls of the tool to workers for `ELSEWHERE_SECONDS`."""
        self._elsewhere.keep(tool_id, True, self._elsewhere.since())

    def _tell(self, task_id: int) -> None:
        self._chores.soon("news in place", lambda: self._lanes.run(lifecycle.announce_running, task_id))

    def _fail(self, what: str, error: Exception) -> None:
        logger.critical("no more calls are run in place, since %s met an error", what, exc_info=error)
        self.stop()

    async def _beat(self) -> None:
        if self._servers.held():  # else there is nothing that this process could run
            await self._pulse.run(heartbeat, self.name, slots=self.size, busy=self.busy, in_place=True)

    async def _give_back(self) -> None:
        """Return to the queue the tasks that this process holds without knowing of them: it has run nothing of them."""
        if self._doubtful and not self._making["all", 0]:
            self._doubtful = False
            try:
                for task_id, epoch in await self._pulse.run(lifecycle.held_by, self.name):
                    if task_id not in self._slots.running:
                        await self._pulse.run(lifecycle.give_back, task_id, epoch, actor=self._actor)
            except BaseException:
                self._doubtful = True
                raise

    async def _renew(self) -> None:
        await self._slots.renew(self._pulse)

    async def _refresh(self) -> None:
        await self._servers.refresh()
        await self._beat()

    def stop(self) -> None:
        """Take no more calls. Running calls get as long to finish as in a worker (`worker.claiming.DRAIN_SECONDS`), and
        then go back to the queue."""
        if self._draining is None:
            self._slots.stop()
            self._draining = asyncio.create_task(self._slots.drain())

    async def close(self) -> None:
        """Stop, end what still runs, and note in the database that this process has left."""
        self.stop()
        assert self._draining is not None
        await self._draining
        await self._slots.drain()  # calls that were being created while it stopped
        await self._chores.end()
        await self._servers.close()
        try:
            await self._timings.store()
            await self._pulse.run(goodbye, self.name)
        except TaskHubError as error:
            logger.warning("left without saying goodbye: %s", error)
        self._pulse.close()


def _look(making: asyncio.Future[Any]) -> None:
    """Fetch the exception of a creation for which nobody waits any more, so that asyncio does not log it."""
    if not making.cancelled():
        making.exception()


def _close() -> None:
    # Called in the thread of the ending lane: `connection` is a different one in each thread.
    connection.close()


def _drop_broken() -> None:
    if connection.errors_occurred:
        connection.close_if_unusable_or_obsolete()

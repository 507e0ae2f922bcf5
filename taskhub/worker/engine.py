"""The worker: claims tasks, runs their tools, keeps their leases, stores what came of it.

The loop in here never runs code of others: in-process servers have threads of their own
(`upstream.pool`), and every database call goes through a lane.
"""

from __future__ import annotations

import asyncio
import logging
import os
import socket
import time
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

import psycopg
from django.conf import settings
from django.db import connection
from procrastinate.exceptions import ConnectorException

from taskhub.core.capabilities import audience_for
from taskhub.core.errors import TaskHubError, Unavailable
from taskhub.core.hints import (
    CatalogueChanged,
    InterestsChanged,
    RelayDropped,
    RelayWaiting,
    ServerStale,
    TaskCancelled,
    TaskHint,
    TaskQueued,
    TasksWaiting,
    decode,
)
from taskhub.core.names import QUEUE
from taskhub.core.records import Actor, Claim, LogLine, NewQuestion, QuestionKind
from taskhub.core.states import Door
from taskhub.core.words import words
from taskhub.lib.batches import Batches
from taskhub.lib.lanes import Lanes
from taskhub.lib.seldom import Seldom
from taskhub.lifecycle import run as lifecycle
from taskhub.lifecycle.catalogue import ServerRow, enabled_servers
from taskhub.lifecycle.interests import followed_resources
from taskhub.lifecycle.relays import sweep_relays
from taskhub.lifecycle.seal import seal_events
from taskhub.lifecycle.sweep import CANCEL_GRACE_SECONDS, sweep
from taskhub.lifecycle.workers import goodbye, heartbeat
from taskhub.queries.questions import response_to
from taskhub.store.call import explained
from taskhub.store.listener import listen
from taskhub.upstream.call import Asked, Faulted, Finished, call_tool, question_problem, waiting_message
from taskhub.upstream.connection import Target
from taskhub.upstream.pool import give_up
from taskhub.worker import jobs
from taskhub.worker.notes import Notes
from taskhub.worker.relays import Relays
from taskhub.worker.servers import Servers

logger = logging.getLogger(__name__)

HEARTBEAT_SECONDS = 5.0
SWEEP_SECONDS = 5.0
SEAL_SECONDS = 5.0
FOLLOW_SECONDS = 30.0
WHOLE_SECONDS = 5.0
"""How often at least a claim looks at the whole queue, not only at what came since the last one."""
SKIPPED_SECONDS = 0.05
"""After this a task is looked at again whose lock somebody held at the moment of the claim."""
NEWS_SECONDS = 0.2
"""A task that runs longer than this is announced as running."""
SHARE = 2
"""One client gets at most this part of a worker's slots, also while nobody else waits: a tool that runs
cannot be put aside for a newcomer, so the room must be there before."""
RETRY_SECONDS = 10.0
"""How long a task waits when this worker is not connected to its server (yet)."""


@dataclass(eq=False, slots=True)
class Running:
    """One claimed task in this worker's hands."""

    claim: Claim
    notes: Notes
    started: float
    answered: asyncio.Event = field(default_factory=asyncio.Event)
    work: asyncio.Task[None] | None = None
    cancelling: bool = False
    lost: bool = False
    live_questions: int = 0
    clock: asyncio.Timeout | None = None
    news: asyncio.TimerHandle | None = None


class Engine:
    """One per worker process. `run` works until `stop` is called."""

    def __init__(self, *, slots: int | None = None) -> None:
        self.name = f"{socket.gethostname()}:{os.getpid()}"
        self.actor = Actor(name=self.name, door=Door.WORKER)
        self.slots = slots or settings.TASKHUB_SLOTS
        self.share = max(1, self.slots // SHARE)
        self.lanes = Lanes(4, name="worker-lane", after=_drop_broken, at_exit=_close, explain=explained)
        self.results: Batches[tuple[Claim, dict[str, Any]], bool] = Batches(
            self.lanes,
            lambda ended: lifecycle.finish_tasks(ended, actor=self.actor),
            most=16,  # results may be large (upstream.call.MAX_RESULT), and a batch is one statement
        )
        # Leases and heartbeats have a lane of their own: they must not queue behind results.
        self.pulse = Lanes(1, name="pulse", after=_drop_broken, at_exit=_close, explain=explained)
        self.running: dict[int, Running] = {}
        self._seldom = Seldom(10.0)
        self.servers = Servers(self.lanes)
        self.relays = Relays(self.name, self.servers, self.lanes)
        self._following = asyncio.Lock()
        self._aside: set[asyncio.Task[None]] = set()
        self._awake = asyncio.Event()
        self._since: datetime | None = None
        self._whole_at = 0.0
        self._more = False
        """Whether the last claim left tasks that could run once another ends: only then does an end wake us."""
        self._held_up = False
        """The same of tasks announced since, whose client has its share here already."""
        self._ended = 0
        self._stopping = asyncio.Event()

    def stop(self) -> None:
        """Finish what runs (within the grace period) and end."""
        self._stopping.set()
        self._awake.set()

    def wake(self) -> None:
        """There may be tasks to claim."""
        self._awake.set()

    async def run(self) -> None:
        """Work until stopped. Raises only for what no retry can mend."""
        jobs.on_wake(self.wake)
        loops = [
            asyncio.create_task(self._forever("hints", lambda: listen(self._on_hint, self._on_gap))),
            asyncio.create_task(self._every("heartbeat", HEARTBEAT_SECONDS, self._beat)),
            asyncio.create_task(self._every("leases", settings.TASKHUB_LEASE_SECONDS / 3, self._renew)),
            asyncio.create_task(self._every("sweep", SWEEP_SECONDS, self._sweep)),
            asyncio.create_task(self._every("sweep of relays", SWEEP_SECONDS, self._sweep_relays)),
            asyncio.create_task(self._every("seal", SEAL_SECONDS, self._seal)),
            asyncio.create_task(self._every("interests", FOLLOW_SECONDS, self._follow)),
            asyncio.create_task(self._forever("relays", self.relays.run)),
            asyncio.create_task(self._forever("jobs", _run_jobs)),
        ]
        try:
            await self._beat()
            await self.servers.refresh(await self._servers())
            await self._claim_until_stopped()
            await self._drain()
        finally:
            for loop in loops:
                loop.cancel()
            await asyncio.gather(*loops, return_exceptions=True)
            await self.servers.close()
            try:
                await self.pulse.run(goodbye, self.name)
            except TaskHubError as error:
                logger.warning("left without saying goodbye: %s", error)
            self.lanes.close()
            self.pulse.close()

    async def _claim_until_stopped(self) -> None:
        while not self._stopping.is_set():
            self._awake.clear()
            free = self.slots - len(self.running)
            self._more = free <= 0
            self._held_up = False
            patience = 5.0
            ended = self._ended
            if free > 0:
                whole = self._since is None or time.monotonic() - self._whole_at > WHOLE_SECONDS
                if whole:
                    self._whole_at = time.monotonic()
                try:
                    claimed = await self.lanes.run(
                        lifecycle.claim_tasks,
                        worker=self.name,
                        limit=free,
                        lease_seconds=settings.TASKHUB_LEASE_SECONDS,
                        per_context=settings.TASKHUB_CONTEXT_RUNNING,
                        share=self.share,
                        actor=self.actor,
                        since=None if whole else self._since,
                    )
                except Unavailable as error:
                    if self._seldom():
                        logger.warning("cannot claim: %s", error)
                    await asyncio.sleep(0.5)
                    continue
                for claim in claimed.tasks:
                    self._start(claim)
                self._more = claimed.more
                if claimed.skipped:
                    patience = SKIPPED_SECONDS
                if claimed.tasks:
                    self._since = claimed.since
                if claimed.held_back or (self._more and (len(claimed.tasks) == free or self._ended != ended)):
                    continue
            try:
                async with asyncio.timeout(patience):
                    await self._awake.wait()
            except TimeoutError:
                pass

    def _start(self, claim: Claim) -> None:
        held = Running(claim=claim, notes=Notes(claim, self.lanes), started=time.monotonic())
        self.running[claim.task_id] = held
        held.news = asyncio.get_running_loop().call_later(NEWS_SECONDS, self._tell, claim.task_id)
        held.work = asyncio.create_task(self._work(held))

    def _tell(self, task_id: int) -> None:
        self._soon(self._guarded("news", lambda: self.lanes.run(lifecycle.announce_running, task_id)))

    async def _work(self, held: Running) -> None:
        claim = held.claim
        try:
            outcome = await self._outcome(held)
            await held.notes.flush()
            if outcome is not None and not held.lost:
                await self._settle(held, outcome)
        except Exception:
            logger.exception("task %s: its outcome could not be stored", claim.public_id)
        finally:
            self.running.pop(claim.task_id, None)
            if held.news is not None:
                held.news.cancel()
            self._ended += 1
            if self._more or self._held_up:
                self.wake()

    async def _outcome(self, held: Running) -> Callable[[], Awaitable[bool]] | None:
        """How to store what came of it; `None` when the lease is lost."""
        claim = held.claim
        pool = self.servers.pool(claim.server_id)
        if pool is None:
            return lambda: self.lanes.run(
                lifecycle.release,
                claim,
                started=False,
                delay_seconds=RETRY_SECONDS,
                reason="Waiting for its server" if claim.server_enabled else "Waiting: its server is disabled",
                actor=self.actor,
            )

        async def ask(kind: QuestionKind, params: dict[str, Any]) -> dict[str, Any]:
            # Called in the server's own loop; the answer is awaited in ours.
            return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(self._ask_live(held, kind, params), loop))

        def say(line: LogLine) -> None:
            loop.call_soon_threadsafe(held.notes.add, line)

        loop = asyncio.get_running_loop()
        calling = asyncio.ensure_future(pool.run(call_tool(pool, claim, say=say, ask=ask)))
        try:
            async with asyncio.timeout(claim.run_seconds) as held.clock:
                outcome = await asyncio.shield(calling)
        except TimeoutError:
            await _abandon(calling)
            return self._fault(claim, f"The tool ran longer than {claim.run_seconds} s and was stopped")
        except asyncio.CancelledError:
            stopped = await _abandon(calling)
            if held.lost:
                return None
            if held.cancelling:
                message = words("cancelled_running" if stopped else "cancelled_unconfirmed")
                return lambda: self.lanes.run(lifecycle.settle_cancel, claim, message=message, actor=self.actor)
            return lambda: self.lanes.run(
                lifecycle.release,
                claim,
                started=True,
                delay_seconds=0.0,
                reason="Its worker was stopped",
                actor=self.actor,
            )
        match outcome:
            case Finished(result):
                return lambda: self.results.run((claim, result))
            case Asked(asked, state, message):
                return lambda: self.lanes.run(
                    lifecycle.ask, claim, asked, upstream_state=state, message=message, live=False, actor=self.actor
                )
            case Faulted(error, unreached):
                if unreached:
                    self.servers.look_again(claim.server_id)
                return lambda: self.lanes.run(lifecycle.fault, claim, error, actor=self.actor)

    def _fault(self, claim: Claim, message: str) -> Callable[[], Awaitable[bool]]:
        return lambda: self.lanes.run(lifecycle.fault, claim, {"code": -32603, "message": message}, actor=self.actor)

    async def _settle(self, held: Running, store: Callable[[], Awaitable[bool]]) -> None:
        """Store the outcome, for as long as the lease could still be ours: a database that is away
        for a moment must not cost a finished result."""
        pause = 0.1
        while not held.lost:
            try:
                if not await store() and not held.cancelling:  # a cancellation may have ended it at once
                    logger.warning("task %s: the lease was lost, the outcome is dropped", held.claim.public_id)
                return
            except Unavailable:
                await asyncio.sleep(pause)
                pause = min(pause * 2, 2.0)

    async def _ask_live(self, held: Running, kind: QuestionKind, params: dict[str, Any]) -> dict[str, Any]:
        """Opens a question for an older server that waits in the middle of its call, and waits with
        it. The lease is kept; a lost worker closes the question."""
        problem = question_problem(kind, params)
        if problem:
            raise ValueError(problem)
        claim = held.claim
        held.live_questions += 1
        question = NewQuestion(
            key=f"live-{claim.epoch}-{held.live_questions}",
            kind=kind,
            params=params,
            audience=audience_for(claim.client_capabilities, kind, params, claim.question_audience),
        )
        held.answered.clear()
        asked = await self.lanes.run(
            lifecycle.ask,
            claim,
            [question],
            upstream_state=None,
            message=waiting_message([question]),
            live=True,
            actor=self.actor,
        )
        if not asked:
            held.lost = True
            raise ConnectionError("the task is no longer ours")
        asked_at = asyncio.get_running_loop().time()
        limit = held.clock.when() if held.clock is not None else None
        while True:
            # The tool's time stands still while it waits for an answer.
            if held.clock is not None and limit is not None:
                held.clock.reschedule(limit + asyncio.get_running_loop().time() - asked_at + 10.0)
            response = await self.lanes.run(response_to, claim.task_id, question.key)
            if response is not None:
                return response
            try:
                async with asyncio.timeout(5.0):
                    await held.answered.wait()
            except TimeoutError:
                pass
            held.answered.clear()

    def _on_hint(self, payload: str) -> None:
        hint = decode(payload)
        if isinstance(hint, TaskHint) and (held := self.running.get(hint.task_id)) is not None:
            held.answered.set()
            if isinstance(hint, TaskCancelled):
                self._cancel(held)
        match hint:
            case TaskQueued() if self._has_its_share(hint.context_id):
                self._held_up = True  # nothing to claim until one of them ends
            case TaskQueued() | TasksWaiting():
                self.wake()
            case CatalogueChanged():
                self._soon(self._reload_servers())
            case ServerStale(server_id):
                self.servers.look_again(server_id)
            case RelayWaiting():
                self.relays.wake()
            case RelayDropped(relay_id):
                self.relays.drop(relay_id)
            case InterestsChanged():
                self._soon(self._guarded("interests", self._follow))

    def _has_its_share(self, context_id: int) -> bool:
        return sum(held.claim.context_id == context_id for held in self.running.values()) >= self.share

    def _on_gap(self) -> None:
        self.wake()
        self.relays.wake()
        self._soon(self._guarded("leases", self._renew))
        self._soon(self._guarded("interests", self._follow))
        self._soon(self._reload_servers())

    def _soon(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._aside.add(task)
        task.add_done_callback(self._aside.discard)

    async def _reload_servers(self) -> None:
        await self._guarded("servers", self._refresh_servers)

    async def _refresh_servers(self) -> None:
        await self.servers.refresh(await self._servers())
        self.relays.wake()

    async def _follow(self) -> None:
        async with self._following:  # what was read first is not applied last
            await self.servers.follow(await self.lanes.run(followed_resources))

    async def _servers(self) -> list[ServerRow]:
        return await self.lanes.run(enabled_servers)

    def _cancel(self, held: Running) -> None:
        if not held.cancelling and held.work is not None:
            held.cancelling = True
            held.work.cancel()

    async def _renew(self) -> None:
        """Lengthen every lease. A task that is not ours any more is dropped at once: somebody else
        may be running it."""
        held = {task_id: running.claim.epoch for task_id, running in self.running.items()}
        if not held:
            return
        kept = await self.pulse.run(
            lifecycle.renew_leases,
            worker=self.name,
            held=list(held.items()),
            lease_seconds=settings.TASKHUB_LEASE_SECONDS,
        )
        for task_id in held:
            running = self.running.get(task_id)
            if running is None or running.claim.epoch != held[task_id]:
                continue
            if task_id not in kept:
                # It may also have just settled; then the work is past caring.
                if running.work is not None and time.monotonic() - running.started > 1.0:
                    running.lost = True
                    running.work.cancel()
            elif kept[task_id]:
                self._cancel(running)

    async def _beat(self) -> None:
        await self.pulse.run(heartbeat, self.name, slots=self.slots, busy=len(self.running))

    async def _sweep(self) -> None:
        if await self.lanes.run(sweep):
            self.wake()

    async def _sweep_relays(self) -> None:
        await self.lanes.run(sweep_relays)

    async def _seal(self) -> None:
        await self.lanes.run(seal_events)

    async def _drain(self) -> None:
        """Let running tools finish for a moment, then give their tasks back."""
        work = [running.work for running in self.running.values() if running.work is not None]
        if work:
            await asyncio.wait(work, timeout=3.0)
        for running in list(self.running.values()):
            if running.work is not None:
                running.work.cancel()
        left = [running.work for running in self.running.values() if running.work is not None]
        if left:
            await asyncio.wait(left, timeout=3.0)

    async def _every(self, what: str, seconds: float, do: Callable[[], Any]) -> None:
        while True:
            await asyncio.sleep(seconds)
            await self._guarded(what, do)

    async def _guarded(self, what: str, do: Callable[[], Any]) -> None:
        try:
            await do()
        except asyncio.CancelledError:
            raise
        except (Unavailable, ConnectorException, psycopg.OperationalError) as error:  # two are procrastinate's
            logger.warning("%s: %s", what, error)
        except Exception:
            logger.exception("%s failed", what)

    async def _forever(self, what: str, do: Callable[[], Any]) -> None:
        while True:
            await self._guarded(what, do)
            await asyncio.sleep(1.0)


async def _run_jobs() -> None:
    """procrastinate's own worker, for the durable wake-up and the hourly chores. It gives up when
    the database stays away for long, so it is started again."""
    async with jobs.app().open_async() as app:
        await app.run_worker_async(queues=[QUEUE], concurrency=2, install_signal_handlers=False)


async def _abandon(calling: asyncio.Future[Any]) -> bool:
    """Cancel a call and wait for it within the grace period; whether it really stopped."""
    calling.cancel()
    done, _ = await asyncio.wait({calling}, timeout=CANCEL_GRACE_SECONDS / 2)
    if not done:
        await give_up(calling)
    return bool(done)


def _close() -> None:
    connection.close()


def _drop_broken() -> None:
    if connection.errors_occurred:
        connection.close_if_unusable_or_obsolete()


__all__ = ["Engine", "Target"]

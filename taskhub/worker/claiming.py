"""The slots of a worker: it claims tasks into free slots, runs them, and renews their leases."""

from __future__ import annotations

import asyncio
import logging
import math
import time
from collections import Counter
from collections.abc import Callable
from datetime import datetime

from django.conf import settings

from taskhub.core.errors import Unavailable
from taskhub.core.records import Claim
from taskhub.domain.tasks import run as lifecycle
from taskhub.lib.lanes import Lanes
from taskhub.lib.throttle import Throttle
from taskhub.worker.notes import Notes
from taskhub.worker.running import Runner, Running

logger = logging.getLogger(__name__)

WHOLE_SECONDS = 5.0
"""The most seconds between two claims that look at the whole queue. Other claims only look at tasks queued since the
last one."""
LONGEST_PAUSE_SECONDS = 5.0
"""The most seconds between two claims while no hint or ended task causes one."""
SKIPPED_SECONDS = 0.05
"""Seconds until the next claim after one that skipped a locked task."""
NEWS_SECONDS = 0.2
"""Seconds for which a task has to run before a hint announces that it is running."""
SHUT_SECONDS = 0.5
"""Seconds until the next claim while a server accepts no connection; the claim finds out whether it does again."""
DRAIN_SECONDS = 3.0
"""When a worker stops: the seconds for which running tools may go on, and then the seconds that they have to stop."""
CLAIM_SECONDS = 45.0
"""A worker whose claim takes more seconds is ended. It must hang, because SQL statements have much shorter
deadlines."""
SHARE = 2
"""One client gets at most 1/SHARE of a worker's slots, even while no other client waits. Running tools cannot be
interrupted, so there must be free slots when another client calls."""


class Slots:
    """The tasks that one worker runs at once. `claim_until_stopped` fills free slots."""

    def __init__(self, size: int, worker: str, runner: Runner, tell: Callable[[int], None]) -> None:
        """`tell(task_id)` announces by a hint that a task runs, and returns at once."""
        self.size = size
        self.share = max(1, size // SHARE)
        self.worker = worker
        self.running: dict[int, Running] = {}
        self._runner = runner
        runner.on_asking = self.wake
        self._lanes = runner.lanes
        self._tell = tell
        self._throttle = Throttle(60.0)
        self._awake = asyncio.Event()
        self._since: datetime | None = None
        self._whole_at = 0.0
        self._more = False
        """Whether the last claim left tasks in the queue that can run when another task ends. If so, the end of a task
        causes the next claim."""
        self._held_up = False
        """Whether, since the last claim, a task was queued whose client already has its whole share of slots."""
        self._ended = 0
        self._stopping = False
        self._claiming_since = math.inf

    @property
    def hangs(self) -> bool:
        """Whether a claim has taken longer than `CLAIM_SECONDS`."""
        return time.monotonic() - self._claiming_since > CLAIM_SECONDS

    @property
    def stopping(self) -> bool:
        """Whether `stop` was called."""
        return self._stopping

    def stop(self) -> None:
        """Claim no more tasks."""
        self._stopping = True
        self.wake()

    def wake(self) -> None:
        """Claim soon, because there may be tasks to claim."""
        self._awake.set()

    def wake_for_all(self) -> None:
        """Claim soon from the whole queue, because there may be tasks that earlier claims passed over."""
        self._since = None
        self.wake()

    def offer(self, context_id: int) -> None:
        """Claim soon, because a task of this client was queued, unless the client has its share of slots."""
        held = sum(running.claim.context_id == context_id for running in self.running.values())
        if held >= self.share:
            self._held_up = True  # the queued task can be claimed when a task of this client ends
        else:
            self.wake()

    async def claim_until_stopped(self) -> None:
        """Until `stop`, claim whenever a slot is free and there may be a task for it."""
        while not self._stopping:
            self._awake.clear()
            free = self.size - sum(not running.asking for running in self.running.values())
            self._more = free <= 0
            self._held_up = False
            patience = LONGEST_PAUSE_SECONDS
            ended = self._ended
            if free > 0:
                whole = self._since is None or time.monotonic() - self._whole_at > WHOLE_SECONDS
                if whole:
                    self._whole_at = time.monotonic()
                self._claiming_since = time.monotonic()
                try:
                    await self._runner.breakers.ask()
                    claimed = await self._lanes.run(
                        lifecycle.claim_tasks,
                        worker=self.worker,
                        limit=free,
                        lease_seconds=settings.TASKHUB_LEASE_SECONDS,
                        per_context=settings.TASKHUB_CONTEXT_RUNNING,
                        share=self.share,
                        scarce=self._scarce(free),
                        actor=self._runner.actor,
                        since=None if whole else self._since,
                    )
                except Unavailable as error:
                    if self._throttle():
                        logger.warning("cannot claim: %s", error)
                    await asyncio.sleep(0.5)
                    continue
                finally:
                    self._claiming_since = math.inf
                for claim in claimed.tasks:
                    self.begin(claim)
                self._more = claimed.more
                if claimed.skipped:
                    patience = SKIPPED_SECONDS
                elif self._unreachable_servers():
                    patience = SHUT_SECONDS
                patience = min(patience, self._runner.breakers.patience())
                if claimed.tasks:
                    self._since = claimed.since
                if claimed.held_back or (self._more and (len(claimed.tasks) == free or self._ended != ended)):
                    continue
            try:
                async with asyncio.timeout(patience):
                    await self._awake.wait()
            except TimeoutError:
                pass

    def _scarce(self, free: int) -> dict[int, int]:
        """For each server that can take fewer than `free` more calls of this worker: how many it can take."""
        narrow = self._runner.servers.narrow(self.size) | dict.fromkeys(self._unreachable_servers(), 0)
        rooms = {}
        if narrow:
            calls = Counter(running.claim.server_id for running in self.running.values() if not running.asking)
            rooms = {server_id: max(0, most - calls[server_id]) for server_id, most in narrow.items()}
        rooms |= self._runner.breakers.rooms()
        return {server_id: room for server_id, room in rooms.items() if room < free}

    def _unreachable_servers(self) -> set[int]:
        """The servers that accept no connection. For each, one task waits in a slot, and no more are claimed."""
        return {running.claim.server_id for running in self.running.values() if running.shut_out}

    def _is_prober(self, held: Running) -> bool:
        """Whether `held` is the first of the tasks that wait for their server. Only this one goes on waiting."""
        return next(
            (
                running is held
                for running in self.running.values()
                if running.begun is None and not running.previewing and running.claim.server_id == held.claim.server_id
            ),
            True,
        )

    def begin(self, claim: Claim) -> Running:
        """Run the claimed task, which takes a slot."""
        if before := self.running.get(claim.task_id):
            before.lose()  # an earlier run, whose lease was lost
        held = Running(claim=claim, notes=Notes(claim, self._lanes), started=time.monotonic())
        held.probing = self._runner.breakers.begin(claim.server_id)
        self.running[claim.task_id] = held
        held.news = asyncio.get_running_loop().call_later(NEWS_SECONDS, self._tell, claim.task_id)
        held.work = asyncio.create_task(self._work(held))
        return held

    async def _work(self, held: Running) -> None:
        try:
            await self._runner.run(held, asks=self._is_prober)
        finally:
            if self.running.get(held.claim.task_id) is held:
                del self.running[held.claim.task_id]
            if held.news is not None:
                held.news.cancel()
            self._ended += 1
            if self._more or self._held_up:
                self.wake()

    async def renew(self, pulse: Lanes) -> None:
        """Renew every lease, through the lane `pulse`. A task whose cancellation was requested is cancelled. A task
        whose lease is lost is stopped, because another worker may run it. The exception is a task that waits for people
        to rule whether its tool ran: it goes on here, because no other worker runs it, and its result still counts."""
        held = {task_id: running.claim.epoch for task_id, running in self.running.items()}
        if not held:
            return
        kept = await pulse.run(
            lifecycle.renew_leases,
            worker=self.worker,
            held=list(held.items()),
            lease_seconds=settings.TASKHUB_LEASE_SECONDS,
        )
        lost = []
        for task_id in held:
            running = self.running.get(task_id)
            if running is None or running.claim.epoch != held[task_id]:
                continue
            if task_id not in kept:
                # A task that began less than a second ago has probably just ended, so there is nothing to stop.
                if time.monotonic() - running.started > 1.0:
                    lost.append(running)
            elif kept[task_id]:
                running.cancel()
        if lost:
            unruled = await pulse.run(lifecycle.unruled, [(run.claim.task_id, run.claim.epoch) for run in lost])
            for running in lost:
                if running.claim.task_id not in unruled:
                    running.lose()

    async def drain(self) -> int:
        """Let running tools go on for `DRAIN_SECONDS`, then stop them and return their tasks to the queue. Returns how
        many were stopped."""
        work = [running.work for running in self.running.values() if running.work is not None]
        if work:
            await asyncio.wait(work, timeout=DRAIN_SECONDS)
        unfinished = len(self.running)
        for running in list(self.running.values()):
            if running.work is not None:
                running.work.cancel()
        left = [running.work for running in self.running.values() if running.work is not None]
        if left:
            await asyncio.wait(left, timeout=DRAIN_SECONDS)
        return unfinished

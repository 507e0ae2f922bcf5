"""The slots of a worker: which tasks it claims, which it runs, and their leases."""

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
"""How often at least a claim looks at the whole queue, not only at tasks queued since the last claim."""
SKIPPED_SECONDS = 0.05
"""When to look again at a task whose lock was held at the moment of the claim."""
NEWS_SECONDS = 0.2
"""A task that runs longer than this is announced as running."""
SHUT_SECONDS = 0.5
"""When to ask again whether a server that accepted no connection does so now."""
CLAIM_SECONDS = 45.0
"""A worker ends if one claim takes longer. What it asks of the database has deadlines that are much shorter."""
SHARE = 2
"""One client gets at most this part of a worker's slots, even while nobody else waits: a running tool cannot be set
aside for another client, so there must be slots before it comes."""


class Slots:
    """What one worker runs at once. `claim_until_stopped` keeps them full."""

    def __init__(self, size: int, worker: str, runner: Runner, tell: Callable[[int], None]) -> None:
        """`tell(task id)` announces that a task runs, and returns at once."""
        self.size = size
        self.share = max(1, size // SHARE)
        self.worker = worker
        self.running: dict[int, Running] = {}
        self._runner = runner
        self._lanes = runner.lanes
        self._tell = tell
        self._throttle = Throttle(60.0)
        self._awake = asyncio.Event()
        self._since: datetime | None = None
        self._whole_at = 0.0
        self._more = False
        """Whether the last claim left tasks that can run once another ends: only then does an ended task wake us."""
        self._held_up = False
        """The same for tasks queued since whose client has its whole share of slots."""
        self._ended = 0
        self._stopping = False
        self._claiming_since = math.inf

    @property
    def hangs(self) -> bool:
        """Whether a claim was begun long ago and goes on."""
        return time.monotonic() - self._claiming_since > CLAIM_SECONDS

    def stop(self) -> None:
        """Claim nothing more."""
        self._stopping = True
        self.wake()

    def wake(self) -> None:
        """Tell that there may be tasks to claim."""
        self._awake.set()

    def wake_for_all(self) -> None:
        """Tell that there may be tasks to claim that were passed over by earlier claims."""
        self._since = None
        self.wake()

    def offer(self, context_id: int) -> None:
        """Tell that a task of this client was queued."""
        held = sum(running.claim.context_id == context_id for running in self.running.values())
        if held >= self.share:
            self._held_up = True  # nothing to claim until one of them ends
        else:
            self.wake()

    async def claim_until_stopped(self) -> None:
        """Claim whenever a slot is free and there may be a task for it."""
        while not self._stopping:
            self._awake.clear()
            free = self.size - len(self.running)
            self._more = free <= 0
            self._held_up = False
            patience = 5.0
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
                    self._start(claim)
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
        """The servers that take fewer than `free` more calls of this worker, and how many each takes."""
        narrow = self._runner.servers.narrow(self.size) | dict.fromkeys(self._unreachable_servers(), 0)
        rooms = {}
        if narrow:
            calls = Counter(running.claim.server_id for running in self.running.values())
            rooms = {server_id: max(0, most - calls[server_id]) for server_id, most in narrow.items()}
        rooms |= self._runner.breakers.rooms()
        return {server_id: room for server_id, room in rooms.items() if room < free}

    def _unreachable_servers(self) -> set[int]:
        """The servers that accept no connection: a task that has waited there for some time goes on asking for all."""
        return {running.claim.server_id for running in self.running.values() if running.shut_out}

    def _is_prober(self, held: Running) -> bool:
        """Whether it is the first of the tasks that wait for its server: that one goes on asking."""
        return next(
            (
                running is held
                for running in self.running.values()
                if running.begun is None and running.claim.server_id == held.claim.server_id
            ),
            True,
        )

    def _start(self, claim: Claim) -> None:
        held = Running(claim=claim, notes=Notes(claim, self._lanes), started=time.monotonic())
        held.probing = self._runner.breakers.begin(claim.server_id)
        self.running[claim.task_id] = held
        held.news = asyncio.get_running_loop().call_later(NEWS_SECONDS, self._tell, claim.task_id)
        held.work = asyncio.create_task(self._work(held))

    async def _work(self, held: Running) -> None:
        try:
            await self._runner.run(held, asks=self._is_prober)
        finally:
            self.running.pop(held.claim.task_id, None)
            if held.news is not None:
                held.news.cancel()
            self._ended += 1
            if self._more or self._held_up:
                self.wake()

    async def renew(self, pulse: Lanes) -> None:
        """Renew every lease. A task that is no longer ours is dropped at once: another worker may be running it."""
        held = {task_id: running.claim.epoch for task_id, running in self.running.items()}
        if not held:
            return
        kept = await pulse.run(
            lifecycle.renew_leases,
            worker=self.worker,
            held=list(held.items()),
            lease_seconds=settings.TASKHUB_LEASE_SECONDS,
        )
        for task_id in held:
            running = self.running.get(task_id)
            if running is None or running.claim.epoch != held[task_id]:
                continue
            if task_id not in kept:
                # Its outcome may have been stored just now: then there is nothing to stop.
                if time.monotonic() - running.started > 1.0:
                    running.lose()
            elif kept[task_id]:
                running.cancel()

    async def drain(self) -> int:
        """Let running tools go on for 3 seconds, then give their tasks back. Returns how many were given back."""
        work = [running.work for running in self.running.values() if running.work is not None]
        if work:
            await asyncio.wait(work, timeout=3.0)
        unfinished = len(self.running)
        for running in list(self.running.values()):
            if running.work is not None:
                running.work.cancel()
        left = [running.work for running in self.running.values() if running.work is not None]
        if left:
            await asyncio.wait(left, timeout=3.0)
        return unfinished

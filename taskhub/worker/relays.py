"""Makes relays (reads, prompts and completions for callers who wait), over the same connections as tool calls."""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from functools import partial

from taskhub.core.errors import Unavailable
from taskhub.domain.credentials.records import NeedsAuthorization
from taskhub.domain.relays.outcomes import Failed, RelayClaim, RelayOutcome
from taskhub.domain.relays.writes import claim_relays, finish_relay
from taskhub.lib.lanes import Lanes
from taskhub.lib.throttle import Throttle
from taskhub.upstream.pool import give_up
from taskhub.upstream.relay import INTERNAL_ERROR, run_relay
from taskhub.worker.servers import Servers

logger = logging.getLogger(__name__)

AT_ONCE = 16
"""The most relays that this worker makes at once to one server. The limit is per server, so that a slow server does not
delay relays to others."""

LOOK_SECONDS = 5.0
"""The most seconds between two looks for relays, in case a hint was lost."""


class Relays:
    """Claims and makes relays while `run` runs. Call `wake` if there may be new relays, and `drop` when a caller has
    left."""

    def __init__(self, name: str, servers: Servers, lanes: Lanes) -> None:
        self._name = name
        self._servers = servers
        self._throttle = Throttle(60.0)
        self._lanes = lanes
        self._awake = asyncio.Event()
        self._running: dict[int, asyncio.Task[None]] = {}
        self._dropped: set[int] = set()
        """The running relays that `drop` has cancelled."""
        self._busy: Counter[int] = Counter()

    def wake(self) -> None:
        """Claim relays soon, because there may be new ones."""
        self._awake.set()

    def drop(self, relay_id: int) -> None:
        """Cancel a relay whose caller has left."""
        if (work := self._running.get(relay_id)) is not None:
            self._dropped.add(relay_id)
            work.cancel()

    async def run(self) -> None:
        """Claim and make relays for ever. Cancelling it cancels the running relays too."""
        try:
            while True:
                self._awake.clear()
                await self._claim()
                try:
                    async with asyncio.timeout(LOOK_SECONDS):
                        await self._awake.wait()
                except TimeoutError:
                    pass
        finally:
            running = list(self._running.values())
            for work in running:
                work.cancel()
            if running:
                await asyncio.wait(running, timeout=2.0)

    async def _claim(self) -> None:
        free = {server: AT_ONCE - self._busy[server] for server in self._servers.held()}
        free = {server: room for server, room in free.items() if room > 0}
        if not free:
            return
        try:
            claimed = await self._lanes.run(claim_relays, worker=self._name, free=free)
        except Unavailable as error:
            if self._throttle():
                logger.warning("cannot claim requests: %s", error)
            return
        for claim in claimed:
            self._busy[claim.server_id] += 1
            work = asyncio.create_task(self._work(claim))
            self._running[claim.id] = work
            work.add_done_callback(partial(self._ended, claim))

    def _ended(self, claim: RelayClaim, _: asyncio.Task[None]) -> None:
        self._dropped.discard(claim.id)
        self._running.pop(claim.id, None)
        self._busy[claim.server_id] -= 1
        if self._busy[claim.server_id] == AT_ONCE - 1:
            self.wake()  # the server was at its limit, so more relays may be waiting

    async def _work(self, claim: RelayClaim) -> None:
        try:
            outcome = await self._outcome(claim)
            await self._lanes.run(finish_relay, claim.id, outcome, worker=self._name)
        except asyncio.CancelledError:
            if claim.id not in self._dropped:
                stopped = Failed(INTERNAL_ERROR, "The worker was stopped while it asked the server; try again")
                await self._lanes.run(finish_relay, claim.id, stopped, worker=self._name)
            raise
        except Unavailable as error:
            logger.warning("%s at %s: its outcome could not be stored: %s", claim.method, claim.server_name, error)
        except Exception:
            logger.exception("%s at %s: its outcome could not be stored", claim.method, claim.server_name)

    async def _outcome(self, claim: RelayClaim) -> RelayOutcome:
        try:
            pool = await self._servers.pool_for(claim.server_id, claim.context_id)
        except NeedsAuthorization as error:
            return Failed(INTERNAL_ERROR, f"{error.message}. A person does that on the page of the server in TaskHub")
        if pool is None:
            return Failed(INTERNAL_ERROR, f"Server {claim.server_name} was just disconnected; try again")
        calling = asyncio.ensure_future(pool.run(run_relay(pool, claim)))
        try:
            # The request also has a timeout in the server's own loop, but that cannot fire while the server blocks this
            # loop.
            async with asyncio.timeout(claim.seconds + 1.0):
                return await asyncio.shield(calling)
        except TimeoutError:
            await give_up(calling)
            return Failed(INTERNAL_ERROR, f"Server {claim.server_name} gave no answer and could not be stopped")
        except asyncio.CancelledError:
            await give_up(calling)
            raise

"""Deferred calls that were given up, because their server could not be polled for as long as the tool may run. When the
server is back, this worker asks it to cancel its tasks of these calls. The list is only in memory: if the worker ends
before that, the server is not asked."""

from __future__ import annotations

import asyncio
import logging
import time
from collections import deque
from collections.abc import Awaitable, Callable
from typing import Final

from taskhub.core.errors import Unavailable
from taskhub.core.records import Poll
from taskhub.domain.tasks.run import Result
from taskhub.lib import logs
from taskhub.upstream.deferred import GoesOn, PollOutcome, Silent
from taskhub.upstream.outcomes import Finished
from taskhub.upstream.pool import Pool
from taskhub.worker.running import Runner, Waits

logger = logging.getLogger(__name__)

TRIED_SECONDS: Final = 3_600.0
"""Seconds for which a server is tried."""

MOST: Final = 1_000
"""The most calls of one server that are kept; further ones replace the oldest."""

PAUSE_SECONDS: Final = (1.0, 30.0)
"""Seconds of the pause after the first failed try, and of the longest pause. Each pause is twice the one before."""


class GivenUp:
    """The calls that one worker has given up. For its event loop only."""

    def __init__(self, runner: Runner, poll: Callable[[Pool, Poll], Awaitable[PollOutcome | Waits]]) -> None:
        """`poll` polls a server as for any call. The calls here have run for too long, so it also asks the server to
        cancel the task."""
        self._runner = runner
        self._poll = poll
        self._calls: dict[int, deque[tuple[Poll, float]]] = {}
        """The calls to cancel, by server id, each with the time (`time.monotonic`) until which the server is tried."""
        self._trying: set[asyncio.Task[None]] = set()

    def add(self, taken: Poll) -> None:
        """Add a call that has been given up."""
        server_id = taken.claim.server_id
        calls = self._calls.setdefault(server_id, deque(maxlen=MOST))
        calls.append((taken, time.monotonic() + TRIED_SECONDS))
        if len(calls) == 1:
            task = asyncio.create_task(self._try(server_id, calls))
            self._trying.add(task)
            task.add_done_callback(self._trying.discard)

    def close(self) -> None:
        """Stop trying."""
        for task in self._trying:
            task.cancel()

    async def _try(self, server_id: int, calls: deque[tuple[Poll, float]]) -> None:
        first, longest = PAUSE_SECONDS
        pause = first
        while calls:
            taken, until = calls[0]
            if not await self._reached(taken) and time.monotonic() < until:
                await asyncio.sleep(pause)
                pause = min(pause * 2, longest)
                continue
            pause = first
            if calls[0][0] is taken:  # else it was removed when a newer call was added
                calls.popleft()
        del self._calls[server_id]

    async def _reached(self, taken: Poll) -> bool:
        """Ask the server to cancel its task. Returns whether the server could be asked. If the server answers with a
        result, the result is stored, unless somebody has ruled on the run."""
        claim = taken.claim
        pool = self._runner.servers.pool(claim.server_id)
        if pool is None:
            return False
        try:
            with logs.about({"task": claim.public_id, "server": claim.server_name}):
                outcome = await self._poll(pool, taken)
                if isinstance(outcome, Finished):
                    await self._runner.results.run(Result(claim, outcome.result))
        except Unavailable:
            return False
        except Exception:
            logger.exception("task %s: its server was not asked to cancel its own", claim.public_id)
            return True
        return not isinstance(outcome, Silent | GoesOn | Waits)

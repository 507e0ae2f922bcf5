"""Writes the progress and log lines of tools to the database. A task's first lines are written at once, further lines
at most four times a second, so that a tool with many lines costs no more than others."""

from __future__ import annotations

import asyncio
import logging

from taskhub.core.errors import TaskHubError
from taskhub.core.records import Claim, LogLine
from taskhub.domain.tasks.run import note
from taskhub.lib.lanes import Lanes
from taskhub.lib.throttle import Throttle

logger = logging.getLogger(__name__)

_throttle = Throttle(60.0)

BURST = 10
PER_SECOND = 4.0
BUFFERED = 500


class Notes:
    """The lines of one task that wait to be written, in order. Beyond `BUFFERED` lines the oldest progress line is
    dropped, since a newer one replaces it, or the oldest line if there is no progress line."""

    def __init__(self, claim: Claim, lanes: Lanes) -> None:
        self._claim = claim
        self._lanes = lanes
        self._waiting: list[LogLine] = []
        self._tokens = float(BURST)
        self._filled_at = 0.0
        self._writer: asyncio.Task[None] | None = None
        self._closed = False

    def add(self, line: LogLine) -> None:
        """Add a line, which is written soon. Ignored after `flush`."""
        if self._closed:
            return
        if len(self._waiting) >= BUFFERED:
            place = next((i for i, old in enumerate(self._waiting) if old.level == "progress"), 0)
            del self._waiting[place]
        self._waiting.append(line)
        if self._writer is None or self._writer.done():
            self._writer = asyncio.create_task(self._write())

    async def flush(self) -> None:
        """Write all waiting lines now, and accept no more. Lines that cannot be stored are dropped, so that they do not
        keep the result from being stored."""
        # Let the event loop run once, so that lines arrive that other threads have already passed to it.
        await asyncio.sleep(0)
        self._closed = True
        self._tokens = float(BURST)
        while self._waiting or (self._writer is not None and not self._writer.done()):
            if self._writer is None or self._writer.done():
                self._writer = asyncio.create_task(self._write())
            await self._writer

    async def _write(self) -> None:
        loop = asyncio.get_running_loop()
        while self._waiting:
            now = loop.time()
            self._tokens = min(float(BURST), self._tokens + (now - self._filled_at) * PER_SECOND)
            self._filled_at = now
            if self._tokens < 1.0 and not self._closed:
                await asyncio.sleep((1.0 - self._tokens) / PER_SECOND)
                continue
            self._tokens -= 1.0
            lines, self._waiting = self._waiting, []
            try:
                await self._lanes.run(note, self._claim, lines)
            except TaskHubError as error:
                logger.warning("task %s: %d lines lost: %s", self._claim.public_id, len(lines), error)
            except Exception:  # only logged, because storing later lines may succeed
                if _throttle():
                    logger.exception("task %s: %d lines lost, perhaps of others too", self._claim.public_id, len(lines))

"""Reads the feed and delivers notices, beside the tasks of a worker."""

from __future__ import annotations

import asyncio
import logging
from typing import Final

from taskhub.core.errors import TaskHubError
from taskhub.domain.feed import reading
from taskhub.domain.notices.outbox import Delivered, Taken, end_delivery, take_notices
from taskhub.domain.notices.queueing import queue_notices
from taskhub.lib.lanes import Lanes
from taskhub.notify.webhooks.sending import Message, Sender

logger = logging.getLogger(__name__)

AT_ONCE: Final = 50
"""Deliveries that one worker makes at a time."""

_SEALED: Final = "Its address or secret was encrypted under another SECRET_KEY: give it its address, and a new secret"


class Notices:
    """The notices of one worker. `read` and `look` are called every second, each for itself: an event that cannot be
    read holds up no delivery."""

    def __init__(self, lanes: Lanes, sender: Sender) -> None:
        self._lanes = lanes
        self._sender = sender
        self._deliveries: set[asyncio.Task[None]] = set()
        self._looking = asyncio.Lock()

    async def read(self) -> None:
        """Queue the notices of all events that are new in the feed, and begin to deliver them."""
        looked_at = 0
        while (latest := await self._lanes.run(queue_notices)) >= reading.BATCH:
            looked_at += latest
        if looked_at + latest:
            await self.look()

    async def look(self) -> None:
        """Begin to deliver what is due."""
        async with self._looking:
            await self._take()

    async def close(self) -> None:
        """Stop. Deliveries that are under way are given up: their leases run out, and they are made again."""
        for delivery in self._deliveries:
            delivery.cancel()
        await asyncio.gather(*self._deliveries, return_exceptions=True)
        await self._sender.close()

    async def _take(self) -> None:
        for taken in await self._lanes.run(take_notices, AT_ONCE - len(self._deliveries)):
            delivery = asyncio.create_task(self._deliver(taken))
            self._deliveries.add(delivery)
            delivery.add_done_callback(self._deliveries.discard)

    async def _deliver(self, taken: Taken) -> None:
        try:
            outcome = await self._outcome(taken)
            await self._lanes.run(end_delivery, taken, outcome)
            await self.look()
        except asyncio.CancelledError:
            raise
        except TaskHubError as error:  # mostly a database that is away
            logger.warning("what came of the message %s was not stored: it is sent again: %s", taken.public_id, error)
        except Exception:
            logger.exception("sending the message %s failed: it is sent again", taken.public_id)

    async def _outcome(self, taken: Taken) -> Delivered:
        if not taken.url or not taken.secrets:
            return Delivered(ok=False, problem=_SEALED)
        message = Message(taken.public_id, taken.body, taken.number, taken.url, taken.secrets)
        answer = await self._sender.send(message)
        return Delivered(
            ok=not answer.problem,
            status=answer.status,
            answer=answer.text,
            problem=answer.problem,
            gone=answer.gone,
            later=answer.later,
        )

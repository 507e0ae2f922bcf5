"""What the channels of the outbox share in a worker: reading the feed, and making deliveries side by side."""

from __future__ import annotations

import abc
import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from typing import Generic, TypeVar

from taskhub.core.errors import TaskHubError
from taskhub.domain.notices.outbox import Delivered
from taskhub.lib.lanes import Lanes

logger = logging.getLogger(__name__)

T = TypeVar("T")


class Reading:
    """Reads the feed for channels, every second, in a chore of its own: an event that cannot be read holds up no
    delivery."""

    def __init__(
        self, lanes: Lanes, queue: Callable[[], int], batch: int, looks: Sequence[Callable[[], Awaitable[None]]]
    ) -> None:
        """`queue` runs in a lane: it queues messages about the next events of the feed, and returns how many events it
        looked at, which is `batch` if there may be more. `looks` are called after that: they begin the deliveries."""
        self._lanes, self._queue, self._batch, self._looks = lanes, queue, batch, looks

    async def read(self) -> None:
        """Queue messages about all new events of the feed, and begin to deliver them."""
        looked_at = 0
        while (latest := await self._lanes.run(self._queue)) >= self._batch:
            looked_at += latest
        if looked_at + latest:
            for look in self._looks:
                await look()


class Outgoing(abc.ABC, Generic[T]):
    """The deliveries of one worker on one channel. `look` is called every second. One channel never waits for
    another."""

    def __init__(self, lanes: Lanes) -> None:
        self._lanes = lanes
        self._deliveries: set[asyncio.Task[None]] = set()
        self._looking = asyncio.Lock()

    @property
    @abc.abstractmethod
    def at_once(self) -> int:
        """How many deliveries this worker makes at a time."""

    @abc.abstractmethod
    def _take(self, most: int) -> list[T]:
        """Take `most` messages that are due, or fewer, under a lease. Runs in a lane, as `_store` does."""

    @abc.abstractmethod
    async def _send(self, taken: T) -> Delivered:
        """Deliver the message. An error of the receiver is an outcome, and raises nothing."""

    @abc.abstractmethod
    def _store(self, taken: T, outcome: Delivered) -> None:
        """Store the outcome of the delivery. Runs in a lane."""

    @abc.abstractmethod
    def _id(self, taken: T) -> str:
        """The message's id, for the log."""

    async def look(self) -> None:
        """Begin to deliver messages that are due, as many as `at_once` allows."""
        async with self._looking:
            for taken in await self._lanes.run(self._take, self.at_once - len(self._deliveries)):
                delivery = asyncio.create_task(self._deliver(taken))
                self._deliveries.add(delivery)
                delivery.add_done_callback(self._deliveries.discard)

    async def close(self) -> None:
        """Stop. Deliveries that are under way are given up: their leases run out, and they are made again."""
        for delivery in self._deliveries:
            delivery.cancel()
        await asyncio.gather(*self._deliveries, return_exceptions=True)

    async def _deliver(self, taken: T) -> None:
        try:
            outcome = await self._send(taken)
            await self._lanes.run(self._store, taken, outcome)
            await self.look()
        except asyncio.CancelledError:
            raise
        except TaskHubError as error:  # mostly a database that is away
            logger.warning("what came of the message %s was not stored: it is sent again: %s", self._id(taken), error)
        except Exception:
            logger.exception("sending the message %s failed: it is sent again", self._id(taken))

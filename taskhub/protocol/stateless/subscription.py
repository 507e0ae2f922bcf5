"""What `subscriptions/listen` does in every revision without sessions: limits the streams of a client, waits until a
hint rings one of the stream's topics (`core.hints`), and ends the stream."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncGenerator, AsyncIterator, Collection, Iterable, Iterator
from contextlib import contextmanager, nullcontext
from datetime import UTC, datetime
from typing import Any, Final

from taskhub.core.errors import Unavailable
from taskhub.core.hints import STANDING, standing_topic
from taskhub.core.records import TaskRecord
from taskhub.core.states import TERMINAL
from taskhub.protocol import calls
from taskhub.protocol.errors import INVALID_PARAMS, TOO_MANY, WireError
from taskhub.protocol.hub import Bell, Hub
from taskhub.protocol.incoming import Incoming
from taskhub.protocol.stateless.request import Request

MAX_STREAMS: Final = 20
MAX_TASKS: Final = 100
MAX_AGE_SECONDS: Final = 1_800.0
KEEP_ALIVE_SECONDS: Final = 15.0
AGAIN_SECONDS: Final = 2.0
"""Seconds until a topic is looked at again after the database was unavailable; up to half as much is added at
random."""


class Subscription:
    """An open stream of one caller. It ends after `MAX_AGE_SECONDS`, when the caller's token is not valid any more, or
    when the process shuts down.

    It queries only for topics that have rung, so ten thousand streams without news make no query.
    """

    def __init__(self, hub: Hub, incoming: Incoming, bell: Bell, first: Iterable[str]) -> None:
        self.bell = bell
        self._hub, self._incoming = hub, incoming
        self._standing = standing_topic(incoming.principal.context_id)
        self._first = {*first, STANDING}
        self._loop = asyncio.get_running_loop()
        self._until = self._loop.time() + MAX_AGE_SECONDS
        if incoming.principal.expires_at is not None:
            left = (incoming.principal.expires_at - datetime.now(UTC)).total_seconds()
            self._until = min(self._until, self._loop.time() + left)

    async def rung(self) -> set[str] | None:
        """Wait for the next topics to look at: the first call returns those that the stream was created with (`first`),
        later ones those that rang. Returns an empty set if only a keep-alive is due, and `None` if the stream is to
        end."""
        rung, self._first = self._first, set()
        left = self._until - self._loop.time()
        if not rung and left > 0:
            await calls.rung(self.bell, min(KEEP_ALIVE_SECONDS, left))
            rung = self.bell.take()
            left = self._until - self._loop.time()
        if left <= 0 or self._hub.closing.is_set():
            return None
        try:
            if rung and not await self._may_stay(together=STANDING in rung):
                return None
        except Unavailable:
            self.later(rung)  # while the token cannot be checked, nothing is sent
            return set()
        return rung - {STANDING, self._standing}

    async def _may_stay(self, *, together: bool) -> bool:
        async with self._hub.reauth_limit if together else nullcontext():
            return await self._incoming.valid()

    def later(self, topics: Iterable[str]) -> None:
        """Ring these topics again after about `AGAIN_SECONDS`, because the database is unavailable."""
        for topic in topics:
            seconds = AGAIN_SECONDS * random.uniform(1, 1.5)  # noqa: S311 - spreads the queries of all streams
            self._loop.call_later(seconds, self.bell.ring, topic)


@contextmanager
def subscribed(
    hub: Hub, incoming: Incoming, tasks: Iterable[str], others: Iterable[str] = ()
) -> Iterator[Subscription]:
    """A stream of the caller that watches the topics `tasks` and `others`. The topics `tasks` are looked at when the
    stream begins, too; the topics `others` only when they ring. Raises 429 if the client has `MAX_STREAMS` open
    streams. The check and the count are one step, so that streams that are opened at the same time cannot exceed the
    limit together."""
    context_id, tasks = incoming.principal.context_id, tuple(tasks)
    held = hub.streams.get(context_id, 0)
    if held >= MAX_STREAMS:
        raise WireError(TOO_MANY, f"At most {MAX_STREAMS} streams at once", retry_after=5)
    hub.streams[context_id] = held + 1
    try:
        # With no topic at all, `ring_all` would not wake the stream when the process shuts down.
        with hub.hints.watch(*tasks, *others, standing_topic(context_id)) as bell:
            yield Subscription(hub, incoming, bell, tasks)
    finally:
        hub.streams[context_id] -= 1
        if not hub.streams[context_id]:
            del hub.streams[context_id]


def wanted_of(request: Request) -> dict[str, Any]:
    """The filter of the subscription, `params.notifications`. Raises -32602 unless it is an object."""
    wanted = request.params.get("notifications")
    if not isinstance(wanted, dict):
        raise WireError(INVALID_PARAMS, "notifications must be an object")
    return wanted


def check_texts(value: Any, name: str, most: int) -> None:
    """Raises -32602 unless `value`, the part `name` of the filter, is an array of at most `most` strings."""
    if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
        raise WireError(INVALID_PARAMS, f"notifications.{name} must be an array of strings")
    if len(value) > most:
        raise WireError(INVALID_PARAMS, f"At most {most} {name} in one subscription")


async def tasks_of(hub: Hub, request: Request, ids: Iterable[str], revision: str) -> dict[str, TaskRecord]:
    """The caller's tasks of this revision among `ids`, by public id; other ids are left out (T26-51, T2557-20)."""
    found = [await calls.known_task(hub, request.principal, public_id, revision) for public_id in dict.fromkeys(ids)]
    return {task.public_id: task for task in found if task is not None}


async def changed_tasks(
    hub: Hub, context_id: int, mine: dict[str, TaskRecord], shown: dict[str, int], rung: Collection[str]
) -> list[TaskRecord]:
    """The tasks of `mine` whose topics rang and that have changed since they were last sent. Updates `shown`, which has
    the versions that were sent, and removes ended tasks from `mine`. If it raises `Unavailable`, both are unchanged."""
    ids = [public_id for public_id in mine if public_id in rung]
    read = await asyncio.gather(*(hub.reads.run((context_id, public_id)) for public_id in ids))
    found = []
    for public_id, now in zip(ids, read, strict=True):
        task = now or mine[public_id]  # `now` is `None` if the owner cannot read the task any more
        hub.told[public_id] = task.version
        if shown.get(public_id) != task.version:
            shown[public_id] = task.version
            found.append(task)
            hub.brought(task, context_id)
        if task.state in TERMINAL:
            del mine[public_id]
    return found


async def begun(frames: AsyncGenerator[bytes, None]) -> AsyncIterator[bytes]:
    """Make the first frame, and return an iterator over all frames. An error in the first frame is raised here, before
    the response has begun."""
    return _after(await anext(frames), frames)


async def _after(first: bytes, frames: AsyncGenerator[bytes, None]) -> AsyncIterator[bytes]:
    try:
        yield first
        async for frame in frames:
            yield frame
    finally:
        await frames.aclose()

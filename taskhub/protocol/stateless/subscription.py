"""What every `subscriptions/listen` does, whatever it tells: its place among the caller's streams, and its end."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Final

from taskhub.core.records import Principal
from taskhub.protocol import calls
from taskhub.protocol.errors import TOO_MANY, WireError
from taskhub.protocol.hub import Bell, Hub

MAX_STREAMS: Final = 20
MAX_TASKS: Final = 100
MAX_AGE_SECONDS: Final = 1_800.0
KEEP_ALIVE_SECONDS: Final = 15.0


class Subscription:
    """An open stream of one caller; ends after `MAX_AGE_SECONDS`, with its token, or with the server."""

    def __init__(self, hub: Hub, principal: Principal) -> None:
        self._hub = hub
        self._loop = asyncio.get_running_loop()
        self._until = self._loop.time() + MAX_AGE_SECONDS
        if principal.expires_at is not None:
            left = (principal.expires_at - datetime.now(UTC)).total_seconds()
            self._until = min(self._until, self._loop.time() + left)

    async def goes_on(self, bell: Bell) -> bool | None:
        """Wait for the next news. `False` when the stream is to end, `None` when only a keep-alive is due."""
        left = self._until - self._loop.time()
        if left <= 0 or self._hub.closing.is_set():
            return False
        rung = await calls.rung(bell, min(KEEP_ALIVE_SECONDS, left))
        return True if rung or left <= KEEP_ALIVE_SECONDS else None


@contextmanager
def subscribed(hub: Hub, principal: Principal) -> Iterator[Subscription]:
    """A place among the caller's streams, given back at the end. Raises 429 above `MAX_STREAMS`,
    checked and counted in one step, so that streams opened at once cannot slip past the limit together."""
    held = hub.streams.get(principal.context_id, 0)
    if held >= MAX_STREAMS:
        raise WireError(TOO_MANY, f"At most {MAX_STREAMS} streams at once", retry_after=5)
    hub.streams[principal.context_id] = held + 1
    try:
        yield Subscription(hub, principal)
    finally:
        hub.streams[principal.context_id] -= 1
        if not hub.streams[principal.context_id]:
            del hub.streams[principal.context_id]


async def begun(frames: AsyncGenerator[bytes, None]) -> AsyncIterator[bytes]:
    """The same frames, of which the first was made now: what it raises is an answer and no stream yet."""
    return _after(await anext(frames), frames)


async def _after(first: bytes, frames: AsyncGenerator[bytes, None]) -> AsyncIterator[bytes]:
    try:
        yield first
        async for frame in frames:
            yield frame
    finally:
        await frames.aclose()

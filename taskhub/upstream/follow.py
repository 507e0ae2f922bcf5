"""Makes a server announce changes of its lists and of followed resources on one connection. For a 2026 server, this
module keeps a stream open; at an older one it subscribes to each resource. The connection receives the announcements
(`on_lists_changed`, `on_updated`)."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Collection
from typing import Any

import mcp_types as types
from mcp import MCPError

from taskhub.upstream.connection import Connection

logger = logging.getLogger(__name__)

ACK_SECONDS = 10.0
"""Seconds in which a server has to confirm a subscription."""

REOPEN_SECONDS = 1.0
"""Seconds before a stream that the server ended is opened again."""


class Follower:
    """Follows resources on one connection while `run` runs. `wanted` returns the uris to follow; call `look_again` when
    they have changed. `on_followed` gets the uris that the server has agreed to, again after each reconnection;
    `on_missed` is called when announcements may have been missed."""

    def __init__(
        self,
        connection: Connection,
        *,
        wanted: Callable[[], frozenset[str]],
        on_followed: Callable[[frozenset[str]], None],
        on_missed: Callable[[], None],
    ) -> None:
        self._connection = connection
        self._wanted = wanted
        self._on_followed = on_followed
        self._on_missed = on_missed
        self._again = asyncio.Event()

    def look_again(self) -> None:
        """Call this when `wanted` returns other resources than before."""
        self._again.set()

    async def run(self) -> None:
        """Follow until the connection ends."""
        if self._connection.modern:
            await self._listen()
        else:
            await self._subscribe()

    async def _listen(self) -> None:
        """Keep one stream open. When the wanted resources change, a new stream is opened before the old one is closed,
        so that no announcement is lost."""
        current: asyncio.Task[None] | None = None
        ended, pause = False, REOPEN_SECONDS
        try:
            while self._connection.alive:
                self._again.clear()
                agreed: asyncio.Future[frozenset[str]] = asyncio.get_running_loop().create_future()
                fresh = asyncio.create_task(self._stream(self._wanted(), agreed))
                first: set[asyncio.Future[Any]] = {fresh, agreed}
                await asyncio.wait(first, timeout=ACK_SECONDS, return_when=asyncio.FIRST_COMPLETED)
                if agreed.done():
                    if current is not None:
                        current.cancel()
                    current, pause = fresh, REOPEN_SECONDS
                    self._on_followed(agreed.result())
                    if ended:
                        ended = False
                        self._on_missed()
                else:
                    fresh.cancel()
                    if current is None and not ended:
                        return  # the server offers no such stream: `Watcher` lists it once a minute
                if current is not None:
                    await self._until_over(current)
                if current is None or current.done():
                    current, ended = None, True
                    await asyncio.sleep(pause)
                    pause = min(pause * 2, 30.0)
        finally:
            if current is not None:
                current.cancel()

    async def _until_over(self, stream: asyncio.Task[None]) -> None:
        """Wait until the stream ends, or other resources are wanted."""
        again = asyncio.create_task(self._again.wait())
        try:
            await asyncio.wait({again, stream}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            again.cancel()

    async def _stream(self, wanted: frozenset[str], agreed: asyncio.Future[frozenset[str]]) -> None:
        assert self._connection.client is not None
        try:
            async with self._connection.client.listen(
                tools_list_changed=True,
                prompts_list_changed=True,
                resources_list_changed=True,
                resource_subscriptions=sorted(wanted),
            ) as subscription:
                agreed.set_result(frozenset(subscription.honored.resource_subscriptions or ()))
                async for _ in subscription:
                    pass  # the connection has passed the announcement on already
        except asyncio.CancelledError:
            raise
        except Exception as error:  # noqa: BLE001 - a server may fail in any way it likes
            target = self._connection.target
            logger.info("no change events from %s: %s", target.name, target.reason(error))

    async def _subscribe(self) -> None:
        held: set[str] = set()
        while self._connection.alive:
            self._again.clear()
            wanted = self._wanted()
            followed = set()
            for uri in sorted(wanted - held):
                if await self._told(types.SubscribeRequest(params=types.SubscribeRequestParams(uri=uri))):
                    followed.add(uri)
            for uri in sorted(held - wanted):
                await self._told(types.UnsubscribeRequest(params=types.UnsubscribeRequestParams(uri=uri)))
            held = (held & wanted) | followed
            if followed:
                self._on_followed(frozenset(followed))
            await self._again.wait()

    async def _told(self, request: Any) -> bool:
        client = self._connection.client
        if client is None:
            return False
        try:
            async with asyncio.timeout(ACK_SECONDS):
                await client.session.send_request(request, types.EmptyResult)
        except (MCPError, TimeoutError) as error:
            target = self._connection.target
            what = f"{request.method} of {request.params.uri}"
            logger.info("%s failed at %s: %s", what, target.name, target.reason(error))
            return False
        return True


def covering(uri: str, followed: Collection[str]) -> set[str]:
    """The followed uris that a change of `uri` concerns: `uri` itself, and every uri that it is a sub-resource of."""
    return {one for one in followed if uri == one or uri.startswith(one.rstrip("/") + "/")}

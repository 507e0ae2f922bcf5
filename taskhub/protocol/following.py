"""The resources whose changes one stream sends to its client, in any revision."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Collection, Iterable

from taskhub.core.hints import follow_topic, resource_topic
from taskhub.core.names import MAX_URI
from taskhub.domain.catalogue.view import Catalogue
from taskhub.domain.relays.interests import INTEREST_SECONDS, follow, unconfirmed, unfollow
from taskhub.protocol import calls
from taskhub.protocol.hub import Bell, Hub
from taskhub.protocol.relays import servers_of

FOLLOW_SECONDS = 2.0
"""Seconds that a stream waits for servers to agree before it acknowledges the subscription."""


class Following:
    """The resources that one stream follows. Watch `topics`, call `start`, then `changed` after each ring and `renew`
    at least every `INTEREST_SECONDS`, and `stop` at the end. In between, workers are subscribed to these resources at
    the servers."""

    def __init__(self, hub: Hub, found: Catalogue, uris: Iterable[str]) -> None:
        self._hub = hub
        self._holder = secrets.token_urlsafe(16)
        self._by_topic: dict[str, str] = {}
        self._wanted: list[tuple[int, str]] = []
        self._late: set[tuple[int, str]] = set()
        self._renew_at = 0.0
        for uri in dict.fromkeys(uris):
            server_id = _follows(found, uri)
            if server_id is not None:
                self._wanted.append((server_id, uri))
                self._by_topic[resource_topic(server_id, uri)] = uri

    @property
    def uris(self) -> list[str]:
        """The URIs that can be followed, in the order in which they were asked for."""
        return [uri for _, uri in self._wanted]

    @property
    def topics(self) -> list[str]:
        """The topics that ring when `changed` has news."""
        return [follow_topic(self._holder), *self._by_topic] if self._wanted else []

    async def start(self, bell: Bell) -> None:
        """Record the interest and wait until servers have agreed to report changes, `FOLLOW_SECONDS` at most."""
        await self.renew()
        loop = asyncio.get_running_loop()
        deadline = loop.time() + FOLLOW_SECONDS
        while self._wanted:
            self._late = await self._hub.lanes.run(unconfirmed, self._holder)
            left = deadline - loop.time()
            if not self._late or left <= 0:
                break
            await calls.rung(bell, left)
        bell.take()

    async def renew(self) -> None:
        """Keep the interest alive; costs nothing when it was renewed a moment ago."""
        now = asyncio.get_running_loop().time()
        if self._wanted and now >= self._renew_at:
            self._renew_at = now + INTEREST_SECONDS / 3
            await self._hub.lanes.run(follow, self._holder, self._wanted)

    async def changed(self, rung: Collection[str]) -> list[str]:
        """The resources whose topics rang, and those that a server has only now agreed to follow, since changes before
        that may have been missed."""
        found = [uri for topic, uri in self._by_topic.items() if topic in rung]
        if self._late and follow_topic(self._holder) in rung:
            late, self._late = self._late, await self._hub.lanes.run(unconfirmed, self._holder)
            found += [uri for _, uri in late - self._late if uri not in found]
        return found

    async def stop(self) -> None:
        """End the interest."""
        if self._wanted:
            await self._hub.lanes.run(unfollow, self._holder)


def _follows(found: Catalogue, uri: str) -> int | None:
    """The id of the server that reports changes of this resource; `None` if there is none."""
    if len(uri) > MAX_URI or len(uri.encode("utf-8", "replace")) > 2 * MAX_URI or not uri.isprintable():
        return None
    able = (server.id for server in servers_of(found, uri) if server.can("resources", "subscribe"))
    return next(able, None)

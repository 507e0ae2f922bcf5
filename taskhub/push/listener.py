"""Feeds this process's waiters and consoles from the one hint listener."""

from __future__ import annotations

import asyncio
import logging
from collections import defaultdict

from channels.layers import get_channel_layer

from taskhub.core.names import follow_topic, relay_topic
from taskhub.identity.principals import forget_principals
from taskhub.protocol.hub import CATALOGUE, Hub, context_topic
from taskhub.queries.catalogue import forget_catalogues
from taskhub.store.listener import listen

logger = logging.getLogger(__name__)

COALESCE_SECONDS = 0.2
"""Consoles are told at most five times a second, however fast tasks move."""


class Feeder:
    """Turns hints into rings and console messages."""

    def __init__(self, hub: Hub) -> None:
        self.hub = hub
        self._news: defaultdict[str, set[str]] = defaultdict(set)
        self._left: set[str] = set()
        self._due = asyncio.Event()

    async def run(self) -> None:
        """Listen for ever."""
        async with asyncio.TaskGroup() as group:
            group.create_task(listen(self.on_hint, self.on_gap))
            group.create_task(self._tell_consoles())

    def on_hint(self, payload: str) -> None:
        """One hint: `r|x|t tenant context id public_id` for a task, `c` catalogue, `p` principals, `n session`
        a session ended, `a id` a relayed request is answered, `f holder` a stream's resources are followed,
        `u topic` one changed, `o user` a browser session of that person ended."""
        kind, *rest = payload.split(" ")
        if kind in ("r", "x", "t") and len(rest) == 4:
            tenant, context, _, public_id = rest
            self.hub.hints.ring(public_id)
            self.hub.hints.ring(context_topic(int(context)))
            self._note(tenant, {f"task:{public_id}", "tasks"})
        elif kind == "c":
            forget_catalogues()
            self.hub.cache.clear()
            self.hub.hints.ring(CATALOGUE)
            self._note("*", {"servers"})
        elif kind == "p":
            forget_principals()
            # Streams look whether their token is still good: revocation ends them at once.
            self.hub.hints.ring_all()
            self._note("*", {"clients"})
        elif kind == "n" and rest:
            self.hub.hints.ring(f"session:{rest[0]}")
        elif kind == "a" and rest:
            self.hub.hints.ring(relay_topic(rest[0]))
        elif kind == "f" and rest:
            self.hub.hints.ring(follow_topic(rest[0]))
        elif kind == "u" and rest:
            self.hub.hints.ring(rest[0])
        elif kind == "k":
            self._note("*", {"workers"})
        elif kind == "o" and rest:
            self._left.add(f"person.{rest[0]}")
            self._due.set()

    def on_gap(self) -> None:
        """Hints may have been lost: everybody looks again."""
        forget_principals()
        forget_catalogues()
        self.hub.cache.clear()
        self.hub.hints.ring_all(lost=True)
        self._note("*", {"resync"})

    def _note(self, tenant: str, topics: set[str]) -> None:
        news = self._news[tenant]
        if len(news) < 200:
            news |= topics
        else:
            news.add("resync")
        self._due.set()

    async def _tell_consoles(self) -> None:
        layer = get_channel_layer()
        while True:
            await self._due.wait()
            self._due.clear()
            left, self._left = self._left, set()
            news, self._news = self._news, defaultdict(set)
            # First who may stay: whoever may not is told nothing more.
            said = [(group, {"type": "standing"}) for group in sorted(left)] + [
                ("consoles" if tenant == "*" else f"tenant.{tenant}", {"type": "hints", "topics": sorted(topics)})
                for tenant, topics in news.items()
            ]
            for group, message in said:
                try:
                    await layer.group_send(group, message)
                except Exception:
                    logger.exception("consoles were not told")
            await asyncio.sleep(COALESCE_SECONDS)

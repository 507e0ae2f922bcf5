"""Passes each hint that this process hears to its waiting requests and streams, and to browsers."""

from __future__ import annotations

import asyncio
import logging
from collections import defaultdict
from collections.abc import Callable

from channels.layers import get_channel_layer

from taskhub.core.errors import TaskHubError
from taskhub.core.hints import (
    CatalogueChanged,
    ClientStandingChanged,
    Hint,
    SchemaChanged,
    SignedOut,
    StandingChanged,
    TaskHint,
    decode,
)
from taskhub.domain.catalogue.view import forget_catalogues
from taskhub.domain.clients.patience import forget_settings
from taskhub.domain.clients.principals import forget_principals
from taskhub.domain.hints.generation import hear
from taskhub.domain.tasks.callers import this_process
from taskhub.domain.tasks.reads import task_versions
from taskhub.protocol.hub import Hub
from taskhub.store.functions import NewerSchemaError, check_newer
from taskhub.store.listener import listen

logger = logging.getLogger(__name__)

LOOK_SECONDS = 15.0
"""Seconds between two searches for lost hints. A stream whose hint was lost notices the change after at most about this
time."""
LOOKED_AT = 1_000
"""The most tasks that one query compares in the search for lost hints."""
COALESCE_SECONDS = 0.2
"""Seconds between two messages to browsers, however fast tasks change."""


class Feeder:
    """Rings the topics of hints in this process, and sends these topics to browsers.

    `on_newer` is called once, when a newer release has migrated the database to a schema with which this code does not
    work.
    """

    def __init__(
        self, hub: Hub, on_newer: Callable[[NewerSchemaError], None] = lambda error: logger.critical("%s", error)
    ) -> None:
        self.hub = hub
        self._on_newer = on_newer
        self.also: Callable[[Hint], None] = lambda hint: None
        """Called with each hint, after its topics have rung."""
        self.on_lost: Callable[[], None] = lambda: None
        """Called when hints may have been lost."""
        self._schema = asyncio.Event()
        self._news: defaultdict[str, set[str]] = defaultdict(set)
        self._left: set[str] = set()
        self._due = asyncio.Event()

    async def run(self) -> None:
        """Listen until cancelled."""
        async with asyncio.TaskGroup() as group:
            group.create_task(listen(self.on_hint, self.on_gap, alive=this_process()))
            group.create_task(self._tell_consoles())
            group.create_task(self._look_at_schema())
            group.create_task(self._find_lost_hints())

    def on_hint(self, payload: str) -> None:
        """Handle one hint: drop stale caches, ring the topics in this process, and queue them for browsers."""
        hint = decode(payload)
        if hint is None:
            return
        match hint:
            case TaskHint():
                self._note(str(hint.tenant_id), hint.in_tenant())
            case CatalogueChanged():
                forget_catalogues()
                self.hub.pages.clear()
            case StandingChanged():
                forget_principals()
                forget_settings()
                # Every stream checks whether its token is still valid, so that a revocation ends it at once.
                self.hub.hints.ring_all()
            case ClientStandingChanged(context_id):
                forget_principals(context_id)
                forget_settings(context_id)
            case SchemaChanged():
                self._schema.set()
            case SignedOut(user_id):
                self._left.add(f"person.{user_id}")
                self._due.set()
        for topic in hint.rings():
            self.hub.hints.ring(topic)
        if hint.everywhere:
            self._note("*", hint.everywhere)
        self.also(hint)

    def on_gap(self) -> None:
        """Handle a gap, in which hints may have been lost: drop all caches, and make every stream and browser read
        again."""
        forget_principals()
        forget_settings()
        forget_catalogues()
        self.hub.pages.clear()
        self.hub.hints.ring_all(lost=True)
        self._schema.set()
        self._note("*", ("resync",))
        self.on_lost()

    async def _look_at_schema(self) -> None:
        while True:
            await self._schema.wait()
            self._schema.clear()
            try:
                await self.hub.lanes.run(check_newer)
            except TaskHubError as error:
                logger.info("the version of the database is not known: %s", error)  # `on_gap` checks again
            except NewerSchemaError as error:
                self._on_newer(error)
                return

    async def _find_lost_hints(self) -> None:
        """Ring the tasks whose hints were lost. A hint is lost if a process is killed between the commit and the hint.

        Compares the versions that streams last sent with those in the database, many tasks in one query.
        """
        told = self.hub.told
        while True:
            await asyncio.sleep(LOOK_SECONDS)
            for public_id in [public_id for public_id in told if not self.hub.hints.watched(public_id)]:
                del told[public_id]
            ids = list(told)
            for start in range(0, len(ids), LOOKED_AT):
                try:
                    stored = await self.hub.lanes.run(task_versions, ids[start : start + LOOKED_AT])
                except TaskHubError as error:
                    logger.info("it is not known which hints were lost: %s", error)  # tried again in `LOOK_SECONDS`
                    break
                for public_id, version in stored.items():
                    if told.get(public_id, version) != version:
                        self.hub.hints.ring(public_id)

    def _note(self, tenant: str, topics: tuple[str, ...]) -> None:
        hear(None if tenant == "*" else int(tenant))
        news = self._news[tenant]
        if len(news) < 200:
            news.update(topics)
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
            # A socket checks its session first, so that a socket whose session has ended gets no hints.
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

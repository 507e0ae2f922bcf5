"""The ASGI application: guard, then the lean endpoint, then Django and the console's socket."""
# ruff: noqa: E402 - apps must be loaded before modules that need their models are imported

from __future__ import annotations

import asyncio
import contextlib
import importlib
import logging
import math
import os
import signal
from collections.abc import Callable, Coroutine, Iterator
from functools import partial
from typing import TYPE_CHECKING, Any

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "taskhub.config.settings")

import django

django.setup()

from channels.routing import ProtocolTypeRouter, URLRouter
from channels.sessions import CookieMiddleware
from django.conf import settings
from django.core.exceptions import ImproperlyConfigured
from django.db import connection
from django.http import HttpRequest, HttpResponse
from django.urls import path, re_path

from taskhub.api import metrics
from taskhub.api.asgi import Lean
from taskhub.api.browsers import for_browsers
from taskhub.api.guard import Guard, Receive, Scope, Send
from taskhub.api.health import PROBED, healthz, unanswered
from taskhub.api.oauth import OPEN_PATHS
from taskhub.api.pages import Pages
from taskhub.api.requests import Identified
from taskhub.api.rest import Rest
from taskhub.console.later import CROWDED, unavailable
from taskhub.core.errors import Invalid, TaskHubError, Unavailable
from taskhub.core.names import HINT_SOCKET
from taskhub.domain.clients import issuers as outside
from taskhub.domain.sessions.writes import store_seen
from taskhub.domain.tasks.reads import store_polls, store_reads
from taskhub.lib.buckets import Buckets
from taskhub.lib.lanes import Crowded, Lanes, Unanswered
from taskhub.lib.signing import Signer
from taskhub.protocol.hub import Hub
from taskhub.protocol.registry import MOUNTS, PROFILES, VERSIONS, check_named, shown
from taskhub.push.consumers import HintConsumer, NoSuchSocket
from taskhub.push.listener import Feeder
from taskhub.store.backend.base import unanswered as left_unanswered
from taskhub.store.call import UNANSWERED, explained
from taskhub.store.functions import NewerSchemaError

if TYPE_CHECKING:
    from taskhub.worker.in_place import InPlace

logger = logging.getLogger(__name__)

RATE_SECONDS = 5.0
"""A client may send, in one burst, the requests and bytes that its rates allow in this many seconds."""
MOST_WAITING = 5_000
"""The most calls of /mcp that wait for a lane in one process, and the most that wait in each kind of batch."""
PATIENCE_SECONDS = 7.0
"""The most seconds that a call of /mcp waits for a lane."""
POLLS_SECONDS = 3.0
"""Seconds between two times at which the last polls of tasks, reads of results and uses of sessions are stored."""
LAST_SECONDS = 2.0
"""The most seconds for which an ending process tries to store the last polls, reads and uses."""


def _close() -> None:
    # Called in the thread of the ending lane: `connection` is a different one in each thread.
    connection.close()


def _drop_broken() -> None:
    if connection.errors_occurred:
        connection.close_if_unusable_or_obsolete()


def _explained(error: BaseException) -> BaseException:
    if isinstance(error, Unanswered):
        return Unavailable(UNANSWERED)
    if isinstance(error, Crowded):
        return Unavailable(CROWDED)
    return explained(error)


def _refused(request: HttpRequest, error: Exception) -> HttpResponse:
    return unavailable(request, str(_explained(error)))


def _lanes(count: int, name: str, *, patience: float = math.inf, most: float = math.inf) -> Lanes:
    return Lanes(
        count,
        name=name,
        after=_drop_broken,
        at_exit=_close,
        explain=_explained,
        unanswered=left_unanswered,
        patience=patience,
        most=most,
    )


def _rates(per_second: int) -> Buckets | None:
    return Buckets(per_second, seconds=RATE_SECONDS) if per_second else None


def build_hub() -> Hub:
    """The hub of this process, from the settings."""
    outside.check_configuration()
    try:
        check_named(settings.TASKHUB_REVISIONS)
    except Invalid as error:
        raise ImproperlyConfigured(error.message) from None
    return Hub(
        lanes=_lanes(settings.TASKHUB_LANES, "lane", patience=PATIENCE_SECONDS, most=MOST_WAITING),
        signer=Signer(settings.SECRET_KEY.encode()),
        server_info={"name": "taskhub", "version": settings.VERSION},
        inline_wait_seconds=settings.TASKHUB_INLINE_WAIT_MS / 1_000,
        leave_seconds=settings.TASKHUB_LEAVE_SECONDS,
        address=settings.PUBLIC_URL,
        versions=tuple(version for version in VERSIONS if version in settings.TASKHUB_REVISIONS),
        shown=shown,
        profiles=PROFILES & frozenset(settings.TASKHUB_REVISIONS),
        requests=_rates(settings.TASKHUB_CONTEXT_REQUESTS),
        received=_rates(settings.TASKHUB_CONTEXT_KIB * 1_024),
        mounts=frozenset(MOUNTS).intersection(settings.TASKHUB_REVISIONS),
        served=metrics.served,
        failed=metrics.failed,
    )


class Application:
    """Owns the hub, the pages and the hint listener for the life of the process.

    The database connections of a web process (docs/run/scaling.md): one for each lane, one that listens for hints
    (`Feeder`), one that sends them (`domain.hints.announce`), one for leases of calls in place (`worker.in_place`)."""

    def __init__(self) -> None:
        self.hub = build_hub()
        # Pages have their own lanes, so that a slow page never delays a client of /mcp.
        self.page_lanes = _lanes(settings.TASKHUB_PAGE_LANES, "page")
        pages = Pages(self.page_lanes, at_once={"/healthz": healthz}, hurried={"/readyz": unanswered}, refused=_refused)
        hints = path(HINT_SOCKET, HintConsumer.as_asgi(lanes=self.page_lanes))
        sockets = CookieMiddleware(URLRouter([hints, re_path("", NoSuchSocket.as_asgi())]))
        routed = ProtocolTypeRouter({"http": pages, "websocket": sockets})
        self.lean = lean = Lean(Rest(routed, self.hub), self.hub)
        guarded = Guard(
            for_browsers(lean, "/mcp", settings.ALLOWED_ORIGINS),
            hosts=settings.ALLOWED_HOSTS,
            origins=[settings.PUBLIC_URL] if settings.PUBLIC_URL else [],
            clients=settings.ALLOWED_ORIGINS,
            max_body=settings.TASKHUB_MAX_BODY,
            proxies=settings.ALLAUTH_TRUSTED_PROXY_COUNT,
            open_paths=OPEN_PATHS,
            probed=PROBED,
            too_large=lean.too_large,
        )
        self.served = Identified(guarded)
        self._in_place: InPlace | None = None
        metrics.show(self._gauges())
        self._tasks: list[asyncio.Task[None]] = []
        self._storing = asyncio.Lock()
        self.stop: Callable[[], None] = lambda: signal.raise_signal(signal.SIGTERM)
        """Begins a clean shutdown of the process."""
        self.outgrown = ""
        """Why this release cannot work with the database's schema; empty if it can."""
        self.failed = False
        """Whether the process ends because of an unexpected error, which is in the log."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve a request, a WebSocket or the lifespan of the process (ASGI)."""
        if scope["type"] == "lifespan":
            await self._lifespan(receive, send)
        else:
            await self.served(scope, receive, send)

    def _gauges(self) -> Iterator[metrics.Gauge]:
        for kind, lanes in (("mcp", self.hub.lanes), ("pages", self.page_lanes)):
            of = {"lanes": kind}
            yield (
                "taskhub_lanes",
                "Lanes of this process, where the database is asked",
                of,
                partial(getattr, lanes, "size"),
            )
            yield "taskhub_lanes_busy", "Lanes that run something", of, partial(getattr, lanes, "busy")
            yield "taskhub_lanes_waiting", "Calls that wait for a lane", of, partial(getattr, lanes, "waiting")
        if slots := settings.TASKHUB_WEB_SLOTS:
            yield "taskhub_in_place_slots", "Calls that this process runs at once, without the queue", {}, lambda: slots
            yield "taskhub_in_place_busy", "Calls that this process runs now", {}, lambda: self._busy_in_place
        yield "taskhub_streams", "Streams of clients in this process", {}, lambda: self.lean.streaming
        yield "taskhub_consoles", "Browsers that this process keeps up to date", {}, lambda: HintConsumer.listening

    @property
    def _busy_in_place(self) -> int:
        return 0 if self._in_place is None else self._in_place.busy

    def begin_closing(self) -> None:
        """Ask every open stream to end. Call this before the server waits for its connections to close."""
        self.hub.closing.set()
        if self._in_place is not None:
            self._in_place.stop()
        self.hub.hints.ring_all()

    def close(self) -> None:
        """End all lanes, each with its database connection."""
        self.hub.lanes.close()
        self.hub.schemas.close()
        self.page_lanes.close()

    def _newer(self, error: NewerSchemaError) -> None:
        self.outgrown = str(error)
        self.stop()

    async def _for_ever(self, what: str, work: Coroutine[Any, Any, None]) -> None:
        """Run `work`, which the process cannot do without. An unexpected error ends the process, so that its supervisor
        starts another."""
        try:
            await work
        except Exception:
            logger.critical("this process ends, since %s met an error that it cannot go on with", what, exc_info=True)
            self.failed = True
            self.stop()

    async def _begin_in_place(self, feeder: Feeder) -> None:
        """Run plain calls in this process from now on. The code for that, with the client side of MCP, is imported
        while the first requests are served: importing it takes 20 MB, and longer than the rest of the start."""
        loaded = await asyncio.to_thread(importlib.import_module, "taskhub.worker.in_place")
        if self.hub.closing.is_set():
            return
        begun: InPlace = loaded.InPlace(self.hub, settings.TASKHUB_WEB_SLOTS)
        feeder.also, feeder.on_lost = begun.on_hint, begun.on_gap
        begun.start()
        self._in_place = self.hub.in_place = begun

    async def _store_polls(self) -> None:
        while True:
            await asyncio.sleep(POLLS_SECONDS)
            # Shielded, so that a batch that is being stored when the process ends is neither lost nor stored twice.
            await asyncio.shield(self._store_marks())

    async def _store_marks(self) -> None:
        async with self._storing:
            polled, self.hub.polled = self.hub.polled, {}
            seen, self.hub.seen = self.hub.seen, {}
            # Not retried after an error: the next poll or use stores a newer time.
            with contextlib.suppress(TaskHubError):
                if polled:
                    await self.hub.lanes.run(store_polls, polled)
                if seen:
                    await self.hub.lanes.run(store_seen, seen)
            if read := self.hub.outcomes.take():
                try:
                    await self.hub.lanes.run(store_reads, read)
                except TaskHubError:
                    self.hub.outcomes.put_back(read)

    async def _store_last(self) -> None:
        try:
            async with asyncio.timeout(LAST_SECONDS):
                await self._store_marks()
        except TimeoutError:
            logger.warning("marks of the last polls and reads are lost: the database does not answer")
        except Exception:
            logger.exception("marks of the last polls and reads are lost")

    async def _lifespan(self, receive: Receive, send: Send) -> None:
        while True:
            message = await receive()
            if message["type"] == "lifespan.startup":
                feeder = Feeder(self.hub, self._newer)
                self._tasks = [
                    asyncio.create_task(self._for_ever("hints", feeder.run())),
                    asyncio.create_task(self._for_ever("marks of polls", self._store_polls())),
                ]
                if settings.TASKHUB_WEB_SLOTS:
                    begins = self._for_ever("the beginning of calls in place", self._begin_in_place(feeder))
                    self._tasks.append(asyncio.create_task(begins))
                await send({"type": "lifespan.startup.complete"})
            else:
                for task in self._tasks:
                    task.cancel()
                await asyncio.gather(*self._tasks, return_exceptions=True)
                if self._in_place is not None:
                    await self._in_place.close()
                await self._store_last()
                self.close()
                await send({"type": "lifespan.shutdown.complete"})
                return


application = Application()

"""`manage.py web`: the HTTP server alone."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import logging
import os
import socket
import sys
import time
from argparse import ArgumentParser
from collections.abc import Callable
from functools import partial
from typing import Any, Final

import uvicorn
from django.conf import settings
from django.core.management.base import BaseCommand, CommandError

from taskhub.cli.database import refuse_newer
from taskhub.cli.httpserver import BoundedHttp
from taskhub.cli.static import collect_if_changed
from taskhub.lib.descriptors import raise_open_files
from taskhub.lib.ending import end_within, follow_supervisor, still_going
from taskhub.lib.privacy import keep_private

logger = logging.getLogger(__name__)

HANDOVER_SECONDS: Final = 0.5
"""Seconds, during shutdown, in which a connection that was just accepted has to send its request."""
END_SECONDS: Final = 15.0
"""The most seconds that the shutdown of a web process takes: 4 for open requests, the rest for the lanes."""


class Server(uvicorn.Server):
    """At shutdown, ends open streams first, and answers every connection that the system has accepted. Otherwise a
    request would be lost if its proxy does not repeat it at another process. Logs its start and its end."""

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Called once, before requests are served. Logs the start, if the application started."""
        await super().startup(sockets=sockets)
        if self.started:
            where = f"http://{self.config.host}:{self.config.port}"
            logger.info("web %s started: TaskHub %s at %s", self.name, settings.VERSION, where)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Called once, on SIGTERM or SIGINT."""
        self.on_shutdown()
        self.owner.begin_closing()
        await self._stop_listening()
        deadline = time.monotonic() + HANDOVER_SECONDS
        while any(getattr(one, "asking", False) for one in self.server_state.connections):
            if time.monotonic() > deadline:
                break
            await asyncio.sleep(0.01)
        await super().shutdown(sockets=sockets)
        logger.info("web %s stopped", self.name)

    async def _stop_listening(self) -> None:
        """Accept the connections that still wait in the queues of the listening sockets, then close these: the system
        would reset connections in the queue."""
        loop = asyncio.get_running_loop()
        listening = [socket.socket(fileno=os.dup(one.fileno())) for server in self.servers for one in server.sockets]
        for server in self.servers:
            for one in server.sockets:
                loop.remove_reader(one.fileno())
        for _ in range(2):  # so that asyncio makes transports for connections that it has accepted
            await asyncio.sleep(0)
        for server in self.servers:
            server.close()
        for waiting in listening:
            with waiting:
                waiting.setblocking(False)
                accepted = []
                with contextlib.suppress(OSError):  # the queue of connections is empty
                    while True:
                        accepted.append(waiting.accept()[0])
            for one in accepted:
                await loop.connect_accepted_socket(self._protocol, one)

    def _protocol(self) -> BoundedHttp:
        return BoundedHttp(self.config, self.server_state, self.lifespan.state)

    async def on_tick(self, counter: int) -> bool:
        """Called by uvicorn ten times a second, in the event loop that serves."""
        if counter % 50 == 0:
            self.on_beat()
        return await super().on_tick(counter)

    def stop(self) -> None:
        """Begin the same shutdown as SIGTERM."""
        self.should_exit = True

    on_beat: Callable[[], None] = staticmethod(lambda: None)
    """Called every five seconds while the server runs."""
    on_shutdown: Callable[[], None] = staticmethod(lambda: None)
    """Called when the shutdown begins."""
    owner: Any
    name = f"{socket.gethostname()}:{os.getpid()}"


class Command(BaseCommand):
    """One process; run several behind a proxy to scale."""

    help = "Serve HTTP and WebSockets. Needs a migrated database; run `manage.py worker` beside it."
    requires_system_checks: list[str] = []

    def add_arguments(self, parser: ArgumentParser) -> None:
        """The address and the data directory; all other settings are in the environment."""
        parser.add_argument("--host", default="127.0.0.1")
        parser.add_argument("--port", type=int, default=8000)
        parser.add_argument("--data-dir", help="as for `up`")

    def handle(self, *args: Any, **options: Any) -> None:
        # When the database answers a lane, the event loop may be computing, and the lane waits for the GIL: with the
        # default, for 5 ms (measured p99 of tasks/get: 80 ms; with this value, 21 ms).
        sys.setswitchinterval(0.0005)
        follow_supervisor()
        raise_open_files()
        keep_private()
        refuse_newer()
        collect_if_changed()
        from django.utils.module_loading import import_string

        application = import_string(settings.ASGI_APPLICATION)
        gc.freeze()  # the garbage collector skips objects made so far, which live as long as the process
        server = Server(
            uvicorn.Config(
                application,
                host=options["host"],
                port=options["port"],
                loop="auto",
                http=BoundedHttp,
                ws="websockets-sansio",
                ws_max_size=65_536,
                lifespan="on",
                access_log=False,
                log_config=None,
                server_header=False,
                timeout_keep_alive=75,
                timeout_graceful_shutdown=4,
                proxy_headers=False,  # `api.guard` reads these headers, counting the trusted proxies
            )
        )
        server.owner = application
        server.on_beat = still_going
        server.on_shutdown = partial(end_within, END_SECONDS, 1)
        application.stop = server.stop
        server.run()
        if application.outgrown:
            raise CommandError(application.outgrown)
        if application.failed:
            sys.exit(1)

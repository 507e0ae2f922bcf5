"""`manage.py web`: the HTTP server alone."""

from __future__ import annotations

import gc
import logging
import os
import socket
import sys
from argparse import ArgumentParser
from typing import Any

import uvicorn
from django.conf import settings
from django.core.management.base import BaseCommand, CommandError

from taskhub.cli.database import refuse_newer
from taskhub.cli.httpserver import BoundedHttp
from taskhub.cli.static import collect_if_changed
from taskhub.lib.descriptors import raise_open_files
from taskhub.lib.ending import end_within
from taskhub.lib.supervised import follow_supervisor

logger = logging.getLogger(__name__)

END_SECONDS = 15.0
"""The end of a web process takes no longer: open requests get four, what is left the lanes."""


class Server(uvicorn.Server):
    """Ends open streams with their result before connections are drained. Logs its start and its end."""

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Called once; it serves from then on, unless the application did not start."""
        await super().startup(sockets=sockets)
        if self.started:
            where = f"http://{self.config.host}:{self.config.port}"
            logger.info("web %s started: TaskHub %s at %s", self.name, settings.VERSION, where)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Called once, on SIGTERM or SIGINT."""
        end_within(END_SECONDS, 1)
        self.owner.begin_closing()
        await super().shutdown(sockets=sockets)
        logger.info("web %s stopped", self.name)

    def stop(self) -> None:
        """End as on SIGTERM, without the signal."""
        self.should_exit = True

    owner: Any
    name = f"{socket.gethostname()}:{os.getpid()}"


class Command(BaseCommand):
    """One process; run several behind a proxy to scale."""

    help = "Serve HTTP and WebSockets. Needs a migrated database; run `manage.py worker` beside it."
    requires_system_checks: list[str] = []

    def add_arguments(self, parser: ArgumentParser) -> None:
        """Address only; everything else is in the environment."""
        parser.add_argument("--host", default="127.0.0.1")
        parser.add_argument("--port", type=int, default=8000)
        parser.add_argument("--data-dir", help="as for `up`")

    def handle(self, *args: Any, **options: Any) -> None:
        """Serve until SIGTERM."""
        # Lanes wake up with an answer while the loop computes; the default of 5 ms would let each
        # wait that long for the interpreter (measured: p99 of tasks/get 80 ms, with this 21 ms).
        sys.setswitchinterval(0.0005)
        follow_supervisor()
        raise_open_files()
        refuse_newer()
        collect_if_changed()
        from django.utils.module_loading import import_string

        application = import_string(settings.ASGI_APPLICATION)
        gc.freeze()  # what is there by now stays: no collection under load need look at it
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
                proxy_headers=False,  # the guard reads them, counting the proxies it may believe
            )
        )
        server.owner = application
        application.stop = server.stop
        server.run()
        if application.outgrown:
            raise CommandError(application.outgrown)
        if application.failed:
            sys.exit(1)

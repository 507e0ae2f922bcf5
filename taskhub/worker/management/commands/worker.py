"""`manage.py worker`: run one worker process."""

from __future__ import annotations

import asyncio
import gc
import logging
import os
import signal
import socket
import sys
from argparse import ArgumentParser
from functools import partial
from pathlib import Path
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError
from django.db import DatabaseError, OperationalError, connection
from procrastinate.exceptions import ConnectorException

from taskhub.core.errors import Unavailable
from taskhub.domain.workers.reads import SILENT_SECONDS, live_workers
from taskhub.lib.descriptors import raise_open_files
from taskhub.lib.ending import end_within, follow_supervisor, still_going
from taskhub.lib.loops import run
from taskhub.lib.privacy import keep_private
from taskhub.store.functions import NewerSchemaError, check_newer
from taskhub.worker.engine import Engine

logger = logging.getLogger(__name__)

END_SECONDS = 15.0
"""The most seconds that the shutdown of a worker takes: twice `claiming.DRAIN_SECONDS` for running tools (3 s to
finish, 3 s to stop), then `connection.CLOSE_SECONDS` for all connections together, and the rest for the database. A
worker that needs longer, for instance because it has to break off a connection, exits at once with code 1."""


class Command(BaseCommand):
    """Claims tasks and runs their tools until SIGTERM."""

    help = "Run tasks. Start as many as you like; each connects to every enabled server."
    requires_system_checks: list[str] = []

    def add_arguments(self, parser: ArgumentParser) -> None:
        """The arguments of the command. `--slots` overrides TASKHUB_SLOTS."""
        parser.add_argument("--slots", type=int, help="tools run at once (default TASKHUB_SLOTS)")
        parser.add_argument(
            "--check", action="store_true", help="run none: exit 0 if one of this machine is alive, for health checks"
        )
        parser.add_argument("--data-dir", help="as for `up`")

    def handle(self, *args: Any, **options: Any) -> None:
        if options["check"]:
            _check()
            return
        follow_supervisor()
        raise_open_files()
        keep_private()
        _ = settings.SECRET_KEY  # needed for the seals of the audit log: Django raises here if it is empty
        here = str(Path.cwd())
        if here not in sys.path:
            sys.path.insert(0, here)  # python: servers are imported from the working directory
        engine = Engine(slots=options["slots"], on_beat=still_going, on_stop=partial(end_within, END_SECONDS, 1))
        try:
            check_newer()
            connection.close()
            gc.freeze()  # the garbage collector skips objects made so far, which live as long as the process
            run(_until_stopped(engine))
        except (Unavailable, OperationalError, ConnectorException) as error:
            raise CommandError(f"The database is away: {error}") from None
        except NewerSchemaError as error:
            raise CommandError(str(error)) from None
        except Exception:
            logger.critical("the worker ends", exc_info=True)
            engine.failed = True
        # Threads of in-process servers may still run a tool that does not stop. Its task has been settled, so the
        # process does not wait for the thread.
        sys.stdout.flush()
        if engine.outgrown:
            self.stderr.write(engine.outgrown)
        os._exit(1 if engine.outgrown or engine.failed else 0)


def _check() -> None:
    host = socket.gethostname()
    try:
        alive = live_workers(host)
    except DatabaseError as error:
        raise CommandError(f"The database cannot tell: {str(error).strip().splitlines()[0]}") from None
    if not alive:
        raise CommandError(f"No worker of {host} was heard of for {SILENT_SECONDS} s.")


async def _until_stopped(engine: Engine) -> None:
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, engine.stop)
    await engine.run()

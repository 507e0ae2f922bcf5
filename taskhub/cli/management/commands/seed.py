"""`manage.py seed`: add the demo's tasks, or a generated history."""

from __future__ import annotations

import argparse
import time
from argparse import ArgumentParser
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from taskhub.cli.database import need_database
from taskhub.cli.firstrun import add_demo
from taskhub.cli.seed import seed
from taskhub.core.errors import TaskHubError
from taskhub.domain.clients.principals import default_tenant
from taskhub.domain.seeding.history import seed_history
from taskhub.lib.signs import spelled

MOST = 10_000_000
REPORT_SECONDS = 5.0


class Command(BaseCommand):
    """Without `--tasks`, a second run leaves existing demo tasks as they are. With it, each run adds tasks."""

    help = (
        "Add the demo server and call its tools, so that every page has something to show. With --tasks, generate a"
        " month's history instead, which needs a hub that is empty or the demo's."
    )
    requires_system_checks: list[str] = []

    def add_arguments(self, parser: ArgumentParser) -> None:
        """The number of tasks, and the data directory."""
        parser.add_argument("--tasks", type=_number, metavar="N", help=f"generate N tasks, up to {MOST:,}")
        parser.add_argument("--data-dir", help="as for `up`")

    def handle(self, *args: Any, **options: Any) -> None:
        """Add the demo server and its tasks, or a generated history."""
        with need_database():
            try:
                if options["tasks"] is not None:
                    self._make_up(options["tasks"])
                    return
                add_demo()
                self.stdout.write(f"{seed()} demo tasks are there")
            except TaskHubError as error:
                raise CommandError(spelled(error.message)) from None

    def _make_up(self, tasks: int) -> None:
        begun = told = time.monotonic()

        def report(done: int, events: int) -> None:
            nonlocal told
            if time.monotonic() - told >= REPORT_SECONDS:
                told = time.monotonic()
                self.stdout.write(f"{done:,} of {tasks:,} tasks, {events:,} events, {told - begun:.0f} s")
                self.stdout.flush()

        done, events = seed_history(default_tenant().pk, tasks, report=report)
        self.stdout.write(f"{done:,} tasks and {events:,} events generated in {time.monotonic() - begun:.0f} s")


def _number(text: str) -> int:
    try:
        found = int(text)
    except ValueError:
        found = 0
    if not 1 <= found <= MOST:
        raise argparse.ArgumentTypeError(f"expected a number from 1 to {MOST:,}, not {text!r}")
    return found

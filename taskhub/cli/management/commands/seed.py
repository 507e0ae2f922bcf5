"""`manage.py seed`: the demo's tasks."""

from __future__ import annotations

from argparse import ArgumentParser
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from taskhub.cli.database import need_database
from taskhub.cli.firstrun import add_demo
from taskhub.cli.seed import seed
from taskhub.core.errors import TaskHubError


class Command(BaseCommand):
    """Safe to run again: what is there stays as it is."""

    help = "Add the demo server and call its tools, so that every page has something to show."
    requires_system_checks: list[str] = []

    def add_arguments(self, parser: ArgumentParser) -> None:
        """Nothing but the data directory."""
        parser.add_argument("--data-dir", help="as for `up`")

    def handle(self, *args: Any, **options: Any) -> None:
        """Add and call."""
        with need_database():
            try:
                add_demo()
                self.stdout.write(f"{seed()} demo tasks are there")
            except TaskHubError as error:
                raise CommandError(error.message) from None

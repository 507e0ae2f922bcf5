"""`manage.py doctor`: check this installation."""

from __future__ import annotations

import sys
from argparse import ArgumentParser
from typing import Any

from django.conf import settings
from django.core.exceptions import ImproperlyConfigured
from django.core.management.base import BaseCommand
from django.db import connection

from taskhub.cli.database import need_database
from taskhub.domain.health.doctor import checks
from taskhub.lib.signs import spelled


class Command(BaseCommand):
    """Prints one line per check; exit code 1 if any failed."""

    help = "Check database, migrations, guards, durability settings, workers and servers."
    requires_system_checks: list[str] = []

    def add_arguments(self, parser: ArgumentParser) -> None:
        """The data directory."""
        parser.add_argument("--data-dir", help="as for `up`")

    def handle(self, *args: Any, **options: Any) -> None:
        failed = 0
        with need_database():
            self.stdout.write(f"database: {connection.settings_dict['NAME']} at {connection.settings_dict['HOST']}")
            for name, good, detail in checks(_has_secret()):
                failed += not good
                self.stdout.write(f"{'ok  ' if good else 'FAIL'} {name}: {spelled(detail)}")
        if failed:
            sys.exit(1)


def _has_secret() -> bool:
    try:
        return bool(settings.SECRET_KEY)
    except ImproperlyConfigured:
        return False

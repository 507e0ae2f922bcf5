"""`manage.py audit verify`."""

from __future__ import annotations

import sys
from argparse import ArgumentParser
from typing import Any

from django.core.management.base import BaseCommand

from taskhub.cli.database import need_database
from taskhub.core.records import Actor
from taskhub.core.states import Door
from taskhub.lifecycle.events import record_verification
from taskhub.lifecycle.seal import seal_events, verify_audit


class Command(BaseCommand):
    """Exit 0 when every seal holds, 1 with the first bad event otherwise."""

    help = "Recompute every seal of the audit log and name the first event that does not fit."
    requires_system_checks: list[str] = []

    def add_arguments(self, parser: ArgumentParser) -> None:
        """One verb so far."""
        verbs = parser.add_subparsers(dest="verb", required=True)
        verify = verbs.add_parser("verify", help="check everything")
        verify.add_argument("--data-dir", help="as for `up`")

    def handle(self, *args: Any, **options: Any) -> None:
        """Seal what is new, then verify all of it."""
        with need_database():
            while seal_events():
                pass
            verdict = verify_audit()
            record_verification(
                ok=not verdict.problem,
                events=verdict.events,
                seals=verdict.seals,
                problem=verdict.problem,
                actor=Actor(name="manage.py", door=Door.CLI),
            )
        if verdict.problem:
            self.stderr.write(f"AUDIT BROKEN: {verdict.problem}")
            self.stderr.write(f"{verdict.events} events in {verdict.seals} seals before it are intact.")
            sys.exit(1)
        self.stdout.write(
            f"Intact: {verdict.events} events in {verdict.seals} seals; {verdict.unsealed} events are not sealed yet."
        )

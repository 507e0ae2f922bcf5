"""`manage.py audit verify`."""

from __future__ import annotations

import sys
import time
from argparse import ArgumentParser
from typing import Any

from django.core.management.base import BaseCommand

from taskhub.cli.database import need_database
from taskhub.core.records import Actor
from taskhub.core.states import Door
from taskhub.lifecycle.events import record_verification
from taskhub.lifecycle.seal import seal_events
from taskhub.lifecycle.verify import Mark, Verdict, verify_audit

REPORT_SECONDS = 1.0


class Command(BaseCommand):
    """Exit 0 when every seal holds, 1 with the first bad event otherwise."""

    help = "Compare the audit log with its seals and name the first event that does not fit."
    requires_system_checks: list[str] = []

    def add_arguments(self, parser: ArgumentParser) -> None:
        """One verb so far."""
        verbs = parser.add_subparsers(dest="verb", required=True)
        verify = verbs.add_parser("verify", help="check what is new since it was last verified, or everything")
        verify.add_argument("--full", action="store_true", help="read every event again, from the first")
        verify.add_argument("--data-dir", help="as for `up`")

    def handle(self, *args: Any, **options: Any) -> None:
        """Seal what is new, then verify it, or all."""
        with need_database():
            while seal_events():
                pass
            verdict = self._verify(full=options["full"])
            record_verification(
                ok=not verdict.problem,
                events=verdict.events,
                seals=verdict.seals,
                problem=verdict.problem,
                full=verdict.earlier is None,
                mark=verdict.mark,
                actor=Actor(name="manage.py", door=Door.CLI),
            )
        earlier = verdict.earlier
        if verdict.problem:
            self.stderr.write(f"AUDIT BROKEN: {verdict.problem}")
            since = f" since {_when(earlier)}" if earlier else ""
            self.stderr.write(f"{verdict.events} events in {verdict.seals} seals before it{since} are intact.")
            if earlier:
                self.stderr.write(_not_read(earlier))
            sys.exit(1)
        since = f" since the verification of {_when(earlier)}" if earlier else ""
        self.stdout.write(
            f"Intact: {verdict.events} events in {verdict.seals} seals{since};"
            f" {verdict.unsealed} events are not sealed yet."
        )
        if earlier:
            self.stdout.write(_not_read(earlier))

    def _verify(self, *, full: bool) -> Verdict:
        """With how far it is, in one line that is written over and again, where somebody sits at a terminal."""
        if not self.stderr.isatty():
            return verify_audit(full=full)
        begun = told = time.monotonic()

        def report(events: int, seals: int, part: float) -> None:
            nonlocal told
            if time.monotonic() - told >= REPORT_SECONDS:
                told = time.monotonic()
                self._line(f"{part:.0%}: {events:,} events in {seals:,} seals, {told - begun:.0f} s")

        try:
            return verify_audit(full=full, report=report)
        finally:
            if told > begun:
                self._line("")

    def _line(self, text: str) -> None:
        self.stderr.write(f"\r\x1b[K{text}", style_func=str, ending="")
        self.stderr.flush()


def _when(mark: Mark) -> str:
    return f"{mark.at:%Y-%m-%d %H:%M:%S %Z}"


def _not_read(earlier: Mark) -> str:
    return (
        f"Not read again: {earlier.events} events in {earlier.seals} seals before that,"
        f" last read in full {earlier.full_at:%Y-%m-%d %H:%M:%S %Z} (--full reads them)."
    )

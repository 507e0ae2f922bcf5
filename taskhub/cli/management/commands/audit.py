"""`manage.py audit verify` and `manage.py audit archive`."""

from __future__ import annotations

import sys
import time
from argparse import ArgumentParser
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from taskhub.cli.database import need_database
from taskhub.core.records import Actor
from taskhub.core.states import Door
from taskhub.lifecycle.archive import Archived, Broken, NotArchived, archive_part, due_parts, read_archive
from taskhub.lifecycle.events import record_verification
from taskhub.lifecycle.seal import seal_events, signing_key
from taskhub.lifecycle.verify import Mark, Verdict, verify_audit

REPORT_SECONDS = 1.0
KEEP_MONTHS = 12
ACTOR = Actor(name="manage.py", door=Door.CLI)


class Command(BaseCommand):
    """Exit 0 when every seal holds, or everything due is archived; 1 with the first bad event, or the reason."""

    help = "Compare the audit log with its seals, or write its oldest part to a file that proves itself."
    requires_system_checks: list[str] = []

    def add_arguments(self, parser: ArgumentParser) -> None:
        """Two verbs."""
        verbs = parser.add_subparsers(dest="verb", required=True)
        verify = verbs.add_parser("verify", help="check what is new since it was last verified, or everything")
        verify.add_argument("--full", action="store_true", help="read every event again, from the first")
        verify.add_argument(
            "--archive", nargs="+", metavar="FILE", type=Path, help="check these archives instead; needs no database"
        )
        verify.add_argument("--data-dir", help="as for `up`")
        archive = verbs.add_parser("archive", help="write parts of the log that are over to files, and drop them")
        archive.add_argument("--to", required=True, metavar="DIR", type=Path, help="where the files go")
        archive.add_argument(
            "--keep-months",
            type=int,
            default=KEEP_MONTHS,
            metavar="N",
            help="what stays in the database, by default 12",
        )
        archive.add_argument("--dry-run", action="store_true", help="only say what is there")
        archive.add_argument("--data-dir", help="as for `up`")

    def handle(self, *args: Any, **options: Any) -> None:
        """What the verb says."""
        if options["verb"] == "archive":
            self._archive(options["to"], options["keep_months"], dry=options["dry_run"])
        elif options["archive"]:
            self._verify_archives(options["archive"])
        else:
            self._verify_log(full=options["full"])

    def _archive(self, directory: Path, months: int, *, dry: bool) -> None:
        if months < 0:
            raise CommandError("--keep-months: at least 0")
        if not directory.is_dir():
            raise CommandError(f"{directory}: there is no such directory")
        now = datetime.now(UTC)
        before = now.replace(day=1, hour=0, minute=0, second=0, microsecond=0)
        for _ in range(months):
            before = (before - timedelta(days=1)).replace(day=1)
        done = 0
        with need_database():
            while not dry and seal_events():
                pass
            try:
                if dry:
                    for line in due_parts(before):
                        self.stdout.write(line)
                        done += 1
                else:
                    while record := archive_part(directory, before=before, actor=ACTOR):
                        self.stdout.write(
                            f"{directory / record.file}: up to {record.until:%Y-%m-%d %H:%M:%S %Z},"
                            f" {record.events} events in {record.seals} seals since the beginning,"
                            f" sha256 {record.sha256}"
                        )
                        done += 1
            except Broken as error:
                raise CommandError(f"AUDIT BROKEN: {error.problem}. Nothing was dropped.") from None
            except (NotArchived, OSError) as error:
                raise CommandError(f"{error}. Nothing was dropped.") from None
        if not done:
            self.stdout.write(f"No part of the log ended before {before:%Y-%m-%d}.")

    def _verify_archives(self, paths: Sequence[Path]) -> None:
        """Each by itself, and whether each goes on where the one before ended."""
        key = signing_key().public_key()
        found = []
        for path in paths:
            try:
                with path.open("rb") as file:
                    found.append((read_archive(file, key), path))
            except OSError as error:
                raise CommandError(str(error)) from None
            except Broken as error:
                raise CommandError(f"AUDIT BROKEN: {path}: {error.problem}") from None
        found.sort(key=lambda one: one[0].from_xid)
        for contents, path in found:
            self.stdout.write(f"Intact: {path}: {contents.events} events in {contents.seals} seals.")
        for (before, first), (after, second) in pairwise(found):
            if (after.from_xid, after.previous) != (before.to_xid, before.link):
                raise CommandError(f"AUDIT BROKEN: {second} does not go on where {first} ends")
        if found[0][0].from_xid:
            self.stdout.write(f"What came before {found[0][1]} is in another archive.")

    def _verify_log(self, *, full: bool) -> None:
        """Seal what is new, then verify it, or all."""
        with need_database():
            while seal_events():
                pass
            verdict = self._verify(full=full)
            record_verification(
                ok=not verdict.problem,
                events=verdict.events,
                seals=verdict.seals,
                problem=verdict.problem,
                full=verdict.earlier is None,
                mark=verdict.mark,
                actor=ACTOR,
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
        if earlier and earlier.events:
            self.stdout.write(_not_read(earlier))
        if verdict.archived:
            self.stdout.write(_archived(verdict.archived))

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


def _archived(archived: Archived) -> str:
    return (
        f"{archived.events} events up to {archived.until:%Y-%m-%d %H:%M:%S %Z} are in archives, the last of them"
        f" {archived.file} (--archive FILE reads one)."
    )

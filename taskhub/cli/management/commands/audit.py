"""`manage.py audit verify`, `manage.py audit moved` and `manage.py audit archive`."""

from __future__ import annotations

import sys
import time
from argparse import ArgumentParser
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from pathlib import Path
from typing import Any, TypeVar

from django.core.management.base import BaseCommand, CommandError

from taskhub.cli.database import need_database
from taskhub.core.errors import Refused
from taskhub.core.records import Actor
from taskhub.core.states import Door
from taskhub.domain.audit.archive import Archived, Broken, NotArchived, archive_part, due_parts, read_archive
from taskhub.domain.audit.moved import Moved
from taskhub.domain.audit.seal import seal_events, signing_key
from taskhub.domain.audit.seal_reads import seal_state
from taskhub.domain.audit.verify import (
    Mark,
    Plan,
    Report,
    Verdict,
    move_audit,
    plan_verification,
    record_verdict,
    verify_audit,
)

T = TypeVar("T")
REPORT_SECONDS = 1.0
LONG_SECONDS = 5.0
"""A verification that will probably take more seconds is announced before it begins."""

NOT_READ = 2
NOT_ALL_READ = 3
KEEP_MONTHS = 12
"""Months that `archive` leaves in the database by default. Nothing is archived unless somebody runs the command."""
ACTOR = Actor(name="manage.py", door=Door.CLI)


class Command(BaseCommand):
    """Exit codes of `verify`: 0 if every event that was read fits its seal; 1 if one does not, or lacks a seal that it
    should have; 2 if the log could not be read, because the database is away or full; 3 if no fault was found, but not
    everything was read and `--since-mark` was not given.

    Of `archive`, `moved` and `verify --archive`: 0 if all was done, 1 with the reason if not."""

    help = "Compare the audit log with its seals, or write its oldest part to a file that proves itself."
    requires_system_checks: list[str] = []

    def add_arguments(self, parser: ArgumentParser) -> None:
        verbs = parser.add_subparsers(dest="verb", required=True)
        verify = verbs.add_parser("verify", help="read every event and compare it with its seal")
        how = verify.add_mutually_exclusive_group()
        how.add_argument("--full", action="store_true", help="however long it takes")
        how.add_argument(
            "--since-mark", action="store_true", help="read only what was sealed since it was last verified"
        )
        verify.add_argument(
            "--archive", nargs="+", metavar="FILE", type=Path, help="check these archives instead; needs no database"
        )
        verify.add_argument("--data-dir", help="as for `up`")
        moved = verbs.add_parser("moved", help="let the log go on in the cluster that the database is in now")
        moved.add_argument("--data-dir", help="as for `up`")
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
        if options["verb"] == "archive":
            self._archive(options["to"], options["keep_months"], dry=options["dry_run"])
        elif options.get("archive"):
            self._verify_archives(options["archive"])
        elif options["verb"] == "moved":
            self._move()
        else:
            self._verify_log(full=options["full"], since_mark=options["since_mark"])

    def _archive(self, directory: Path, months: int, *, dry: bool) -> None:
        if months < 0:
            raise CommandError("--keep-months: at least 0")
        try:
            there = directory.is_dir()
        except OSError as error:  # before Python 3.14, for example if a parent directory is forbidden
            raise CommandError(f"{directory} cannot be read: {error.strerror}") from None
        if not there:
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
        """Verify each archive, and that each one continues the one before it. Needs no database."""
        key = signing_key().public_key()
        found = []
        for path in paths:
            try:
                with path.open("rb") as file:
                    found.append((read_archive(file, key), path))
            except OSError as error:
                raise CommandError(f"{path} cannot be read: {error.strerror}") from None
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

    def _move(self) -> None:
        with need_database():
            try:
                verdict, moved = self._watched(lambda report: move_audit(actor=ACTOR, report=report))
            except Refused as error:
                raise CommandError(str(error)) from None
        if moved is None:
            raise CommandError(f"AUDIT BROKEN: {verdict.problem}. The log stays as it is.")
        self.stdout.write(_moved(verdict, moved))

    def _verify_log(self, *, full: bool, since_mark: bool) -> None:
        """Seal new events, then verify the log: all of it, or only what was sealed since the last mark."""
        with need_database(failed=NOT_READ):
            found = seal_state()
            while seal_events():
                pass
            plan = plan_verification(full=full, since_mark=since_mark)
            if plan.full and plan.seconds > LONG_SECONDS:
                self.stdout.write(f"Reading {_size(plan)}: about {_duration(plan.seconds)}.")
                self.stdout.flush()
            verdict = self._watched(lambda report: verify_audit(full=plan.full, report=report, state=found))
            record_verdict(verdict, actor=ACTOR)
        if verdict.problem or verdict.unproven:
            for line in _bad(verdict):
                self.stderr.write(line)
            sys.exit(1)
        for line in _good(verdict):
            self.stdout.write(line)
        if verdict.earlier is not None and not since_mark:
            self.stdout.write(
                f"Not everything was read: {_size(plan)} take about {_duration(plan.seconds)}."
                " `manage.py audit verify --full` reads them, and a worker does so every night."
            )
            sys.exit(NOT_ALL_READ)

    def _watched(self, work: Callable[[Report], T]) -> T:
        """Run `work` and return its result. On a terminal, show its progress in one line, which is overwritten."""
        if not self.stderr.isatty():
            return work(lambda events, seals, part: None)
        begun = told = time.monotonic()

        def report(events: int, seals: int, part: float) -> None:
            nonlocal told
            if time.monotonic() - told >= REPORT_SECONDS:
                told = time.monotonic()
                self._line(f"{part:.0%}: {_many(events, 'event')} in {_many(seals, 'seal')}, {told - begun:.0f} s")

        try:
            return work(report)
        finally:
            if told > begun:
                self._line("")

    def _line(self, text: str) -> None:
        self.stderr.write(f"\r\x1b[K{text}", style_func=str, ending="")
        self.stderr.flush()


def _good(verdict: Verdict) -> Iterator[str]:
    read = f"{_read(verdict)}, read in {_duration(verdict.seconds)}"
    open_ = f"{_many(verdict.unsealed, 'event')} {'is' if verdict.unsealed == 1 else 'are'} not sealed yet"
    if verdict.earlier is None:
        yield f"Intact: {read}; {open_}."
    else:
        verified = f"since entry {verdict.since}, verified {_when(verdict.earlier.at)}"
        yield f"Unchanged {verified}: {read}; {open_}."
        yield _not_read(verdict.earlier)
    if verdict.notice:
        yield f"Note: {verdict.notice}. It was not gone by; there is a new one."
    if verdict.archived:
        yield _archived(verdict.archived)


def _bad(verdict: Verdict) -> Iterator[str]:
    earlier = verdict.earlier
    since = f" since {_when(earlier.at)}" if earlier else ""
    if verdict.problem:
        yield f"AUDIT BROKEN: {verdict.problem}"
        are = "is" if verdict.events == 1 else "are"
        yield f"{_read(verdict)} before it{since} {are} intact."
    else:
        yield f"AUDIT NOT PROVEN: {verdict.unproven}."
        if verdict.events:
            were, their = ("was", "its seal") if verdict.events == 1 else ("were", "their seals")
            yield f"{_read(verdict)}{since} {were} read, and fit{'s' if verdict.events == 1 else ''} {their}."
    if earlier:
        yield _not_read(earlier)


def _many(number: int, what: str) -> str:
    return f"1 {what}" if number == 1 else f"{number:,} {what}s"


def _read(verdict: Verdict) -> str:
    return f"{_many(verdict.events, 'event')} in {_many(verdict.seals, 'seal')}"


def _not_read(earlier: Mark) -> str:
    return (
        f"Below it {_many(earlier.events, 'event')} in {_many(earlier.seals, 'seal')}"
        f" {'was' if earlier.events == 1 else 'were'} not read again, last verified in full"
        f" {_when(earlier.full_at)} (--full reads them)."
    )


def _moved(verdict: Verdict, moved: Moved) -> str:
    late = (
        f" {moved.late} events that were written here before, entries {moved.first} to {moved.last}, had places that"
        " were sealed already, and are behind them now."
        if moved.late
        else ""
    )
    return (
        f"{verdict.events} events in {verdict.seals} seals came here intact. The log goes on in cluster"
        f" {moved.cluster or 'of unknown identifier'}, behind transaction {moved.sealed_to}.{late}"
        " Now run `manage.py audit verify`."
    )


def _size(plan: Plan) -> str:
    return f"{_many(plan.events, 'event')} in {_many(plan.seals, 'seal')}"


def _duration(seconds: float) -> str:
    if seconds < 10:
        return f"{seconds:.1f} s"
    return f"{seconds:.0f} s" if seconds < 120 else f"{seconds / 60:,.0f} min"


def _when(moment: datetime) -> str:
    return f"{moment:%Y-%m-%d %H:%M:%S %Z}"


def _archived(archived: Archived) -> str:
    return (
        f"{archived.events} events up to {archived.until:%Y-%m-%d %H:%M:%S %Z} are in archives, the last of them"
        f" {archived.file} (--archive FILE reads one)."
    )

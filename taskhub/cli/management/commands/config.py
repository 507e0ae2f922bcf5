"""`manage.py config export|diff|apply`: the configuration of the tenant as one file."""

from __future__ import annotations

import os
import sys
from argparse import ArgumentParser
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final, NoReturn

from django.core.management.base import BaseCommand, CommandError, CommandParser

from taskhub.cli.database import need_database
from taskhub.cli.mcpjson import bytes_of, problem_of, text_of
from taskhub.control import configuration, credentials
from taskhub.control.caller import of_shell
from taskhub.control.configuration import Applied
from taskhub.core.errors import TaskHubError
from taskhub.domain.configuration.references import Missing
from taskhub.lib.signs import spelled

DIFFERS: Final = 2
"""The exit code if something would change, as that of `terraform plan -detailed-exitcode`. Errors exit with 1, as in
every command, so an error never looks like changes to apply."""
MAX_SECRET_FILE: Final = 65_536
"""The most bytes of a file that a reference names."""


MOST_NAMED: Final = 20
"""How many names of records that the file does not list are printed at most."""


class Command(BaseCommand):
    """`apply` changes all or nothing. Secrets are neither written nor shown."""

    help = "Export rules, servers, people and clients as one file, and apply such a file."
    requires_system_checks: list[str] = []

    def create_parser(self, prog_name: str, subcommand: str, **kwargs: Any) -> CommandParser:
        made = super().create_parser(prog_name, subcommand, **kwargs)
        made.__class__ = _Parser  # Django has no hook for the class of the outer one
        return made

    def add_arguments(self, parser: ArgumentParser) -> None:
        verbs = parser.add_subparsers(dest="verb", required=True, parser_class=_Parser)
        found = [verbs.add_parser("export", help="print the file, without secrets")]
        differ = verbs.add_parser("diff", help="say what `apply` would change; exit 0 if nothing, 2 if anything")
        apply = verbs.add_parser("apply", help="make the configuration what the file says: all of it, or nothing")
        apply.add_argument("--dry-run", action="store_true", help="change nothing, and exit as `diff`")
        apply.add_argument("--reason", default="", help="why; it is recorded with every change")
        for verb in (differ, apply):
            verb.add_argument("file", metavar="FILE", help="`-` reads it from standard input")
            verb.add_argument("--prune", action="store_true", help="also remove what the file's parts do not list")
            verb.add_argument(
                "--keep-secrets",
                action="store_true",
                help="where a reference leads nowhere, leave the secret that the hub has as it is",
            )
        for verb in (*found, differ, apply):
            verb.add_argument("--data-dir", help="as for `up`")

    def handle(self, *args: Any, **options: Any) -> None:
        """Run the subcommand, in the default tenant."""
        with need_database():
            if options["verb"] == "export":
                self.stdout.write(configuration.export_configuration(of_shell()), ending="")
                return
            self._apply(options, dry_run=options["verb"] == "diff" or options["dry_run"])

    def _apply(self, options: dict[str, Any], *, dry_run: bool) -> None:
        file = options["file"]
        try:
            applied = configuration.apply_configuration(
                of_shell(),
                text_of(file, regular=True),
                lookup=_look_up,
                prune=options["prune"],
                keep_secrets=options["keep_secrets"],
                dry_run=dry_run,
                reason=options.get("reason", ""),
            )
        except TaskHubError as error:
            line = error.data.get("line")
            at = f"{'standard input' if file == '-' else file}:{line}: " if line else ""
            raise CommandError(spelled(f"{at}{error.message}")) from None
        self._tell(applied, dry_run=dry_run)
        if dry_run and applied.changes:
            sys.exit(DIFFERS)

    def _tell(self, applied: Applied, *, dry_run: bool) -> None:
        for line in applied.changes:
            self.stdout.write(line)
        count = len(applied.changes)
        lines = "1 change" if count == 1 else f"{count:,} changes"
        self.stdout.write("Nothing differs." if not count else f"{lines} to apply." if dry_run else f"{lines} applied.")
        if applied.unlisted:
            self.stdout.write(spelled(f"Not listed, and left alone: {_some(applied.unlisted)}."))
        if applied.kept:
            self.stdout.write(spelled(f"Secrets left as they are: {', '.join(applied.kept)}."))
        for warning in applied.warnings:
            self.stdout.write(f"Warning: {spelled(warning)}")
        if dry_run:
            return
        for name in applied.newcomers:
            self.stdout.write(f"{name} has no password yet: manage.py person password {name}")
        for dropped in applied.dropped:
            if told := credentials.end_dropped(dropped):
                self.stdout.write(spelled(told))


class _Parser(CommandParser):
    """Exits with 1 for wrong arguments, not with argparse's 2, which here means that something differs."""

    def exit(self, status: int = 0, message: str | None = None) -> NoReturn:
        """Exit with 1 in place of 2."""
        super().exit(min(status, 1), message)


def _some(names: Sequence[str]) -> str:
    more = f" and {len(names) - MOST_NAMED:,} more" if len(names) > MOST_NAMED else ""
    return ", ".join(names[:MOST_NAMED]) + more


def _look_up(kind: str, name: str) -> str:
    """The value of a reference, without the line end of a file. Raises `Missing`."""
    if kind == "env":
        if name not in os.environ:
            raise Missing(f"The variable {name} is not set.")
        return os.environ[name]
    try:
        return bytes_of(Path(name), MAX_SECRET_FILE).decode().rstrip("\r\n")
    except (OSError, ValueError) as error:
        raise Missing(f"{name} cannot be read: {problem_of(error)}.") from None

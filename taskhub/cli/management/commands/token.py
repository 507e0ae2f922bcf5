"""`manage.py token create CLIENT`."""

from __future__ import annotations

from argparse import ArgumentParser
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from taskhub.cli.database import need_database
from taskhub.control.caller import of_shell
from taskhub.control.clients import issue_token
from taskhub.core.errors import TaskHubError
from taskhub.core.names import CALL_SCOPES, SCOPES
from taskhub.lib.signs import spelled


class Command(BaseCommand):
    """Prints the new token and nothing else, so that it can be piped."""

    help = "Create a bearer token for an MCP client."
    requires_system_checks: list[str] = []

    def add_arguments(self, parser: ArgumentParser) -> None:
        """The subcommand `create CLIENT [--scopes …] [--days N]`."""
        verbs = parser.add_subparsers(dest="verb", required=True)
        create = verbs.add_parser("create", help="create a token; it is shown once")
        create.add_argument("client", help="the client's name; created on first use")
        create.add_argument(
            "--scopes",
            default=",".join(CALL_SCOPES),
            help=f"comma separated, of {','.join(SCOPES)}; default {','.join(CALL_SCOPES)}",
        )
        create.add_argument("--days", type=int, default=90, help="lifetime in days (default 90)")
        create.add_argument("--data-dir", help="as for `up`")

    def handle(self, *args: Any, **options: Any) -> None:
        with need_database():
            try:
                scopes = [scope.strip() for scope in options["scopes"].split(",") if scope.strip()]
                issued = issue_token(of_shell(), options["client"], scopes=scopes, days=options["days"])
            except TaskHubError as error:
                raise CommandError(spelled(error.message)) from None
        self.stdout.write(issued.text)

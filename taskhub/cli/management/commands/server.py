"""`manage.py server set`."""

from __future__ import annotations

import sys
from argparse import ArgumentParser
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from taskhub.cli.database import need_database
from taskhub.control.caller import of_shell
from taskhub.control.servers import set_server
from taskhub.core.errors import TaskHubError
from taskhub.domain.catalogue.reads import server_name
from taskhub.domain.catalogue.spec import parse_spec


class Command(BaseCommand):
    """Adds a server like `up --server`, but starts no process: running workers connect to it."""

    help = "Add an MCP server, or change its address or command."
    requires_system_checks: list[str] = []

    def add_arguments(self, parser: ArgumentParser) -> None:
        verbs = parser.add_subparsers(dest="verb", required=True)
        change = verbs.add_parser("set", help="add the server, or change the one of this name")
        change.add_argument(
            "spec", metavar="[NAME=]SPEC", help="as for `up --server`; `-` reads it from standard input, for secrets"
        )
        change.add_argument("--data-dir", help="as for `up`")

    def handle(self, *args: Any, **options: Any) -> None:
        """Store the server and print its name."""
        text = sys.stdin.readline().strip() if options["spec"] == "-" else options["spec"]
        with need_database():
            try:
                spec = parse_spec(text)
                server_id = set_server(of_shell(), spec)
            except TaskHubError as error:
                raise CommandError(error.message) from None
            name = server_name(server_id)
        if name == spec.name:
            self.stdout.write(f"{name} is set; workers connect to it.")
        else:  # the address was connected before, under another name
            self.stdout.write(f"That is connected already, as {name}.")

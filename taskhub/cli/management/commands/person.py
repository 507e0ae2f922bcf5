"""`manage.py person add NAME --role ROLE`: the first sign-in where `up` is not used."""

from __future__ import annotations

from argparse import ArgumentParser
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from taskhub.cli.database import need_database
from taskhub.core.errors import TaskHubError
from taskhub.core.records import Actor
from taskhub.core.states import Door, Role
from taskhub.identity.people import add_person
from taskhub.identity.principals import default_tenant


class Command(BaseCommand):
    """Prints the generated password and nothing else; it is shown once."""

    help = "Add a person who may sign in to the console."
    requires_system_checks: list[str] = []

    def add_arguments(self, parser: ArgumentParser) -> None:
        """`add NAME --role ROLE [--group GROUP ...]`."""
        verbs = parser.add_subparsers(dest="verb", required=True)
        add = verbs.add_parser("add", help="add a person; the password is generated and shown once")
        add.add_argument("username")
        add.add_argument("--role", required=True, choices=[str(role) for role in Role])
        add.add_argument("--group", action="append", default=[], help="a group that approves together")
        add.add_argument("--data-dir", help="as for `up`")

    def handle(self, *args: Any, **options: Any) -> None:
        """Add and print."""
        with need_database():
            try:
                _, password = add_person(
                    tenant_id=default_tenant().pk,
                    username=options["username"],
                    role=options["role"],
                    groups=options["group"],
                    actor=Actor(name="manage.py", door=Door.CLI),
                )
            except TaskHubError as error:
                raise CommandError(error.message) from None
        self.stdout.write(password)

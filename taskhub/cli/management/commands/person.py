"""`manage.py person list|add|disable|enable|remove|password`: people, where the console is not at hand."""

from __future__ import annotations

import sys
from argparse import ArgumentParser
from typing import Any, Final

from django.core.management.base import BaseCommand, CommandError

from taskhub.cli.database import need_database
from taskhub.core.errors import TaskHubError
from taskhub.core.records import Actor
from taskhub.core.states import Door, Role
from taskhub.domain.clients.principals import default_tenant
from taskhub.domain.people import writes as people
from taskhub.domain.people.settings import members

ACTOR: Final = Actor(name="manage.py", door=Door.CLI)
CHANGES: Final = {
    "disable": "lock a person out; they are signed out everywhere",
    "enable": "let a disabled person sign in again",
    "remove": "close a person's account for good; what they did stays on record",
}


class Command(BaseCommand):
    """Prints a generated password and nothing else; it is shown once."""

    help = "People who may sign in to the console."
    requires_system_checks: list[str] = []

    def add_arguments(self, parser: ArgumentParser) -> None:
        """A verb each."""
        verbs = parser.add_subparsers(dest="verb", required=True)
        found = [verbs.add_parser("list", help="everybody with a role")]
        add = verbs.add_parser("add", help="add a person; the password is generated and shown once")
        add.add_argument("--role", required=True, choices=[str(role) for role in Role])
        add.add_argument("--group", action="append", default=[], help="a group that approves together")
        password = verbs.add_parser("password", help="give a person another password, which they change when they come")
        password.add_argument("--stdin", action="store_true", help="read it from the standard input; else it is made")
        named = [add, password, *(verbs.add_parser(verb, help=words) for verb, words in CHANGES.items())]
        for verb in named:
            verb.add_argument("username")
        for verb in found + named:
            verb.add_argument("--data-dir", help="as for `up`")

    def handle(self, *args: Any, **options: Any) -> None:
        """Do it, and print what came of it."""
        with need_database():
            try:
                for line in self._lines(default_tenant().pk, options):
                    self.stdout.write(line)
            except TaskHubError as error:
                raise CommandError(error.message) from None

    def _lines(self, tenant: int, options: dict[str, Any]) -> list[str]:
        verb = options["verb"]
        if verb == "list":
            return _table(tenant)
        name = options["username"]
        if verb == "add":
            role, groups = options["role"], options["group"]
            return [people.add_person(tenant_id=tenant, username=name, role=role, groups=groups, actor=ACTOR)[1]]
        who: dict[str, Any] = {"tenant_id": tenant, "user_id": people.find_person(tenant, name), "actor": ACTOR}
        if verb == "password":
            typed = sys.stdin.readline().rstrip("\r\n") if options["stdin"] else ""
            if options["stdin"] and not typed:
                raise CommandError("There is no password on the standard input.")
            _, password = people.give_password(password=typed, **who)
            return [] if typed else [password]
        if verb == "remove":
            return [f"{people.remove(**who)} is removed, and signed out everywhere."]
        if verb == "disable":
            done = people.disable(**who)
            return [f"{name} is disabled, and signed out everywhere." if done else f"{name} was disabled already."]
        done = people.enable(**who)
        return [f"{name} may sign in again." if done else f"{name} was not disabled."]


def _table(tenant: int) -> list[str]:
    rows = [("NAME", "ROLE", "GROUPS", "STATE", "LAST SIGN-IN")]
    rows += [
        (
            member.username,
            str(member.role),
            ", ".join(member.groups) or "-",
            "enabled" if member.active else "disabled",
            f"{member.last_login_at:%Y-%m-%d %H:%M} UTC" if member.last_login_at else "never",
        )
        for member in members(tenant)
    ]
    widths = [max(len(row[column]) for row in rows) for column in range(4)]
    return ["  ".join([*(cell.ljust(width) for cell, width in zip(row, widths, strict=False)), row[4]]) for row in rows]

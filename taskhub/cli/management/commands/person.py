"""`manage.py person list|add|disable|enable|unfactor|remove|password`: manage people without the console."""

from __future__ import annotations

import sys
from argparse import ArgumentParser
from typing import Any, Final

from django.core.management.base import BaseCommand, CommandError

from taskhub.cli.database import need_database
from taskhub.control import factors, people
from taskhub.control.caller import Caller, of_shell
from taskhub.core.errors import TaskHubError
from taskhub.core.states import Role
from taskhub.domain.people.settings import members
from taskhub.lib.signs import spelled

CHANGES: Final = {
    "disable": "lock a person out; they are signed out everywhere",
    "enable": "let a disabled person sign in again",
    "unfactor": "remove a person's second factor, as after they lost their phone",
    "remove": "close a person's account permanently; the audit log keeps what they did",
}


class Command(BaseCommand):
    """`add` and `password` print a generated password and nothing else; it is shown only this once."""

    help = "People who may sign in to the console."
    requires_system_checks: list[str] = []

    def add_arguments(self, parser: ArgumentParser) -> None:
        verbs = parser.add_subparsers(dest="verb", required=True)
        found = [verbs.add_parser("list", help="everybody with a role")]
        add = verbs.add_parser("add", help="add a person; the password is generated and shown once")
        add.add_argument("--role", required=True, choices=[str(role) for role in Role])
        add.add_argument("--group", action="append", default=[], help="a group of approvers; repeatable")
        password = verbs.add_parser("password", help="set a password, to be changed at the next sign-in")
        password.add_argument("--stdin", action="store_true", help="read it from standard input, not generate one")
        named = [add, password, *(verbs.add_parser(verb, help=words) for verb, words in CHANGES.items())]
        for verb in named:
            verb.add_argument("username")
        for verb in found + named:
            verb.add_argument("--data-dir", help="as for `up`")

    def handle(self, *args: Any, **options: Any) -> None:
        """Run the subcommand and print its result."""
        with need_database():
            try:
                for line in self._lines(of_shell(), options):
                    self.stdout.write(line)
            except TaskHubError as error:
                raise CommandError(spelled(error.message)) from None

    def _lines(self, caller: Caller, options: dict[str, Any]) -> list[str]:
        verb = options["verb"]
        if verb == "list":
            return _table(caller.tenant_id)
        name = options["username"]
        if verb == "add":
            return [people.add_person(caller, username=name, role=options["role"], groups=options["group"])[1]]
        user_id = people.find_person(caller, name)
        if verb == "password":
            typed = sys.stdin.readline().rstrip("\r\n") if options["stdin"] else ""
            if options["stdin"] and not typed:
                raise CommandError("There is no password on the standard input.")
            _, password = people.set_password(caller, user_id, typed)
            return [] if typed else [password]
        if verb == "remove":
            return [f"{people.remove_person(caller, user_id)} is removed, and signed out everywhere."]
        if verb == "unfactor":
            username, done = factors.remove_of(caller, user_id)
            alone = f"{username} signs in with the password alone, and is signed out everywhere."
            return [alone if done else f"{username} had no second factor."]
        if verb == "disable":
            done = people.disable_person(caller, user_id)
            return [f"{name} is disabled, and signed out everywhere." if done else f"{name} was disabled already."]
        done = people.enable_person(caller, user_id)
        return [f"{name} may sign in again." if done else f"{name} was not disabled."]


def _table(tenant: int) -> list[str]:
    rows = [("NAME", "ROLE", "GROUPS", "STATE", "SECOND FACTOR", "LAST SIGN-IN")]
    rows += [
        (
            member.username,
            str(member.role),
            ", ".join(member.groups) or "-",
            "enabled" if member.active else "disabled",
            "yes" if member.has_factor else "none",
            f"{member.last_login_at:%Y-%m-%d %H:%M} UTC" if member.last_login_at else "never",
        )
        for member in members(tenant)
    ]
    widths = [max(len(row[column]) for row in rows) for column in range(5)]
    return ["  ".join([*(cell.ljust(width) for cell, width in zip(row, widths, strict=False)), row[5]]) for row in rows]

"""`manage.py rule list|set`: the tenant's rules."""

from __future__ import annotations

import json
import re
from argparse import ArgumentParser
from typing import Any, Final

from django.core.management.base import BaseCommand, CommandError

from taskhub.cli.database import need_database
from taskhub.cli.mcpjson import text_of
from taskhub.control import rules
from taskhub.control.caller import of_shell
from taskhub.core.errors import TaskHubError
from taskhub.core.rules import Rule, Then, list_from_json, to_json
from taskhub.lib.signs import spelled, visible_json

_APART: Final = frozenset({"name", "when", "then", "enabled", "shadow"})
"""Fields that `rule list` prints in a rule's first lines."""
_TEXTS: Final = ("sentence", "words")


class Command(BaseCommand):
    """`set` reads the format that `list --json` prints."""

    help = "List the rules that decide about calls, and replace them."
    requires_system_checks: list[str] = []

    def add_arguments(self, parser: ArgumentParser) -> None:
        verbs = parser.add_subparsers(dest="verb", required=True)
        listed = verbs.add_parser("list", help="the rules in their order")
        listed.add_argument("--json", action="store_true", help="as JSON")
        replaced = verbs.add_parser("set", help="replace the whole list")
        replaced.add_argument("file", metavar="FILE", help="a JSON array of rules; `-` reads it from standard input")
        replaced.add_argument("--reason", default="", help="why; it is recorded")
        for verb in (listed, replaced):
            verb.add_argument("--data-dir", help="as for `up`")

    def handle(self, *args: Any, **options: Any) -> None:
        """Run the subcommand, in the default tenant."""
        with need_database():
            try:
                if options["verb"] == "list":
                    self._list(as_json=options["json"])
                else:
                    self._set(options["file"], options["reason"])
            except TaskHubError as error:
                raise CommandError(_at(str(error.data.get("field", ""))) + spelled(error.message)) from None

    def _list(self, *, as_json: bool) -> None:
        found = rules.rules(of_shell())
        if as_json:
            self.stdout.write(visible_json([to_json(rule) for rule in found.rules]))
            return
        self.stdout.write(f"Version {found.version}." if found.version else "No rules were saved yet.")
        for place, rule in enumerate(found.rules, 1):
            marks = ("" if rule.enabled else "  (off)") + ("  (on trial)" if rule.shadow else "")
            self.stdout.write(f"{place:3}  {rule.then:5}  {spelled(rule.name)}{marks}")
            self.stdout.write(f"            when {spelled(rule.when) or 'any call'}")
            for line in _rest(rule):
                self.stdout.write(f"            {spelled(line)}")

    def _set(self, file: str, reason: str) -> None:
        try:
            given = json.loads(text_of(file, regular=True))
        except ValueError as error:
            raise CommandError(f"{file} is no JSON: {error}") from None
        caller = of_shell()
        wanted = list_from_json(given)
        before = rules.rules(caller)
        after = rules.save_rules(caller, wanted, expected=before.version, reason=reason)
        if after.version == before.version:
            self.stdout.write(f"Nothing differs from version {before.version}.")
        else:
            self.stdout.write(f"Version {after.version} with {len(after.rules)} rules is in force for new calls.")
        for warned in rules.rule_warnings(caller, after.rules):
            self.stdout.write(f"Warning: {spelled(warned.rule.name)}: {spelled(warned.words)}")


def _rest(rule: Rule) -> list[str]:
    """The rule's fields that are not in `_APART`, as lines under the names that a file of rules has for them. Each text
    has lines of its own."""
    said = {name: value for name, value in to_json(rule).items() if name not in _APART}
    if rule.then is Then.ASK:
        said = {"quorum": rule.quorum} | said
    if "preview" in said:
        said["preview"] = visible_json(said["preview"], indent=None)
    if "editable" in said:
        said["editable"] = visible_json(said["editable"], indent=None)
    short = [name if value is True else f"{name} {value}" for name, value in said.items() if name not in _TEXTS]
    return [*filter(None, [", ".join(short)]), *(f"{name} “{said[name]}”" for name in _TEXTS if name in said)]


def _at(field: str) -> str:
    """The rule (counted from 1) and its field that an error is about, as text for people; empty if the error is about
    none."""
    found = re.fullmatch(r"rules\.(\d+)(?:\.(.+))?", field)
    if found is None:
        return f"{field}: " if field else ""
    return f"Rule {int(found[1]) + 1}{f', {found[2]}' if found[2] else ''}: "

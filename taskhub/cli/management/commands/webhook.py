"""`manage.py webhook list|add|change|enable|disable|remove|rotate|test|log|again`: the addresses to which notices of
tasks and approvals are sent."""

from __future__ import annotations

from argparse import ArgumentParser
from datetime import UTC
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from taskhub.cli.database import need_database
from taskhub.control import webhooks
from taskhub.control.caller import Caller, of_shell
from taskhub.core.errors import TaskHubError
from taskhub.domain.notices.kinds import Kind
from taskhub.domain.notices.webhooks import COUNTED, Wanted, WebhookRow
from taskhub.lib.signs import spelled


class Command(BaseCommand):
    """`add` and `rotate` print the new secret and nothing else on standard output; it is shown only this once."""

    help = "Send news of tasks and approvals to programs."
    requires_system_checks: list[str] = []

    def add_arguments(self, parser: ArgumentParser) -> None:
        verbs = parser.add_subparsers(dest="verb", required=True)
        listed = verbs.add_parser("list", help="the webhooks, and how each does")
        add = verbs.add_parser("add", help="send to an address from now on; prints the secret")
        add.add_argument("name")
        add.add_argument("url", help="http or https")
        change = verbs.add_parser("change", help="what is not named stays as it is")
        change.add_argument("name")
        change.add_argument("--url", help="another address")
        for verb in (add, change):
            verb.add_argument(
                "--events",
                nargs="+",
                metavar="EVENT",
                choices=[kind.value for kind in Kind],
                help=f"some of {', '.join(Kind)}; default all",
            )
            verb.add_argument("--client", help="only what belongs to the client of this name; empty: to all")
        one = [
            verbs.add_parser(verb, help=says)
            for verb, says in (
                ("enable", "send again"),
                ("disable", "send no more; what waits has failed"),
                ("remove", "forget it with its log"),
                ("rotate", "a new secret, which is printed; the one before signs too for a day"),
                ("test", "send a message that tells of nothing"),
                ("log", "what was sent lately, and what came of it"),
                ("again", "send a message again, under its id"),
            )
        ]
        for verb in one:
            verb.add_argument("name")
        one[-1].add_argument("message", help="its id, as `log` has it")
        for verb in (listed, add, change, *one):
            verb.add_argument("--data-dir", help="as for `up`")

    def handle(self, *args: Any, **options: Any) -> None:
        """Run the subcommand, in the default tenant."""
        with need_database():
            caller = of_shell()
            try:
                self._do(caller, options)
            except TaskHubError as error:
                raise CommandError(spelled(error.message)) from None

    def _do(self, caller: Caller, options: dict[str, Any]) -> None:
        verb = options["verb"]
        if verb == "list":
            for row in webhooks.list_webhooks(caller):
                self.stdout.write(_said(row))
            return
        if verb == "add":
            events = options["events"] or list(Kind)
            wanted = Wanted(options["name"], options["url"], events, options["client"] or "")
            self.stdout.write(webhooks.add_webhook(caller, wanted)[1])
            return
        row = _named(caller, options["name"])
        if verb == "change":
            client = (row.client or "") if options["client"] is None else options["client"]
            wanted = Wanted(row.name, options["url"], options["events"] or row.kinds, client)
            changed = webhooks.change_webhook(caller, row.id, wanted)
            self.stdout.write("Changed." if changed else "Nothing to change.")
        elif verb in ("enable", "disable"):
            done = webhooks.set_webhook_enabled(caller, row.id, enabled=verb == "enable")
            self.stdout.write(f"{verb.capitalize()}d." if done else f"It was {verb}d already.")
        elif verb == "remove":
            self.stdout.write(f"{webhooks.remove_webhook(caller, row.id)} is removed.")
        elif verb == "rotate":
            self.stdout.write(webhooks.renew_webhook_secret(caller, row.id))
        elif verb == "test":
            self.stdout.write(webhooks.test_webhook(caller, row.id))
        elif verb == "log":
            self._log(caller, row)
        else:
            webhooks.send_again(caller, row.id, options["message"])
            self.stdout.write("It is sent again.")

    def _log(self, caller: Caller, row: WebhookRow) -> None:
        for one in webhooks.webhook_log(caller, row.id):
            status = "" if one.status is None else f" {one.status}"
            took = "" if one.milliseconds is None else f" {one.milliseconds} ms"
            problem = f" {spelled(one.problem)}" if one.problem else ""
            at = f"{one.queued_at.astimezone(UTC):%Y-%m-%d %H:%M:%S}"
            self.stdout.write(f"{one.public_id} {at} {one.kind} {one.state} x{one.attempts}{status}{took}{problem}")


def _named(caller: Caller, name: str) -> WebhookRow:
    for row in webhooks.list_webhooks(caller):
        if row.name == name:
            return row
    raise CommandError(f"There is no webhook named {spelled(name)}.")


def _said(row: WebhookRow) -> str:
    does = "enabled" if row.enabled else f"disabled {row.disabled_why}".strip()
    if row.failing_since is not None:
        does = f"does not answer since {row.failing_since.astimezone(UTC):%Y-%m-%d %H:%M} UTC: {spelled(row.problem)}"
    if row.waiting:
        does += f"; {row.waiting:,}{'+' if row.waiting >= COUNTED else ''} wait"
        does += f", next try at {row.next_at.astimezone(UTC):%H:%M:%S} UTC" if row.next_at else ""
    client = f" client={spelled(row.client)}" if row.client is not None else ""
    return f"{spelled(row.name)} {row.origin} {','.join(row.kinds)}{client}: {does}"

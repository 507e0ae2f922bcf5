"""`manage.py bypass start|stop|show`: a time in which nobody is asked about calls."""

from __future__ import annotations

from argparse import ArgumentParser
from datetime import UTC
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from taskhub.cli.database import need_database
from taskhub.control import rules
from taskhub.control.caller import Caller, of_shell
from taskhub.core.bypass import Bypass
from taskhub.core.errors import TaskHubError
from taskhub.domain.catalogue.view import catalogue
from taskhub.domain.rules.bypasses import present_bypass
from taskhub.lib.signs import spelled


class Command(BaseCommand):
    """`show` exits with 1 if no bypass is in force."""

    help = "Let calls run for a time that people would be asked about."
    requires_system_checks: list[str] = []

    def add_arguments(self, parser: ArgumentParser) -> None:
        verbs = parser.add_subparsers(dest="verb", required=True)
        start = verbs.add_parser("start", help="begin a bypass")
        start.add_argument("minutes", type=int, help="it ends by itself after them; 1440 (a day) at most")
        start.add_argument("--reason", required=True, help="why; everybody in the console reads it")
        start.add_argument("--server", default="", help="let only the calls of this server pass")
        stop = verbs.add_parser("stop", help="end the bypass before its time")
        show = verbs.add_parser("show", help="the bypass that is in force")
        for verb in (start, stop, show):
            verb.add_argument("--data-dir", help="as for `up`")

    def handle(self, *args: Any, **options: Any) -> None:
        """Run the subcommand, in the default tenant."""
        with need_database():
            caller = of_shell()
            try:
                if options["verb"] == "start":
                    self._start(caller, options)
                    return
                found = present_bypass(caller.tenant_id)
                if found is None:
                    raise CommandError("No bypass is in force.")
                if options["verb"] == "stop":
                    rules.end_bypass(caller, found.id)
                    self.stdout.write("The bypass is over: people are asked again.")
                else:
                    self.stdout.write(_said(found))
            except TaskHubError as error:
                raise CommandError(spelled(error.message)) from None

    def _start(self, caller: Caller, options: dict[str, Any]) -> None:
        server = None
        if name := options["server"]:
            servers = {one.name: one.id for one in catalogue(caller.tenant_id).upstreams}
            if name not in servers:
                raise CommandError(f"No enabled server is named {spelled(name)}.")
            server = servers[name]
        begun = rules.begin_bypass(caller, minutes=options["minutes"], reason=options["reason"], server_id=server)
        self.stdout.write(_said(begun))


def _said(bypass: Bypass) -> str:
    calls = f"calls of {spelled(bypass.server)}" if bypass.server else "calls"
    until = f"{bypass.ends_at.astimezone(UTC):%Y-%m-%d %H:%M} UTC"
    return f"Nobody is asked about {calls} until {until}. Begun by {spelled(bypass.begun_by)}: {spelled(bypass.reason)}"

"""`manage.py server`: list, show, add, set, edit, import, test, enable, disable, remove."""

from __future__ import annotations

import sys
from argparse import ArgumentParser
from collections.abc import Callable, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError
from django.db import transaction

from taskhub.cli.database import need_database
from taskhub.cli.mcpjson import read_file, supposed_values_for, text_of, values_for
from taskhub.cli.oauth import (
    WantedOAuth,
    add_oauth_arguments,
    add_register_argument,
    authorized,
    next_step,
    oauth_facts,
    oauth_of_options,
)
from taskhub.control import credentials, servers
from taskhub.control.caller import Caller, of_shell
from taskhub.core.errors import Refused, TaskHubError
from taskhub.core.versions import BEGUN_BY, OF_CALLER, Era, Version
from taskhub.domain.catalogue import reads
from taskhub.domain.catalogue.edits import ServerEdit
from taskhub.domain.catalogue.offer_reads import server_offers
from taskhub.domain.catalogue.reads import ServerRow, ToolRow
from taskhub.domain.catalogue.registry_entry import WAYS
from taskhub.domain.catalogue.server_files import FileServer, ServersFile, servers_of
from taskhub.domain.catalogue.spec import parse_spec
from taskhub.lib.signs import spelled, visible_json
from taskhub.upstream.diagnosis import diagnosed

SPEC_HELP = "as for `up --server`; `-` reads it from standard input, for secrets"
SHARED_HELP = "whether clients share its processes and sessions, which otherwise belong to one client each"
OWN_HELP = "whether a `python:` server runs in a process of its own, whose end ends no worker"
TOKEN_HELP = "file with the token that is sent to a server with a URL; `-` is standard input"  # noqa: S105 - not one


class Command(BaseCommand):
    """Starts no process: running workers connect to added servers."""

    help = "List MCP servers, and add, change or remove them."
    requires_system_checks: list[str] = []

    def add_arguments(self, parser: ArgumentParser) -> None:
        verbs = parser.add_subparsers(dest="verb", required=True)

        def verb(name: str, text: str, *, named: bool = True) -> ArgumentParser:
            made: ArgumentParser = verbs.add_parser(name, help=text)
            if named:
                made.add_argument("name", help="the server's name")
            made.add_argument("--data-dir", help="as for `up`")
            return made

        verb("list", "list all servers", named=False).add_argument("--json", action="store_true", help="as JSON")
        verb("show", "show a server and its tools").add_argument("--json", action="store_true", help="as JSON")
        add = verb("add", "add a server", named=False)
        add.add_argument("spec", metavar="[NAME=]SPEC", help=SPEC_HELP)
        add.add_argument("--prefix", default="", help="put before the names of its tools and prompts")
        add.add_argument("--token-file", metavar="FILE", help=TOKEN_HELP)
        _given_arguments(add)
        add_oauth_arguments(add)
        change = verb("set", "add the server, or change the address or command of the one of this name", named=False)
        change.add_argument("spec", metavar="[NAME=]SPEC", help=SPEC_HELP)
        change.add_argument("--shared", choices=("yes", "no"), help=SHARED_HELP)
        change.add_argument("--own-process", choices=("yes", "no"), help=OWN_HELP)
        edit = verb("edit", "change a server")
        edit.add_argument("--spec", help=SPEC_HELP)
        edit.add_argument("--prefix", help="for tools that are listed for the first time from now on; '' for none")
        edit.add_argument("--shared", choices=("yes", "no"), help=SHARED_HELP)
        edit.add_argument("--token-file", metavar="FILE", help=f"{TOKEN_HELP}; an empty one: no token")
        _given_arguments(edit)
        add_oauth_arguments(edit)
        add_register_argument(edit)
        read = verb("import", "add the servers of an mcp.json, or that of a server.json: all, or none", named=False)
        read.add_argument(
            "file",
            metavar="FILE",
            help="of Claude, Cursor, VS Code and others, or of the MCP registry; `-` reads it from standard input",
        )
        read.add_argument("--name", default="", help="the name for the server of a server.json")
        read.add_argument("--use", default="", choices=WAYS, help="which of the ways in that a server.json has")
        read.add_argument("--values", metavar="FILE", help="lines NAME=VALUE for what the file asks for")
        read.add_argument("--dry-run", action="store_true", help="check all, show what would be added, and add nothing")
        test = verb("test", "connect to a server from here, one step at a time")
        test.add_argument("--json", action="store_true", help="as JSON")
        verb("enable", "offer a disabled server's tools again")
        disable = verb("disable", "stop offering a server's tools; its calls wait")
        disable.add_argument("--reason", default="", help="shown with its state")
        remove = verb("remove", "remove a server; its waiting calls fail, its running calls go on")
        remove.add_argument("--yes", action="store_true", help="also if it has calls that have not ended")

    def handle(self, *args: Any, **options: Any) -> None:
        """Run the subcommand, in the default tenant."""
        do: Callable[[Caller, dict[str, Any]], None] = getattr(self, f"_{options['verb']}")
        with need_database():
            try:
                do(of_shell(), options)
            except TaskHubError as error:
                raise CommandError(spelled(error.message)) from None

    def _list(self, caller: Caller, options: dict[str, Any]) -> None:
        rows = reads.server_list(caller.tenant_id)
        if options["json"]:
            self._print([_facts(row) for row in rows])
        elif not rows:
            self.stdout.write("No server. Add one: manage.py server add [NAME=]SPEC")
        else:
            table = [("NAME", "STATE", "TOOLS", "ADDRESS OR COMMAND")]
            table += [(spelled(row.name), row.shown_state, str(row.tools), spelled(row.spec)) for row in rows]
            widths = [max(map(len, column)) for column in zip(*table, strict=True)]
            for line in table:
                self.stdout.write(
                    "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip()
                )

    def _show(self, caller: Caller, options: dict[str, Any]) -> None:
        row = servers.find_server(caller, options["name"])
        tools = reads.server_tools(caller.tenant_id, row.id)
        offers = [offer for offer in server_offers(caller.tenant_id, row.id) if offer.gone_at is None]
        found = {
            **_facts(row),
            **oauth_facts(row.id),
            "tools": [_tool(tool) for tool in tools if tool.gone_at is None],
            "prompts": [offer.exposed_name for offer in offers if offer.kind == "prompt"],
            "resources": [offer.key for offer in offers if offer.kind != "prompt"],
        }
        if options["json"]:
            self._print(found)
            return
        for name, value in found.items():
            if name == "tools":
                self.stdout.write("tools:" if value else "tools: none")
                for tool in value:
                    why = f", rejected: {tool['rejected']}" if tool["rejected"] else ""
                    off = ", waits for a person" if tool["waits"] else "" if tool["enabled"] else ", off"
                    self.stdout.write(spelled(f"  {tool['exposed_name']} ({tool['mode']}{off}{why})"))
            elif isinstance(value, list):
                self.stdout.write(spelled(f"{name}: {', '.join(value) if value else 'none'}"))
            elif value not in (None, ""):
                self.stdout.write(spelled(f"{name}: {str(value).lower() if isinstance(value, bool) else value}"))

    def _add(self, caller: Caller, options: dict[str, Any]) -> None:
        _check_inputs(options)
        spec = parse_spec(_line(options["spec"]))
        wanted = oauth_of_options(options)
        with transaction.atomic():
            server_id = servers.add_server(
                caller,
                name=spec.name,
                spec=reads.spec_of(spec.transport, spec.target),
                prefix=options["prefix"],
                token=_token(options["token_file"]) or "",
                headers=_pairs(options["headers"], ":", "headers") or {},
                environment=_pairs(options["env"], "=", "variables") or {},
                directory=options["cwd"] or "",
                own_process=options["own_process"] == "yes",
                connect_seconds=_number(options, "connect_seconds") or None,
                calls_at_once=_number(options, "calls") or None,
                review=options["review"] == "yes",
                pinned=_pinned(options) or "",
            )
            if wanted is not None:
                credentials.set_oauth(caller, server_id, wanted.settings)
        self.stdout.write(f"{spec.name} is added; workers connect to it.")
        self._next(server_id, wanted)

    def _next(self, server_id: int, wanted: WantedOAuth | None) -> None:
        """Say who has to authorize the server now."""
        if wanted is not None and (says := next_step(server_id)):
            self.stdout.write(spelled(says))

    def _set(self, caller: Caller, options: dict[str, Any]) -> None:
        spec = parse_spec(_line(options["spec"]))
        before = reads.server_named(caller.tenant_id, spec.name)
        how = {"shared": _yes(options["shared"]), "own_process": _yes(options["own_process"])}
        name = reads.server_name(servers.set_server(caller, spec, **how))
        if name == spec.name:
            self.stdout.write(f"{name} is set; workers connect to it.")
            self._dropped(before, servers.find_server(caller, name), ServerEdit())
        else:  # the address was connected before, under another name
            self.stdout.write(f"That is connected already, as {name}.")

    def _edit(self, caller: Caller, options: dict[str, Any]) -> None:
        _check_inputs(options)
        edit = ServerEdit(
            spec=None if options["spec"] is None else _line(options["spec"]),
            prefix=options["prefix"],
            calls_at_once=_number(options, "calls"),
            connect_seconds=_number(options, "connect_seconds"),
            directory=options["cwd"],
            pinned=_pinned(options),
            headers=_pairs(options["headers"], ":", "headers"),
            environment=_pairs(options["env"], "=", "variables"),
            shared=_yes(options["shared"]),
            own_process=_yes(options["own_process"]),
            token=_token(options["token_file"]),
            review=_yes(options["review"]),
        )
        wanted = oauth_of_options(options)
        anew = options["oauth_register_anew"]
        if edit == ServerEdit() and wanted is None and not anew:
            raise CommandError(
                "Nothing to change: give --spec, --prefix, --token-file, --headers, --env, --cwd, --connect-seconds,"
                " --calls, --shared, --own-process, --review, --protocol, --oauth or --oauth-register-anew."
            )
        before, dropped = servers.find_server(caller, options["name"]), None
        with transaction.atomic():
            servers.edit_server(caller, before.id, edit)
            if wanted is not None:
                dropped = credentials.set_oauth(caller, before.id, wanted.settings)
            if anew and not credentials.register_anew(caller, before.id):
                raise CommandError(f"TaskHub has not registered itself for {before.name}.")
        self.stdout.write(f"{before.name} is changed.")
        if dropped is not None:
            if said := credentials.end_dropped(dropped):
                self.stdout.write(spelled(said))
            before = replace(before, oauth="")  # else this change of the authorization is reported as dropped
        self._next(before.id, wanted)
        self._dropped(before, servers.find_server(caller, before.name), edit)

    def _dropped(self, before: ServerRow | None, after: ServerRow, edit: ServerEdit) -> None:
        if before is not None and (dropped := edit.dropped(before, after)):
            self.stdout.write(f"What was for the address or command of before is dropped: {', '.join(dropped)}.")

    def _import(self, caller: Caller, options: dict[str, Any]) -> None:
        file = read_file(options["file"], way=options["use"], name=options["name"])
        if options["dry_run"]:
            self._would_import(caller, file)
            supposed = servers_of(file, supposed_values_for(file, options["values"]))
            servers.import_servers(caller, supposed, dry_run=True)
            return
        given = servers_of(file, values_for(file, options["values"]))
        added = servers.import_servers(caller, given)
        for pk, server in zip(added, given, strict=True):
            self.stdout.write(f"{server.name} is added; workers connect to it.")
            if server.oauth is not None and (says := next_step(pk)):
                self.stdout.write(spelled(says))
        self._left_out(given, file)

    def _would_import(self, caller: Caller, file: ServersFile) -> None:
        taken = {row.name for row in reads.server_list(caller.tenant_id)}
        given = servers_of(file, None)
        for server in given:
            shown = reads.spec_of(server.transport, server.shown_target)
            token = ", with a token" if server.token else ""
            headers = f", headers {', '.join(server.headers)}" if server.headers else ""
            variables = f", variables {', '.join(server.environment)}" if server.environment else ""
            directory = f", in {server.directory}" if server.directory else ""
            oauth = f", {server.shown_oauth}" if server.oauth else ""
            note = " (there is a server of this name: refused)" if server.name in taken else ""
            self.stdout.write(spelled(f"{server.name}: {shown}{token}{headers}{variables}{directory}{oauth}{note}"))
        if needed := [asked.key for asked in file.placeholders if asked.needed]:
            self.stdout.write(spelled(f"Asks for: {', '.join(needed)}."))
        if optional := [asked.key for asked in file.placeholders if not asked.needed]:
            self.stdout.write(spelled(f"May be given: {', '.join(optional)}."))
        self._left_out(given, file)

    def _left_out(self, given: Sequence[FileServer], file: ServersFile) -> None:
        for server in given:
            if server.taken:
                names = ", ".join(server.taken)
                self.stdout.write(
                    spelled(f"Values of {server.name} that stand in the file, and are stored encrypted: {names}.")
                )
            if server.ignored:
                self.stdout.write(spelled(f"Settings of {server.name} that are not kept: {', '.join(server.ignored)}."))
        if file.other_ways:
            self.stdout.write(f"Way in: {file.way}. Others, with --use: {', '.join(file.other_ways)}.")
        if file.disabled:
            self.stdout.write(f"Left out, since the file disables them: {', '.join(file.disabled)}.")

    def _test(self, caller: Caller, options: dict[str, Any]) -> None:
        row = servers.server_to_test(caller, servers.find_server(caller, options["name"]).id)
        steps = []
        for step in diagnosed(authorized(row)):
            steps.append(step)
            if not options["json"]:
                mark, time = "ok  " if step.ok else "FAIL", f"{step.seconds * 1000:,.0f} ms"
                self.stdout.write(spelled(f"{mark}  {step.name:<8}{time:>10}  {step.says}"))
        if options["json"]:
            self._print([asdict(step) for step in steps])
        if not steps or not steps[-1].ok:
            raise CommandError(f"{row.name} cannot be used from here.")

    def _enable(self, caller: Caller, options: dict[str, Any]) -> None:
        row = servers.find_server(caller, options["name"])
        servers.set_server_enabled(caller, row.id, enabled=True)
        self.stdout.write(f"{row.name} is enabled.")

    def _disable(self, caller: Caller, options: dict[str, Any]) -> None:
        row = servers.find_server(caller, options["name"])
        servers.set_server_enabled(caller, row.id, enabled=False, reason=options["reason"])
        self.stdout.write(f"{row.name} is disabled; its calls wait.")

    def _remove(self, caller: Caller, options: dict[str, Any]) -> None:
        row = servers.find_server(caller, options["name"])
        try:
            live = servers.remove_server(caller, row.id, confirmed=options["yes"])
        except Refused as error:
            raise CommandError(f"{spelled(error.message)} To remove it all the same: --yes.") from None
        self.stdout.write(f"{row.name} is removed.")
        if live.waiting:
            self.stdout.write(f"Calls that waited for it and end as failed: {live.waiting}.")
        if live.deferred:
            self.stdout.write(f"Calls that it runs as its own tasks, which end as failed: {live.deferred}.")
        if live.running:
            self.stdout.write(f"Calls that run to their end: {live.running}.")

    def _print(self, found: Any) -> None:
        self.stdout.write(visible_json(found))


def _yes(word: str | None) -> bool | None:
    return None if word is None else word == "yes"


def _line(spec: str) -> str:
    return sys.stdin.readline().strip() if spec == "-" else spec


def _given_arguments(parser: ArgumentParser) -> None:
    parser.add_argument(
        "--headers", metavar="FILE", help="lines NAME: VALUE, sent with every request to a server with a URL"
    )
    parser.add_argument("--own-process", choices=("yes", "no"), help=OWN_HELP)
    parser.add_argument("--env", metavar="FILE", help="lines NAME=VALUE, the variables of a command or own process")
    parser.add_argument("--cwd", metavar="DIR", help="working directory of a command or own process")
    parser.add_argument("--connect-seconds", metavar="N", help="time to connect, or `default`")
    parser.add_argument("--calls", metavar="N", help="calls at once from each worker, or `default`")
    parser.add_argument("--review", choices=("yes", "no"), help="new and changed tools wait for a person")
    parser.add_argument(
        "--protocol",
        choices=("default", OF_CALLER, *Version),
        help="speak this version, not the newest that the server speaks; `caller`: as each caller does",
    )


def _pinned(options: dict[str, Any]) -> str | None:
    return "" if options["protocol"] == "default" else options["protocol"]


def _check_inputs(options: dict[str, Any]) -> None:
    read = [name for name in ("headers", "env", "token_file", "oauth_secret_file") if options[name] == "-"]
    if len(read) > 1:
        first, second = (f"--{name.replace('_', '-')}" for name in read[:2])
        raise CommandError(f"{first} and {second} cannot both be read from standard input.")


def _number(options: dict[str, Any], name: str) -> int | None:
    """The number of an option; 0 for `default`, `None` if the option is not given."""
    text = options[name]
    if text is None:
        return None
    if text == "default":
        return 0
    if not (text.isascii() and text.isdigit() and int(text[:9]) > 0):
        raise CommandError(f"--{name.replace('_', '-')} is a number from 1 on, or `default`, not {text[:40]}.")
    return int(text[:9])


def _pairs(path: str | None, sign: str, what: str) -> dict[str, str | None] | None:
    """The lines of a file, as values by name. For a line that has a name only, the value is `None`: the stored one is
    kept."""
    if path is None:
        return None
    found: dict[str, str | None] = {}
    for line in map(str.strip, text_of(path).splitlines()):
        if line and not line.startswith("#"):
            name, signed, value = line.partition(sign)
            if (name := name.strip()) in found:
                raise CommandError(f"{path}: {name[:100]} is given twice.")
            found[name] = value.strip() if signed else None
            if not name:
                raise CommandError(f"{path}: expected {what} as lines NAME{sign}VALUE.")
    return found


def _token(path: str | None) -> str | None:
    if path is None:
        return None
    try:
        text = sys.stdin.readline() if path == "-" else Path(path).read_text(encoding="utf-8")
    except (OSError, ValueError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is no UTF-8 text"
        raise CommandError(f"The token cannot be read from {path}: {why}.") from None
    return text.strip()


def _facts(row: ServerRow) -> dict[str, Any]:
    """A server without its secrets."""
    return {
        "name": row.name,
        "spec": row.spec,
        "state": row.shown_state,
        "problem": row.trouble,
        "disabled_reason": row.disabled_reason,
        "breaker": row.breaker,
        "prefix": row.prefix,
        "calls_at_once": row.calls_at_once,
        "review": row.review,
        "by_file": row.by_file,
        "connect_seconds": row.connect_seconds,
        "shared": row.shared,
        "token": row.has_token,
        "headers": list(row.header_names),
        "environment": list(row.variable_names),
        "directory": row.directory,
        "own_process": row.own_process,
        "reports_as": row.about,
        "protocol": row.protocol,
        "begun_by": BEGUN_BY[Era(row.era)] if row.era else "",
        "pinned": row.pinned,
        "incomplete": row.incomplete,
        "tools": row.tools,
        "waiting_tools": row.waiting,
        "last_seen_at": None if row.last_seen_at is None else row.last_seen_at.isoformat(),
        "created_at": row.created_at.isoformat(),
    }


def _tool(tool: ToolRow) -> dict[str, Any]:
    return {
        "name": tool.name,
        "exposed_name": tool.exposed_name,
        "mode": tool.mode,
        "enabled": tool.enabled,
        "rejected": tool.rejected,
        "waits": tool.waits,
    }

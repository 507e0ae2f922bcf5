"""`manage.py call TOOL key=value …`: an MCP client in the terminal."""

from __future__ import annotations

import json
import math
import os
import sys
import threading
import time
from argparse import ArgumentParser
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError
from rich.console import Console
from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

from taskhub.cli.firstrun import read_credentials
from taskhub.cli.mcpclient import Away, Client, Nobody, new_key
from taskhub.cli.steps import runner
from taskhub.core.names import PROGRESS
from taskhub.core.words import WORDS
from taskhub.lib.signs import spelled

WAITING = tuple(WORDS[code].partition(",")[0].partition(" by ")[0] for code in ("waiting_approval", "waiting_operator"))
"""The beginnings of the hub's status messages for tasks that wait for people."""
EXIT = {"completed": 0, "failed": 2, "cancelled": 3}


SILENT_SECONDS = 3.0
"""A call without a task may be silent for this many seconds before the address of the inbox is shown."""
AWAY_SECONDS: Final = 60.0
"""For how many seconds after its last answer a hub that is away is asked again."""
PAUSES: Final = (0.25, 0.5, 1.0, 2.0, 5.0)
"""Seconds between two tries; the last pause is repeated."""


class Display:
    """Shows the state of a task: a line for each change, and on a terminal a progress bar below them."""

    def __init__(self, console: Console, hub: str) -> None:
        self._console = console
        self._hub = hub
        self._last = ""
        self._bar = Progress(
            SpinnerColumn(),
            BarColumn(bar_width=30),
            TextColumn("{task.fields[numbers]}"),
            TextColumn("{task.description}", markup=False),
            TimeElapsedColumn(),
            console=console,
            transient=True,
            disable=not console.is_terminal,
        )
        self._row = self._bar.add_task("", total=None, numbers="")

    def __enter__(self) -> Display:
        self._bar.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._bar.stop()

    def show(self, task: dict[str, Any]) -> None:
        """Show the task, which is a result of `tasks/get`."""
        text = task.get("statusMessage") or task["status"]
        if text.startswith(WAITING):
            text += f"  ->  {self._hub}/inbox/"
        line = f"  {task['status']:<15} {text}"
        if line != self._last:
            _say(self._console, line)
            self._last = line
        numbers = task.get("_meta", {}).get(PROGRESS, {})
        done, total = numbers.get("progress"), numbers.get("total")
        shown = "" if done is None else _number(done) if total is None else f"{_number(done)} of {_number(total)}"
        self._bar.update(
            self._row, total=total, completed=done or 0, description=task["status"], numbers=shown, refresh=True
        )


def _number(value: float) -> str:
    return f"{value:.12g}"  # plain `g` would write two million as 2e+06


def _say(console: Console, text: str) -> None:
    """Print one line without markup, with the escapes of a tool spelled out."""
    console.print(spelled(text), markup=False, soft_wrap=True)


class Follower:
    """Sends requests. If the hub has answered before, repeats them while it is away."""

    def __init__(self, client: Client, console: Console) -> None:
        self._client = client
        self._console = console
        self._asked = False
        self.task_id: str | None = None

    def ask(self, request: Callable[[], dict[str, Any]]) -> dict[str, Any]:
        """The result of `request`, which may be called more than once. Raises `CommandError`, with the address at which
        to look up the task, if the hub has not answered for `AWAY_SECONDS`."""
        self._asked, tries = True, 0
        while True:
            try:
                found = request()
            except Away as error:
                assert self._client.contact is not None, "only a hub that was heard is followed"
                if time.monotonic() - self._client.contact > AWAY_SECONDS:
                    lacking = "No result from" if error.answered else "No contact with"
                    text = f"{lacking} the hub for {AWAY_SECONDS:.0f} s: {error}. {self.lookup()}"
                    raise CommandError(text, returncode=2) from None
                if not tries:
                    why = error if error.answered else "The hub is away"
                    _say(self._console, f"  {why}; trying again for up to {AWAY_SECONDS:.0f} s …")
                time.sleep(PAUSES[min(tries, len(PAUSES) - 1)])
                tries += 1
            else:
                if tries:
                    _say(self._console, "  The hub is back")
                return found

    def cancel(self) -> None:
        """Cancel the task after Ctrl-C. Tried only once, because the user wants the command to end."""
        if self.task_id is None:
            goes_on = f"; if the call has begun, it goes on: {_hub(self._client)}/tasks/" if self._asked else ""
            _say(self._console, f"  stopped{goes_on}")
            return
        task_id = self.task_id
        try:
            self._client.request("tasks/cancel", {"taskId": task_id}, task_id)
        except Away as error:
            raise CommandError(f"{error}. It was not asked to stop. {self.lookup()}", returncode=2) from None
        _say(self._console, "  cancel requested; the task's page shows when it has stopped")

    def lookup(self) -> str:
        """A sentence that says where to look up the outcome of the call."""
        hub = _hub(self._client)
        if self.task_id is None:
            return f"Whether the call has begun, {hub}/tasks/ tells."
        return f"Task {self.task_id} does not need this command: {hub}/tasks/{self.task_id}/ shows its result."


def _hub(client: Client) -> str:
    """The hub's address without the path of its MCP endpoint."""
    return client.url.partition("/mcp")[0]


class Command(BaseCommand):
    """Exit codes: 0 finished, 1 the tool reported an error, 2 failed, 3 cancelled."""

    help = "Call a tool and watch its task. Values: key=value, key=@file for a file's text, key:=JSON."
    requires_system_checks: list[str] = []

    def add_arguments(self, parser: ArgumentParser) -> None:
        """The arguments of the command."""
        parser.add_argument("tool")
        parser.add_argument("arguments", nargs="*", metavar="key=value")
        parser.add_argument("--token", help="bearer token; default $TASKHUB_TOKEN, then agent-a of the data directory")
        parser.add_argument("--url", help="the hub, or its MCP endpoint; default the running `up`'s, else PUBLIC_URL")
        parser.add_argument(
            "--ca", type=Path, metavar="FILE", help="certificates to trust, for a hub with a private authority"
        )
        parser.add_argument("--data-dir", help="as for `up`")

    def handle(self, *args: Any, **options: Any) -> None:
        """Call the tool, watch its task, print the result and exit."""
        known: dict[str, Any] = read_credentials(settings.DATA_DIR)
        token = options["token"] or os.environ.get("TASKHUB_TOKEN") or known.get("tokens", {}).get("agent-a")
        if not token:
            raise CommandError(
                f"No token was found in {settings.DATA_DIR}. Give --data-dir, as to `up`, or --token,"
                " or set TASKHUB_TOKEN"
            )
        url = endpoint(options["url"] or known.get("url") or settings.PUBLIC_URL or "http://127.0.0.1:8000")
        console = Console(stderr=True, highlight=False, emoji=False)
        with Client(url, token, options["ca"]) as client:
            follower = Follower(client, console)
            try:
                tool = client.tool(options["tool"])
                arguments = parsed_arguments(options["arguments"], tool.get("inputSchema", {}))
                result = self._call(client, follower, tool, arguments, console)
                if result.get("resultType") == "task":
                    result = self._watch(client, follower, result, console)
            except KeyboardInterrupt:
                follower.cancel()
                sys.exit(3)
            except Nobody as error:  # raised only by the first request: `Follower` repeats later ones
                how = f"Is a hub running there? `{runner()} up` starts one; --url names another."
                raise CommandError(f"{error}. {how}") from None
            except Away as error:  # raised as plain `CommandError`, or Django would print the name of the class
                raise CommandError(str(error), returncode=error.returncode) from None
        self._print(result)
        sys.exit(1 if result.get("isError") else 0)

    def _call(
        self, client: Client, follower: Follower, tool: dict[str, Any], arguments: dict[str, Any], console: Console
    ) -> dict[str, Any]:
        patience = threading.Timer(
            SILENT_SECONDS,
            _say,
            (console, f"  waiting; if people are asked, they answer in  ->  {_hub(client)}/inbox/"),
        )
        patience.daemon = True
        key = new_key()

        def waiting(task_id: str | None) -> None:
            follower.task_id = task_id
            if patience.ident is None:
                patience.start()

        def heard(message: dict[str, Any]) -> None:
            params = message.get("params", {})
            text = params.get("message") if message["method"] == "notifications/progress" else params.get("data")
            if text:
                _say(console, f"  {text}")

        try:
            return follower.ask(lambda: client.call(tool, arguments, key, waiting=waiting, heard=heard))
        finally:
            patience.cancel()

    def _watch(self, client: Client, follower: Follower, created: dict[str, Any], console: Console) -> dict[str, Any]:
        task_id = follower.task_id = created["taskId"]
        _say(console, f"task {task_id}")
        with Display(console, _hub(client)) as display:
            while True:
                task = follower.ask(lambda: client.request("tasks/get", {"taskId": task_id}, task_id))
                display.show(task)
                if task["status"] in EXIT:
                    break
                time.sleep(min(0.5, task.get("pollIntervalMs", 500) / 1_000))
        if task["status"] == "completed":
            found: dict[str, Any] = task["result"]
            return found
        if task["status"] == "failed":
            _say(console, f"failed: {task['error'].get('message')} ({task['error'].get('code')})")
        sys.exit(EXIT[task["status"]])

    def _print(self, result: dict[str, Any]) -> None:
        """Print the result as it is. On a terminal, which would obey the escapes in it, print it line by line, spelled
        out."""
        for block in result.get("content", []):
            text = block["text"] if block.get("type") == "text" else json.dumps(block)
            if self.stdout.isatty():
                text = "\n".join(map(spelled, text.split("\n")))
            self.stdout.write(text)


def endpoint(url: str) -> str:
    """The address `url`, with `/mcp` added if it has no path."""
    return url if urlsplit(url).path.strip("/") else f"{url.rstrip('/')}/mcp"


def parsed_arguments(words: list[str], schema: dict[str, Any]) -> dict[str, Any]:
    """The arguments in `words` (`key=value`), with types by the tool's schema. Raises `CommandError` for a bad word."""
    found: dict[str, Any] = {}
    for word in words:
        key, equals, value = word.partition("=")
        if not equals or not key.removesuffix(":"):
            raise CommandError(f"key=value expected, not {word!r}")
        if key.endswith(":"):
            try:
                found[key[:-1]] = json.loads(value, parse_constant=_no_constant)
            except ValueError as error:
                raise CommandError(f"{key}= needs JSON: {error}") from None
            continue
        if value.startswith("@"):
            try:
                value = Path(value[1:]).read_text("utf-8")
            except OSError as error:
                raise CommandError(f"Cannot read {value[1:]}: {error.strerror}") from None
            except UnicodeDecodeError:
                raise CommandError(f"Cannot read {value[1:]}: it is not UTF-8 text") from None
        kind = schema.get("properties", {}).get(key, {}).get("type")
        found[key] = _typed(key, value, kind)
    return found


def _typed(key: str, value: str, kind: Any) -> Any:
    try:
        if kind == "integer":
            return int(value)
        if kind == "number" and math.isfinite(number := float(value)):
            return number
    except ValueError:
        pass
    if kind in ("integer", "number"):
        raise CommandError(f"{key} must be a number, not {value!r}")
    if kind == "boolean":
        if value not in ("true", "false"):
            raise CommandError(f"{key} must be true or false, not {value!r}")
        return value == "true"
    if kind in ("array", "object"):
        try:
            return json.loads(value, parse_constant=_no_constant)
        except ValueError as error:
            raise CommandError(f"{key} needs JSON: {error}") from None
    return value


def _no_constant(word: str) -> Any:
    raise ValueError(f"{word} is no JSON")

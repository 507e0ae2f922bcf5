"""`manage.py call TOOL key=value …`: an MCP client in the terminal."""

from __future__ import annotations

import json
import os
import sys
import time
from argparse import ArgumentParser
from pathlib import Path
from typing import Any

import httpx2
from django.conf import settings
from django.core.management.base import BaseCommand, CommandError
from rich.console import Console
from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

from taskhub.cli.firstrun import read_credentials
from taskhub.core.names import PROGRESS

VERSION = "2026-07-28"
WAITING = ("Waiting for approval", "Waiting for an answer")
"""How the hub begins a status message when people are waited for."""
EXIT = {"completed": 0, "failed": 2, "cancelled": 3}


class Client:
    """Just enough of 2026-07-28 with the tasks extension."""

    def __init__(self, url: str, token: str | None) -> None:
        self.url = url
        headers = {"Accept": "application/json, text/event-stream", "MCP-Protocol-Version": VERSION}
        if token:
            headers["Authorization"] = f"Bearer {token}"
        self.http = httpx2.Client(headers=headers, timeout=60.0)

    def request(self, method: str, params: dict[str, Any], name: str | None = None) -> dict[str, Any]:
        """The result. Raises `CommandError` with the server's own words."""
        meta = {
            "io.modelcontextprotocol/protocolVersion": VERSION,
            "io.modelcontextprotocol/clientInfo": {"name": "taskhub-call", "version": settings.VERSION},
            "io.modelcontextprotocol/clientCapabilities": {"extensions": {"io.modelcontextprotocol/tasks": {}}},
        }
        body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": {**params, "_meta": meta}}
        headers = {"Mcp-Method": method, **({"Mcp-Name": name} if name is not None else {})}
        try:
            response = self.http.post(self.url, json=body, headers=headers)
        except httpx2.HTTPError as error:
            raise CommandError(f"Cannot reach {self.url}: {error}") from None
        return _result(response)


def _result(response: httpx2.Response) -> dict[str, Any]:
    text = response.text
    if response.headers.get("content-type", "").startswith("text/event-stream"):
        frames = [line[6:] for line in text.splitlines() if line.startswith("data: ")]
        text = frames[-1] if frames else ""
    try:
        message = json.loads(text)
    except ValueError:
        raise CommandError(f"The server answered {response.status_code} and no JSON") from None
    if "error" in message:
        raise CommandError(f"{message['error'].get('message')} ({message['error'].get('code')})", returncode=2)
    found: dict[str, Any] = message["result"]
    return found


class Display:
    """What a task is doing: a line for each change, and in a terminal a bar below them."""

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
        """The task as `tasks/get` answered."""
        text = task.get("statusMessage") or task["status"]
        if text.startswith(WAITING):
            text += f"  ->  {self._hub}/inbox/"
        line = f"  {task['status']:<15} {text}"
        if line != self._last:
            self._console.print(line, markup=False, soft_wrap=True)
            self._last = line
        numbers = task.get("_meta", {}).get(PROGRESS, {})
        done, total = numbers.get("progress"), numbers.get("total")
        shown = "" if done is None else f"{done:g}" if total is None else f"{done:g} of {total:g}"
        self._bar.update(
            self._row, total=total, completed=done or 0, description=task["status"], numbers=shown, refresh=True
        )


class Command(BaseCommand):
    """Exit 0 finished, 1 the tool reported an error, 2 failed, 3 cancelled."""

    help = "Call a tool and watch its task. Values: key=value, key=@file for a file's text, key:=JSON."
    requires_system_checks: list[str] = []

    def add_arguments(self, parser: ArgumentParser) -> None:
        """See design section 4."""
        parser.add_argument("tool")
        parser.add_argument("arguments", nargs="*", metavar="key=value")
        parser.add_argument("--token", help="bearer token; default $TASKHUB_TOKEN, then agent-a of the data directory")
        parser.add_argument("--url", help="the MCP endpoint; default the running `up`'s")
        parser.add_argument("--data-dir", help="as for `up`")

    def handle(self, *args: Any, **options: Any) -> None:
        """Call, watch, print, exit."""
        known: dict[str, Any] = read_credentials(settings.DATA_DIR)
        token = options["token"] or os.environ.get("TASKHUB_TOKEN") or known.get("tokens", {}).get("agent-a")
        url = options["url"] or f"{known.get('url', 'http://127.0.0.1:8000')}/mcp"
        client = Client(url, token)
        tool = self._tool(client, options["tool"])
        arguments = parsed_arguments(options["arguments"], tool.get("inputSchema", {}))
        result = client.request("tools/call", {"name": tool["name"], "arguments": arguments}, tool["name"])
        if result.get("resultType") == "task":
            result = self._watch(client, result)
        self._print(result)
        sys.exit(1 if result.get("isError") else 0)

    def _tool(self, client: Client, name: str) -> dict[str, Any]:
        names: list[str] = []
        cursor: dict[str, Any] = {}
        while True:
            page = client.request("tools/list", cursor)
            for tool in page["tools"]:
                names.append(tool["name"])
                if tool["name"] == name:
                    found: dict[str, Any] = tool
                    return found
            if "nextCursor" not in page:
                raise CommandError(f"There is no tool {name!r}. There are: {', '.join(names) or 'none'}")
            cursor = {"cursor": page["nextCursor"]}

    def _watch(self, client: Client, created: dict[str, Any]) -> dict[str, Any]:
        task_id = created["taskId"]
        console = Console(stderr=True, highlight=False)
        console.print(f"task {task_id}", soft_wrap=True)
        try:
            with Display(console, client.url.removesuffix("/mcp")) as display:
                while True:
                    task = client.request("tasks/get", {"taskId": task_id}, task_id)
                    display.show(task)
                    if task["status"] in EXIT:
                        break
                    time.sleep(min(0.5, task.get("pollIntervalMs", 500) / 1_000))
        except KeyboardInterrupt:
            client.request("tasks/cancel", {"taskId": task_id}, task_id)
            console.print("  cancel requested; the task's page shows when it has stopped")
            sys.exit(3)
        if task["status"] == "completed":
            found: dict[str, Any] = task["result"]
            return found
        if task["status"] == "failed":
            console.print(f"failed: {task['error'].get('message')} ({task['error'].get('code')})", markup=False)
        sys.exit(EXIT[task["status"]])

    def _print(self, result: dict[str, Any]) -> None:
        for block in result.get("content", []):
            self.stdout.write(block["text"] if block.get("type") == "text" else json.dumps(block))


def parsed_arguments(words: list[str], schema: dict[str, Any]) -> dict[str, Any]:
    """`key=value` words as the tool's schema types them. Raises `CommandError` for a word that
    fits nothing."""
    found: dict[str, Any] = {}
    for word in words:
        key, equals, value = word.partition("=")
        if not equals or not key:
            raise CommandError(f"key=value expected, not {word!r}")
        if key.endswith(":"):
            try:
                found[key[:-1]] = json.loads(value)
            except ValueError as error:
                raise CommandError(f"{key}= needs JSON: {error}") from None
            continue
        if value.startswith("@"):
            try:
                value = Path(value[1:]).read_text()
            except OSError as error:
                raise CommandError(f"Cannot read {value[1:]}: {error.strerror}") from None
        kind = schema.get("properties", {}).get(key, {}).get("type")
        found[key] = _typed(key, value, kind)
    return found


def _typed(key: str, value: str, kind: Any) -> Any:
    try:
        if kind == "integer":
            return int(value)
        if kind == "number":
            return float(value)
    except ValueError:
        raise CommandError(f"{key} must be a number, not {value!r}") from None
    if kind == "boolean":
        if value not in ("true", "false"):
            raise CommandError(f"{key} must be true or false, not {value!r}")
        return value == "true"
    if kind in ("array", "object"):
        try:
            return json.loads(value)
        except ValueError as error:
            raise CommandError(f"{key} needs JSON: {error}") from None
    return value

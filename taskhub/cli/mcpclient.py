"""The MCP client behind `manage.py call`: just enough of 2026-07-28 with the tasks extension."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Iterator
from typing import Any

import httpx2
from django.conf import settings
from django.core.management.base import CommandError

from taskhub.core.versions import Version

VERSION = Version.MCP_2026_07_28

Heard = Callable[[dict[str, Any]], None]


class Client:
    """One connection to a hub. Every method raises `CommandError`, in one line, for whatever goes wrong."""

    def __init__(self, url: str, token: str | None) -> None:
        self.url = url
        headers = {"Accept": "application/json, text/event-stream", "MCP-Protocol-Version": VERSION}
        if token:
            if not token.isascii() or not token.isprintable():
                raise CommandError("The token holds characters that no token has")
            headers["Authorization"] = f"Bearer {token}"
        self.http = httpx2.Client(headers=headers, timeout=60.0)

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *error: object) -> None:
        self.http.close()

    def tool(self, name: str) -> dict[str, Any]:
        """The tool's definition."""
        names: list[str] = []
        cursor: dict[str, Any] = {}
        while True:
            page = self.request("tools/list", cursor)
            for tool in page["tools"]:
                names.append(tool["name"])
                if tool["name"] == name:
                    found: dict[str, Any] = tool
                    return found
            if "nextCursor" not in page:
                raise CommandError(f"There is no tool {name!r}. There are: {', '.join(names) or 'none'}")
            cursor = {"cursor": page["nextCursor"]}

    def call(
        self, tool: dict[str, Any], arguments: dict[str, Any], *, waiting: Callable[[], None], heard: Heard
    ) -> dict[str, Any]:
        """The tool's result or a task handle. `waiting` is told once the hub keeps us waiting on a
        stream, `heard` each notification on it."""
        params = {"name": tool["name"], "arguments": arguments}
        headers = dict(_mirrored(tool.get("inputSchema", {}), arguments))
        return self.request("tools/call", params, tool["name"], headers=headers, waiting=waiting, heard=heard)

    def request(
        self,
        method: str,
        params: dict[str, Any],
        name: str | None = None,
        *,
        headers: dict[str, str] | None = None,
        waiting: Callable[[], None] = lambda: None,
        heard: Heard = lambda _: None,
    ) -> dict[str, Any]:
        """The result of one request."""
        meta = {
            "io.modelcontextprotocol/protocolVersion": VERSION,
            "io.modelcontextprotocol/clientInfo": {"name": "taskhub-call", "version": settings.VERSION},
            "io.modelcontextprotocol/clientCapabilities": {"extensions": {"io.modelcontextprotocol/tasks": {}}},
            "io.modelcontextprotocol/logLevel": "info",
            "progressToken": 1,
        }
        body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": {**params, "_meta": meta}}
        named = {} if name is None else {"Mcp-Name": _header(name)}
        try:
            with self.http.stream(
                "POST", self.url, json=body, headers={"Mcp-Method": method, **named, **(headers or {})}
            ) as response:
                if response.headers.get("content-type", "").startswith("text/event-stream"):
                    waiting()
                    return _result(_last(response.iter_lines(), heard), response.status_code)
                response.read()
                return _result(_decoded(response.text, response.status_code), response.status_code)
        except (httpx2.HTTPError, httpx2.InvalidURL) as error:
            raise CommandError(f"Cannot reach {self.url}: {error}") from None


def _last(lines: Iterator[str], heard: Heard) -> Any:
    """The answer on a stream; `heard` gets what comes before it."""
    for line in lines:
        if line.startswith("data: "):
            message = _decoded(line[6:], 200)
            if not isinstance(message, dict) or "method" not in message:
                return message
            heard(message)
    raise CommandError("The server ended its answer before the result")


def _decoded(text: str, status: int) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        raise CommandError(f"The server answered {status} and no JSON") from None


def _result(message: Any, status: int) -> dict[str, Any]:
    found = message if isinstance(message, dict) else {}
    if isinstance(error := found.get("error"), dict):
        raise CommandError(f"{error.get('message')} ({error.get('code')})", returncode=2)
    if not isinstance(result := found.get("result"), dict):
        raise CommandError(f"The server answered {status} and no JSON-RPC: is this an MCP endpoint?")
    return result


def _mirrored(schema: dict[str, Any], arguments: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """The arguments that the schema wants in headers too (B26-25, B26-26)."""
    for name, rule in schema.get("properties", {}).items():
        value = arguments.get(name)
        if not isinstance(rule, dict) or value is None:
            continue
        if header := rule.get("x-mcp-header"):
            yield f"Mcp-Param-{header}", _header(value if isinstance(value, str) else json.dumps(value))
        elif isinstance(value, dict):
            yield from _mirrored(rule, value)


def _header(value: str) -> str:
    """A value as headers carry it: encoded where it would not arrive as it is (B26-24)."""
    plain = value.isascii() and value.isprintable() and value == value.strip() and not value.startswith("=?base64?")
    return value if plain else f"=?base64?{base64.b64encode(value.encode()).decode()}?="

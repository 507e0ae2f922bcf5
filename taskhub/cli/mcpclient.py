"""The MCP client of `manage.py call`: the part of revision 2026-07-28 and the tasks extension that it needs."""

from __future__ import annotations

import base64
import json
import secrets
import ssl
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

import httpx2
from django.conf import settings
from django.core.management.base import CommandError

from taskhub.core.names import IDEMPOTENCY_KEY, TASK_HEADER
from taskhub.core.versions import Version

VERSION = Version.MCP_2026_07_28
UNAVAILABLE: Final = 50300
"""The JSON-RPC error code of a hub whose database is away."""

Heard = Callable[[dict[str, Any]], None]


class Away(CommandError):
    """The hub cannot serve requests now, and may or may not have received this one. `answered`: whether the hub itself
    said so."""

    answered = False


class Nobody(Away):
    """No process listens at the address."""


class Client:
    """One connection to a hub. Every method raises `CommandError` with one line for any error, and `Away` for an error
    after which the request may be repeated."""

    def __init__(self, url: str, token: str | None, authorities: Path | None = None) -> None:
        """`authorities` is a file of CA certificates that are trusted instead of the system's, like `SSL_CERT_FILE`."""
        self.url = url
        self.contact: float | None = None
        """The `time.monotonic` of the hub's last answer or event; `None` before the first."""
        headers = {"Accept": "application/json, text/event-stream", "MCP-Protocol-Version": VERSION}
        if token:
            if not token.isascii() or not token.isprintable():
                raise CommandError("The token holds characters that no token has")
            headers["Authorization"] = f"Bearer {token}"
        timeout = httpx2.Timeout(60.0, connect=10.0)
        self.http = httpx2.Client(headers=headers, timeout=timeout, verify=_trust(authorities))

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *error: object) -> None:
        self.http.close()

    def tool(self, name: str) -> dict[str, Any]:
        """The definition of the tool `name`, from `tools/list`, whose pages are read until it is found."""
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
        self,
        tool: dict[str, Any],
        arguments: dict[str, Any],
        key: str,
        *,
        waiting: Callable[[str | None], None],
        heard: Heard,
    ) -> dict[str, Any]:
        """The tool's result or a task handle. Calling again with the same `key` finds the same task. If the hub answers
        with a stream, `waiting` is called once, with the task's id or `None` if that is not known, and `heard` with
        each notification."""
        params = {"name": tool["name"], "arguments": arguments, "_meta": {IDEMPOTENCY_KEY: key}}
        headers = dict(_mirrored(tool.get("inputSchema", {}), arguments))
        return self.request("tools/call", params, tool["name"], headers=headers, waiting=waiting, heard=heard)

    def request(
        self,
        method: str,
        params: dict[str, Any],
        name: str | None = None,
        *,
        headers: dict[str, str] | None = None,
        waiting: Callable[[str | None], None] = lambda task_id: None,
        heard: Heard = lambda _: None,
    ) -> dict[str, Any]:
        """Send one request and return its result. `waiting` and `heard` are as for `call`."""
        meta = {
            "io.modelcontextprotocol/protocolVersion": VERSION,
            "io.modelcontextprotocol/clientInfo": {"name": "taskhub-call", "version": settings.VERSION},
            "io.modelcontextprotocol/clientCapabilities": {"extensions": {"io.modelcontextprotocol/tasks": {}}},
            "io.modelcontextprotocol/logLevel": "info",
            "progressToken": 1,
        }
        params = {**params, "_meta": {**meta, **params.get("_meta", {})}}
        body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
        named = {} if name is None else {"Mcp-Name": _header(name)}
        try:
            with self.http.stream(
                "POST", self.url, json=body, headers={"Mcp-Method": method, **named, **(headers or {})}
            ) as response:
                if response.headers.get("content-type", "").startswith("text/event-stream"):
                    waiting(response.headers.get(TASK_HEADER))
                    return self._heard(_result(self._last(response.iter_lines(), heard), response.status_code))
                response.read()
                return self._heard(_result(_decoded(response.text, response.status_code), response.status_code))
        except httpx2.TransportError as error:
            kind = Nobody if _refused(error) else Away
            raise kind(f"Cannot reach {self.url}: {error}") from None
        except (httpx2.HTTPError, httpx2.InvalidURL) as error:
            raise CommandError(f"Cannot reach {self.url}: {error}") from None

    def _last(self, lines: Iterator[str], heard: Heard) -> Any:
        """The response on a stream; `heard` gets the notifications before it."""
        for line in lines:
            self.contact = time.monotonic()
            if line.startswith("data: "):
                message = _decoded(line[6:], 200)
                if not isinstance(message, dict) or "method" not in message:
                    return message
                heard(message)
        raise Away("The server ended its answer before the result")

    def _heard(self, result: dict[str, Any]) -> dict[str, Any]:
        self.contact = time.monotonic()
        return result


def new_key() -> str:
    """A new random idempotency key."""
    return f"call-{secrets.token_urlsafe(18)}"


def _trust(authorities: Path | None) -> ssl.SSLContext | bool:
    if authorities is None:
        return True
    try:
        return ssl.create_default_context(cafile=authorities)
    except (OSError, ssl.SSLError) as error:
        raise CommandError(f"No certificates can be read from {authorities}: {error.strerror or error}") from None


def _refused(error: BaseException | None) -> bool:
    while error is not None and not isinstance(error, ConnectionRefusedError):
        error = error.__cause__ or error.__context__
    return error is not None


def _decoded(text: str, status: int) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        kind = Away if status in (502, 503, 504) else CommandError  # the error page of a proxy
        raise kind(f"The server answered {status} and no JSON") from None


def _result(message: Any, status: int) -> dict[str, Any]:
    found = message if isinstance(message, dict) else {}
    if isinstance(error := found.get("error"), dict):
        if error.get("code") == UNAVAILABLE:
            away = Away(f"{error.get('message')} ({UNAVAILABLE})", returncode=2)
            away.answered = True
            raise away
        raise CommandError(f"{error.get('message')} ({error.get('code')})", returncode=2)
    if not isinstance(result := found.get("result"), dict):
        raise CommandError(f"The server answered {status} and no JSON-RPC: is this an MCP endpoint?")
    return result


def _mirrored(schema: dict[str, Any], arguments: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """Pairs of header and value for the arguments that, by the schema, are repeated in headers (B26-25, B26-26)."""
    for name, rule in schema.get("properties", {}).items():
        value = arguments.get(name)
        if not isinstance(rule, dict) or value is None:
            continue
        if header := rule.get("x-mcp-header"):
            yield f"Mcp-Param-{header}", _header(value if isinstance(value, str) else json.dumps(value))
        elif isinstance(value, dict):
            yield from _mirrored(rule, value)


def _header(value: str) -> str:
    """`value` for a header: base64-encoded if it would not arrive unchanged (B26-24)."""
    plain = value.isascii() and value.isprintable() and value == value.strip() and not value.startswith("=?base64?")
    return value if plain else f"=?base64?{base64.b64encode(value.encode()).decode()}?="

"""Small requests to an HTTP server of 2026-07-28 that belong to no call, such as polls, without the SDK's client.

The SDK's client takes a millisecond of CPU for a poll, which is as much as a whole poll may take. This module handles
only requests that are answered as expected. Any other request is repeated through the SDK's client, which says what is
wrong.
"""

from __future__ import annotations

import itertools
from typing import Any, Final

import httpcore2
from mcp import MCPError
from mcp.shared.inbound import MCP_METHOD_HEADER, MCP_NAME_HEADER, MCP_PROTOCOL_VERSION_HEADER, encode_header_value
from mcp_types import HEADER_MISMATCH, PROTOCOL_VERSION_META_KEY, UNSUPPORTED_PROTOCOL_VERSION
from pydantic_core import from_json

from taskhub.lib import jsonx
from taskhub.lib.tls import trusted
from taskhub.upstream.bounds import MAX_ANSWER
from taskhub.upstream.target import Target

IDLE_SECONDS: Final = 60.0
"""Seconds for which an idle connection is kept."""

MOST_IDLE: Final = 16
"""The most idle connections that are kept."""

_OUTDATED: Final = frozenset({HEADER_MISMATCH, UNSUPPORTED_PROTOCOL_VERSION})


class OtherwiseError(Exception):
    """The request was not answered as expected; make it again through the SDK's client."""


class Asks:
    """Makes requests to one server without the SDK's client. The `_meta` of each is `declared`, copied from a request
    of the SDK's client; while `declared` is empty, no request can be made here. For one event loop only."""

    def __init__(self, target: Target) -> None:
        self._url = httpcore2.URL(target.target)
        self._headers = [(name.lower().encode(), value.encode()) for name, value in target.headers]
        self._bearer = target.bearer
        self._headers += [
            (b"host", self._url.host + (b":%d" % self._url.port if self._url.port else b"")),
            (b"accept", b"application/json, text/event-stream"),
            (b"accept-encoding", b"identity"),
            (b"content-type", b"application/json"),
        ]
        self._http: httpcore2.AsyncConnectionPool | None = None
        self._numbers = itertools.count(1)
        self.declared: dict[str, Any] = {}

    async def ask(self, method: str, params: dict[str, Any], name: str) -> dict[str, Any]:
        """Send a request with `name` in its `Mcp-Name` header, and return its result. Raises `MCPError` for an error of
        the server, and `OtherwiseError`."""
        if not self.declared:
            raise OtherwiseError
        number = next(self._numbers)
        message = {"jsonrpc": "2.0", "id": number, "method": method, "params": {**params, "_meta": self.declared}}
        body = jsonx.encode(message)
        headers = [
            *self._headers,
            *([] if self._bearer is None else self._bearer.headers()),
            (b"content-length", b"%d" % len(body)),
            (MCP_PROTOCOL_VERSION_HEADER.encode(), str(self.declared[PROTOCOL_VERSION_META_KEY]).encode()),
            (MCP_METHOD_HEADER.encode(), method.encode()),
            (MCP_NAME_HEADER.encode(), encode_header_value(name).encode()),
        ]
        try:
            answer = _response(number, *await self._posted(body, headers))
        except (httpcore2.ProtocolError, httpcore2.NetworkError, httpcore2.TimeoutException, ValueError) as problem:
            raise OtherwiseError from problem
        if (error := answer.get("error")) is None:
            return dict(answer["result"])
        if error["code"] in _OUTDATED:
            self.declared = {}
            raise OtherwiseError
        raise MCPError(error["code"], error["message"], error.get("data"))

    async def _posted(self, body: bytes, headers: list[tuple[bytes, bytes]]) -> tuple[str, bytes]:
        """Send the body by POST, and return the content type and the body of the response."""
        if self._http is None:
            self._http = httpcore2.AsyncConnectionPool(
                ssl_context=trusted() if self._url.scheme == b"https" else None,
                max_keepalive_connections=MOST_IDLE,
                keepalive_expiry=IDLE_SECONDS,
            )
        async with self._http.stream("POST", self._url, headers=headers, content=body) as response:
            found = {name.lower(): value for name, value in response.headers}
            if b"content-encoding" in found:
                raise OtherwiseError
            parts, size = [], 0
            async for part in response.aiter_stream():
                size += len(part)
                if size > MAX_ANSWER:
                    raise OtherwiseError
                parts.append(part)
        return found.get(b"content-type", b"").decode("latin-1").lower(), b"".join(parts)

    async def close(self) -> None:
        """Close all connections."""
        http, self._http = self._http, None
        if http is not None:
            await http.aclose()


def _response(number: int, kind: str, body: bytes) -> dict[str, Any]:
    """The JSON-RPC response in a body. Raises `OtherwiseError` or `ValueError` if there is none."""
    texts = [body] if kind.startswith("application/json") else []
    if kind.startswith("text/event-stream"):
        events = body.replace(b"\r\n", b"\n").split(b"\n\n")
        lines = [[line for line in event.split(b"\n") if line.startswith(b"data:")] for event in events]
        texts = [b"\n".join(line[5:].removeprefix(b" ") for line in each) for each in lines if each]
    for text in reversed(texts):
        found = from_json(text) if text else None
        if isinstance(found, dict) and found.get("jsonrpc") == "2.0" and found.get("id") == number:
            if isinstance(found.get("result"), dict):
                return found
            error = found.get("error")
            if isinstance(error, dict) and type(error.get("code")) is int and isinstance(error.get("message"), str):
                return found
    raise OtherwiseError

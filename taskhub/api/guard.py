"""The guard: an ASGI wrapper of the whole application, which refuses requests before anything else runs.

It checks Host and Origin of HTTP requests and WebSockets (Django checks Host only if `get_host` is called, Channels
never). It limits the size of headers and body before Django reads the body, and the time that a body may take (uvicorn
has no such limit).

A refused body is still read, and dropped: if a connection is closed while the peer sends, it is reset, and the
peer never reads the response.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, MutableMapping
from functools import lru_cache
from typing import Any
from urllib.parse import urlsplit

from django.http.request import split_domain_port, validate_host

from taskhub.protocol.envelope import refusal
from taskhub.protocol.incoming import Reply

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]

MAX_HEADERS = 100
MAX_HEADER_BYTES = 16_384
TOO_LARGE_HEADERS = "Too many or too large headers"
BODY_SECONDS = 30.0
DRAIN_BYTES = 67_108_864
"""The most bytes of a refused body that are read. If it is larger, the connection is closed."""
EDGE_BYTES = 4_096
"""How many bytes of each end of a too large body are kept, to find the JSON-RPC id for the response."""


def _in_our_words(scope: Scope, why: str, head: bytes, tail: bytes) -> Reply | None:
    return None


class Guard:
    """Wraps the whole ASGI application, and hands it only requests that pass all checks.

    `origins`: origins (scheme, host, port) from which browsers may send requests, besides the request's own host.
    `clients`: further origins for `/mcp` and below, where cookies are ignored.
    `open_paths`: exact paths that accept any origin, because their views ignore cookies and return only public data.
    `probed`: exact paths that accept any Host; the guard replaces an unknown Host by one of `hosts`.
    `proxies`: how many proxies in front are trusted for the peer's address.
    `too_large`: makes the response to a body over `max_body` from the scope, the reason and the body's first and last
    bytes (no last bytes if the body did not arrive whole). If it returns `None`, the guard answers 413.

    A WebSocket must have an `Origin` with its own host and scheme, as Django requires for the POST of a page.
    """

    def __init__(
        self,
        app: App,
        *,
        hosts: list[str],
        origins: list[str],
        max_body: int,
        clients: Collection[str] = (),
        proxies: int = 0,
        open_paths: Collection[str] = (),
        probed: Collection[str] = (),
        too_large: Callable[[Scope, str, bytes, bytes], Reply | None] = _in_our_words,
    ) -> None:
        self.app = app
        # Cached, because a client sends the same host with every request.
        self.known_host = lru_cache(maxsize=256)(lambda host: validate_host(split_domain_port(host)[0], hosts))
        self.origins = frozenset(origin.lower() for origin in origins)
        self.clients = frozenset(clients)
        self.open_paths = frozenset(open_paths)
        self.probed = frozenset(probed)
        self.own_host = next((name.lstrip(".") for name in hosts if name != "*"), "localhost").encode()
        self.max_body = max_body
        self.proxies = proxies
        self.too_large = too_large

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass on a request that is allowed, with its whole body, and refuse any other."""
        if scope["type"] == "lifespan":
            await self.app(scope, receive, send)
            return
        refusal = self._refusal(scope)
        if refusal:
            if scope["type"] == "http" and not _asks_first(scope):
                await _read(receive, _Body(0))
            await _refuse(scope, send, *refusal)
            return
        if self.proxies:
            scope["client"] = (_peer(scope, self.proxies), 0)
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        announced = _announced(scope)
        body = _Body(0 if announced > self.max_body else self.max_body)
        # Every body is read to its end, except a too large one that waits for "100 Continue" or exceeds DRAIN_BYTES.
        unread = announced > self.max_body and (_asks_first(scope) or announced > DRAIN_BYTES)
        if unread or await _read(receive, body):
            if body.whole and not body.over:
                await self.app(scope, _replay(body.content(), receive), send)
            elif unread or body.over:
                await self._refuse_too_large(scope, send, body)
            else:
                await _refuse(scope, send, 408, "The body did not arrive in time")

    async def _refuse_too_large(self, scope: Scope, send: Send, body: _Body) -> None:
        why = f"The body is larger than {self.max_body} bytes"
        reply = self.too_large(scope, why, body.head, body.tail if body.whole else b"")
        if reply is None:
            await _refuse(scope, send, 413, why)
        else:
            await _close_with(send, reply.status, reply.body)

    def _refusal(self, scope: Scope) -> tuple[int, str] | None:
        headers: list[tuple[bytes, bytes]] = scope["headers"]
        if len(headers) > MAX_HEADERS:
            return 431, TOO_LARGE_HEADERS
        host = origin = None
        size = 0
        for name, value in headers:
            size += len(name) + len(value)
            if name == b"host":
                if host is not None:
                    return 400, "More than one Host"
                host = value.decode("latin-1")
            elif name == b"origin":
                origin = value.decode("latin-1")
            elif name == b"content-length" and scope["type"] == "http" and not value.isdigit():
                return 400, "Content-Length is not a number"
        if size > MAX_HEADER_BYTES:
            return 431, TOO_LARGE_HEADERS
        if host is None or not self.known_host(host):
            if host is None or scope["type"] != "http" or scope["path"] not in self.probed:
                return 400, "This server does not answer to that Host"
            scope["headers"] = [(name, value) for name, value in headers if name != b"host"]
            scope["headers"].append((b"host", self.own_host))
            host = self.own_host.decode()
        if origin is None:
            # Only pages of the console open WebSockets, and browsers always send an Origin with these.
            return (403, "A WebSocket must name its Origin") if scope["type"] == "websocket" else None
        if not self._origin_allowed(scope, origin, host):
            return 403, "Origin not allowed"
        return None

    def _origin_allowed(self, scope: Scope, origin: str, host: str) -> bool:
        if origin.lower() in self.origins or (scope["type"] == "http" and scope["path"] in self.open_paths):
            return True
        if origin.lower() in self.clients and scope["type"] == "http" and f"{scope['path']}/".startswith("/mcp/"):
            return True
        try:
            parts = urlsplit(origin)
            parts.port  # noqa: B018 - raises for a malformed port
        except ValueError:
            return False
        # `host` is that of the request, which `_refusal` has checked against ALLOWED_HOSTS.
        schemes = ("http", "https") if scope["type"] == "http" else (self._scheme(scope),)
        return parts.scheme in schemes and parts.netloc.lower() == host.lower()

    def _scheme(self, scope: Scope) -> str:
        """The scheme of a WebSocket, `http` or `https`, found as Django does for requests (SECURE_PROXY_SSL_HEADER)."""
        told = [value for name, value in scope["headers"] if name == b"x-forwarded-proto"] if self.proxies else []
        if told:
            return "https" if told[0].partition(b",")[0].strip() == b"https" else "http"
        return "https" if scope.get("scheme") == "wss" else "http"


class _Body:
    """The part of a body that has arrived: all of it, or only its beginning and end if it has more than `keep`
    bytes."""

    __slots__ = ("_chunks", "_keep", "head", "over", "size", "tail", "whole")

    def __init__(self, keep: int) -> None:
        self.size = 0
        self.whole = False
        self.over = False
        """Whether the body has more than `keep` bytes."""
        self.head = self.tail = b""
        self._keep = keep
        self._chunks: list[bytes] = []

    def add(self, chunk: bytes) -> None:
        self.size += len(chunk)
        self._chunks.append(chunk)
        if self.size > self._keep:
            self.over = True
            more = self.content()
            self.head += more[: EDGE_BYTES - len(self.head)]
            self.tail = (self.tail + more[-EDGE_BYTES:])[-EDGE_BYTES:]
            self._chunks.clear()

    def content(self) -> bytes:
        """The whole body so far; empty if it has more than `keep` bytes."""
        return self._chunks[0] if len(self._chunks) == 1 else b"".join(self._chunks)


async def _read(receive: Receive, body: _Body) -> bool:
    """Read the body to its end. Stops early after `BODY_SECONDS`, or when a body that is too large exceeds
    `DRAIN_BYTES`. Returns `False` if the peer disconnected."""
    try:
        async with asyncio.timeout(BODY_SECONDS):
            while not body.over or body.size <= DRAIN_BYTES:
                message = await receive()
                if message["type"] == "http.disconnect":
                    return False
                body.add(message.get("body", b""))
                if not message.get("more_body", False):
                    body.whole = True
                    break
    except TimeoutError:
        pass
    return True


def _announced(scope: Scope) -> int:
    for name, value in scope["headers"]:
        if name == b"content-length":
            return int(value)
    return 0


def _asks_first(scope: Scope) -> bool:
    return any(name == b"expect" for name, _ in scope["headers"])


def _peer(scope: Scope, proxies: int) -> str:
    """The peer's address as the outermost trusted proxy saw it. `X-Forwarded-For` is counted from the right,
    because everything further left was sent by the peer and may be false."""
    seen = [
        part.strip()
        for name, value in scope["headers"]
        if name == b"x-forwarded-for"
        for part in value.decode("latin-1").split(",")
    ]
    return (seen[-proxies] if len(seen) >= proxies else (scope.get("client") or ("",))[0])[:64]


def _replay(body: bytes, receive: Receive) -> Receive:
    sent = False

    async def again() -> Message:
        nonlocal sent
        if not sent:
            sent = True
            return {"type": "http.request", "body": body, "more_body": False}
        return await receive()

    return again


async def _refuse(scope: Scope, send: Send, status: int, why: str) -> None:
    if scope["type"] == "websocket":
        await send({"type": "websocket.close", "code": 4403, "reason": why})
        return
    # JSON on every path, because a client of /mcp must never get HTML.
    await _close_with(send, status, refusal(why))


async def _close_with(send: Send, status: int, body: bytes) -> None:
    headers = [
        (b"content-type", b"application/json"),
        (b"content-length", str(len(body)).encode()),
        (b"cache-control", b"no-store"),
        (b"connection", b"close"),
    ]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})

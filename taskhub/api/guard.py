"""The outermost ASGI wrapper: what is refused before anything else runs.

Host and Origin for HTTP and WebSocket alike (Django checks Host only where `get_host` is
called, Channels never: reliability V10, V11), header and body limits before a byte of body
reaches Django (V08), and time limits for slow senders (V09).
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, MutableMapping
from functools import lru_cache
from typing import Any
from urllib.parse import urlsplit

from django.http.request import split_domain_port, validate_host

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]

MAX_HEADERS = 100
MAX_HEADER_BYTES = 16_384
BODY_SECONDS = 30.0


class Guard:
    """Wraps the whole application.

    `origins` are the full origins (scheme, host, port) that browsers may come from besides the
    address the request itself was sent to. `clients` are further ones for `/mcp` and below, where no
    cookie counts. `open_paths` are the exact paths that take any origin, because what answers there
    looks at no cookie and tells nothing that is not public.
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
    ) -> None:
        self.app = app
        # A client names the same host in every request.
        self.known_host = lru_cache(maxsize=256)(lambda host: validate_host(split_domain_port(host)[0], hosts))
        self.origins = frozenset(origin.lower() for origin in origins)
        self.clients = frozenset(clients)
        self.open_paths = frozenset(open_paths)
        self.max_body = max_body
        self.proxies = proxies

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass on what is acceptable; answer the rest here."""
        if scope["type"] == "lifespan":
            await self.app(scope, receive, send)
            return
        refusal = self._refusal(scope)
        if refusal is not None:
            await _refuse(scope, send, *refusal)
            return
        if self.proxies:
            scope["client"] = (_peer(scope, self.proxies), 0)
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        try:
            async with asyncio.timeout(BODY_SECONDS):
                body = await self._body(receive)
        except TimeoutError:
            await _refuse(scope, send, 408, "The body did not arrive in time")
            return
        except _TooLarge:
            await _refuse(scope, send, 413, f"The body is larger than {self.max_body} bytes")
            return
        if body is not None:
            await self.app(scope, _replay(body, receive), send)

    def _refusal(self, scope: Scope) -> tuple[int, str] | None:
        headers: list[tuple[bytes, bytes]] = scope["headers"]
        if len(headers) > MAX_HEADERS or sum(len(n) + len(v) for n, v in headers) > MAX_HEADER_BYTES:
            return 431, "Too many or too large headers"
        host = origin = None
        for name, value in headers:
            if name == b"host":
                if host is not None:
                    return 400, "More than one Host"
                host = value.decode("latin-1")
            elif name == b"origin":
                origin = value.decode("latin-1")
            elif name == b"content-length" and scope["type"] == "http":
                if not value.isdigit():
                    return 400, "Content-Length is not a number"
                if int(value) > self.max_body:
                    return 413, f"The body is larger than {self.max_body} bytes"
        if host is None or not self.known_host(host):
            return 400, "This server does not answer to that Host"
        if origin is not None and not self._origin_allowed(scope, origin, host):
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
        # The same host and port the request names, which was checked against ALLOWED_HOSTS above.
        return parts.scheme in ("http", "https") and parts.netloc.lower() == host.lower()

    async def _body(self, receive: Receive) -> bytes | None:
        """The whole body; `None` when the peer left."""
        chunks: list[bytes] = []
        size = 0
        while True:
            message = await receive()
            if message["type"] == "http.disconnect":
                return None
            chunk = message.get("body", b"")
            size += len(chunk)
            if size > self.max_body:
                raise _TooLarge
            chunks.append(chunk)
            if not message.get("more_body", False):
                return chunks[0] if len(chunks) == 1 else b"".join(chunks)


def _peer(scope: Scope, proxies: int) -> str:
    """The address the outermost trusted proxy saw: counted from the right, because everything
    further left came from the peer and may be invented."""
    seen = [
        part.strip()
        for name, value in scope["headers"]
        if name == b"x-forwarded-for"
        for part in value.decode("latin-1").split(",")
    ]
    return (seen[-proxies] if len(seen) >= proxies else (scope.get("client") or ("",))[0])[:64]


class _TooLarge(Exception):
    pass


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
    # -32600 in JSON on every path: a client of /mcp must never meet HTML (protocol.md 3.3).
    body = b'{"jsonrpc":"2.0","error":{"code":-32600,"message":"' + why.encode() + b'"}}'
    headers = [
        (b"content-type", b"application/json"),
        (b"content-length", str(len(body)).encode()),
        (b"connection", b"close"),
    ]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})

"""Gives every request an id, which is in the response and in the log lines of the request."""

from __future__ import annotations

import itertools
import re
import secrets
from typing import Final

from taskhub.api.guard import App, Message, Receive, Scope, Send
from taskhub.lib import logs

HEADER: Final = b"x-request-id"
_FIT = re.compile(rb"[A-Za-z0-9._-]{1,64}")


class Identified:
    """An ASGI wrapper that gives each request an id. An `X-Request-Id` from a proxy or client is kept if it is 1 to 64
    letters, digits, dots, dashes or underscores; any other is replaced, because ids are written to the log."""

    def __init__(self, app: App) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle a request, with its id in the log and in the response."""
        if scope["type"] == "lifespan":
            await self.app(scope, receive, send)
            return
        own = request_id(scope)

        async def send_with_id(message: Message) -> None:
            if message["type"] in ("http.response.start", "websocket.accept"):
                message["headers"] = [*message.get("headers", ()), (HEADER, own)]
            await send(message)

        with logs.about({"request_id": own.decode()}):
            await self.app(scope, receive, send_with_id)


def request_id(scope: Scope) -> bytes:
    """The id that the request came with, or a new one."""
    for name, value in scope["headers"]:
        if name == HEADER:
            return value if _FIT.fullmatch(value) else _made()
    return _made()


_PROCESS: Final = secrets.token_hex(4).encode()
_numbers: Final = itertools.count(secrets.randbelow(1 << 24))


def _made() -> bytes:
    # A counter: an id may be guessable, and random bytes of the kernel take ten times as long.
    return b"%b%08x" % (_PROCESS, next(_numbers) & 0xFFFFFFFF)

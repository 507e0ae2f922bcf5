"""Every request has an id: its answer bears it, and so do the log lines that are written meanwhile."""

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
    """Wraps the whole application. A request that comes with an id, from a proxy or a client, keeps it if it is 1 to 64
    letters, digits, dots, dashes or underscores; any other is replaced, since it would get into the log."""

    def __init__(self, app: App) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Give a request its id, for the log and for the answer."""
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
    # A number of this process: it may be guessed, and random bytes from the kernel cost ten times as much.
    return b"%b%08x" % (_PROCESS, next(_numbers) & 0xFFFFFFFF)

"""CORS headers for MCP clients that run in a web page of another site."""

from __future__ import annotations

from typing import Any, Final

from starlette.middleware.cors import CORSMiddleware

from taskhub.api.guard import App, Receive, Scope, Send
from taskhub.core.names import TASK_HEADER

READABLE: Final = ("Mcp-Session-Id", "Retry-After", TASK_HEADER, "WWW-Authenticate")
"""The response headers that scripts of pages of another site can read."""


def for_browsers(app: App, path: str, origins: list[str]) -> App:
    """Wrap `app` so that pages of these origins can read its responses under `path`. Requests of these pages have a
    token and no cookies. The guard has already refused all other origins."""
    if not origins:
        return app
    inner: Any = app
    readable = CORSMiddleware(
        inner,
        allow_origins=origins,
        allow_methods=["GET", "POST", "DELETE"],
        allow_headers=["*"],  # clients send arguments in headers of any name (B26-25)
        expose_headers=READABLE,
    )

    async def served(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and f"{scope['path']}/".startswith(f"{path}/"):
            await readable(scope, receive, send)
        else:
            await app(scope, receive, send)

    return served

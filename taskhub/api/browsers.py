"""MCP clients that run in a page of another site: what their browser has to be told (CORS)."""

from __future__ import annotations

from typing import Any, Final

from starlette.middleware.cors import CORSMiddleware

from taskhub.api.guard import App, Receive, Scope, Send
from taskhub.core.names import TASK_HEADER

READABLE: Final = ("Mcp-Session-Id", "Retry-After", TASK_HEADER, "WWW-Authenticate")
"""Headers of an answer that such a page's script has to read."""


def for_browsers(app: App, path: str, origins: list[str]) -> App:
    """`app`, whose answers under `path` pages of these origins may read. No cookie goes along: a page
    brings a token. The guard has refused every other origin."""
    if not origins:
        return app
    inner: Any = app
    readable = CORSMiddleware(
        inner,
        allow_origins=origins,
        allow_methods=["GET", "POST", "DELETE"],
        allow_headers=["*"],  # arguments come in headers of any name (B26-25)
        expose_headers=READABLE,
    )

    async def served(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and f"{scope['path']}/".startswith(f"{path}/"):
            await readable(scope, receive, send)
        else:
            await app(scope, receive, send)

    return served

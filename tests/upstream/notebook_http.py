"""The server of `notebook.py` over HTTP, with sessions."""

from __future__ import annotations

import json
import secrets
from typing import Any

from tests.upstream import kit
from tests.upstream.notebook import Notebook, answer


class NotebookServer(kit.HttpServer):
    """Over HTTP, with sessions. It can be started once."""

    def __init__(self) -> None:
        super().__init__()
        self.sessions: dict[str, Notebook] = {}

    def _app(self) -> Any:
        async def app(scope: dict[str, Any], receive: Any, send: Any) -> None:
            if scope["type"] == "lifespan":
                while (await receive())["type"] != "lifespan.shutdown":
                    await send({"type": "lifespan.startup.complete"})
                await send({"type": "lifespan.shutdown.complete"})
                return
            await self._serve(scope, receive, send)

        return app

    async def _serve(self, scope: dict[str, Any], receive: Any, send: Any) -> None:
        body = b""
        while (part := await receive())["type"] == "http.request":
            body += part["body"]
            if not part.get("more_body"):
                break
        headers = {name.decode().lower(): value.decode() for name, value in scope["headers"]}
        session = headers.get("mcp-session-id", "")

        async def respond(status: int, kind: str = "application/json", **more: str) -> None:
            raw = [(name.replace("_", "-").encode(), value.encode()) for name, value in more.items()]
            raw.append((b"content-type", kind.encode()))
            await send({"type": "http.response.start", "status": status, "headers": raw})

        async def end(body: bytes = b"") -> None:
            await send({"type": "http.response.body", "body": body})

        if scope["method"] != "POST":
            if scope["method"] == "DELETE":
                self.sessions.pop(session, None)
            await respond(200 if scope["method"] == "DELETE" else 405)
            return await end()
        message = json.loads(body)
        if message.get("method") == "initialize":
            self.sessions[fresh := secrets.token_hex(8)] = Notebook()
            await respond(200, mcp_session_id=fresh)
            found = answer("initialize", message["params"])
            return await end(json.dumps({"jsonrpc": "2.0", "id": message["id"], **found}).encode())
        if session not in self.sessions:
            await respond(404)
            return await end()

        async def event(message: dict[str, Any]) -> None:
            text = f"data: {json.dumps({'jsonrpc': '2.0', **message})}\n\n"
            await send({"type": "http.response.body", "body": text.encode(), "more_body": True})

        if "id" not in message or "method" not in message:
            await self.sessions[session].take(message, event)
            await respond(202)
            return await end()
        await respond(200, "text/event-stream")
        await self.sessions[session].take(message, event)
        return await end()

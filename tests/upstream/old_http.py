"""A server of 2025-06-18 over HTTP, written by hand: sessions it can forget, answers in JSON."""

from __future__ import annotations

import json
import secrets
from typing import Any

from tests.upstream import kit
from tests.upstream.old_server import NOT_FOUND

GONE = {"error": {"code": -32602, "message": "no such item"}}
"""What a tool says with the status of a forgotten session."""
CHANGED = "notifications/tools/list_changed"


class OldHttpServer(kit.HttpServer):
    """As `kit.HttpServer`. It can be started once."""

    def __init__(self) -> None:
        super().__init__()
        self.sessions: set[str] = set()
        self.tools = ["echo", "session", "refuse", "grow", "gone"]
        self.grown = False
        self.runs: list[str] = []
        """The tools that were run."""
        self.unknown: tuple[int, Any] = (404, {"id": None})
        """What it says of an unknown session: a status, and the answer but for its error."""
        self.missing = 405
        """The status for what is not there: the GET stream, and with 404 unknown methods too."""

    def forget(self) -> None:
        """What a restart does to a server that keeps its sessions in memory."""
        self.sessions.clear()

    def _app(self) -> Any:
        async def app(scope: dict[str, Any], receive: Any, send: Any) -> None:
            await self._serve(scope, receive, send)

        return app

    async def _serve(self, scope: dict[str, Any], receive: Any, send: Any) -> None:
        if scope["type"] == "lifespan":
            while (await receive())["type"] != "lifespan.shutdown":
                await send({"type": "lifespan.startup.complete"})
            await send({"type": "lifespan.shutdown.complete"})
            return
        body = b""
        while (part := await receive())["type"] == "http.request":
            body += part["body"]
            if not part.get("more_body"):
                break
        given = {name.decode().lower(): value.decode() for name, value in scope["headers"]}
        status, headers, answer = self._answer(scope["method"], given, body)
        # A tool that is there from now on is told of in the stream of the call that made it, and nowhere else.
        events = [answer] if not self.grown else [{"jsonrpc": "2.0", "method": CHANGED}, answer]
        self.grown = False
        kind = "text/event-stream" if len(events) > 1 else "application/json"
        text = "".join(f"data: {json.dumps(event)}\n\n" for event in events) if len(events) > 1 else json.dumps(answer)
        raw = [(name.encode(), value.encode()) for name, value in {**headers, "content-type": kind}.items()]
        await send({"type": "http.response.start", "status": status, "headers": raw})
        await send({"type": "http.response.body", "body": text.encode() if answer else b""})

    def _answer(self, verb: str, headers: dict[str, str], body: bytes) -> tuple[int, dict[str, str], Any]:
        if verb != "POST":
            return (200 if verb == "DELETE" else self.missing), {}, None
        message = json.loads(body)
        session = headers.get("mcp-session-id")
        if message["method"] == "initialize":
            self.sessions.add(session := secrets.token_hex(8))
            info = {"name": "old-http", "version": "0"}
            found = {"protocolVersion": "2025-06-18", "capabilities": {"tools": {}}, "serverInfo": info}
            return 200, {"mcp-session-id": session}, {"jsonrpc": "2.0", "id": message["id"], "result": found}
        if session not in self.sessions:
            status, shape = self.unknown
            error = {"code": -32600, "message": "Session not found"}
            return status, {}, None if shape is None else {"jsonrpc": "2.0", **shape, "error": error}
        if "id" not in message:
            return 202, {}, None
        found = self._result(message, session)
        if found == GONE:
            return 404, {}, {"jsonrpc": "2.0", "id": message["id"], **found}
        status = self.missing if found == {"error": NOT_FOUND} and self.missing == 404 else 200
        return status, {}, {"jsonrpc": "2.0", "id": message["id"], **found}

    def _result(self, message: dict[str, Any], session: str) -> dict[str, Any]:
        params = message.get("params") or {}
        if message["method"] == "tools/list":
            return {"result": {"tools": [{"name": name, "inputSchema": {"type": "object"}} for name in self.tools]}}
        if message["method"] != "tools/call":
            return {"error": NOT_FOUND}
        self.runs.append(params["name"])
        if params["name"] == "gone":
            return GONE
        if params["name"] == "refuse":
            return {"error": {"code": -32600, "message": "not like this"}}
        if params["name"] == "grow":
            self.tools.append("grown")
            self.grown = True
            return {"result": {"content": []}}
        words = session if params["name"] == "session" else params["arguments"]["text"]
        return {"result": {"content": [{"type": "text", "text": words}]}}

"""The server of `session_tasks_server.py` over HTTP, with sessions."""

from __future__ import annotations

import json
import queue
import secrets
from typing import Any

import anyio

from tests.upstream import kit
from tests.upstream.session_tasks_server import Tasks


async def _body(receive: Any) -> bytes:
    body = b""
    while (part := await receive())["type"] == "http.request":
        body += part["body"]
        if not part.get("more_body"):
            break
    return body


class SessionTasksServer(kit.HttpServer):
    """Over HTTP, with sessions, each with tasks of its own; or with `shared` all sessions have the same tasks. What
    belongs to no request goes to the session's own stream (GET)."""

    def __init__(self, *, shared: bool = False) -> None:
        super().__init__()
        self.own: dict[str, queue.SimpleQueue[dict[str, Any]]] = {}
        """What the own stream of each session is to send."""
        self.shared = Tasks("released", self._tell) if shared else None
        self.interval = 100
        """As that of `Tasks`."""
        self.sessions: dict[str, Tasks] = {}
        self.created: list[str] = []
        """The session of each task."""
        self.ids: list[Any] = []
        """The session and the id of each request."""

    def tasks(self) -> list[Tasks]:
        """The tasks of all sessions."""
        return [self.shared] if self.shared else list(self.sessions.values())

    def release(self) -> None:
        """Let the tasks of `wait` end."""
        for tasks in self.tasks():
            tasks.release()

    def _tell(self, message: dict[str, Any]) -> None:
        for own in list(self.own.values()):
            own.put(message)

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
        body = await _body(receive)
        headers = {name.decode().lower(): value.decode() for name, value in scope["headers"]}
        session = headers.get("mcp-session-id", "")

        async def begin(status: int, kind: str = "application/json", **more: str) -> None:
            raw = [(name.replace("_", "-").encode(), value.encode()) for name, value in more.items()]
            raw.append((b"content-type", kind.encode()))
            await send({"type": "http.response.start", "status": status, "headers": raw})

        async def end(body: bytes = b"") -> None:
            await send({"type": "http.response.body", "body": body})

        if scope["method"] == "DELETE":
            self.sessions.pop(session, None)
            await begin(200)
            return await end()
        if scope["method"] == "GET":
            await begin(200, "text/event-stream")
            async with anyio.create_task_group() as serving:
                serving.start_soon(_sent, self.own[session], send, None)
                while (await receive())["type"] != "http.disconnect":
                    pass
                serving.cancel_scope.cancel()
            return None
        message = json.loads(body)
        if message.get("method") == "server/discover":
            await begin(400)
            return await end()
        if message.get("method") == "initialize":
            session = secrets.token_hex(8)
            self.own[session] = queue.SimpleQueue()
            self.sessions[session] = self.shared or Tasks("released", self.own[session].put)
            self.sessions[session].interval = self.interval
        elif session not in self.sessions:
            await begin(404)
            return await end()
        if "id" not in message or "method" not in message:
            self.sessions[session].receive(message, lambda told: None)
            await begin(202)
            return await end()
        self.ids.append((session, message["id"]))
        told: queue.SimpleQueue[dict[str, Any]] = queue.SimpleQueue()
        self.sessions[session].receive(message, told.put)
        if message["method"] == "tools/call":
            self.created.append(session)
        await begin(200, "text/event-stream", mcp_session_id=session)
        await _sent(told, send, message["id"])
        return await end()


async def _sent(told: queue.SimpleQueue[dict[str, Any]], send: Any, answer_to: Any) -> None:
    """Send what is told, up to the answer to that request."""
    while True:
        try:
            found = told.get_nowait()
        except queue.Empty:
            await anyio.sleep(0.01)
            continue
        data = f"data: {json.dumps({'jsonrpc': '2.0', **found})}\n\n".encode()
        await send({"type": "http.response.body", "body": data, "more_body": True})
        if answer_to is not None and found.get("id") == answer_to and "method" not in found:
            return

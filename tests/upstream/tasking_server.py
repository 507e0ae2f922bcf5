"""A server of 2026-07-28 over HTTP, written by hand, that runs every call as a task of its own. What becomes of a task
is up to the test."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from http import HTTPStatus
from typing import Any, Final

from tests.upstream import kit

EXTENSION: Final = "io.modelcontextprotocol/tasks"
CAPABILITIES: Final = "io.modelcontextprotocol/clientCapabilities"
MISSING: Final = {"code": -32021, "message": "Missing required client capability"}
UNKNOWN: Final = {"code": -32602, "message": "Task not found"}
AT: Final = "2026-08-01T10:00:00Z"

TOOLS: Final[tuple[dict[str, Any], ...]] = (
    {"name": "research", "inputSchema": {"type": "object"}},
    {
        "name": "weigh",
        "inputSchema": {"type": "object"},
        "outputSchema": {"type": "object", "properties": {"grams": {"type": "number"}}, "required": ["grams"]},
    },
)


def question(message: str = "Your name?") -> dict[str, Any]:
    """An elicitation, as a server asks it."""
    schema = {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}
    return {"method": "elicitation/create", "params": {"message": message, "requestedSchema": schema}}


def text(words: str) -> dict[str, Any]:
    """The result of a tool that says these words."""
    return {"content": [{"type": "text", "text": words}]}


class TaskingServer(kit.HttpServer):
    """As `kit.HttpServer`. `tasks` are its tasks by id, each with the members that `tasks/get` shows."""

    def __init__(self, **shown: Any) -> None:
        """`shown`: what every answer about a task says besides, such as its `pollIntervalMs`."""
        super().__init__()
        self.shown = shown
        self.tasks: dict[str, dict[str, Any]] = {}
        self.runs: list[str] = []
        """The tools that were called."""
        self.asked: list[str] = []
        """The methods of all requests about tasks."""
        self.given: list[dict[str, Any]] = []
        """The answers that it was sent."""
        self.fails: HTTPStatus | None = None
        """With what status it refuses requests about tasks."""
        self.obeys = True
        """Whether it cancels a task that it is asked to cancel."""
        self.on_answers: Callable[[dict[str, Any]], dict[str, Any]] = lambda given: {"status": "working"}
        """What becomes of a task whose questions are answered."""
        self.next_id: Callable[[], str] = lambda: f"up-{len(self.runs)}"
        self._lock = threading.Lock()

    def become(self, status: str, task_id: str = "", **members: Any) -> None:
        """Let the task, by default the one that it made last, become this."""
        self.tasks[task_id or list(self.tasks)[-1]] = {"status": status, **members}

    def polls(self) -> int:
        """How often it was asked for a task."""
        return self.asked.count("tasks/get")

    def _app(self) -> Any:
        async def app(scope: dict[str, Any], receive: Any, send: Any) -> None:
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
            with self._lock:
                status, answer = self._answer(json.loads(body), dict(scope["headers"])) if body else (405, None)
            headers = [(b"content-type", b"application/json")]
            await send({"type": "http.response.start", "status": status, "headers": headers})
            await send({"type": "http.response.body", "body": json.dumps(answer).encode() if answer else b""})

        return app

    def _answer(self, message: dict[str, Any], headers: dict[bytes, bytes]) -> tuple[int, Any]:
        if "id" not in message:
            return 202, None
        method, params = message["method"], message.get("params") or {}
        if method.startswith("tasks/"):
            self.asked.append(method)
            if self.fails is not None:
                return self.fails, None
            assert headers[b"mcp-name"].decode() == params["taskId"]
        found = self._found(method, params)
        status = 404 if found == {"error": {"code": -32601, "message": "Method not found"}} else 200
        return status, {"jsonrpc": "2.0", "id": message["id"], **found}

    def _found(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        if method == "server/discover":
            capabilities = {"tools": {}, "extensions": {EXTENSION: {}}}
            return _complete(supportedVersions=["2026-07-28"], capabilities=capabilities, ttlMs=0, cacheScope="private")
        if method == "tools/list":
            return _complete(tools=list(TOOLS), ttlMs=0, cacheScope="private")
        if method == "tools/call" or method.startswith("tasks/"):
            if EXTENSION not in (params["_meta"][CAPABILITIES].get("extensions") or {}):
                return {"error": MISSING}
            return self._task(method, params)
        return {"error": {"code": -32601, "message": "Method not found"}}

    def _task(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        if method == "tools/call":
            self.runs.append(params["name"])
            task_id = self.next_id()
            self.tasks[task_id] = {"status": "working"}
            return {"result": {"resultType": "task", "status": "working", **self._about(task_id)}}
        task = self.tasks.get(params["taskId"])
        if task is None:
            return {"error": UNKNOWN}
        if method == "tasks/update":
            self.given.append(params["inputResponses"])
            self.tasks[params["taskId"]] = self.on_answers(params["inputResponses"])
            return _complete()
        if method == "tasks/cancel":
            if self.obeys and task["status"] in ("working", "input_required"):
                self.tasks[params["taskId"]] = {"status": "cancelled"}
            return _complete()
        return _complete(**self._about(params["taskId"]), **task)

    def _about(self, task_id: str) -> dict[str, Any]:
        return {"taskId": task_id, "createdAt": AT, "lastUpdatedAt": AT, "ttlMs": None, **self.shown}


def _complete(**members: Any) -> dict[str, Any]:
    return {"result": {"resultType": "complete", **members}}

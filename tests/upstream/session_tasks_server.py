"""A server of 2025-11-25, written by hand, whose tools run as tasks alone: over stdio by `python -m` with this module,
over HTTP in `session_tasks_http`. What it asks arrives on the stream of `tasks/result`, as the specification has it."""

from __future__ import annotations

import json
import os
import secrets
import sys
from collections.abc import Callable
from typing import Any, Final

RELATED: Final = "io.modelcontextprotocol/related-task"
NOT_FOUND: Final = {"code": -32601, "message": "Method not found"}
UNKNOWN: Final = {"code": -32602, "message": "Failed to retrieve task: Task not found"}
CAPABILITIES: Final = {"tools": {}, "tasks": {"cancel": {}, "requests": {"tools": {"call": {}}}}}
TOOLS: Final = ("research", "ask", "fail", "wait", "pid", "steps")
AT: Final = "2025-12-01T10:00:00Z"

Send = Callable[[dict[str, Any]], None]


class Tasks:
    """The tasks of one process or session. `research` ends when it is asked for the second time, `ask` when it is
    answered, `fail` at once, `wait` when `release` is called or it is cancelled. `steps` says of its progress before
    and after it is answered with a task, and that of another call, and ends when it has been asked for three times."""

    def __init__(self, words: str = "", tell: Send = lambda message: None) -> None:
        """`tell` sends what belongs to no request."""
        self.words = words
        """What `wait` and `pid` answer."""
        self.tell = tell
        self.interval = 100
        """How often it wants to be asked, in milliseconds."""
        self.calls: dict[str, dict[str, Any]] = {}
        self.status: dict[str, str] = {}
        self.polls: dict[str, int] = {}
        self.waiting: dict[str, list[tuple[Any, Send]]] = {}
        """The `tasks/result` requests that are not answered yet."""
        self.answers: dict[str, Any] = {}
        self.asked: dict[str, str] = {}
        """The task of each question, by the id of its request."""
        self.number: str | int = ""
        """The id of the next question's request; one of its own if it is empty."""

    def release(self) -> None:
        """Let the tasks of `wait` end."""
        for task, params in self.calls.items():
            if params["name"] == "wait" and self.status[task] == "working":
                self.end(task, "completed")

    def end(self, task: str, status: str) -> None:
        self.status[task] = status
        self.tell({"method": "notifications/tasks/status", "params": self.about(task)})
        for number, send in self.waiting.pop(task, []):
            send({"id": number, **self.outcome(task)})

    def outcome(self, task: str) -> dict[str, Any]:
        name, given = self.calls[task]["name"], self.calls[task].get("arguments") or {}
        if name == "fail":
            return {"error": {"code": -32050, "message": "out of paper"}}
        words = {"research": f"about {given.get('topic')}", "ask": f"hello {self.answers.get(task)}"}.get(
            name, self.words
        )
        return {"result": {"content": [{"type": "text", "text": words}], "_meta": {RELATED: {"taskId": task}}}}

    def about(self, task: str, message: str = "Halfway") -> dict[str, Any]:
        told = {"taskId": task, "status": self.status[task], "createdAt": AT, "lastUpdatedAt": AT}
        ttl = (self.calls[task].get("task") or {}).get("ttl")
        return {**told, "statusMessage": message, "ttl": ttl, "pollInterval": self.interval}

    def receive(self, message: dict[str, Any], send: Send) -> None:
        """Handle a message; `send` sends on its stream."""
        number, method, params = message.get("id"), message.get("method"), message.get("params") or {}
        if method is None:
            self._answered(message)
        elif number is None:
            return
        elif method == "initialize":
            info = {"name": "session-tasks", "version": "0"}
            send({"id": number, "result": _initialized(info)})
        elif method == "ping":
            send({"id": number, "result": {}})
        elif method == "tools/list":
            shown = [{"name": name, "inputSchema": {"type": "object"}} for name in TOOLS]
            handle = {"_meta": {"taskhub/task": "always"}}
            required = [{**tool, **handle, "execution": {"taskSupport": "required"}} for tool in shown]
            send({"id": number, "result": {"tools": required}})
        elif method == "tools/call":
            self._call(number, params, send)
        elif method.startswith("tasks/"):
            task = params.get("taskId", "")
            if task not in self.calls:
                send({"id": number, "error": UNKNOWN})
            else:
                self._task(number, method, task, send)
        else:
            send({"id": number, "error": NOT_FOUND})

    def _answered(self, message: dict[str, Any]) -> None:
        task = self.asked.pop(str(message["id"]))
        content = message.get("result", {}).get("content") or {}
        self.answers[task] = message.get("error", content.get("who"))
        self.end(task, "completed")

    def _call(self, number: Any, params: dict[str, Any], send: Send) -> None:
        if "task" not in params:
            words = f"MCP error -32601: Tool {params['name']} requires task augmentation"
            send({"id": number, "result": {"content": [{"type": "text", "text": words}], "isError": True}})
            return
        task = f"t{len(self.calls)}-{secrets.token_hex(3)}"
        self.calls[task] = params
        name = params["name"]
        self.status[task] = {"ask": "input_required", "fail": "failed", "pid": "completed"}.get(name, "working")
        told, given = (params.get("_meta") or {}).get("progressToken"), params.get("arguments") or {}
        if name == "steps":
            send(_progress(told, 1, "one of three"))
        send({"id": number, "result": {"task": self.about(task, "Begun")}})
        if name == "steps":
            self.tell(_progress(told, 2, "two of three"))
            self.tell(_progress(given.get("of_another", "0.1"), 9, "of another"))
            self.tell(_progress(told, 10**400, "too many"))
            self.tell(_progress(told, True, "of no kind"))
            self.tell(_progress(told, 3, None))

    def _task(self, number: Any, method: str, task: str, send: Send) -> None:
        name = self.calls[task]["name"]
        if method == "tasks/get":
            self.polls[task] = self.polls.get(task, 0) + 1
            if self.polls[task] > {"research": 1, "steps": 2}.get(name, 1_000):
                self.status[task] = "completed"
            send({"id": number, "result": self.about(task)})
        elif method == "tasks/cancel":
            print(f"cancelled {task}", file=sys.stderr, flush=True)
            self.end(task, "cancelled")
            send({"id": number, "result": self.about(task)})
        elif self.status[task] in ("completed", "failed"):
            send({"id": number, **self.outcome(task)})
        else:
            self.waiting.setdefault(task, []).append((number, send))
            if name == "ask" and task not in self.asked.values():
                key = self.number or f"ask-{len(self.answers) + len(self.asked)}"
                self.asked[str(key)] = task
                schema = {"type": "object", "properties": {"who": {"type": "string"}}, "required": ["who"]}
                params = {"message": "Who?", "requestedSchema": schema, "_meta": {RELATED: {"taskId": task}}}
                send({"id": key, "method": "elicitation/create", "params": params})


def _progress(token: Any, progress: Any, message: str | None) -> dict[str, Any]:
    params = {"progressToken": token, "progress": progress, "total": 3}
    words = {} if message is None else {"message": message}
    return {"method": "notifications/progress", "params": {**params, **words}}


def _initialized(info: dict[str, Any]) -> dict[str, Any]:
    return {"protocolVersion": "2025-11-25", "capabilities": CAPABILITIES, "serverInfo": info}


def main() -> None:
    """Serve over stdio."""

    def send(message: dict[str, Any]) -> None:
        print(json.dumps({"jsonrpc": "2.0", **message}), flush=True)

    tasks = Tasks(f"from {os.getpid()}", send)

    for line in sys.stdin:
        tasks.receive(json.loads(line), send)


if __name__ == "__main__":
    main()

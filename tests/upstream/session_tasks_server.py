"""A server of 2025-11-25 over stdio, written by hand, whose tools run as tasks alone. `python -m` with this module."""

from __future__ import annotations

import json
import sys
from typing import Any

RELATED = "io.modelcontextprotocol/related-task"
NOT_FOUND = {"code": -32601, "message": "Method not found"}
CAPABILITIES = {"tools": {}, "tasks": {"cancel": {}, "requests": {"tools": {"call": {}}}}}
TOOLS = ("research", "ask", "fail", "wait")

asked: dict[str, Any] = {}
"""The ids of waiting `tasks/result` requests, by task, and of what it asks."""
calls: dict[str, dict[str, Any]] = {}


def send(**message: Any) -> None:
    print(json.dumps({"jsonrpc": "2.0", **message}), flush=True)


def about(task: str, status: str, message: str) -> dict[str, Any]:
    at = "2025-12-01T10:00:00Z"
    ttl = calls[task]["task"]["ttl"]
    told = {"taskId": task, "status": status, "statusMessage": message, "createdAt": at, "lastUpdatedAt": at}
    return {**told, "ttl": ttl, "pollInterval": 10}


def text(task: str, words: str, **more: Any) -> dict[str, Any]:
    return {"content": [{"type": "text", "text": words}], "_meta": {RELATED: {"taskId": task}}, **more}


def result(number: Any, task: str) -> None:
    """Answer `tasks/result`, at once or later."""
    name = calls[task]["name"]
    if name == "fail":
        send(id=number, error={"code": -32050, "message": "out of paper"})
    elif name == "ask":
        asked[task] = number
        params = {"message": "Who?", "requestedSchema": {"type": "object", "properties": {"who": {"type": "string"}}}}
        send(id=f"ask {task}", method="elicitation/create", params={**params, "_meta": {RELATED: {"taskId": task}}})
    elif name == "research":
        send(id=number, result=text(task, f"about {calls[task]['arguments']['topic']}"))


def answer(message: dict[str, Any]) -> None:
    number, method, params = message.get("id"), message.get("method"), message.get("params") or {}
    if method is None:
        task = str(number).removeprefix("ask ")
        send(id=asked.pop(task), result=text(task, f"hello {message['result']['content']['who']}"))
    elif number is None:
        return
    elif method == "initialize":
        info = {"name": "session-tasks", "version": "0"}
        send(id=number, result={"protocolVersion": "2025-11-25", "capabilities": CAPABILITIES, "serverInfo": info})
    elif method == "tools/list":
        shown = [{"name": name, "inputSchema": {"type": "object"}} for name in TOOLS]
        send(id=number, result={"tools": [{**tool, "execution": {"taskSupport": "required"}} for tool in shown]})
    elif method == "tools/call":
        if "task" not in params:
            send(id=number, error={"code": -32601, "message": "only as a task"})
            return
        task = f"t{len(calls)}"
        calls[task] = params
        send(id=number, result={"task": about(task, "working", "Begun")})
    elif method == "tasks/get":
        send(id=number, result=about(params["taskId"], "working", "Halfway"))
    elif method == "tasks/result":
        result(number, params["taskId"])
    elif method == "tasks/cancel":
        print(f"cancelled {params['taskId']}", file=sys.stderr, flush=True)
        send(id=number, result=about(params["taskId"], "cancelled", ""))
    else:
        send(id=number, error=NOT_FOUND)


if __name__ == "__main__":
    for line in sys.stdin:
        answer(json.loads(line))

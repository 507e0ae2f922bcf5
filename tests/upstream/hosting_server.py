"""A server of 2025-11-25, written by hand, that has its client host tasks: `python -m` with this module.

The tool `play` makes the requests that it is given in `steps`, each a method and params, and answers with what came
back, and with what it was notified of. `"$"` in params stands for the id of the first task that it was given. A step
with a third member is not waited for until the end; the step `cancel` sends `notifications/cancelled` for the last one,
which is not waited for any more; and `read` waits until somebody has written to the pipe at its `path`.
`initialized` answers with the capabilities that it was told.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

TOOLS = ("play", "initialized")
VERSION = sys.argv[1] if len(sys.argv) > 1 else "2025-11-25"

told: dict[str, Any] = {}
answers: dict[str, Any] = {}
notified: list[Any] = []
later: list[dict[str, Any]] = []


def send(**message: Any) -> None:
    sys.stdout.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
    sys.stdout.flush()


def text(value: Any) -> dict[str, Any]:
    return {"content": [{"type": "text", "text": json.dumps(value)}]}


def heard() -> None:
    """Read one message."""
    line = sys.stdin.readline()
    if not line:
        raise SystemExit
    message = json.loads(line)
    if "method" not in message:
        answers[message["id"]] = message.get("result", message.get("error"))
    elif "id" not in message:
        notified.append(message)
    else:
        later.append(message)


def play(steps: list[Any]) -> dict[str, Any]:
    asked, task = [], ""
    notified.clear()
    for number, (method, params, *rest) in enumerate(steps):
        if method == "read":
            Path(params["path"]).read_bytes()
            continue
        if method == "cancel":
            send(method="notifications/cancelled", params={"requestId": asked.pop()})
            continue
        own = f"{len(answers)}-{number}"
        send(id=own, method=method, params=json.loads(json.dumps(params).replace('"$"', json.dumps(task))))
        asked.append(own)
        while not rest and own not in answers:
            heard()
        task = task or ((answers.get(own) or {}).get("task") or {}).get("taskId", "")
    while not answers.keys() >= set(asked):
        heard()
    return {"answers": [answers[own] for own in asked], "notified": [each["params"] for each in notified]}


def answer(message: dict[str, Any]) -> None:
    number, method, params = message["id"], message["method"], message.get("params") or {}
    if method == "initialize":
        told.update(params["capabilities"])
        info = {"name": "hosting", "version": "1"}
        send(id=number, result={"protocolVersion": VERSION, "capabilities": {"tools": {}}, "serverInfo": info})
    elif method == "tools/list":
        send(id=number, result={"tools": [{"name": name, "inputSchema": {"type": "object"}} for name in TOOLS]})
    elif method == "tools/call" and params["name"] == "initialized":
        send(id=number, result=text(told))
    elif method == "tools/call":
        send(id=number, result=text(play(params["arguments"]["steps"])))
    else:
        send(id=number, error={"code": -32601, "message": "Method not found"})


def main() -> None:
    while True:
        heard()
        while later:
            answer(later.pop(0))


if __name__ == "__main__":
    main()

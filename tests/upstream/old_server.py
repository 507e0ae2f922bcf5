"""A server of 2025-06-18 over stdio, written by hand, with no SDK to keep it from misbehaving.

`python -m tests.upstream.old_server [exit|garbage|silent|strict|closing|deaf|spoilt|curious]`: end at once, answer
everything with nonsense, answer nothing; over whatever comes before `initialize` end, as the SDK for Python did up to
1.6, close the output, answer nothing any more, or refuse `initialize` too; or ask for roots as soon as it is connected,
as many a server does, and tell with any call what came, or which capabilities were declared.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator
from typing import Any

NOT_FOUND = {"code": -32601, "message": "Method not found"}
FORM = {"type": "object", "properties": {"word": {"type": "string"}}}
SAMPLING = {
    "messages": [{"role": "user", "content": {"type": "text", "text": "What is it like?"}}],
    "maxTokens": 9,
    "tools": [{"name": "look", "inputSchema": {"type": "object"}}],
}
LATER = {
    "content": [
        {"type": "text", "text": "hi", "style": "loud", "annotations": {"audience": ["user"], "mood": None}},
        {"type": "resource_link", "uri": "file:///a", "name": "a", "checksum": {"sha256": "00"}},
    ],
    "structuredContent": {"word": None},
    "billing": {"cents": 3},
}
"""A result with fields of some later revision."""
UNKNOWN = {
    "name": "unknown",
    "inputSchema": {"type": "object", "x-order": None},
    "annotations": {"readOnlyHint": True, "costsMoney": False},
    "icons": [{"src": "data:image/png;base64,AA==", "theme": "dark", "shade": 3}],
    "deprecated": True,
}
"""A tool with such fields."""
came: list[str] = []
"""In answer to the roots that it asks for."""
told: dict[str, Any] = {}
"""The capabilities that were declared."""
later: list[str] = []
"""What came while it asked: it does one thing after the other."""
held: list[dict[str, Any]] = []
"""What waits for that."""
TOOLS = ("echo", "pid", "ask", "ask_roots", "die", "nonsense", "error", "chatter", "later")


def send(**message: Any) -> None:
    sys.stdout.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
    sys.stdout.flush()


def text(words: str) -> dict[str, Any]:
    return {"content": [{"type": "text", "text": words}]}


def request(method: str, params: dict[str, Any]) -> str:
    """Ask in the middle of a call; what came back, as JSON."""
    send(id="mine", method=method, params=params)
    for line in sys.stdin:
        message = json.loads(line)
        if message.get("id") == "mine":
            return json.dumps(message.get("result", message.get("error")), sort_keys=True)
        later.append(line)
    raise SystemExit


def call(params: dict[str, Any]) -> dict[str, Any]:
    arguments = params.get("arguments") or {}
    match params["name"]:
        case "echo":
            return text(arguments["text"])
        case "pid":
            return text(str(os.getpid()))
        case "ask":
            return text(request("elicitation/create", {"message": "Which word?", "requestedSchema": FORM}))
        case "ask_roots":
            return text(request("roots/list", {}))
        case "ask_model":
            return text(request("sampling/createMessage", SAMPLING))
        case "die":
            os._exit(7)
        case "nonsense":
            return {"content": 5}
        case "later":
            return LATER
        case "chatter":
            send(method="notifications/message", params={"level": "warning", "data": {"depth": 3, "ok": None}})
            send(method="notifications/message", params={"level": "info", "logger": "db", "data": "slow"})
            send(method="notifications/message", params={"level": "debug", "logger": "db.pool", "data": ["é", 2]})
            token = params["_meta"]["progressToken"]
            progress = {"progressToken": token, "progress": 1, "total": 4, "message": "a quarter"}
            send(method="notifications/progress", params=progress)
            return text("said")
    raise LookupError


def answer(message: dict[str, Any]) -> None:
    number, method, params = message["id"], message["method"], message.get("params") or {}
    if method == "initialize":
        info = {"name": "old", "version": "0.9"}
        found: dict[str, Any] = {"protocolVersion": "2025-06-18", "capabilities": {"tools": {}}, "serverInfo": info}
        send(id=number, result=found)
    elif method == "tools/list":
        tools = [{"name": name, "inputSchema": {"type": "object"}} for name in TOOLS]
        send(id=number, result={"tools": [*tools, UNKNOWN]})
    elif method == "tools/call" and params["name"] == "error":
        send(id=number, error={"code": -32001, "message": "no", "data": [1]})
    elif method == "tools/call" and params["name"] == "closed":
        send(id=number, error={"code": -32000, "message": "the shop is closed"})
    elif method == "tools/call" and params["name"] == "say":
        # Lines as they are, and nothing of its own.
        lines = "".join(f"{line}\n" for line in params["arguments"]["lines"]).replace("ID", str(number))
        sys.stdout.buffer.write(lines.encode().replace(b"BYTE", b"\xe9"))
        sys.stdout.flush()
    elif method == "tools/call" and params["name"] == "pour":
        pour(number, **params["arguments"])
    elif method == "tools/call":
        send(id=number, result=call(params))
    else:
        send(id=number, error=NOT_FOUND)


def pour(number: int, before: str, part: str, times: int, after: str) -> None:
    """A lot of output, of which this process keeps none."""
    for text in (before, *[part] * times, after):
        sys.stdout.write(text.replace("ID", str(number)))
    sys.stdout.flush()


def curious(message: dict[str, Any]) -> bool:
    """Whether the message was about the roots that it asks for. It lists nothing before it has an answer, unless it is
    `hasty`."""
    if message.get("id") == "early":
        came.append(json.dumps(message.get("result", message.get("error"))))
        for waiting in held:
            answer(waiting)
    elif message.get("method") == "notifications/initialized":
        send(id="early", method="roots/list")
    elif message.get("method") == "tools/list" and not came and sys.argv[2:] != ["hasty"]:
        held.append(message)
    elif message.get("method") == "initialize":
        told.update(message["params"]["capabilities"])
        return False
    elif message.get("method") == "tools/call":
        send(
            id=message["id"],
            result=text(json.dumps(told) if message["params"]["name"] != "anything" else came[0] if came else "null"),
        )
    else:
        return False
    return True


def lines() -> Iterator[str]:
    """What comes in, and what was put off meanwhile."""
    for line in sys.stdin:
        yield line
        while later:
            yield later.pop(0)


def main() -> None:
    mode = sys.argv[1] if len(sys.argv) > 1 else ""
    if mode == "exit":
        raise SystemExit(3)
    spoilt = False
    for number, line in enumerate(lines()):
        if mode == "strict" and number == 0 and json.loads(line)["method"] != "initialize":
            raise SystemExit(1)
        if number == 0 and json.loads(line)["method"] != "initialize":
            if mode == "closing":
                os.close(1)
            spoilt = mode in ("closing", "deaf")
        if mode == "silent" or spoilt:
            continue
        if mode == "spoilt" and number > 0 and json.loads(line)["method"] == "initialize":
            send(id=json.loads(line)["id"], error=NOT_FOUND)
            continue
        if mode == "curious" and curious(json.loads(line)):
            continue
        if mode == "garbage":
            sys.stdout.write("Traceback (most recent call last):\n{}\n[]\n")
            sys.stdout.flush()
        elif "id" in (message := json.loads(line)):
            answer(message)


if __name__ == "__main__":
    main()

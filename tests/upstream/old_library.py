"""A server of 2025-06-18 over stdio that offers more than tools, written by hand: it sends keys that no
SDK knows. `python -m tests.upstream.old_library DIRECTORY` makes a named pipe in the directory; what
is written there, line by line, it announces: `updated URI`, `list prompts`, `list resources`, `die`. So does
its tool, which can also `learn NAME` (from then on this process has a tool of that name) and `fidget on`.
"""

from __future__ import annotations

import json
import os
import sys
import threading
from pathlib import Path
from typing import Any

DEFINED = {
    "prompts": [{"name": "old_prompt", "description": "Old", "arguments": [{"name": "who"}], "x-old": {"kept": 1}}],
    "resources": [
        {"uri": "old://file", "name": "file", "mimeType": "text/plain", "size": 3, "x-old": [1]},
        {"uri": "old://dir", "name": "dir"},
    ],
}
CAPABILITIES: dict[str, Any] = {
    "tools": {},
    "prompts": {"listChanged": True},
    "resources": {"subscribe": True, "listChanged": True},
    "completions": {},
}
tools = ["old_tool"]
fidgets: list[str] = []
"""With something in it, every look at the tools is answered with the news that they changed."""
_lock = threading.Lock()
subscribed: set[str] = set()


def send(**message: Any) -> None:
    with _lock:
        sys.stdout.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
        sys.stdout.flush()


def result(method: str, params: dict[str, Any]) -> dict[str, Any] | None:
    match method:
        case "initialize":
            info = {"name": "old-library", "version": "0.9"}
            return {"protocolVersion": "2025-06-18", "capabilities": CAPABILITIES, "serverInfo": info}
        case "tools/list":
            if fidgets:
                send(method="notifications/tools/list_changed")
            return {"tools": [{"name": name, "inputSchema": {"type": "object"}} for name in tools]}
        case "tools/call":
            announce(params["arguments"]["say"])
            return {"content": [{"type": "text", "text": str(os.getpid())}]}
        case "prompts/list" | "resources/list":
            member = method.partition("/")[0]
            return {member: DEFINED[member]}
        case "prompts/get":
            words = {"role": "user", "content": {"type": "text", "text": f"For {params['arguments']['who']}"}}
            return {"messages": [words], "x-old": "kept"}
        case "resources/read" if params["uri"].startswith("old://file"):
            return {"contents": [{"uri": params["uri"], "text": "old", "_meta": {"x/y": 1}}], "x-old": "kept"}
        case "completion/complete":
            return {"completion": {"values": [params["argument"]["value"] + "!"]}}
        case "resources/subscribe":
            subscribed.add(params["uri"])
            return {}
        case "resources/unsubscribe":
            subscribed.discard(params["uri"])
            return {}
    return None


def answer(message: dict[str, Any]) -> None:
    number, method, params = message["id"], message["method"], message.get("params") or {}
    if method == "resources/read" and not params["uri"].startswith("old://file"):
        send(id=number, error={"code": -32002, "message": "Resource not found", "data": {"uri": params["uri"]}})
    elif (found := result(method, params)) is not None:
        send(id=number, result=found)
    else:
        send(id=number, error={"code": -32601, "message": "Method not found"})


def announce(line: str) -> None:
    word, _, rest = line.strip().partition(" ")
    if word == "die":
        os._exit(7)
    elif word == "learn":
        tools.append(rest)
        send(method="notifications/tools/list_changed")
    elif word == "fidget":
        fidgets.append(rest)
    elif word == "list":
        send(method=f"notifications/{rest}/list_changed")
    elif any(rest == uri or rest.startswith(uri + "/") for uri in subscribed):
        send(method="notifications/resources/updated", params={"uri": rest})


def listen(pipe: Path) -> None:
    # Open for writing too: with an end always open, no line falls between one writer and the next.
    with os.fdopen(os.open(pipe, os.O_RDWR)) as lines:
        for line in lines:
            announce(line)


def main() -> None:
    pipe = Path(sys.argv[1]) / f"{os.getpid()}.pipe"
    os.mkfifo(pipe)
    threading.Thread(target=listen, args=(pipe,), daemon=True).start()
    for line in sys.stdin:
        if "id" in (message := json.loads(line)):
            answer(message)


if __name__ == "__main__":
    main()

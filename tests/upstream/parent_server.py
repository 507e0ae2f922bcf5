"""A command that starts processes of its own: `python -m tests.upstream.parent_server`.

Written by hand, since servers of the SDK for Python keep their pipes from the processes that they start. Its tool
`leave` leaves one behind that has the pipes, and with `stubborn` ignores SIGTERM, and says the ids of both; `hold`
never answers.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import Any

CODE = "import os, sys, signal, time; {} os.write(int(sys.argv[1]), b'x'); time.sleep(600)"
started: list[subprocess.Popen[bytes]] = []


def leave(*, stubborn: bool) -> str:
    """Start a process, and wait until it runs."""
    reading, writing = os.pipe()
    code = CODE.format("signal.signal(signal.SIGTERM, signal.SIG_IGN);" if stubborn else "")
    started.append(subprocess.Popen([sys.executable, "-c", code, str(writing)], pass_fds=[writing]))
    os.read(reading, 1)
    return f"{os.getpid()} {started[-1].pid}"


def answer(message: dict[str, Any]) -> dict[str, Any] | None:
    """What it says to a request; `None` for nothing."""
    params = message.get("params") or {}
    match message["method"], params.get("name"):
        case "initialize", _:
            info = {"name": "parent", "version": "1"}
            return {"result": {"protocolVersion": "2025-06-18", "capabilities": {"tools": {}}, "serverInfo": info}}
        case "tools/list", _:
            tools = [{"name": name, "inputSchema": {"type": "object"}} for name in ("leave", "hold")]
            return {"result": {"tools": tools}}
        case "ping", _:
            return {"result": {}}
        case "tools/call", "leave":
            text = leave(stubborn=params["arguments"].get("stubborn", False))
            return {"result": {"content": [{"type": "text", "text": text}]}}
        case "tools/call", "hold":
            return None
    return {"error": {"code": -32601, "message": "Method not found"}}


if __name__ == "__main__":
    for line in sys.stdin:
        message = json.loads(line)
        if "id" in message and (said := answer(message)) is not None:
            sys.stdout.write(json.dumps({"jsonrpc": "2.0", "id": message["id"], **said}) + "\n")
            sys.stdout.flush()

"""A server of 2025-06-18 over stdio that lists whatever it is told to, right or wrong.

`python -m tests.upstream.clumsy_server FILE`: the file holds its lists as JSON, `{"tools": […], …}`, and
is read anew for each; a list that is a string is answered with an error of these words, and the process
ends where one is `null`. A `"result"` is what every tool returns.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

NOT_FOUND = {"code": -32601, "message": "Method not found"}
MEMBERS = {
    "tools/list": "tools",
    "prompts/list": "prompts",
    "resources/list": "resources",
    "resources/templates/list": "resourceTemplates",
}


def answer(method: str, lists: dict[str, Any]) -> dict[str, Any]:
    if method == "initialize":
        info = {"name": "clumsy", "version": "0"}
        capabilities: dict[str, Any] = {member: {} for member in ("tools", "prompts", "resources") if member in lists}
        return {"result": {"protocolVersion": "2025-06-18", "capabilities": capabilities, "serverInfo": info}}
    if method == "tools/call":
        return {"result": lists.get("result", {"content": [{"type": "text", "text": "called"}]})}
    member = MEMBERS.get(method, "")
    if member not in lists:
        return {"error": NOT_FOUND}
    if lists[member] is None:
        raise SystemExit(3)
    if isinstance(lists[member], str):
        return {"error": {"code": -32603, "message": lists[member]}}
    return {"result": {member: lists[member]}}


def main() -> None:
    for line in sys.stdin:
        message = json.loads(line)
        if "id" in message:
            found = answer(message["method"], json.loads(Path(sys.argv[1]).read_text()))
            sys.stdout.write(json.dumps({"jsonrpc": "2.0", "id": message["id"], **found}) + "\n")
            sys.stdout.flush()


if __name__ == "__main__":
    main()

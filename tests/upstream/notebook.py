"""A server of 2025-06-18 that keeps something between calls, and runs calls side by side, written by hand.

As a command (`python -m tests.upstream.notebook`) it is one notebook; over HTTP (`notebook_http.py`) each session has
its own. Its tools: `remember` a word, and say all `words`; `wait` for some seconds, which a cancellation ends; `sleep`
for as long, deaf to anything, which it says before; `ask` for a word; `say` log lines and progress; `print` to the
standard output; `end` the process; `pid`.
"""

from __future__ import annotations

import asyncio
import json
import os
import secrets
import sys
import time
from collections.abc import Awaitable, Callable
from typing import Any

from tests.upstream.old_server import FORM, NOT_FOUND

TOOLS = ("remember", "words", "wait", "sleep", "ask", "ask_model", "ask_roots", "say", "print", "broken", "end", "pid")
Send = Callable[[dict[str, Any]], Awaitable[None]]


class Notebook:
    """What one client has with the server."""

    def __init__(self) -> None:
        self.words: list[str] = []
        self.asked: dict[str, asyncio.Future[dict[str, Any]]] = {}
        self.running: dict[Any, asyncio.Task[None]] = {}
        self.cancelled: list[Any] = []

    async def take(self, message: dict[str, Any], send: Send) -> None:
        """Handle a message; whatever it is answered with goes to `send`."""
        number, method, params = message.get("id"), message.get("method"), message.get("params") or {}
        if method is None:
            self.asked.pop(str(number)).set_result(message)
        elif method == "notifications/cancelled":
            self.cancelled.append(params["requestId"])
            if params["requestId"] in self.running:
                self.running[params["requestId"]].cancel()
        elif method == "tools/call":
            self.running[number] = asyncio.create_task(self._call(number, params, send))
            await asyncio.wait({self.running[number]})
            del self.running[number]
        elif number is not None:
            await send({"id": number, **answer(method, params)})

    async def _call(self, number: Any, params: dict[str, Any], send: Send) -> None:
        words = await self._run(number, params, send)
        if words is not None:
            await send({"id": number, "result": {"content": [{"type": "text", "text": words}]}})

    async def _run(self, number: Any, params: dict[str, Any], send: Send) -> str | None:
        given = params.get("arguments") or {}
        match params["name"]:
            case "remember":
                self.words.append(given["word"])
            case "wait":
                await asyncio.sleep(given["seconds"])
            case "sleep":
                await send({"method": "notifications/message", "params": {"level": "info", "data": "asleep"}})
                time.sleep(given["seconds"])  # noqa: ASYNC251 - deaf is what it is to be
            case "ask":
                params = {"message": given.get("word", "Which word?"), "requestedSchema": FORM}
                return await self.ask("elicitation/create", params, send)
            case "ask_model":
                text = {"type": "text", "text": "What is it like?"}
                params = {"messages": [{"role": "user", "content": text}], "maxTokens": 9}
                return await self.ask("sampling/createMessage", params, send)
            case "ask_roots":
                return await self.ask("roots/list", {}, send)
            case "say":
                await send({"method": "notifications/message", "params": {"level": "info", "data": given["word"]}})
                token = params["_meta"]["progressToken"]
                progress = {"progressToken": token, "progress": 1, "message": given["word"]}
                await send({"method": "notifications/progress", "params": progress})
                await asyncio.sleep(given.get("seconds", 0))
            case "print":
                sys.stdout.write(given["word"] + "\n")
                sys.stdout.flush()
            case "broken":
                sys.stdout.write(f'{{"jsonrpc": "2.0", "id": {number}, "result": oops\n')
                sys.stdout.flush()
                return None
            case "end":
                os._exit(7)
            case "pid":
                return str(os.getpid())
        return " ".join(self.words)

    async def ask(self, method: str, params: dict[str, Any], send: Send) -> str:
        """Ask the client; its answer as JSON."""
        number = secrets.token_hex(4)
        answered = self.asked[number] = asyncio.get_running_loop().create_future()
        await send({"id": number, "method": method, "params": params})
        found = await answered
        return json.dumps(found.get("result", found.get("error")), sort_keys=True)


def answer(method: str, params: dict[str, Any]) -> dict[str, Any]:
    """What it answers, whoever asks."""
    if method == "initialize":
        info = {"name": "notebook", "version": "1"}
        version = params["protocolVersion"] if params["protocolVersion"] < "2026" else "2025-06-18"
        return {"result": {"protocolVersion": version, "capabilities": {"tools": {}}, "serverInfo": info}}
    if method == "tools/list":
        # A handle for each call, where there is a hub between.
        made = {"inputSchema": {"type": "object"}, "_meta": {"taskhub/task": "always"}}
        return {"result": {"tools": [{"name": name, **made} for name in TOOLS]}}
    return {"result": {}} if method == "ping" else {"error": NOT_FOUND}


async def main() -> None:
    """The notebook of this process."""
    notebook, loop = Notebook(), asyncio.get_running_loop()
    running = set()

    async def send(message: dict[str, Any]) -> None:
        sys.stdout.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
        sys.stdout.flush()

    while line := await loop.run_in_executor(None, sys.stdin.readline):
        task = asyncio.create_task(notebook.take(json.loads(line), send))
        running.add(task)
        task.add_done_callback(running.discard)
    os._exit(0)


if __name__ == "__main__":
    asyncio.run(main())

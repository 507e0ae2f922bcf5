"""The tools that TaskHub serves in the benchmark: the peer's two, on the official SDK.

Each says of itself that every call of it is a task (`always`), as the peer's tools
do with `TaskConfig(mode="required")`.
"""

from __future__ import annotations

import asyncio

from mcp.server import MCPServer

ALWAYS_A_TASK = {"taskhub/task": "always"}

server = MCPServer("bench")


@server.tool(meta=ALWAYS_A_TASK)
async def echo(text: str) -> str:
    """Return the text unchanged."""
    return text


@server.tool(meta=ALWAYS_A_TASK)
async def sleep(seconds: float) -> str:
    """Sleep that many seconds, then say so."""
    await asyncio.sleep(seconds)
    return f"slept {seconds}"

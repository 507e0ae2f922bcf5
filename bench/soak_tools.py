"""The tools of the soak: each writes down that it ran, before and after its work."""

from __future__ import annotations

import asyncio
import os
import random
from pathlib import Path

from mcp.server import MCPServer
from mcp_types import ToolAnnotations

RUNS = Path(os.environ["SOAK_RUNS"])
LONGEST_S = 2.0

server = MCPServer("soak")


def _note(word: str, key: str) -> None:
    # One write to the end of the file: lines of several workers do not mix.
    with RUNS.open("ab", buffering=0) as runs:
        runs.write(f"{word} {key}\n".encode())


async def _work(key: str) -> str:
    _note("began", key)
    await asyncio.sleep(random.random() ** 4 * LONGEST_S)
    _note("ended", key)
    return key


@server.tool()
async def once(key: str) -> str:
    """Work that must not be done twice."""
    return await _work(key)


@server.tool(annotations=ToolAnnotations(idempotent_hint=True))
async def again(key: str) -> str:
    """Work that may be done again."""
    return await _work(key)

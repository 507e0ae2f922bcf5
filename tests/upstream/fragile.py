"""A server that keeps something between calls, and whose tools may end the process that they run in."""

from __future__ import annotations

import asyncio
import ctypes
import os
import sys
import time
from pathlib import Path
from typing import Any

from mcp import MCPError
from mcp.server.mcpserver import Context, MCPServer
from mcp_types import ElicitRequest, ElicitRequestFormParams, ElicitResult, InputRequiredResult
from pydantic import BaseModel

print("a line of its module")
fragile: MCPServer[Any] = MCPServer("fragile", version="1", log_level="CRITICAL")
words: list[str] = []
behind: list[asyncio.Task[None]] = []


class Word(BaseModel):
    """What is asked for."""

    word: str


@fragile.tool(structured_output=False)
def remember(word: str) -> str:
    """Keep a word, and say all words."""
    words.append(word)
    return " ".join(words)


@fragile.tool(structured_output=False)
async def leave() -> str:
    """End the process at once."""
    os._exit(3)


@fragile.tool(structured_output=False)
async def leave_politely() -> str:
    """End the process."""
    sys.exit(3)


@fragile.tool(structured_output=False)
async def crash() -> str:
    """Read what is at address 0."""
    return str(ctypes.string_at(0))


@fragile.tool(structured_output=False)
async def wait(seconds: float) -> str:
    """Wait, for others to run meanwhile."""
    await asyncio.sleep(seconds)
    return "waited"


@fragile.tool(structured_output=False)
async def hold(seconds: float) -> str:
    """Wait, and let nobody run meanwhile."""
    time.sleep(seconds)  # noqa: ASYNC251 - that is the point
    return "held"


@fragile.tool(structured_output=False)
async def ask(message: str, ctx: Context[Any, Any]) -> str:
    """Ask for a word in the middle of a call."""
    answer = await ctx.elicit(message, Word)
    return answer.data.word if answer.action == "accept" else answer.action


@fragile.tool(structured_output=False)
async def ask_behind(message: str, ctx: Context[Any, Any]) -> str:
    """Ask for a word after the call."""

    async def ask() -> None:
        await asyncio.sleep(0.2)
        try:
            await ctx.session.elicit_form(message, Word.model_json_schema())
        except MCPError as error:
            print(error)

    behind.append(asyncio.create_task(ask()))
    return "asks later"


@fragile.tool(structured_output=False)
def ask_later(message: str, ctx: Context[Any, Any]) -> str | InputRequiredResult:
    """Ask for a word as of 2026-07-28."""
    answer = (ctx.input_responses or {}).get("word")
    if isinstance(answer, ElicitResult) and answer.content:
        return str(answer.content["word"])
    schema = {"type": "object", "properties": {"word": {"type": "string"}}}
    params = ElicitRequestFormParams(message=message, requested_schema=schema)
    return InputRequiredResult(input_requests={"word": ElicitRequest(params=params)})


@fragile.tool(structured_output=False)
async def say(word: str, ctx: Context[Any, Any]) -> str:
    """Say a word to the caller."""
    await ctx.log("info", word)
    await ctx.report_progress(1, 2, word)
    return word


@fragile.tool(structured_output=False)
def output(word: str) -> str:
    """Print a word, and one without Python's help."""
    print(word)
    os.write(1, f"{{{word}\n".encode())
    return sys.stdin.read()


@fragile.tool(structured_output=False)
def given() -> str:
    """The names of its variables, and its directory."""
    return " ".join([*sorted(os.environ), str(Path.cwd())])


@fragile.tool(structured_output=False)
def pid() -> str:
    """The process."""
    return str(os.getpid())

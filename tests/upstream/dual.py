"""A server of both eras, whose tool asks in the middle of a call, which only versions with sessions have.

`python -m tests.upstream.dual` runs it as a command.
"""

from __future__ import annotations

import os
from typing import Any

from mcp.server.mcpserver import Context, MCPServer
from mcp_types import ElicitRequest, ElicitRequestFormParams, ElicitResult, InputRequiredResult
from pydantic import BaseModel

dual: MCPServer[Any] = MCPServer("dual", version="2", log_level="CRITICAL")


class Word(BaseModel):
    """What is asked for."""

    word: str


@dual.tool(structured_output=False)
async def ask(ctx: Context[Any, Any]) -> str:
    """Ask for a word."""
    answer = await ctx.elicit("Which word?", Word)
    return answer.data.word if answer.action == "accept" else answer.action


@dual.tool(structured_output=False)
def era(ctx: Context[Any, Any]) -> str:
    """The version that is spoken."""
    return str(ctx.request_context.protocol_version)


@dual.tool(structured_output=False)
def interim(ctx: Context[Any, Any]) -> str | InputRequiredResult:
    """Ask for a word as of 2026-07-28."""
    answer = (ctx.input_responses or {}).get("word")
    if isinstance(answer, ElicitResult) and answer.content:
        return str(answer.content["word"])
    schema = {"type": "object", "properties": {"word": {"type": "string"}}}
    params = ElicitRequestFormParams(message="Which word?", requested_schema=schema)
    return InputRequiredResult(input_requests={"word": ElicitRequest(params=params)})


@dual.prompt()
def spoken(ctx: Context[Any, Any]) -> str:
    """The version that is spoken."""
    return str(ctx.request_context.protocol_version)


@dual.tool(structured_output=False)
def pid() -> str:
    """The process."""
    return str(os.getpid())


if __name__ == "__main__":
    dual.run("stdio")

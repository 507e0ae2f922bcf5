"""A server of the Python SDK 1.9 with HTTP+SSE: run by the environment of `python_sdk_1_9.txt`, with the port."""

import sys
from typing import Any

import anyio
from mcp.server.fastmcp import Context, FastMCP
from mcp.types import SamplingMessage, TextContent

mcp = FastMCP("old", host="127.0.0.1", port=int(sys.argv[1]))
notes: list[str] = []


@mcp.tool()
def add(a: int, b: int) -> int:
    """Add."""
    return a + b


@mcp.tool()
def fail(how: str) -> str:
    """Fail."""
    raise ValueError(f"it fails {how}")


@mcp.tool()
async def steps(count: int, ctx: Context[Any, Any, Any]) -> str:
    """Report progress and log lines."""
    for step in range(count):
        await ctx.report_progress(step, count)
        await ctx.info(f"step {step}")
    return f"{count} steps"


@mcp.tool()
async def sleep(seconds: float) -> str:
    """Take long."""
    await anyio.sleep(seconds)
    return "awake"


@mcp.tool()
def repeat(text: str, times: int) -> str:
    """Say something big."""
    return text * times


@mcp.tool()
async def summarize(text: str, ctx: Context[Any, Any, Any]) -> str:
    """Ask the client's model."""
    asked = SamplingMessage(role="user", content=TextContent(type="text", text=text))
    found = await ctx.session.create_message(messages=[asked], max_tokens=50)
    return found.content.text if isinstance(found.content, TextContent) else "no text"


@mcp.tool()
async def roots(ctx: Context[Any, Any, Any]) -> str:
    """Ask for the client's roots."""
    return ", ".join(str(root.uri) for root in (await ctx.session.list_roots()).roots)


@mcp.resource("note://all")
def all_notes() -> str:
    """A resource."""
    return "\n".join(notes)


@mcp.prompt()
def greet(name: str) -> str:
    """A prompt."""
    return f"Greet {name}"


mcp.run(transport="sse")

"""A few tools that the conformance fixtures lack, as an ordinary MCP server behind the hub."""

from __future__ import annotations

import asyncio
from typing import Annotated, Any, Final

from mcp.server import MCPServer
from mcp.server.mcpserver import Context
from mcp_types import (
    CallToolResult,
    ElicitRequest,
    ElicitRequestFormParams,
    ElicitRequestURLParams,
    ElicitResult,
    InputRequiredResult,
    TextContent,
)
from pydantic import BaseModel, Field

Ctx = Context[Any, Any]
NEVER: Final = {"taskhub/task": "never"}
ALWAYS: Final = {"taskhub/task": "always"}

server: Final[MCPServer[Any]] = MCPServer("taskhub-test-extra", version="1.0.0", log_level="WARNING")


class Point(BaseModel):
    x: int
    y: int


def _form(message: str, name: str) -> ElicitRequest:
    schema: dict[str, Any] = {"type": "object", "properties": {name: {"type": "string"}}, "required": [name]}
    return ElicitRequest(params=ElicitRequestFormParams(message=message, requested_schema=schema))


def _text(ctx: Ctx, key: str, name: str) -> str | None:
    answer = (ctx.input_responses or {}).get(key)
    if not isinstance(answer, ElicitResult) or answer.action != "accept":
        return None
    value = (answer.content or {}).get(name)
    return value if isinstance(value, str) else None


@server.tool(meta=ALWAYS, structured_output=False)
def ask_twice(ctx: Ctx) -> str | InputRequiredResult:
    """Ask under the same key until the answer is "done"."""
    word = _text(ctx, "word", "word")
    if word != "done":
        return InputRequiredResult(input_requests={"word": _form("Which word?", "word")})
    return "Heard: done"


@server.tool(meta=NEVER, structured_output=False)
def visit_page(ctx: Ctx) -> str | InputRequiredResult:
    """Send the caller to a page."""
    answer = (ctx.input_responses or {}).get("visit")
    if not isinstance(answer, ElicitResult):
        params = ElicitRequestURLParams(
            message="Please sign in", url="https://example.com/sign-in", elicitation_id="e1"
        )
        return InputRequiredResult(input_requests={"visit": ElicitRequest(params=params)})
    return f"Visited: {answer.action}"


@server.tool(meta=NEVER, structured_output=False)
def count_header(
    count: Annotated[int, Field(json_schema_extra={"x-mcp-header": "Count"})] = 0,
    sure: Annotated[bool, Field(json_schema_extra={"x-mcp-header": "Sure"})] = False,
) -> str:
    """Take a number and a flag that are mirrored into headers."""
    return f"{count} {str(sure).lower()}"


@server.tool(meta=NEVER)
def point() -> Point:
    """Structured output."""
    return Point(x=3, y=4)


@server.tool(meta=NEVER, structured_output=False)
def with_meta() -> CallToolResult:
    """A result with metadata of its own."""
    return CallToolResult(content=[TextContent(text="noted")], _meta={"example.com/mark": 7})


@server.tool(structured_output=False)
async def hold(ctx: Ctx, seconds: float = 60) -> str:
    """Hold on until the time is over or somebody cancels; says how far it is."""
    await ctx.report_progress(0, seconds, "holding")
    await asyncio.sleep(seconds)
    return "Let go"


@server.tool(structured_output=False)
def wrong_question(ctx: Ctx) -> str | InputRequiredResult:
    """Ask for an answer that no client said it could give."""
    name = _text(ctx, "name", "name")
    return f"Hello, {name}!" if name else InputRequiredResult(input_requests={"name": _form("Your name?", "name")})

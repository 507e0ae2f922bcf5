"""Fixtures of the tasks extension, and tools that change what the server lists."""

from __future__ import annotations

import asyncio
import time
from typing import Annotated, Any, Final

from mcp import MCPError
from mcp.server import MCPServer
from mcp.server.mcpserver.prompts import Prompt
from mcp_types import INTERNAL_ERROR, CallToolResult, InputRequiredResult, TextContent, ToolAnnotations
from mcp_types.version import MODERN_PROTOCOL_VERSIONS
from pydantic import Field

from .fixture_common import NEVER, REQUIRED, Ctx, ask, elicited, field, form, name_form

# Longer than the hub waits inline, so that the last round is given out as a handle.
SECOND_ROUND_SECONDS: Final = 1.0
DYNAMIC_TOOL: Final = "test_dynamic_tool"
DYNAMIC_PROMPT: Final = "test_dynamic_prompt"


def register(server: MCPServer[Any]) -> None:
    _register_jobs(server)
    _register_questions(server)
    _register_changes(server)


def _register_jobs(server: MCPServer[Any]) -> None:
    @server.tool(annotations=ToolAnnotations(read_only_hint=True, idempotent_hint=True), structured_output=False)
    async def slow_compute(
        ctx: Ctx,
        seconds: Annotated[float, Field(ge=0, le=3600)] = 1,
        label: str = "",
    ) -> str:
        """Sleep for some seconds, reporting progress; cancelling stops it at once."""
        due = time.monotonic() + seconds
        while (left := due - time.monotonic()) > 0:
            await ctx.report_progress(seconds - left, seconds, label or None)
            await asyncio.sleep(min(left, 0.5))
        return f"Computed {label or 'something'} in {seconds:g} s"

    @server.tool(meta=REQUIRED)
    def failing_job() -> CallToolResult:
        """A task that completes with a tool error."""
        return CallToolResult(content=[TextContent(text="This job failed on purpose")], is_error=True)

    @server.tool(meta=REQUIRED, structured_output=False)
    def protocol_error_job() -> str:
        """A task that ends with a JSON-RPC error."""
        raise MCPError(INTERNAL_ERROR, "This job met a protocol error on purpose")


def _register_questions(server: MCPServer[Any]) -> None:
    @server.tool(meta=REQUIRED, structured_output=False)
    def confirm_delete(filename: str, ctx: Ctx) -> str | InputRequiredResult:
        """A task that asks before it (only seemingly) deletes a file."""
        answer = elicited(ctx, "confirm")
        confirmed = field(ctx, "confirm", "confirm", bool)
        if answer is None or (answer.action == "accept" and confirmed is None):
            return ask(confirm=form(f"Delete {filename}?", {"confirm": {"type": "boolean"}}))
        return f"Deleted {filename}" if confirmed else f"Kept {filename}"

    @server.tool(meta=REQUIRED, structured_output=False)
    def multi_input(ctx: Ctx) -> str | InputRequiredResult:
        """A task that asks two questions at once."""
        names = [field(ctx, key, "name", str) for key in ("first", "second")]
        if None in names:
            # The suite answers either question with both fields.
            properties = {"name": {"type": "string"}, "confirm": {"type": "boolean"}}
            return ask(
                first=form("Who comes first?", properties, ["name"]),
                second=form("Who comes second?", properties, ["name"]),
            )
        return f"First {names[0]}, then {names[1]}"

    @server.tool(structured_output=False)
    async def test_tool_with_task(ctx: Ctx) -> str | InputRequiredResult:
        """Ask for a name at once, then take long enough to become a task."""
        name = field(ctx, "user_name", "name", str)
        if name is None:
            return ask(user_name=name_form())
        await asyncio.sleep(SECOND_ROUND_SECONDS)
        return f"Hello, {name}!"


def _register_changes(server: MCPServer[Any]) -> None:
    @server.tool(meta=NEVER, structured_output=False)
    async def test_trigger_tool_change(ctx: Ctx) -> str:
        """Add a tool, or remove it when it is there, and announce the change."""
        present = any(tool.name == DYNAMIC_TOOL for tool in await server.list_tools())
        if present:
            server.remove_tool(DYNAMIC_TOOL)
        else:
            server.add_tool(_dynamic_tool, DYNAMIC_TOOL, meta=NEVER, structured_output=False)
        await ctx.notify_tools_changed()
        if ctx.protocol_version not in MODERN_PROTOCOL_VERSIONS:
            # An older session does not listen; it gets the notification on its own channel.
            await ctx.session.send_tool_list_changed()
        return f"{DYNAMIC_TOOL} {'removed' if present else 'added'}"

    @server.tool(meta=NEVER, structured_output=False)
    async def test_trigger_prompt_change(ctx: Ctx) -> str:
        """Add a prompt, or remove it when it is there, and announce the change."""
        present = any(prompt.name == DYNAMIC_PROMPT for prompt in await server.list_prompts())
        if present:
            server.remove_prompt(DYNAMIC_PROMPT)
        else:
            server.add_prompt(Prompt.from_function(_dynamic_prompt, DYNAMIC_PROMPT))
        await ctx.notify_prompts_changed()
        if ctx.protocol_version not in MODERN_PROTOCOL_VERSIONS:
            await ctx.session.send_prompt_list_changed()
        return f"{DYNAMIC_PROMPT} {'removed' if present else 'added'}"


def _dynamic_tool() -> str:
    """A tool that comes and goes."""
    return "Still here"


def _dynamic_prompt() -> str:
    """A prompt that comes and goes."""
    return "Still here"

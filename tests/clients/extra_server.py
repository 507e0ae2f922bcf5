"""What the demo server has no tool for: log lines, progress, a form and roots in calls that are waited for, and a
tool that runs only as a task.

It stands behind the hub next to the demo, as any server would: `up --server python:tests.clients.extra_server:server`.
"""

from __future__ import annotations

import asyncio
import warnings
from typing import Any, Final

from mcp.server import MCPServer
from mcp.server.mcpserver import Context
from mcp.shared.exceptions import MCPDeprecationWarning
from mcp_types import (
    ElicitRequest,
    ElicitRequestFormParams,
    ElicitResult,
    InputRequiredResult,
    ListRootsRequest,
    ListRootsResult,
    ToolAnnotations,
)

__all__ = ["server"]

Ctx = Context[Any, Any]
READ_ONLY: Final = ToolAnnotations(read_only_hint=True, idempotent_hint=True)
STEPS: Final = 3
STEP_SECONDS: Final = 0.3
COLOR: Final[dict[str, Any]] = {
    "type": "object",
    "properties": {"color": {"type": "string", "enum": ["red", "green"]}},
    "required": ["color"],
}

server: Final = MCPServer("taskhub-clients-extra", version="1.0.0", log_level="WARNING")


@server.tool(annotations=READ_ONLY, structured_output=False)
async def tell(ctx: Ctx) -> str:
    """Report each step as progress and as a log line."""
    for step in range(1, STEPS + 1):
        await ctx.report_progress(step, STEPS, f"step {step}")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", MCPDeprecationWarning)  # logging is on its way out, clients still show it
            await ctx.info(f"told {step}")
        await asyncio.sleep(STEP_SECONDS)
    return f"{STEPS} steps"


@server.tool(annotations=READ_ONLY, structured_output=False)
def pick(ctx: Ctx) -> str | InputRequiredResult:
    """Ask for a colour."""
    answer = (ctx.input_responses or {}).get("color")
    if not isinstance(answer, ElicitResult):
        params = ElicitRequestFormParams(message="Which colour?", requested_schema=COLOR)
        return InputRequiredResult(input_requests={"color": ElicitRequest(params=params)})
    return str((answer.content or {}).get("color")) if answer.action == "accept" else answer.action


@server.tool(annotations=READ_ONLY, structured_output=False)
def paint(ctx: Ctx) -> str | InputRequiredResult:
    """Ask for a colour, too. Where agents are tried, a policy has the client alone answer it."""
    return pick(ctx)


@server.tool(annotations=READ_ONLY, structured_output=False, meta={"taskhub/task": "required"})
def task_only() -> str:
    """Listed and run only where there are tasks."""
    return "a task"


@server.tool(annotations=READ_ONLY, structured_output=False)
def roots(ctx: Ctx) -> str | InputRequiredResult:
    """Name the client's roots."""
    answer = (ctx.input_responses or {}).get("roots")
    if not isinstance(answer, ListRootsResult):
        return InputRequiredResult(input_requests={"roots": ListRootsRequest()})
    return " ".join(str(root.uri) for root in answer.roots)

"""A server of FastMCP with its tasks extension, which uses nothing but what the package has: run by the environment of
`fastmcp.txt`, with the port."""

import asyncio
import sys
from datetime import timedelta

from fastmcp import Context, FastMCP
from fastmcp.utilities.tasks import TaskConfig
from fastmcp_tasks import TasksExtension
from mcp_types import ElicitRequest, ElicitRequestFormParams, InputRequiredResult

mcp = FastMCP("matrix")
mcp.add_extension(TasksExtension(url="memory://matrix"))
SOON = timedelta(milliseconds=200)
OPTIONAL = TaskConfig(mode="optional", poll_interval=SOON)
REQUIRED = TaskConfig(mode="required", poll_interval=SOON)


def question(message: str, name: str) -> ElicitRequest:
    schema = {"type": "object", "properties": {name: {"type": "string"}}, "required": [name]}
    return ElicitRequest(params=ElicitRequestFormParams(message=message, requested_schema=schema))


def answer(ctx: Context, key: str) -> str | None:
    found = (ctx.input_responses or {}).get(key)
    if found is None:
        return None
    return str((found.content or {}).get(key)) if found.action == "accept" else found.action


@mcp.tool
def add(a: int, b: int) -> int:
    """Add, at once."""
    return a + b


@mcp.tool
def fail(how: str) -> str:
    """Fail."""
    raise ValueError(f"it fails {how}")


@mcp.tool(task=OPTIONAL)
async def count(steps: int) -> dict[str, int]:
    """Count, as a task or not."""
    for _ in range(steps):
        await asyncio.sleep(0.2)
    return {"steps": steps}


@mcp.tool(task=REQUIRED)
async def research(topic: str) -> str:
    """Look something up, only as a task."""
    await asyncio.sleep(1)
    return f"All about {topic}"


@mcp.tool(task=REQUIRED)
async def fail_as_task(how: str) -> str:
    """Fail, as a task."""
    await asyncio.sleep(0.2)
    raise ValueError(f"it fails {how}")


@mcp.tool(task=REQUIRED)
async def book(place: str, ctx: Context) -> str | InputRequiredResult:
    """Ask two questions, one after the other, as a task."""
    day = answer(ctx, "day")
    if day is None and ctx.request_state is None:
        return InputRequiredResult(input_requests={"day": question("Which day?", "day")}, request_state="asked-day")
    if ctx.request_state == "asked-day":
        name = question(f"Whose name, on {day}?", "name")
        return InputRequiredResult(input_requests={"name": name}, request_state=f"day:{day}")
    return f"{place}, {ctx.request_state}, {answer(ctx, 'name')}"


@mcp.tool(task=OPTIONAL)
async def pick(ctx: Context) -> str | InputRequiredResult:
    """Ask one question, as a task or not."""
    colour = answer(ctx, "colour")
    if colour is None:
        return InputRequiredResult(input_requests={"colour": question("Which colour?", "colour")})
    return colour


@mcp.tool(task=REQUIRED)
async def sleep(seconds: float) -> str:
    """Take long."""
    await asyncio.sleep(seconds)
    return "awake"


@mcp.tool(task=OPTIONAL)
async def repeat(text: str, times: int) -> str:
    """Say something big."""
    return text * times


if __name__ == "__main__":
    mcp.run(transport="http", host="127.0.0.1", port=int(sys.argv[1]), show_banner=False)

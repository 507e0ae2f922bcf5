"""A few tools that the conformance fixtures lack, as an ordinary MCP server behind the hub."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Annotated, Any, Final

from mcp import MCPError
from mcp.server import MCPServer
from mcp.server.mcpserver import Context
from mcp.server.mcpserver.tools import Tool
from mcp_types import (
    Annotations,
    CallToolResult,
    CreateMessageRequest,
    CreateMessageRequestParams,
    ElicitRequest,
    ElicitRequestFormParams,
    ElicitRequestURLParams,
    ElicitResult,
    Icon,
    InputRequiredResult,
    SamplingMessage,
    TextContent,
    ToolAnnotations,
)
from pydantic import BaseModel, Field

Ctx = Context[Any, Any]
NEVER: Final = {"taskhub/task": "never"}
ALWAYS: Final = {"taskhub/task": "always"}


# What survives the way from here to a client --------------------------------------------------

ICON: Final = {"src": "https://example.com/i.svg", "mimeType": "image/svg+xml", "sizes": ["any"], "theme": "light"}
RICH_SCHEMA: Final[dict[str, Any]] = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "$defs": {"n": {"$anchor": "n", "type": "integer", "exclusiveMinimum": 0}},
    "type": "object",
    "properties": {"n": {"$ref": "#n"}, "tags": {"type": "array", "prefixItems": [{"const": "a"}], "items": False}},
    "dependentRequired": {"tags": ["n"]},
    "unevaluatedProperties": False,
    "x-own": {"kept": None},
}
RICH_CONTENT: Final[list[dict[str, Any]]] = [
    {"type": "text", "text": "words", "annotations": {"audience": ["user"], "priority": 0.2}, "_meta": {"e/t": 1}},
    {"type": "image", "data": "AAAA", "mimeType": "image/png", "annotations": {"lastModified": "2026-01-02T03:04:05Z"}},
    {"type": "audio", "data": "AAAA", "mimeType": "audio/wav", "_meta": {"e/a": [1, {"b": None}]}},
    {
        "type": "resource",
        "resource": {"uri": "extra://in", "mimeType": "text/plain", "text": "inside", "_meta": {"e/r": True}},
        "annotations": {"priority": 1.0},
    },
    {
        "type": "resource_link",
        "uri": "extra://unlisted/1",
        "name": "link",
        "title": "A link",
        "description": "Not in any list",
        "mimeType": "text/plain",
        "size": 7,
        "icons": [ICON],
        "annotations": {"audience": ["assistant"]},
    },
]


def _rich() -> CallToolResult:
    return CallToolResult.model_validate(
        {"content": RICH_CONTENT, "structuredContent": {"n": 1, "deep": {"list": [1, None, "x"]}}, "_meta": {"e/x": 1}}
    )


_made = Tool.from_function(
    _rich,
    name="rich",
    title="Rich",
    description="Everything a tool can say.",
    icons=[Icon.model_validate(ICON)],
    annotations=ToolAnnotations(title="Rich indeed", read_only_hint=True, open_world_hint=False),
    meta={**NEVER, "example.com/deep": {"a": [1, {"b": None}]}},
    structured_output=False,
)
# As the conformance fixtures do: only so can a schema be set that no signature produces.
_RICH: Final = _made.model_copy(update={"parameters": RICH_SCHEMA})

server: Final[MCPServer[Any]] = MCPServer("taskhub-test-extra", version="1.0.0", log_level="WARNING", tools=[_RICH])


# Tools ---------------------------------------------------------------------------------------


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


async def _worked(ctx: Ctx, seconds: float, done: str) -> str:
    await ctx.report_progress(0, 1, "begun")
    await asyncio.sleep(seconds)
    await ctx.report_progress(1, 1, "through")
    return done


@server.tool(meta=ALWAYS, structured_output=False)
async def lengthy(ctx: Ctx, seconds: float = 1) -> str:
    """Take a while; a task wherever there can be one."""
    return await _worked(ctx, seconds, "Took a while")


@server.tool(meta=ALWAYS, structured_output=False)
async def signed(ctx: Ctx) -> str:
    """What people approve first, once a test has laid that down."""
    return await _worked(ctx, 0.5, "Signed")


async def _until_there(ctx: Ctx, path: str) -> str:
    await ctx.report_progress(0, 1, f"waiting for {Path(path).name}")
    file = Path(path)
    for _ in range(3_000):  # a minute at least; for ever would be too long where its test has failed
        if file.exists():
            return f"Found {file.name}"
        await asyncio.sleep(0.02)
    raise TimeoutError(f"There is no {file.name}")


@server.tool(structured_output=False)
async def await_file(ctx: Ctx, path: str) -> str:
    """Wait for a file; a task after a short wait."""
    return await _until_there(ctx, path)


@server.tool(meta=NEVER, structured_output=False)
async def await_file_inline(ctx: Ctx, path: str) -> str:
    """Wait for a file, and keep the caller waiting."""
    return await _until_there(ctx, path)


@server.tool(structured_output=False)
def wrong_question(ctx: Ctx) -> str | InputRequiredResult:
    """Ask for an answer that no client said it could give."""
    name = _text(ctx, "name", "name")
    return f"Hello, {name}!" if name else InputRequiredResult(input_requests={"name": _form("Your name?", "name")})


@server.resource(
    "extra://note",
    name="note",
    title="A note",
    description="It changes when touched.",
    mime_type="text/plain",
    icons=[Icon.model_validate(ICON)],
    annotations=Annotations(audience=["user", "assistant"], priority=0.9),
    meta={"example.com/shelf": {"row": 3}},
)
def note() -> str:
    return "noted"


@server.resource("extra://asks/{what}", name="asks")
def asks(what: str, ctx: Ctx) -> str | InputRequiredResult:
    word = _text(ctx, "word", "word")
    if word is None:
        return InputRequiredResult(input_requests={"word": _form("Which word?", "word")}, request_state=what)
    return f"{word} about {ctx.request_state}"


@server.resource("extra://hold/{seconds}", name="hold")
async def held(seconds: str) -> str:
    await asyncio.sleep(float(seconds))
    return "let go"


@server.tool(meta=NEVER, structured_output=False)
def error_tool(code: int) -> str:
    """The JSON-RPC error that was asked for."""
    raise MCPError(code, "as you wish", {"asked": code})


@server.tool(meta=NEVER, structured_output=False)
async def touch(ctx: Ctx, uri: str = "extra://note") -> str:
    """Say that a resource has changed."""
    await ctx.notify_resource_updated(uri)
    return "touched"


@server.tool(meta=NEVER, structured_output=False)
async def change_resources(ctx: Ctx) -> str:
    """Add a resource, and say so."""
    number = len(await server.list_resources())

    def more() -> str:
        return "more"

    server.resource(f"extra://more/{number}", name=f"more-{number}")(more)
    await ctx.notify_resources_changed()
    return f"extra://more/{number}"


@server.prompt(title="Ask both", icons=[Icon.model_validate(ICON)])
def ask_both(ctx: Ctx, about: str = "it") -> str | InputRequiredResult:
    """A prompt that wants a form filled in and a model's help."""
    name = _text(ctx, "name", "name")
    sampled = (ctx.input_responses or {}).get("sample")
    if name is None or sampled is None:
        message = SamplingMessage(role="user", content=TextContent(text="Help"))
        sampling = CreateMessageRequest(params=CreateMessageRequestParams(messages=[message], max_tokens=5))
        return InputRequiredResult(input_requests={"name": _form("Your name?", "name"), "sample": sampling})
    return f"{name} asks about {about}"


@server.prompt()
def only_forms(ctx: Ctx) -> str | InputRequiredResult:
    """A prompt that wants a form filled in, twice."""
    first = _text(ctx, "first", "word")
    if ctx.request_state is None or first is None:
        return InputRequiredResult(input_requests={"first": _form("First?", "word")}, request_state="one")
    return f"{first} in round {ctx.request_state}"


@server.prompt()
def error_prompt(code: str) -> str:
    """Answers with a JSON-RPC error."""
    raise MCPError(int(code), "as you wish", {"asked": code})

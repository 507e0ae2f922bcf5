"""Two servers that offer more than tools: one of 2026 in this process, and the shelves they list."""

from __future__ import annotations

import asyncio
from typing import Any, Final

from mcp import MCPError
from mcp.server import MCPServer, Server
from mcp.server.context import ServerRequestContext
from mcp.server.mcpserver import Context
from mcp.server.mcpserver.prompts import Prompt as ServedPrompt
from mcp_types import (
    Annotations,
    Completion,
    CompletionArgument,
    CompletionContext,
    ElicitResult,
    Icon,
    InputRequiredResult,
    ListPromptsResult,
    ListResourcesResult,
    ListResourceTemplatesResult,
    PaginatedRequestParams,
    Prompt,
    PromptArgument,
    PromptReference,
    ReadResourceRequestParams,
    ReadResourceResult,
    Resource,
    ResourceTemplate,
    ResourceTemplateReference,
    TextResourceContents,
)

from tests.upstream.servers import form, gates, reached

Ctx = Context[Any, Any]
ICON: Final = Icon(src="https://example.com/i.png", mime_type="image/png", sizes=["48x48"], theme="dark")

# Lists as they are right now, page by page ---------------------------------------------------


class Shelves:
    """What `bare` lists; `broken` names a list that fails."""

    def __init__(self) -> None:
        self.reset()

    def reset(self) -> None:
        self.prompts: list[Prompt] = []
        self.resources: list[Resource] = []
        self.templates: list[ResourceTemplate] = []
        self.page = 100
        self.broken = ""


shelves = Shelves()


def _page(params: PaginatedRequestParams | None, items: list[Any]) -> tuple[list[Any], str | None]:
    start = int((params.cursor if params else None) or 0)
    end = start + shelves.page
    return items[start:end], str(end) if end < len(items) else None


async def _prompts(ctx: ServerRequestContext[Any], params: PaginatedRequestParams | None) -> ListPromptsResult:
    if shelves.broken == "prompts":
        raise MCPError(-32050, "the prompts are at lunch")
    found, cursor = _page(params, shelves.prompts)
    return ListPromptsResult(prompts=found, next_cursor=cursor, ttl_ms=0)


async def _resources(ctx: ServerRequestContext[Any], params: PaginatedRequestParams | None) -> ListResourcesResult:
    found, cursor = _page(params, shelves.resources)
    return ListResourcesResult(resources=found, next_cursor=cursor, ttl_ms=0)


async def _templates(
    ctx: ServerRequestContext[Any], params: PaginatedRequestParams | None
) -> ListResourceTemplatesResult:
    found, cursor = _page(params, shelves.templates)
    return ListResourceTemplatesResult(resource_templates=found, next_cursor=cursor, ttl_ms=0)


async def _read(ctx: ServerRequestContext[Any], params: ReadResourceRequestParams) -> ReadResourceResult:
    return ReadResourceResult(contents=[TextResourceContents(uri=params.uri, text="bare")], ttl_ms=1_234)


bare: Final[Server[Any]] = Server(
    "bare-library",
    version="0.1",
    on_list_prompts=_prompts,
    on_list_resources=_resources,
    on_list_resource_templates=_templates,
    on_read_resource=_read,
)


# A server that does everything, and has no tools but those that change it ------------------------

library: Final[MCPServer[Any]] = MCPServer("library", version="3", log_level="CRITICAL")


@library.resource(
    "lib://note",
    name="note",
    title="A note",
    description="It changes",
    mime_type="text/plain",
    icons=[ICON],
    annotations=Annotations(audience=["user"], priority=0.5),
    meta={"example.com/shelf": 7},
)
def note() -> str:
    return "a note"


@library.resource("lib://bytes", name="bytes", mime_type="application/octet-stream")
def some_bytes() -> bytes:
    return b"\x00\xff"


@library.resource("lib://page/{number}", name="page")
def numbered_page(number: str) -> str:
    return f"page {number}"


@library.resource("lib://asked/{what}", name="asked")
def asked(what: str, ctx: Ctx) -> str | InputRequiredResult:
    answer = (ctx.input_responses or {}).get("word")
    if not isinstance(answer, ElicitResult):
        return InputRequiredResult(
            input_requests={"word": form("Which word?", {"word": {"type": "string"}})}, request_state=f"about {what}"
        )
    return f"{(answer.content or {}).get('word')} {ctx.request_state}"


@library.resource("lib://held/{label}", name="held")
async def held(label: str) -> str:
    """Waits for the gate."""
    gates.starts.append(label)
    gates.entered.set()
    try:
        await reached(gates.opened.is_set)
    except asyncio.CancelledError:
        gates.cancelled.set()
        raise
    return "let go"


@library.resource("lib://big", name="big")
def big() -> str:
    return "x" * (9 * 1_048_576)


@library.prompt(title="Greeting", icons=[ICON])
def greeting(name: str, tone: str = "warm") -> str:
    """Greets."""
    return f"Say something {tone} to {name}."


@library.prompt()
def refused() -> str:
    """Refuses."""
    raise MCPError(-32042, "go there first", {"where": "there"})


@library.completion()  # type: ignore[no-untyped-call, untyped-decorator]  # the SDK's decorator carries no types
async def complete(
    ref: PromptReference | ResourceTemplateReference, argument: CompletionArgument, context: CompletionContext | None
) -> Completion | None:
    if isinstance(ref, PromptReference):
        given = (context.arguments or {}) if context else {}
        return Completion(values=[f"{ref.name}.{argument.name}={argument.value}", *sorted(given)])
    return Completion(values=[f"{ref.uri}#{number}" for number in range(100)], total=100)


@library.tool(structured_output=False)
async def touch(ctx: Ctx, uri: str = "lib://note") -> str:
    """Say that a resource has changed."""
    await ctx.notify_resource_updated(uri)
    return "touched"


@library.tool(structured_output=False)
async def change(ctx: Ctx, what: str) -> str:
    """Add a prompt or a resource, or take it away."""
    if what == "prompt":
        if any(prompt.name == "extra" for prompt in await library.list_prompts()):
            library.remove_prompt("extra")
        else:
            library.add_prompt(ServedPrompt.from_function(lambda: "extra", "extra"))
        await ctx.notify_prompts_changed()
    else:
        await ctx.notify_resources_changed()
    return "changed"


def prompt(name: str, **more: Any) -> Prompt:
    return Prompt(name=name, arguments=[PromptArgument(name="who", required=True)], **more)

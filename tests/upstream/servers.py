"""Servers to be called: ordinary ones made with the SDK, in this process. Tests import their objects
as the hub does, by name, and hold their tools in the gates below."""

from __future__ import annotations

import asyncio
import itertools
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, fields
from typing import Any, Final

from mcp import MCPError
from mcp.server import MCPServer, Server
from mcp.server.context import ServerRequestContext
from mcp.server.mcpserver import Context
from mcp.server.mcpserver.exceptions import ToolError
from mcp_types import (
    CallToolRequestParams,
    CallToolResult,
    ElicitRequest,
    ElicitRequestFormParams,
    ElicitRequestURLParams,
    ElicitResult,
    InputRequest,
    InputRequiredResult,
    InputResponse,
    ListRootsRequest,
    ListToolsResult,
    PaginatedRequestParams,
    TextContent,
    Tool,
)
from pydantic import BaseModel

HELD_SECONDS: Final = 20.0
"""No gate holds longer: a test that forgot to open one fails instead of hanging."""

Ctx = Context[Any, Any]


@dataclass
class Gates:
    """Where a tool tells that it is there and waits to be let go."""

    entered: threading.Event = field(default_factory=threading.Event)
    opened: threading.Event = field(default_factory=threading.Event)
    """Lets a tool that blocks its thread go on."""
    another: threading.Event = field(default_factory=threading.Event)
    """Lets `wait_for_another` go on."""
    cancelled: threading.Event = field(default_factory=threading.Event)
    """An async tool was told to stop."""
    left: threading.Event = field(default_factory=threading.Event)
    """The tool has really stopped."""
    starts: list[str] = field(default_factory=list)
    """The labels of all calls that started, in order, of the tools that wait."""

    def reset(self) -> None:
        self.opened.set()  # whoever still waits belongs to a test that is over
        for part in fields(self):
            assert callable(part.default_factory)
            setattr(self, part.name, part.default_factory())


gates = Gates()


class Point(BaseModel):
    x: int
    y: int


async def reached(look: Callable[[], bool]) -> None:
    """Wait for what another thread brings about."""
    async with asyncio.timeout(HELD_SECONDS):
        while not look():  # noqa: ASYNC110 - the events are of threads, not of a loop
            await asyncio.sleep(0.005)


_connections = itertools.count(1)


@asynccontextmanager
async def _number(_: MCPServer[int]) -> AsyncIterator[int]:
    """Every connection to an in-process server enters its lifespan once."""
    yield next(_connections)


workshop: Final[MCPServer[int]] = MCPServer("workshop", version="1.2.3", log_level="CRITICAL", lifespan=_number)


left: list[asyncio.Task[None]] = []
LEAVING: dict[str, BaseException] = {
    "exit": SystemExit(3),
    "interrupt": KeyboardInterrupt(),
    "cancel": asyncio.CancelledError(),
}


@workshop.tool(structured_output=False)
def echo(text: str) -> str:
    """Say it back."""
    return text


@workshop.tool()
def point() -> Point:
    """Structured output."""
    return Point(x=3, y=4)


@workshop.tool(structured_output=False)
def refuse() -> str:
    """Fail the way tools do."""
    raise ToolError("not today")


@workshop.tool(structured_output=False)
def crash() -> str:
    """Fail the way programs do."""
    raise RuntimeError("the password is swordfish")


@workshop.tool(structured_output=False)
def leave(how: str) -> str:
    """Fail the way scripts do, which are alone in their process; in a thread."""
    raise LEAVING[how]


@workshop.tool(structured_output=False)
async def leave_here(how: str) -> str:
    """The same in the server's own loop."""
    raise LEAVING[how]


@workshop.tool(structured_output=False)
async def leave_behind(how: str) -> str:
    """The same in a task that the tool leaves running."""

    async def end() -> None:
        raise LEAVING[how]

    left.append(asyncio.create_task(end()))
    await asyncio.wait(left)
    return str(repr(left.pop().exception()))


@workshop.tool(structured_output=False)
def protocol_error(data: bool = False, quoted: str = "") -> str:
    """Answer with a JSON-RPC error."""
    if quoted:
        raise MCPError(-32042, f"no luck with {quoted}", {quoted: [f"not {quoted}", 1]})
    if data:
        raise MCPError(-32042, "no such luck", {"why": "weather"})
    raise MCPError(-32042, "no such luck")


@workshop.tool(structured_output=False)
async def connection_number(ctx: Ctx, together: int = 1) -> str:
    """Which connection this call came through; waits for so many calls to be there at once."""
    gates.starts.append("")
    await reached(lambda: len(gates.starts) >= together)
    return str(ctx.request_context.lifespan_context)


@workshop.tool(structured_output=False)
async def hold(label: str = "", linger: bool = False) -> str:
    """Wait for ever, without blocking anybody; with `linger`, stop only when the gate opens."""
    gates.starts.append(label)
    gates.entered.set()
    try:
        await asyncio.sleep(HELD_SECONDS)
    except asyncio.CancelledError:
        gates.cancelled.set()
        if linger:
            await asyncio.to_thread(gates.opened.wait, HELD_SECONDS)
        raise
    finally:
        gates.left.set()
    return "never cancelled"


@workshop.tool(structured_output=False)
async def hold_again(label: str = "") -> str:
    """Another tool that does the same, for another policy."""
    return await hold(label)


@workshop.tool(structured_output=False)
async def report_and_wait(ctx: Ctx) -> str:
    """Say how far it is, then wait for the gate."""
    await ctx.report_progress(3, 4, "three of four")
    return await wait_for_gate()


@workshop.tool(structured_output=False)
async def wait_for_gate() -> str:
    """Wait for the gate, without blocking anybody."""
    gates.entered.set()
    await reached(gates.opened.is_set)
    return "let go"


@workshop.tool(structured_output=False)
async def wait_for_another() -> str:
    """The same, at another gate."""
    gates.starts.append("another")
    await reached(gates.another.is_set)
    return "let go"


@workshop.tool(structured_output=False)
async def block(label: str = "") -> str:
    """Block the thread of the whole server, as careless code does."""
    gates.starts.append(label)
    gates.entered.set()
    gates.opened.wait(HELD_SECONDS)
    gates.left.set()
    return "let go"


@workshop.tool(structured_output=False)
async def thread_name() -> str:
    """The thread a coroutine function runs in."""
    return threading.current_thread().name


@workshop.tool(structured_output=False)
def text_of_size(size: int) -> str:
    """That many characters."""
    return "x" * size


@workshop.tool(structured_output=False)
def half_a_character() -> str:
    """Text that no JSON can carry."""
    return "broken: \ud800"


@workshop.tool(structured_output=False)
async def chatter(ctx: Ctx, lines: int = 2) -> str:
    """Say a lot: a log line and progress for each."""
    for number in range(1, lines + 1):
        await ctx.info(f"line {number}")
        await ctx.report_progress(number, lines, f"step {number}")
    return "said"


@workshop.tool(structured_output=False)
async def progress_without_words(ctx: Ctx) -> str:
    """Progress that has neither an end nor a text."""
    await ctx.report_progress(7)
    return "said"


@workshop.tool(structured_output=False)
def declared(ctx: Ctx) -> str:
    """What the connection declared."""
    have = ctx.client_capabilities
    names = ("elicitation", "sampling", "roots")
    return " ".join(name for name in names if have is not None and getattr(have, name) is not None)


@workshop.tool(structured_output=False)
def declared_sampling(ctx: Ctx) -> str:
    """Which parts of sampling the connection declared."""
    have = ctx.client_capabilities
    if have is None or have.sampling is None:
        return "none"
    return " ".join(["sampling", *sorted(have.sampling.model_dump(exclude_none=True))])


@workshop.tool(structured_output=False)
def trace(ctx: Ctx) -> str:
    """The trace the caller sent along."""
    meta: Any = ctx.request_context.meta or {}
    return str(meta.get("traceparent"))


def form(message: str, properties: dict[str, Any]) -> ElicitRequest:
    schema: dict[str, Any] = {"type": "object", "properties": properties}
    return ElicitRequest(params=ElicitRequestFormParams(message=message, requested_schema=schema))


def _word(answer: InputResponse | None) -> str:
    return str((answer.content or {}).get("word", "")) if isinstance(answer, ElicitResult) else ""


@workshop.tool(structured_output=False)
def ask(ctx: Ctx, key: str = "word") -> str | InputRequiredResult:
    """Ask under one key, with a state, until the word is "done"."""
    word = _word((ctx.input_responses or {}).get(key))
    if word == "done":
        return f"heard {word} in round {ctx.request_state}"
    question = form(f"Which word, after {word!r}?", {"word": {"type": "string"}})
    return InputRequiredResult(input_requests={key: question}, request_state=f"{ctx.request_state or ''}+")


@workshop.tool(structured_output=False)
def ask_two(ctx: Ctx) -> str | InputRequiredResult:
    """A form and the roots at once."""
    questions: dict[str, InputRequest] = {
        "word": form("Which word?", {"word": {"type": "string"}}),
        "roots": ListRootsRequest(),
    }
    return InputRequiredResult(input_requests=questions)


@workshop.tool(structured_output=False)
def ask_many(count: int) -> str | InputRequiredResult:
    """That many questions at once."""
    return InputRequiredResult(
        input_requests={f"q{number}": form("And?", {"word": {"type": "string"}}) for number in range(count)}
    )


@workshop.tool(structured_output=False)
def ask_under(keys: list[str]) -> str | InputRequiredResult:
    """A question under each of these keys."""
    return InputRequiredResult(input_requests={key: form("And?", {"word": {"type": "string"}}) for key in keys})


@workshop.tool(structured_output=False)
def ask_for_an_object() -> str | InputRequiredResult:
    """A form with a field that nobody can draw."""
    return InputRequiredResult(input_requests={"deep": form("Which?", {"tree": {"type": "object"}})})


def _nested(levels: int) -> Any:
    value: Any = "x"
    for _ in range(levels):
        value = [value]
    return value


ODD: Final[dict[str, dict[str, Any]]] = {
    "huge": {"type": "number", "minimum": 10**400},
    "deep": {"type": "string", "default": _nested(100)},
    "long": {"type": "string", "minLength": 10**30},
    "large": {"type": "string", "description": "x" * 70_000},
}
"""Fields that break whoever reckons with them."""


@workshop.tool(structured_output=False)
def ask_oddly(what: str) -> str | InputRequiredResult:
    """A form with such a field."""
    return InputRequiredResult(input_requests={"odd": form("How many?", {"n": ODD[what]})})


@workshop.tool(structured_output=False)
def ask_at_length(size: int) -> str | InputRequiredResult:
    """A question of so many characters."""
    return InputRequiredResult(input_requests={"long": form("x" * size, {"n": {"type": "string"}})})


@workshop.tool(structured_output=False)
def ask_to_open(url: str) -> str | InputRequiredResult:
    """A page to open, at any address."""
    params = ElicitRequestURLParams(message="Sign in", url=url, elicitation_id="e1")
    return InputRequiredResult(input_requests={"open": ElicitRequest(params=params)})


@workshop.tool(structured_output=False)
def call_again(ctx: Ctx, times: int, ask: bool = False) -> str | InputRequiredResult:
    """Wants to be called again so many times before it ends, or asks its question."""
    gates.starts.append("")
    answered = "word" in (ctx.input_responses or {})
    round_ = int(ctx.request_state or 0)
    if round_ < times:
        return InputRequiredResult(request_state=str(round_ + 1))
    if ask and not answered:
        question = form("Which word?", {"word": {"type": "string"}})
        return InputRequiredResult(input_requests={"word": question}, request_state=str(round_))
    return f"round {round_}, {'answered' if answered else 'nothing answered'}"


@workshop.tool(structured_output=False)
def wait_without_question() -> str | InputRequiredResult:
    """Wants to be called again, and asks nothing."""
    return InputRequiredResult(request_state="later")


# A server whose catalogue changes, page by page ---------------------------------------------


class Shelf:
    """Tools as they are listed right now, so many on a page."""

    def __init__(self) -> None:
        self.reset()

    def reset(self) -> None:
        self.tools: list[Tool] = []
        self.page = 100
        self.cursors: list[str | None] = []

    def put(self, *names: str, description: str = "as it was") -> None:
        schema: dict[str, Any] = {"type": "object", "properties": {"a": {"type": "string"}, "b": {"type": "integer"}}}
        self.tools = [Tool(name=name, description=description, input_schema=schema) for name in names]


shelf = Shelf()


async def _list(ctx: ServerRequestContext[Any], params: PaginatedRequestParams | None) -> ListToolsResult:
    cursor = params.cursor if params else None
    shelf.cursors.append(cursor)
    start = int(cursor or 0)
    end = start + shelf.page
    return ListToolsResult(
        tools=shelf.tools[start:end], next_cursor=str(end) if end < len(shelf.tools) else None, ttl_ms=0
    )


async def _call(ctx: ServerRequestContext[Any], params: CallToolRequestParams) -> CallToolResult:
    """No MCPServer catches what this raises."""
    if params.name == "crash":
        raise RuntimeError("boom")
    return CallToolResult(content=[TextContent(text=params.name)])


bare: Final[Server[Any]] = Server("bare", version="0.1", on_list_tools=_list, on_call_tool=_call)


# A server that announces its changes -------------------------------------------------------

changing: Final[MCPServer[Any]] = MCPServer("changing", log_level="CRITICAL")


@changing.tool(structured_output=False)
async def redefine(ctx: Ctx, description: str = "", announce: bool = True) -> str:
    """Give the tool `it` another description, or take it away; and tell whoever listens."""
    if any(tool.name == "it" for tool in await changing.list_tools()):
        changing.remove_tool("it")
    if description:
        changing.add_tool(lambda: "it", name="it", description=description, structured_output=False)
    if announce:
        await ctx.notify_tools_changed()
    return "done"

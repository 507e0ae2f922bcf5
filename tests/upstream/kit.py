"""What tests of servers share: claims, pools over each transport, a server on a port of its own."""

from __future__ import annotations

import asyncio
import socket
import sys
import threading
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from types import TracebackType
from typing import Annotated, Any, Final

import psutil
import uvicorn
from mcp.server import MCPServer
from mcp.server.mcpserver import Context
from pydantic import Field

from taskhub.core.records import Claim, LogLine
from taskhub.core.states import QuestionKind
from taskhub.upstream.call import call_tool
from taskhub.upstream.outcomes import CallOutcome, Finished
from taskhub.upstream.pool import Pool
from taskhub.upstream.target import Target
from tests.upstream import servers

WORKSHOP: Final = Target("python", "tests.upstream.servers:workshop")
BARE: Final = Target("python", "tests.upstream.servers:bare")
CHANGING: Final = Target("python", "tests.upstream.servers:changing")
COMMAND: Final = Target("stdio", f"{sys.executable} -m tests.upstream.command_server")
OLD: Final = Target("stdio", f"{sys.executable} -m tests.upstream.old_server")
NOTEBOOK: Final = Target("stdio", f"{sys.executable} -m tests.upstream.notebook")
PARENT: Final = Target("stdio", f"{sys.executable} -m tests.upstream.parent_server")
BOUND: Final = 10.0


def make_claim(tool: str = "echo", arguments: dict[str, Any] | None = None, **fields: Any) -> Claim:
    """A task in a worker's hands; `fields` replace others."""
    given: dict[str, Any] = {
        "task_id": 1,
        "public_id": "task-1",
        "epoch": 3,
        "tenant_id": 1,
        "context_id": 1,
        "server_id": 1,
        "server_name": "the-server",
        "tool_id": 1,
        "tool_name": tool,
        "arguments": arguments or {},
        "answers": None,
        "upstream_state": None,
        "client_capabilities": {},
        "trace": {},
        "question_audience": None,
        "run_seconds": 60,
    }
    return Claim(**{**given, **fields})


async def nobody_answers(kind: QuestionKind, params: dict[str, Any]) -> dict[str, Any]:
    raise AssertionError(f"nobody should be asked for {kind}")


async def call(
    pool: Pool,
    tool: str,
    arguments: dict[str, Any] | None = None,
    *,
    said: list[LogLine] | None = None,
    ask: Any = nobody_answers,
    **fields: Any,
) -> CallOutcome:
    """One call, in the loop where the server lives."""
    heard = [] if said is None else said
    return await pool.run(call_tool(pool, make_claim(tool, arguments, **fields), say=heard.append, ask=ask))


def text(outcome: CallOutcome) -> str:
    """The text of a result that is no error."""
    assert isinstance(outcome, Finished), outcome
    assert not outcome.result.get("isError"), outcome
    (block,) = outcome.result["content"]
    return str(block["text"])


@asynccontextmanager
async def pool_of(target: Target, **how: Any) -> AsyncIterator[Pool]:
    """A pool, closed at the end."""
    pool = Pool("the-server", target, **how)
    try:
        yield pool
    finally:
        await pool.close()


async def until(look: Callable[[], object], what: str, seconds: float = BOUND) -> None:
    """Wait for what another task, thread or process brings about."""
    end = time.monotonic() + seconds
    while not look():
        assert time.monotonic() < end, f"waited {seconds:g} s for {what}"
        await asyncio.sleep(0.005)


def hurry(factor: float = 20.0) -> asyncio.Task[None]:
    """From now on the clock of this test's loop runs faster: whoever waits for a fixed time waits
    less. Keep what it returns."""
    loop = asyncio.get_running_loop()
    real, begin = loop.time, loop.time()

    def hurried() -> float:
        return begin + (real() - begin) * factor

    setattr(loop, "time", hurried)  # noqa: B010 - an assignment to a method is what types forbid, and what this is

    async def tick() -> None:
        while True:  # noqa: ASYNC110 - the loop sleeps by the real clock, so it is woken often
            await asyncio.sleep(0.01)

    return asyncio.create_task(tick())


def children() -> list[psutil.Process]:
    """The commands this process has started that still run."""
    found = psutil.Process().children(recursive=True)
    return [child for child in found if child.is_running() and "tests.upstream" in " ".join(_words(child))]


def _words(child: psutil.Process) -> list[str]:
    try:
        return [] if child.status() == psutil.STATUS_ZOMBIE else list(child.cmdline())
    except psutil.NoSuchProcess:
        return []


Mirrored = Annotated[str, Field(json_schema_extra={"x-mcp-header": "Region"})]
"""An argument that has to be in a header too."""


class HttpServer:
    """A real HTTP server in a thread of its own; `with` starts and stops it. Stopped, it can be
    started again at the same port."""

    def __init__(self) -> None:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port: int = probe.getsockname()[1]
        self.authorizations: list[str | None] = []
        self.requests: list[dict[str, str]] = []
        """The headers of all requests so far."""
        self.server: MCPServer[Any] | None = None
        self.refuses: tuple[int, str] | None = None
        """The status that messages of this method get from now on; of every method where it is empty."""
        self.refuses_with: list[tuple[bytes, bytes]] = []
        """The headers of these responses."""

    @property
    def target(self) -> Target:
        return Target("http", f"http://127.0.0.1:{self.port}/mcp")

    def clients(self) -> list[int]:
        """The local ports of this process that are still connected to the server."""
        found = psutil.Process().net_connections(kind="tcp")
        return [item.laddr.port for item in found if item.raddr and item.raddr.port == self.port]

    def __enter__(self) -> HttpServer:
        config = uvicorn.Config(
            self._app(),
            host="127.0.0.1",
            port=self.port,
            log_level="critical",
            ws="none",
            timeout_graceful_shutdown=0,
        )
        self._server = uvicorn.Server(config)
        self._thread = threading.Thread(target=self._server.run, name="http-server")
        self._thread.start()
        end = time.monotonic() + BOUND
        while not self._server.started:
            assert time.monotonic() < end, "the HTTP server does not start"
            time.sleep(0.005)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> None:
        self._server.should_exit = True
        self._thread.join(BOUND)
        assert not self._thread.is_alive(), "the HTTP server does not stop"

    def _app(self) -> Any:
        self.server = self._tools()
        inner = self.server.streamable_http_app()

        async def app(scope: Any, receive: Any, send: Any) -> None:
            if scope["type"] == "http":
                headers = {name.decode(): value.decode() for name, value in scope["headers"]}
                self.requests.append(headers)
                if self.refuses and self.refuses[1] in ("", headers.get("mcp-method")):
                    await send({"type": "http.response.start", "status": self.refuses[0], "headers": self.refuses_with})
                    await send({"type": "http.response.body", "body": b""})
                    return
            await inner(scope, receive, send)

        return app

    def _tools(self) -> MCPServer[Any]:
        server: MCPServer[Any] = MCPServer("over-http", version="7", log_level="CRITICAL")

        @server.tool(structured_output=False)
        def echo(text: str, ctx: Context[Any, Any]) -> str:
            request = ctx.request_context.request
            self.authorizations.append(request.headers.get("authorization") if request is not None else None)
            return text

        @server.tool(structured_output=False)
        def region(name: Mirrored, ctx: Context[Any, Any]) -> str:
            request = ctx.request_context.request
            return f"{name} by {request.headers.get('mcp-param-region') if request is not None else None}"

        return server


class WorkshopServer(HttpServer):
    """The workshop of `tests.upstream.servers` over HTTP."""

    def _tools(self) -> MCPServer[Any]:
        return servers.workshop

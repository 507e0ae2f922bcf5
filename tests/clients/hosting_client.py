"""Clients that host tasks for what they are asked: one for elicitation, one for sampling, with the Python SDK 1.30.

python tests/clients/hosting_client.py URL TOKEN

The hub asks with `params.task`, the client answers with a task of its own and takes its time; the hub polls that and
fetches its result.
"""

from __future__ import annotations

import asyncio
import warnings
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import httpx
import mcp.types as t
from expect import expect, expect_true, run, until
from mcp.client.experimental.task_handlers import ExperimentalTaskHandlers
from mcp.client.session import ClientSession
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.exceptions import McpError
from mcp.shared.experimental.tasks.helpers import cancel_task, is_terminal
from mcp.shared.experimental.tasks.in_memory_task_store import InMemoryTaskStore

RELATED = "io.modelcontextprotocol/related-task"
STAGING = {"service": "web", "version": "1.4.2", "environment": "staging"}
THINKING_SECONDS = 1.5
POLL_MS = 200

# The API is deprecated in 1.30 and gone in 2.0; it is what this script is about.
warnings.filterwarnings("ignore", message="The experimental tasks API is deprecated", category=DeprecationWarning)


class Host:
    """Keeps the tasks it is asked for, answers each after a while, and counts what it is asked."""

    def __init__(self, answer: t.Result, seconds: float = THINKING_SECONDS) -> None:
        self.answer = answer
        self.seconds = seconds
        self.fails = False
        self.store = InMemoryTaskStore()
        self.asked: list[Any] = []
        self.polled = 0
        self.fetched = 0
        self.cancelled: list[str] = []
        self.working: set[asyncio.Task[None]] = set()

    async def augmented(self, context: Any, params: Any, metadata: t.TaskMetadata) -> t.CreateTaskResult:
        self.asked.append(params)
        task = await self.store.create_task(metadata)
        work = asyncio.create_task(self.think(task.taskId))
        self.working.add(work)
        work.add_done_callback(self.working.discard)
        return t.CreateTaskResult(task=task.model_copy(update={"pollInterval": POLL_MS}))

    async def think(self, task_id: str) -> None:
        await asyncio.sleep(self.seconds)
        task = await self.store.get_task(task_id)
        if task is None or is_terminal(task.status):
            return
        await self.store.store_result(task_id, self.answer)
        await self.store.update_task(
            task_id, "failed" if self.fails else "completed", status_message="Thought about it"
        )

    async def get(self, context: Any, params: t.GetTaskRequestParams) -> t.GetTaskResult | t.ErrorData:
        self.polled += 1
        task = await self.store.get_task(params.taskId)
        if task is None:
            return t.ErrorData(code=t.INVALID_PARAMS, message="Task not found")
        return t.GetTaskResult(**task.model_copy(update={"pollInterval": POLL_MS}).model_dump())

    async def result(self, context: Any, params: t.GetTaskPayloadRequestParams) -> t.GetTaskPayloadResult | t.ErrorData:
        self.fetched += 1
        found = await self.store.get_result(params.taskId)
        if found is None:
            return t.ErrorData(code=t.INVALID_PARAMS, message="Task not found")
        if self.fails:
            return t.ErrorData(code=t.INTERNAL_ERROR, message="Nobody was at home")
        fields = found.model_dump(exclude_none=True, by_alias=True, mode="json")
        return t.GetTaskPayloadResult(**{**fields, "_meta": {RELATED: {"taskId": params.taskId}}})

    async def cancel(self, context: Any, params: t.CancelTaskRequestParams) -> t.CancelTaskResult | t.ErrorData:
        self.cancelled.append(params.taskId)
        try:
            return await cancel_task(self.store, params.taskId)
        except McpError as error:
            return error.error

    async def plain(self, context: Any, params: Any) -> t.ErrorData:
        return t.ErrorData(code=t.INVALID_REQUEST, message="The hub asked without a task")


@asynccontextmanager
async def connected(url: str, token: str, host: Host, kind: str) -> AsyncIterator[ClientSession]:
    """A session that hosts tasks for `kind`: `elicitation` or `sampling`."""
    handlers = ExperimentalTaskHandlers(
        get_task=host.get,
        get_task_result=host.result,
        cancel_task=host.cancel,
        **{f"augmented_{kind}": host.augmented},  # type: ignore[arg-type]
    )
    callback: dict[str, Any] = {f"{kind}_callback": host.plain}
    async with (
        httpx.AsyncClient(headers={"Authorization": f"Bearer {token}"}, timeout=httpx.Timeout(30, read=300)) as http,
        streamable_http_client(url, http_client=http) as (read, write, _),
        ClientSession(read, write, experimental_task_handlers=handlers, **callback) as session,
    ):
        await session.initialize()
        yield session


async def started(session: ClientSession, tool: str, arguments: dict[str, Any]) -> str:
    return (await session.experimental.call_tool_as_task(tool, arguments)).task.taskId


async def finished(session: ClientSession, task_id: str) -> t.CallToolResult:
    return await session.experimental.get_task_result(task_id, t.CallToolResult)


def expect_hosted(host: Host, task_id: str | None) -> None:
    """The hub asked once, with a task, polled it and fetched its result once."""
    expect("requests with a task", len(host.asked), 1)
    asked = host.asked[0]
    if task_id is not None:
        expect(
            "the request names the hub's task", asked.meta and asked.meta.model_extra, {RELATED: {"taskId": task_id}}
        )
    most = int(host.seconds * 1000 / POLL_MS) + 3
    expect_true(f"polled {host.polled} times, as often as asked for", 1 <= host.polled <= most)
    expect("results fetched", host.fetched, 1)
    host.asked, host.polled, host.fetched = [], 0, 0


async def hosts_elicitation(url: str, token: str) -> None:
    host = Host(t.ElicitResult(action="accept", content={"confirm": True}))
    async with connected(url, token, host, "elicitation") as session:
        task_id = await started(session, "deploy", STAGING)
        result = await finished(session, task_id)
        expect("deploy", (result.structuredContent or {}).get("deployed"), True)
        expect_hosted(host, task_id)

        host.answer = t.ElicitResult(action="decline")
        task_id = await started(session, "deploy", STAGING)
        result = await finished(session, task_id)
        expect("deploy declined", (result.structuredContent or {}).get("deployed"), False)
        expect_hosted(host, task_id)

        host.answer = t.ElicitResult(action="accept", content={"color": "red"})
        picked = (await session.call_tool("pick")).content[0]  # the hub's side is a plain call
        expect("pick", picked.type == "text" and picked.text, "red")
        expect_hosted(host, None)

        host.fails = True
        task_id = await started(session, "deploy", STAGING)
        try:
            found: object = await finished(session, task_id)
        except McpError as error:
            found = error.error.message
        expect("a task whose host failed", found, "Nobody was at home")
        expect("its status", (await session.experimental.get_task(task_id)).status, "failed")
        expect_hosted(host, task_id)

        host.fails, host.seconds = False, 60
        task_id = await started(session, "deploy", STAGING)
        await until("the question", _polled(host))
        await session.experimental.cancel_task(task_id)
        await until("the cancel of the hosted task", _cancelled(host))


def _polled(host: Host) -> Callable[[], Awaitable[bool]]:
    async def look() -> bool:
        return host.polled > 0

    return look


def _cancelled(host: Host) -> Callable[[], Awaitable[bool]]:
    async def look() -> bool:
        return bool(host.cancelled)

    return look


async def hosts_sampling(url: str, token: str) -> None:
    content = t.TextContent(type="text", text="In short.")
    host = Host(t.CreateMessageResult(role="assistant", content=content, model="m"))
    async with connected(url, token, host, "sampling") as session:
        task_id = await started(session, "summarize", {"text": "Long."})
        said = (await finished(session, task_id)).content[0]
        expect("summarize", said.type == "text" and said.text, "In short.")
        expect_hosted(host, task_id)
        said = (await session.call_tool("summarize", {"text": "Long."})).content[0]
        expect("summarize in a plain call", said.type == "text" and said.text, "In short.")
        expect_hosted(host, None)


async def main(url: str, tokens: list[str]) -> None:
    await hosts_elicitation(url, tokens[0])
    await hosts_sampling(url, tokens[0])


run("Hosting client", main)

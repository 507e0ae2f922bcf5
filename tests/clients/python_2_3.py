"""The Python SDK 2.3: what its client does by itself in 2026-07-28 and 2025-11-25, and tasks in both.

python tests/clients/python_2_3.py URL TOKEN

The SDK has no calls for tasks. It lets an extension take over what `tools/call` answers, which is all
that tasks of 2026-07-28 need (`Tasks` below); and it has types for the requests of 2025-11-25. What it cannot do:

- hear `notifications/tasks`: its `listen` asks for list changes and resources only;
- call a tool as a 2025-11-25 task: it takes every answer to `tools/call` for a result, and refuses the handle. The
  task is there nevertheless, and `session.send_request` can list, read, await and cancel it.
"""

from __future__ import annotations

import asyncio
import warnings
from collections.abc import AsyncIterator, Awaitable, Sequence
from contextlib import asynccontextmanager
from typing import Any, Literal

import httpx2
import mcp_types as t
from expect import Difference, expect, expect_true, run, until
from mcp import Client, MCPError
from mcp.client.extension import ClaimContext, ClientExtension, ResultClaim
from mcp.client.session import ClientSession
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.exceptions import MCPDeprecationWarning
from pydantic import Field, TypeAdapter, ValidationError

# The older revision's requests and logging are deprecated in this SDK, and part of what is tried here.
warnings.simplefilter("ignore", MCPDeprecationWarning)

STAGING = {"service": "web", "version": "1.4.2", "environment": "staging"}
MISSING_CAPABILITY = -32021
RELATED = "io.modelcontextprotocol/related-task"


class Person:
    """Answers what the client is asked, and keeps what the client is told."""

    def __init__(self) -> None:
        self.says = t.ElicitResult(action="decline")
        self.asked: list[Any] = []
        self.logged: list[Any] = []

    async def elicit(self, context: Any, params: Any) -> t.ElicitResult:
        self.asked.append(params)
        return self.says

    async def sample(self, context: Any, params: t.CreateMessageRequestParams) -> t.CreateMessageResult:
        return t.CreateMessageResult(role="assistant", content=t.TextContent(text="In short."), model="m")

    async def roots(self, context: Any) -> t.ListRootsResult:
        return t.ListRootsResult(roots=[t.Root(uri="file:///srv/data")])

    async def log(self, params: t.LoggingMessageNotificationParams) -> None:
        self.logged.append(params.data)

    def accepts(self, **content: Any) -> None:
        self.says, self.asked = t.ElicitResult(action="accept", content=content), []

    def declines(self) -> None:
        self.says, self.asked = t.ElicitResult(action="decline"), []


@asynccontextmanager
async def connected(url: str, token: str, person: Person, **options: Any) -> AsyncIterator[Client]:
    async with (
        httpx2.AsyncClient(headers={"Authorization": f"Bearer {token}"}, timeout=60) as http,
        Client(
            streamable_http_client(url, http_client=http),
            elicitation_callback=person.elicit,
            sampling_callback=person.sample,
            list_roots_callback=person.roots,
            logging_callback=person.log,
            **options,
        ) as client,
    ):
        yield client


def text(result: t.CallToolResult) -> str:
    block = result.content[0]
    assert isinstance(block, t.TextContent)
    return block.text


async def refused(what: str, call: Awaitable[object], code: int) -> str:
    """The call must fail with this code; returns the error's message."""
    try:
        found = await call
    except MCPError as error:
        expect(f"{what}: code of {error.message!r}", error.code, code)
        return error.message
    raise Difference(f"{what} was not refused but answered {found!r}")


# What needs no task ------------------------------------------------------------------------


async def calls(client: Client, person: Person, runs_only_as_a_task: int) -> None:
    """The same in both revisions, but for one code."""
    names = {tool.name for tool in (await client.list_tools()).tools}
    expect_true("the demo's tools are listed", {"echo", "word_count", "countdown", "tell"} <= names)
    expect("echo", text(await client.call_tool("echo", {"text": "hé"})), "hé")
    counted = await client.call_tool("word_count", {"text": "a b a"})
    expect("word_count", (counted.structured_content or {})["words"], 3)
    failed = await client.call_tool("fail", {"kind": "tool_error"})
    expect("tool error", (failed.is_error, text(failed)), (True, "This tool failed on purpose"))
    message = await refused("protocol error", client.call_tool("fail", {"kind": "protocol_error"}), -32602)
    expect("its message", message, "This call was refused on purpose")
    waited = await client.call_tool("countdown", {"seconds": 1, "steps": 2})
    expect("countdown, waited for", (waited.structured_content or {})["steps"], 2)
    expect("a tool that runs only as a task is not listed without tasks", "task_only" in names, False)
    await refused("it", client.call_tool("task_only"), runs_only_as_a_task)

    seen: list[tuple[float, float | None, str | None]] = []

    async def progress(done: float, total: float | None, message: str | None) -> None:
        seen.append((done, total, message))

    person.logged.clear()
    expect("tell", text(await client.call_tool("tell", progress_callback=progress)), "3 steps")
    expect("progress", seen, [(n, 3.0, f"step {n}") for n in (1, 2, 3)])
    expect("log lines", person.logged, ["told 1", "told 2", "told 3"])

    person.accepts(color="green")
    expect("pick", text(await client.call_tool("pick")), "green")
    expect("what was asked", [asked.message for asked in person.asked], ["Which colour?"])
    person.declines()
    expect("pick declined", text(await client.call_tool("pick")), "decline")
    person.accepts()
    expect_true("visit", text(await client.call_tool("visit")).startswith("The person agreed to open"))
    expect("the page", person.asked[0].url, "https://modelcontextprotocol.io/")
    expect("summarize", text(await client.call_tool("summarize", {"text": "Long."})), "In short.")
    expect("roots", text(await client.call_tool("roots")), "file:///srv/data")


# Tasks of 2026-07-28 -----------------------------------------------------------------------

ANYTHING: TypeAdapter[dict[str, Any]] = TypeAdapter(dict[str, Any])
ENDED = ("completed", "failed", "cancelled")


class Handle(t.Result):
    """What `tools/call` answers instead of a result."""

    result_type: Literal["task"] = Field(alias="resultType")
    task_id: str = Field(alias="taskId")
    poll_interval_ms: int = Field(alias="pollIntervalMs")


class TaskRequest(t.Request[dict[str, Any], str]):
    name_param = "taskId"  # the Mcp-Name header that tasks/* must have


async def task_request(session: ClientSession, method: str, handle: Handle, **params: Any) -> dict[str, Any]:
    request = TaskRequest(method=f"tasks/{method}", params={"taskId": handle.task_id, **params})
    return await session.send_request(request, ANYTHING)


class Tasks(ClientExtension):
    """The client's half of the tasks extension: `call_tool` polls, answers and returns the result."""

    identifier = "io.modelcontextprotocol/tasks"

    def __init__(self, person: Person) -> None:
        self.person = person

    def claims(self) -> Sequence[ResultClaim[Any]]:
        return [ResultClaim(result_type="task", model=Handle, resolve=self.resolve)]

    async def resolve(self, handle: Handle, context: ClaimContext) -> t.CallToolResult:
        task = await self.ended(handle, context.session)
        if task["status"] == "completed":
            return t.CallToolResult.model_validate(task["result"])
        message = task.get("error", {}).get("message") or task["status"]
        return t.CallToolResult(content=[t.TextContent(text=message)], is_error=True)

    async def ended(self, handle: Handle, session: ClientSession) -> dict[str, Any]:
        while (task := await task_request(session, "get", handle))["status"] not in ENDED:
            if task["status"] == "input_required":
                await self.answer(handle, task["inputRequests"], session)
            else:
                await asyncio.sleep(handle.poll_interval_ms / 1000)
        return task

    async def answer(self, handle: Handle, asked: dict[str, Any], session: ClientSession) -> None:
        answers = {}
        for key, request in asked.items():
            if request["method"] == "elicitation/create":
                answers[key] = await self.person.elicit(None, t.ElicitRequestFormParams(**request["params"]))
            elif request["method"] == "sampling/createMessage":
                answers[key] = await self.person.sample(None, t.CreateMessageRequestParams(**request["params"]))
        responses = {key: answer.model_dump(by_alias=True, exclude_none=True) for key, answer in answers.items()}
        await task_request(session, "update", handle, inputResponses=responses)


async def modern_tasks(client: Client, person: Person) -> None:
    done = await client.call_tool("countdown", {"seconds": 1, "steps": 2})
    expect("countdown", (done.structured_content or {})["steps"], 2)
    person.accepts(confirm=True)
    deployed = await client.call_tool("deploy", STAGING)
    expect("deploy", (deployed.structured_content or {})["deployed"], True)
    person.declines()
    declined = await client.call_tool("deploy", STAGING)
    expect("deploy declined", (declined.structured_content or {})["deployed"], False)
    summary = await client.call_tool("summarize", {"text": "Long."})
    expect("summarize", text(summary), "In short.")

    # The handle itself, for a caller that does something else meanwhile.
    handle = await client.session.call_tool("countdown", {"seconds": 120, "steps": 120}, allow_claimed=True)
    assert isinstance(handle, Handle)
    expect("status", (await task_request(client.session, "get", handle))["status"], "working")
    await task_request(client.session, "cancel", handle)

    async def ended() -> str:
        status = (await task_request(client.session, "get", handle))["status"]
        return status if status in ENDED else ""

    expect("status after cancel", await until("the end of a cancelled task", ended), "cancelled")
    await task_request(client.session, "cancel", handle)  # of an ended task: acknowledged in this revision
    unknown = handle.model_copy(update={"task_id": "x" * 32})
    await refused("an unknown id", task_request(client.session, "get", unknown), -32602)
    # This revision has no tasks/list and no tasks/result.
    for method in ("list", "result"):
        await refused(f"tasks/{method}", task_request(client.session, method, handle), -32601)


# Tasks of 2025-11-25 -----------------------------------------------------------------------


def get(task: t.Task) -> t.GetTaskRequest:
    return t.GetTaskRequest(params=t.GetTaskRequestParams(task_id=task.task_id))


def result_of(task: t.Task) -> t.GetTaskPayloadRequest:
    return t.GetTaskPayloadRequest(params=t.GetTaskPayloadRequestParams(task_id=task.task_id))


def cancel(task: t.Task) -> t.CancelTaskRequest:
    return t.CancelTaskRequest(params=t.CancelTaskRequestParams(task_id=task.task_id))


async def started(session: ClientSession, tool: str, arguments: dict[str, Any]) -> t.Task:
    async def listed() -> list[t.Task]:
        return (await session.send_request(t.ListTasksRequest(), t.ListTasksResult)).tasks

    before = {task.task_id for task in await listed()}
    params = t.CallToolRequestParams(name=tool, arguments=arguments, task=t.TaskMetadata(ttl=600_000))
    try:
        await session.send_request(t.CallToolRequest(params=params), t.CreateTaskResult)
    except ValidationError:
        newest = (await listed())[0]
    else:
        raise Difference("the SDK accepts the handle of a task: say so here and in docs/use/clients.md")
    expect_true(f"{tool}: the list begins with a new task", newest.task_id not in before)
    return newest


async def older_tasks(session: ClientSession, person: Person) -> None:
    counting = await started(session, "countdown", {"seconds": 1, "steps": 2})
    result = await session.send_request(result_of(counting), t.CallToolResult)  # waits
    expect("countdown", (result.structured_content or {})["steps"], 2)
    expect("related task", (result.meta or {})[RELATED], {"taskId": counting.task_id})
    expect("result again", await session.send_request(result_of(counting), t.CallToolResult), result)
    expect("status", (await session.send_request(get(counting), t.GetTaskResult)).status, "completed")

    person.accepts(confirm=True)
    deploying = await started(session, "deploy", STAGING)
    deployed = await session.send_request(result_of(deploying), t.CallToolResult)
    expect("deploy", (deployed.structured_content or {})["deployed"], True)
    person.declines()
    declining = await started(session, "deploy", STAGING)
    declined = await session.send_request(result_of(declining), t.CallToolResult)
    expect("deploy declined", (declined.structured_content or {})["deployed"], False)
    summarizing = await started(session, "summarize", {"text": "Long."})
    expect("summarize", text(await session.send_request(result_of(summarizing), t.CallToolResult)), "In short.")

    failing = await started(session, "fail", {"kind": "tool_error"})
    failed = await session.send_request(result_of(failing), t.CallToolResult)
    expect("result of a failed task", failed.is_error, True)
    expect("its status", (await session.send_request(get(failing), t.GetTaskResult)).status, "failed")

    long = await started(session, "countdown", {"seconds": 120, "steps": 120})
    expect("cancel", (await session.send_request(cancel(long), t.CancelTaskResult)).status, "cancelled")
    await refused("cancel of a cancelled task", session.send_request(cancel(long), t.CancelTaskResult), -32602)
    await refused("result of a cancelled task", session.send_request(result_of(long), t.CallToolResult), -32602)
    unknown = long.model_copy(update={"task_id": "x" * 32})
    await refused("an unknown id", session.send_request(get(unknown), t.GetTaskResult), -32602)

    listed = await session.send_request(t.ListTasksRequest(), t.ListTasksResult)
    mine = [counting, deploying, declining, summarizing, failing, long]
    missing = {task.task_id for task in mine} - {task.task_id for task in listed.tasks}
    expect("tasks that are not on the first page of the list", missing, set())


async def main(url: str, tokens: list[str]) -> None:
    person = Person()
    async with connected(url, tokens[0], person, log_level="info") as client:
        expect("version by itself", client.protocol_version, "2026-07-28")
        await calls(client, person, MISSING_CAPABILITY)
    async with connected(url, tokens[0], person, extensions=[Tasks(person)]) as client:
        await modern_tasks(client, person)
    async with connected(url, tokens[0], person, mode="legacy") as client:
        expect("older version", client.protocol_version, "2025-11-25")
        await client.set_logging_level("info")
        await calls(client, person, -32601)
        await older_tasks(client.session, person)


run("Python SDK 2.3", main)

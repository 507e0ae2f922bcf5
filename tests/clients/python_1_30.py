"""The Python SDK 1.30 with its experimental tasks client: everything that 2025-11-25 has.

python tests/clients/python_1_30.py URL TOKEN OTHER_TOKEN
"""

from __future__ import annotations

import asyncio
import warnings
from collections.abc import AsyncIterator, Awaitable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import httpx
import mcp.types as t
from expect import Difference, expect, expect_true, run, until
from mcp.client.session import ClientSession
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.exceptions import McpError

RELATED = "io.modelcontextprotocol/related-task"
COUNTDOWN = {"seconds": 1, "steps": 4}
LONG = {"seconds": 120, "steps": 120}
STAGING = {"service": "web", "version": "1.4.2", "environment": "staging"}
PRODUCTION = {**STAGING, "environment": "production"}
SURVEY = {
    "name": "Ada",
    "email": "ada@example.org",
    "website": "https://example.org/",
    "team_size": 3,
    "satisfaction": 9.5,
    "subscribe": True,
    "start_date": "2026-01-31",
    "meeting_at": "2026-02-01T09:30:00Z",
    "color": "blue",
    "plan": "enterprise",
    "languages": ["python", "rust"],
    "topics": ["tasks", "audit"],
}

# The API is deprecated in 1.30 and gone in 2.0; it is what this script is about.
warnings.filterwarnings("ignore", message="The experimental tasks API is deprecated", category=DeprecationWarning)


@dataclass
class Person:
    """Answers what the client is asked, and keeps what the client is told."""

    says: t.ElicitResult = field(default_factory=lambda: t.ElicitResult(action="decline"))
    asked: list[t.ElicitRequestParams] = field(default_factory=list)
    sampled: list[t.CreateMessageRequestParams] = field(default_factory=list)
    logged: list[t.LoggingMessageNotificationParams] = field(default_factory=list)
    told: list[t.ServerNotification] = field(default_factory=list)

    async def elicit(self, context: Any, params: t.ElicitRequestParams) -> t.ElicitResult:
        self.asked.append(params)
        return self.says

    async def sample(self, context: Any, params: t.CreateMessageRequestParams) -> t.CreateMessageResult:
        self.sampled.append(params)
        return t.CreateMessageResult(role="assistant", content=t.TextContent(type="text", text="In short."), model="m")

    async def roots(self, context: Any) -> t.ListRootsResult:
        return t.ListRootsResult(roots=[t.Root(uri="file:///srv/data")])

    async def log(self, params: t.LoggingMessageNotificationParams) -> None:
        self.logged.append(params)

    async def message(self, message: Any) -> None:
        if isinstance(message, Exception):
            raise message
        if isinstance(message, t.ServerNotification):
            self.told.append(message)

    def statuses(self, task: t.Task) -> list[str]:
        """What status notifications said of a task."""
        params = [note.root.params for note in self.told if isinstance(note.root, t.TaskStatusNotification)]
        return [told.status for told in params if told.taskId == task.taskId]

    def accepts(self, **content: Any) -> None:
        self.says, self.asked = t.ElicitResult(action="accept", content=content), []

    def declines(self) -> None:
        self.says, self.asked = t.ElicitResult(action="decline"), []


@asynccontextmanager
async def connected(url: str, token: str, person: Person) -> AsyncIterator[ClientSession]:
    headers = {"Authorization": f"Bearer {token}"}
    async with (
        httpx.AsyncClient(headers=headers, timeout=httpx.Timeout(30, read=300)) as http,
        streamable_http_client(url, http_client=http) as (read, write, _),
        ClientSession(
            read,
            write,
            sampling_callback=person.sample,
            elicitation_callback=person.elicit,
            list_roots_callback=person.roots,
            logging_callback=person.log,
            message_handler=person.message,
            client_info=t.Implementation(name="sdk-1.30", version="1"),
        ) as session,
    ):
        yield session


def text(result: t.CallToolResult) -> str:
    block = result.content[0]
    assert isinstance(block, t.TextContent)
    return block.text


async def refused(what: str, call: Awaitable[object], code: int) -> str:
    """The call must fail with this code; returns the error's message."""
    try:
        found = await call
    except McpError as error:
        expect(f"{what}: code of {error.error.message!r}", error.error.code, code)
        return error.error.message
    raise Difference(f"{what} was not refused but answered {found!r}")


async def opening(session: ClientSession) -> None:
    found = await session.initialize()
    expect("protocol version", found.protocolVersion, "2025-11-25")
    wanted = {"list": {}, "cancel": {}, "requests": {"tools": {"call": {}}}}
    assert found.capabilities.tasks is not None
    expect("tasks capability", found.capabilities.tasks.model_dump(exclude_none=True), wanted)
    await session.send_ping()
    tools = {tool.name: tool for tool in (await session.list_tools()).tools}
    for name, support in (("echo", "forbidden"), ("word_count", "optional"), ("countdown", "optional")):
        execution = tools[name].execution
        expect(f"taskSupport of {name}", execution and execution.taskSupport, support)
    expect("a tool that runs only as a task is not listed without tasks", "task_only" in tools, False)
    expect_true("word_count has an output schema", tools["word_count"].outputSchema)


async def plain_calls(session: ClientSession, person: Person) -> None:
    expect("echo", text(await session.call_tool("echo", {"text": "hé"})), "hé")
    counted = await session.call_tool("word_count", {"text": "a b a"})
    assert counted.structuredContent is not None
    expect("word_count", counted.structuredContent["words"], 3)
    failed = await session.call_tool("fail", {"kind": "tool_error"})
    expect("tool error", (failed.isError, text(failed)), (True, "This tool failed on purpose"))
    message = await refused("protocol error", session.call_tool("fail", {"kind": "protocol_error"}), -32602)
    expect("its message", message, "This call was refused on purpose")
    await refused("an unknown tool", session.call_tool("nonsense"), -32602)
    waited = await session.call_tool("countdown", COUNTDOWN)
    assert waited.structuredContent is not None
    expect("countdown, waited for", waited.structuredContent["steps"], 4)
    await refused("a tool that runs only as a task", session.call_tool("task_only"), -32601)

    seen: list[tuple[float, float | None, str | None]] = []

    async def progress(done: float, total: float | None, message: str | None) -> None:
        seen.append((done, total, message))

    await session.set_logging_level("info")
    await session.call_tool("tell", progress_callback=progress)
    expect("progress", seen, [(n, 3.0, f"step {n}") for n in (1, 2, 3)])
    expect("log lines", [line.data for line in person.logged], ["told 1", "told 2", "told 3"])
    await session.set_logging_level("error")
    person.logged.clear()
    await session.call_tool("tell")
    expect("log lines below the level", person.logged, [])


async def refusals(session: ClientSession) -> None:
    """What is refused for its size or for now leaves the session alone."""
    message = await refused("a call that is too large", session.call_tool("echo", {"text": "x" * 5_000_000}), -32600)
    expect_true(f"{message!r} says why", "larger than" in message)
    expect("the call after it", text(await session.call_tool("echo", {"text": "still here"})), "still here")


async def questions_in_plain_calls(session: ClientSession, person: Person) -> None:
    person.accepts(color="red")
    expect("pick", text(await session.call_tool("pick")), "red")
    asked = person.asked[0]
    assert isinstance(asked, t.ElicitRequestFormParams)
    expect("what was asked", (asked.message, len(person.asked)), ("Which colour?", 1))
    person.declines()
    expect("pick declined", text(await session.call_tool("pick")), "decline")
    person.accepts(color="blue")  # not one of those that may be picked
    message = await refused("an answer that does not fit", session.call_tool("pick"), -32602)
    expect_true(f"{message!r} names the field", "/color" in message)
    person.accepts()
    expect_true("visit", text(await session.call_tool("visit")).startswith("The person agreed to open"))
    opened = person.asked[0]
    assert isinstance(opened, t.ElicitRequestURLParams)
    expect("the page", opened.url, "https://modelcontextprotocol.io/")
    expect("summarize", text(await session.call_tool("summarize", {"text": "Long."})), "In short.")
    expect("tokens for sampling", person.sampled[0].maxTokens, 200)
    expect("roots", text(await session.call_tool("roots")), "file:///srv/data")


async def started(session: ClientSession, tool: str, arguments: dict[str, Any], **options: Any) -> t.Task:
    created = await session.experimental.call_tool_as_task(tool, arguments, **options)
    expect(f"{tool}: status of a new task", created.task.status, "working")
    return created.task


async def finished(session: ClientSession, task: t.Task) -> t.CallToolResult:
    return await session.experimental.get_task_result(task.taskId, t.CallToolResult)


async def polled(session: ClientSession, task: t.Task, until: str) -> t.GetTaskResult:
    async for found in session.experimental.poll_task(task.taskId):
        if found.status == until:
            return found
    raise Difference(f"task ended as {found.status} ({found.statusMessage}) before it was {until}")


async def a_task(session: ClientSession, person: Person) -> t.Task:
    """Create, poll, result, result again; progress under a token that outlives the call."""
    task = await started(session, "countdown", COUNTDOWN, ttl=7_200_000, meta={"progressToken": "steps"})
    expect("ttl", task.ttl, 7_200_000)
    await refused("an early cancel of nothing", session.experimental.cancel_task("nonsense"), -32602)
    result = await finished(session, task)  # waits
    assert result.structuredContent is not None
    assert result.meta is not None
    expect("countdown", result.structuredContent["steps"], 4)
    expect("related task", result.meta[RELATED], {"taskId": task.taskId})
    expect("result again", await finished(session, task), result)
    last = await polled(session, task, "completed")
    expect_true(f"an ended task stays for an hour, and its ttl of {last.ttl} says so", (last.ttl or 0) >= 3_600_000)
    notes = [note.root.params for note in person.told if isinstance(note.root, t.ProgressNotification)]
    steps = [note.progress for note in notes if note.progressToken == "steps"]
    expect_true(f"progress {steps} only goes up and ends at 4", steps == sorted(set(steps)) and steps[-1] == 4)

    async def told() -> bool:  # on the session's own stream, so maybe after the result
        return "completed" in person.statuses(task)

    await until("a status notification", told)
    return task


async def tasks_that_ask(session: ClientSession, person: Person) -> list[t.Task]:
    """Questions reach the callbacks on the way of tasks/result, and without it on the session's own stream."""
    person.accepts(confirm=True)
    deploy = await started(session, "deploy", STAGING)
    expect("deploy", (await finished(session, deploy)).structuredContent["deployed"], True)
    asked = person.asked[0]
    expect("deploy asks once", len(person.asked), 1)
    expect("the question names its task", asked.meta and asked.meta.model_extra, {RELATED: {"taskId": deploy.taskId}})

    person.declines()
    declined = await started(session, "deploy", STAGING)
    expect("deploy declined", (await finished(session, declined)).structuredContent["deployed"], False)

    person.accepts(**SURVEY)
    survey = await started(session, "survey", {})
    await polled(session, survey, "completed")  # answered though nobody waits for the result
    answers = (await finished(session, survey)).structuredContent
    expect("survey", answers, {"action": "accept", "answers": SURVEY})

    person.sampled.clear()
    summary = await started(session, "summarize", {"text": "Long."})
    expect("summarize", text(await finished(session, summary)), "In short.")
    expect("sampling requests", len(person.sampled), 1)
    return [deploy, declined, survey, summary]


async def tasks_that_fail(session: ClientSession) -> list[t.Task]:
    tool_error = await started(session, "fail", {"kind": "tool_error"})
    ended = await polled(session, tool_error, "failed")
    expect_true("a tool error has a status message", ended.statusMessage)
    result = await finished(session, tool_error)
    expect("result of a tool error", (result.isError, text(result)), (True, "This tool failed on purpose"))

    protocol_error = await started(session, "fail", {"kind": "protocol_error"})
    await polled(session, protocol_error, "failed")
    for _ in range(2):
        message = await refused("result of a protocol error", finished(session, protocol_error), -32602)
        expect("its message", message, "This call was refused on purpose")

    await refused("echo as a task", session.experimental.call_tool_as_task("echo", {"text": "a"}), -32601)
    for name in ("get_task", "cancel_task"):
        await refused(f"{name} of an unknown id", getattr(session.experimental, name)("x" * 32), -32602)
    unknown = session.experimental.get_task_result("x" * 32, t.CallToolResult)
    await refused("result of an unknown id", unknown, -32602)
    return [tool_error, protocol_error]


async def cancelling(session: ClientSession, ended: t.Task) -> list[t.Task]:
    task = await started(session, "countdown", LONG)
    waiting = asyncio.create_task(refused("result of a cancelled task", finished(session, task), -32602))
    await asyncio.sleep(0.3)
    expect("answer to cancel", (await session.experimental.cancel_task(task.taskId)).status, "cancelled")
    async with asyncio.timeout(5):
        expect_true("the waiting result says so", "cancelled" in await waiting)
    expect("status after cancel", (await session.experimental.get_task(task.taskId)).status, "cancelled")
    for over, name in ((task, "cancelled"), (ended, "completed")):
        message = await refused(f"cancel of a {name} task", session.experimental.cancel_task(over.taskId), -32602)
        expect_true(f"{message!r} names the status", name in message)

    # Production needs an operator's approval first: nobody here can answer that.
    approval = await started(session, "deploy", PRODUCTION)

    async def asked() -> t.GetTaskResult | None:
        found = await session.experimental.get_task(approval.taskId)
        return found if found.statusMessage else None

    found = await until("a status message", asked)
    assert found is not None
    expect("waiting for approval", found.status, "working")
    expect_true(f"{found.statusMessage!r} says who is waited for", "approval" in str(found.statusMessage))
    await session.experimental.cancel_task(approval.taskId)
    return [task, approval]


async def listed(session: ClientSession) -> dict[str, t.Task]:
    """All pages."""
    found: dict[str, t.Task] = {}
    page = await session.experimental.list_tasks()
    while True:
        found |= {task.taskId: task for task in page.tasks}
        if page.nextCursor is None:
            return found
        page = await session.experimental.list_tasks(page.nextCursor)


async def coming_back(url: str, token: str, person: Person) -> None:
    """A client that went away waits on, answers and fetches from a new session."""
    silent = Person()
    async with connected(url, token, silent) as session:
        await session.initialize()
        counting = await started(session, "countdown", {"seconds": 2, "steps": 2})
        with_question = await started(session, "deploy", PRODUCTION)
        await session.experimental.cancel_task(with_question.taskId)
        waiting = asyncio.create_task(finished(session, counting))
        await asyncio.sleep(0.2)
        waiting.cancel()
    async with connected(url, token, person) as session:
        await session.initialize()
        result = await finished(session, counting)
        assert result.structuredContent is not None
        expect("countdown after coming back", result.structuredContent["steps"], 2)


async def a_question_of_another_session(url: str, token: str, person: Person) -> None:
    """The first session leaves its question unanswered; the second answers it by asking for the result."""
    reached = asyncio.Event()
    leaving = Person()

    async def never(context: Any, params: t.ElicitRequestParams) -> t.ElicitResult:
        reached.set()
        await asyncio.sleep(3600)
        raise AssertionError

    leaving.elicit = never  # type: ignore[method-assign]
    async with connected(url, token, leaving) as session:
        await session.initialize()
        deploy = await started(session, "deploy", STAGING)
        await asyncio.wait_for(reached.wait(), 10)
    person.accepts(confirm=True)
    async with connected(url, token, person) as session:
        await session.initialize()
        # Not from the first one: a callback of this SDK holds up everything else on its session.
        expect("status while asking", (await session.experimental.get_task(deploy.taskId)).status, "input_required")
        result = await finished(session, deploy)
        assert result.structuredContent is not None
        expect("deploy from another session", result.structuredContent["deployed"], True)


async def strangers(url: str, token: str, tasks: list[t.Task]) -> None:
    """Another client's token sees none of it."""
    async with connected(url, token, Person()) as session:
        await session.initialize()
        await refused("another client's task", session.experimental.get_task(tasks[0].taskId), -32602)
        await refused("another client's result", finished(session, tasks[0]), -32602)
        expect("tasks of others", {task.taskId for task in tasks} & set(await listed(session)), set())


async def main(url: str, tokens: list[str]) -> None:
    mine, other = tokens
    person = Person()
    async with connected(url, mine, person) as session:
        await opening(session)
        await plain_calls(session, person)
        await refusals(session)
        await questions_in_plain_calls(session, person)
        ended = await a_task(session, person)
        tasks = [ended, *await tasks_that_ask(session, person), *await tasks_that_fail(session)]
        tasks += await cancelling(session, ended)
        found = await listed(session)
        for task in tasks:
            expect_true(f"{task.taskId} is listed", task.taskId in found)
        statuses = [found[task.taskId].status for task in tasks]
        expect("listed statuses", statuses, [*["completed"] * 5, *["failed"] * 2, *["cancelled"] * 2])
    await coming_back(url, mine, person)
    await a_question_of_another_session(url, mine, person)
    await strangers(url, other, tasks)


run("Python SDK 1.30", main)

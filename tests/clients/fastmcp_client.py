"""FastMCP 4 with its tasks extension, in 2026-07-28 and in 2025-11-25.

python tests/clients/fastmcp_client.py URL TOKEN OTHER_TOKEN

What it cannot do, and why:

- answer sampling or roots from inside a task: `fastmcp_tasks` answers elicitation only and raises for the rest;
- list tasks, or fetch a result again: 2026-07-28 has no such methods, and it keeps a result once it has it;
- tasks of 2025-11-25: on an older connection it does not declare the extension, and waits for results;
- progress of a task: it polls, and polls bring none to `progress_handler`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import Any

from expect import Difference, expect, expect_true, run, until
from fastmcp import Client
from fastmcp.client.elicitation import ElicitResult
from fastmcp.client.transports import StreamableHttpTransport
from fastmcp.exceptions import ToolError
from fastmcp_tasks import ToolTask, call_tool_task
from fastmcp_tasks.client import ClientCreateTaskResult
from mcp import MCPError

STAGING = {"service": "web", "version": "1.4.2", "environment": "staging"}


class Person:
    """Answers what the client is asked, and keeps what the client is told."""

    def __init__(self) -> None:
        self.says: ElicitResult[Any] = ElicitResult(action="decline")
        self.asked: list[str] = []
        self.logged: list[str] = []
        self.progress: list[tuple[float, float | None, str | None]] = []

    async def elicit(self, message: str, response_type: Any, params: Any, context: Any) -> ElicitResult[Any]:
        self.asked.append(message)
        return self.says

    async def sample(self, messages: Any, params: Any, context: Any) -> str:
        return "In short."

    async def log(self, message: Any) -> None:
        self.logged.append(message.data)

    async def note(self, done: float, total: float | None, message: str | None) -> None:
        self.progress.append((done, total, message))

    def accepts(self, **content: Any) -> None:
        self.says, self.asked = ElicitResult(action="accept", content=content), []

    def declines(self) -> None:
        self.says, self.asked = ElicitResult(action="decline"), []


def connected(url: str, token: str, person: Person, **options: Any) -> Client[Any]:
    return Client(
        StreamableHttpTransport(url, headers={"Authorization": f"Bearer {token}"}),
        elicitation_handler=person.elicit,
        sampling_handler=person.sample,
        log_handler=person.log,
        progress_handler=person.note,
        roots=["file:///srv/data"],
        **options,
    )


async def refused(what: str, call: Awaitable[object], kind: type[Exception] = ToolError) -> str:
    """The call must raise this; returns its message."""
    try:
        found = await call
    except kind as error:
        return str(error)
    raise Difference(f"{what} was not refused but answered {found!r}")


async def calls(client: Client[Any], person: Person) -> None:
    """The same in both revisions."""
    names = {tool.name for tool in await client.list_tools()}
    expect_true("the demo's tools are listed", {"echo", "word_count", "countdown", "tell"} <= names)
    expect("echo", (await client.call_tool("echo", {"text": "hé"})).content[0].text, "hé")
    counted = await client.call_tool("word_count", {"text": "a b a"})
    expect("word_count", counted.data.words, 3)
    message = await refused("tool error", client.call_tool("fail", {"kind": "tool_error"}))
    expect("tool error", message, "This tool failed on purpose")
    message = await refused("protocol error", client.call_tool("fail", {"kind": "protocol_error"}), Exception)
    expect_true(f"{message!r} is the protocol error's message", "refused on purpose" in message)

    person.accepts(color="green")
    expect("pick", (await client.call_tool("pick")).content[0].text, "green")
    expect("what was asked", person.asked, ["Which colour?"])
    person.declines()
    expect("pick declined", (await client.call_tool("pick")).content[0].text, "decline")


async def waited_for(client: Client[Any], person: Person) -> None:
    """What comes on the way of a call that is waited for: progress, log lines, sampling, roots."""
    await client.call_tool("tell")
    expect("progress", person.progress, [(n, 3.0, f"step {n}") for n in (1, 2, 3)])
    expect("log lines", person.logged, ["told 1", "told 2", "told 3"])
    expect("summarize", (await client.call_tool("summarize", {"text": "Long."})).content[0].text, "In short.")
    expect("roots", (await client.call_tool("roots")).content[0].text, "file:///srv/data")


async def tasks(client: Client[Any], person: Person) -> ToolTask:
    done = await client.call_tool("countdown", {"seconds": 1, "steps": 2})  # never knows that it was a task
    expect("countdown", done.structured_content["steps"], 2)

    task = await call_tool_task(client, "countdown", {"seconds": 3, "steps": 2})
    expect("status", (await task.status()).status, "working")
    expect("status at the end", (await task.wait(timeout=20)).status, "completed")
    expect("result", (await task.result()).structured_content["steps"], 2)

    person.accepts(confirm=True)
    deployed = await client.call_tool("deploy", STAGING)
    expect("deploy", deployed.structured_content["deployed"], True)
    expect("what was asked", person.asked, ["Deploy web 1.4.2 to staging?"])
    person.declines()
    declined = await client.call_tool("deploy", STAGING)
    expect("deploy declined", declined.structured_content["deployed"], False)

    asking = await call_tool_task(client, "deploy", STAGING)
    expect("waiting for an answer", (await asking.wait(state="input_required", timeout=20)).status, "input_required")
    person.accepts(confirm=True)
    expect("answered later", (await asking.result()).structured_content["deployed"], True)

    approval = await call_tool_task(client, "deploy", {**STAGING, "environment": "production"})

    async def asked() -> Any:
        found = await approval.status()
        return found if found.status_message else None

    found = await until("a status message", asked)
    expect("waiting for approval", found.status, "working")
    expect_true(f"{found.status_message!r} says who is waited for", "approval" in found.status_message)
    await approval.cancel()

    cancelled = await call_tool_task(client, "countdown", {"seconds": 120, "steps": 120})
    await cancelled.cancel()
    async with asyncio.timeout(10):
        await refused("result of a cancelled task", cancelled.result())
    expect("status after cancel", (await cancelled.status()).status, "cancelled")
    await cancelled.cancel()  # of an ended task: acknowledged in this revision

    fields = {"resultType": "task", "taskId": "x" * 32, "status": "working", "createdAt": "", "lastUpdatedAt": ""}
    unknown = ToolTask(client, "countdown", ClientCreateTaskResult.model_validate(fields))
    await refused("an unknown id", unknown.status(), MCPError)
    return task


async def main(url: str, tokens: list[str]) -> None:
    mine, other = tokens
    person = Person()
    async with connected(url, mine, person) as client:
        expect("version by itself", client.protocol_version, "2026-07-28")
        await calls(client, person)
        task = await tasks(client, person)
    async with connected(url, other, Person()) as client:
        theirs = ToolTask(client, "countdown", task.create_result)
        await refused("another client's task", theirs.status(), MCPError)
    async with connected(url, mine, person, mode="legacy") as client:
        expect("older version", client.protocol_version, "2025-11-25")
        await client.set_logging_level("info")
        await calls(client, person)
        await waited_for(client, person)


run("FastMCP 4", main)

"""Calls tools of a 2025-11-25 server as tasks of the server, where a tool can only be called so.

In this revision a task belongs to the session in which it was made, and asks its questions on the stream of
`tasks/result`. So the call stays in its slot, as any call on a session does: `tasks/result` waits for the end, the
server's questions reach the call meanwhile, and `tasks/get` tells its message now and then.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable, Mapping
from typing import Any, Final

import mcp_types as types
from mcp import MCPError
from pydantic import ValidationError

from taskhub.core.records import LogLine
from taskhub.core.versions import Version
from taskhub.upstream.connection import Connection
from taskhub.upstream.offers import Verbatim
from taskhub.upstream.sieve import CREATED

logger = logging.getLogger(__name__)

ANSWERING_SECONDS: Final = 86_400
"""How long people may take for an answer: a task is to be kept for so long, besides the run time of its tool."""

POLL_RANGE_SECONDS: Final = (1.0, 60.0)
"""The shortest and the longest time between two looks at the message of a task, whatever its server wants."""

CANCEL_SECONDS: Final = 2.0
"""How long a server may take to answer that it cancels a task, when its call is stopped."""

_RELATED: Final = "io.modelcontextprotocol/related-task"


def only_as_tasks(protocol: str, capabilities: Mapping[str, Any], tools: Mapping[str, Any]) -> frozenset[str]:
    """The tools that can be called as tasks alone, of a server with these capabilities; `tools` are its definitions by
    name."""
    found: Any = capabilities
    for part in ("tasks", "requests", "tools", "call"):
        found = found.get(part) if isinstance(found, dict) else None
    if protocol != Version.MCP_2025_11_25 or not isinstance(found, dict):
        return frozenset()
    return frozenset(name for name, tool in tools.items() if _support(tool) == "required")


def _support(tool: Any) -> Any:
    execution = tool.get("execution")
    return execution.get("taskSupport") if isinstance(execution, dict) else None


def task_of(run_seconds: int) -> types.TaskMetadata:
    """What a call asks for: a task that is kept until people have answered and the tool has run."""
    return types.TaskMetadata(ttl=(ANSWERING_SECONDS + run_seconds) * 1000)


async def result_of(connection: Connection, created: dict[str, Any], say: Callable[[LogLine], None]) -> dict[str, Any]:
    """The result of a call that the server answered with `created`: its own, if it made no task. Raises as a call of
    the SDK's client. If it is cancelled, so is the task."""
    made = (created.get("_meta") or {}).get(CREATED)
    if made is None:
        return created
    try:
        task = types.Task.model_validate(made, by_name=False)
    except ValidationError:
        raise MCPError(types.INTERNAL_ERROR, "The tool's server failed: it made a task of the wrong form") from None
    assert connection.client is not None
    session = connection.client.session
    telling = asyncio.create_task(_tell(connection, task, say))
    try:
        params = types.GetTaskPayloadRequestParams(task_id=task.task_id)
        body = (await session.send_request(types.GetTaskPayloadRequest(params=params), Verbatim)).root
    except asyncio.CancelledError:
        await asyncio.shield(_cancel(connection, task.task_id))
        raise
    finally:
        telling.cancel()
    meta = {name: value for name, value in (body.get("_meta") or {}).items() if name != _RELATED}
    rest = {name: value for name, value in body.items() if name != "_meta"}
    return {**rest, "_meta": meta} if meta else rest


async def _tell(connection: Connection, task: types.Task, say: Callable[[LogLine], None]) -> None:
    """Say the task's messages, until cancelled. Whether the task has ended is for `tasks/result` to tell."""
    assert connection.client is not None
    least, most = POLL_RANGE_SECONDS
    told: str | None = None
    params = types.GetTaskRequestParams(task_id=task.task_id)
    while True:
        if task.status_message and task.status_message != told and task.status == "working":
            told = task.status_message
            say(LogLine("progress", connection.hide(told)))
        await asyncio.sleep(min(max((task.poll_interval or 0) / 1000, least), most))
        with contextlib.suppress(MCPError, ValidationError):
            task = await connection.client.session.send_request(
                types.GetTaskRequest(params=params), types.GetTaskResult
            )


async def _cancel(connection: Connection, task_id: str) -> None:
    assert connection.client is not None
    request = types.CancelTaskRequest(params=types.CancelTaskRequestParams(task_id=task_id))
    try:
        async with asyncio.timeout(CANCEL_SECONDS):
            await connection.client.session.send_request(request, Verbatim)
    except (MCPError, TimeoutError) as error:
        logger.info("a task was not cancelled by its server: %s", connection.target.reason(error))

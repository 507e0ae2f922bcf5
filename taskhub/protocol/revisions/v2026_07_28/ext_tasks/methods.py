"""`tasks/get`, `tasks/update`, `tasks/cancel` and the create result (T26-*)."""

from __future__ import annotations

import asyncio
import time
from contextlib import suppress
from typing import Any, Final

from taskhub.core.names import TASKS_EXTENSION
from taskhub.core.records import State, TaskRecord
from taskhub.domain.tasks.cancel import request_cancel
from taskhub.protocol import calls
from taskhub.protocol.envelope import result_reply
from taskhub.protocol.errors import INVALID_PARAMS, WireError
from taskhub.protocol.hub import Hub
from taskhub.protocol.incoming import Reply
from taskhub.protocol.owned import known_task, store_answers, task_id
from taskhub.protocol.revisions.v2026_07_28.ext_tasks import earlier, mapping
from taskhub.protocol.revisions.v2026_07_28.wire import VERSION, Request, missing_capability
from taskhub.protocol.stateless.shapes import head, reply

RUNNING: Final = (State.QUEUED, State.WORKING)
YOUNG_SECONDS: Final = 1.0
PATIENCE_SECONDS: Final = 0.05
"""Polls of a task in its first second wait this long for it. Below what anybody notices, and several
times what a quick tool takes."""


def declares_tasks(capabilities: dict[str, Any]) -> bool:
    """Whether this very request declares the extension (T26-03); nothing is remembered."""
    extensions = capabilities.get("extensions")
    return isinstance(extensions, dict) and isinstance(extensions.get(TASKS_EXTENSION), dict)


def need_tasks(capabilities: dict[str, Any]) -> None:
    """-32021 unless the request declares the extension (T26-05..08)."""
    if not declares_tasks(capabilities):
        raise missing_capability({"extensions": {TASKS_EXTENSION: {}}})


async def _owned(hub: Hub, request: Request) -> TaskRecord:
    """The caller's task. Foreign, expired and unknown ids answer alike (T26-20, T26-40)."""
    task = await known_task(hub, request.principal, task_id(request.params), VERSION)
    if task is None:
        raise WireError(INVALID_PARAMS, "Task not found")
    return task


def created(hub: Hub, request: Request, task: TaskRecord) -> Reply:
    """`CreateTaskResult`: flat, no payload (T26-12, T26-13)."""
    return reply(hub, request, mapping.task_fields(task), "task")


async def get(hub: Hub, request: Request) -> Reply:
    """The task with its payload (T26-22..29). One that has only just begun is given a moment to end
    first: clients that poll fast start at 20 ms, and most tools are done by then."""
    calls.need_scope(request.principal, "tasks:read")
    if (task := await earlier.named(hub, request)) is not None:
        return earlier.shown(hub, request, task)
    need_tasks(request.capabilities)
    with hub.hints.watch(task_id(request.params)) as bell:
        task = await _owned(hub, request)
        if task.state in RUNNING and time.time() - task.created_at.timestamp() < YOUNG_SECONDS:
            task = await _ended_soon(hub, request, task, bell)
    hub.polled[task.id] = time.time()
    hub.brought(task, request.principal.context_id)
    return result_reply(request.id, mapping.encoded_task(task, head(hub)))


async def _ended_soon(hub: Hub, request: Request, task: TaskRecord, bell: asyncio.Event) -> TaskRecord:
    """The task as it is when it does not just run any more, or when the patience is over."""
    with suppress(TimeoutError):
        async with asyncio.timeout(PATIENCE_SECONDS):
            while task.state in RUNNING:
                await bell.wait()
                bell.clear()
                task = await _owned(hub, request)
    return task


async def update(hub: Hub, request: Request) -> Reply:
    """Answers to open questions, and an empty ack (T26-32..37). Keys that are unknown or answered are ignored. An
    answer that does not fit its question is refused with a pointer, before any is stored."""
    calls.need_scope(request.principal, "tasks:answer")
    need_tasks(request.capabilities)
    responses = request.params.get("inputResponses")
    task_id(request.params)
    if not isinstance(responses, dict):
        raise WireError(INVALID_PARAMS, "inputResponses must be an object")
    task = await _owned(hub, request)
    await store_answers(hub, request.incoming, task, responses)
    return reply(hub, request, {})


async def cancel(hub: Hub, request: Request) -> Reply:
    """Cooperative cancel: an empty ack, also for an ended task (T26-38, T26-39)."""
    calls.need_scope(request.principal, "tasks:cancel")
    if (earlier_task := await earlier.named(hub, request)) is not None:
        return await earlier.cancelled(hub, request, earlier_task)
    need_tasks(request.capabilities)
    task = await _owned(hub, request)
    await hub.lanes.run(request_cancel, task.id, actor=calls.actor_of(request.incoming))
    return reply(hub, request, {})

"""The tasks extension of 2026-07-28 (SEP-2663, T26-*): the `Task`, the handle, `tasks/get`, `tasks/update` and
`tasks/cancel`. The extension has versions of its own, so all of it is in this module."""

from __future__ import annotations

import asyncio
import json
import time
from contextlib import suppress
from typing import Any, Final

from taskhub.core.names import PROGRESS, TASKS_EXTENSION
from taskhub.core.records import State, TaskRecord
from taskhub.core.versions import Version
from taskhub.domain.tasks.cancel import cancel_now, request_cancel
from taskhub.protocol import calls
from taskhub.protocol.envelope import result_reply
from taskhub.protocol.errors import INVALID_PARAMS, WireError
from taskhub.protocol.hub import Hub
from taskhub.protocol.incoming import Reply
from taskhub.protocol.revisions.v2026_07_28 import VERSION
from taskhub.protocol.stateless import shapes
from taskhub.protocol.stateless.request import Request, missing_capability
from taskhub.protocol.stateless.shapes import reply, status
from taskhub.protocol.wire.tasks import task_head

EARLIER: Final = Version.MCP_2025_11_25
RUNNING: Final = (State.QUEUED, State.WORKING)
YOUNG_SECONDS: Final = 1.0
YOUNG_WAIT_SECONDS: Final = 0.05
"""Seconds that `tasks/get` waits for the end of a task in its first second: too short to be noticed, and several times
as long as a quick tool takes."""


def declares_tasks(capabilities: dict[str, Any]) -> bool:
    """Whether this request declares the tasks extension (T26-03). What earlier requests declared does not count."""
    extensions = capabilities.get("extensions")
    return isinstance(extensions, dict) and isinstance(extensions.get(TASKS_EXTENSION), dict)


def need_tasks(capabilities: dict[str, Any]) -> None:
    """Raises -32021 unless the request declares the extension (T26-05..08)."""
    if not declares_tasks(capabilities):
        raise missing_capability({"extensions": {TASKS_EXTENSION: {}}})


def task_fields(task: TaskRecord) -> dict[str, Any]:
    """The members of a `Task` (T26-12, T26-15..17)."""
    fields = task_head(task, status(task), task.message)
    fields["ttlMs"] = task.ttl_ms
    fields["pollIntervalMs"] = task.poll_interval_ms
    return fields


def _progress(task: TaskRecord) -> dict[str, float] | None:
    """The progress of a task that has not ended. The extension has no field for it, so it goes into `_meta`."""
    if task.progress is None or task.ended_at is not None:
        return None
    return {"progress": task.progress, **({} if task.total is None else {"total": task.total})}


def encoded_task(task: TaskRecord, head: dict[str, Any], base: str) -> bytes:
    """A task as JSON: the members of `head`, the flat `Task`, and the payload of its status. `base` is the address of
    the console."""
    fields = {**head, **task_fields(task)}
    if (numbers := _progress(task)) is not None:
        fields["_meta"] = {**head.get("_meta", {}), PROGRESS: numbers}
    return shapes.encoded_task(task, fields, base)


def wire_view(task: TaskRecord) -> dict[str, Any]:
    """The present result of `tasks/get`, as an object, for the console's wire view."""
    decoded: dict[str, Any] = json.loads(encoded_task(task, {"resultType": "complete"}, "…"))
    return decoded


def created(hub: Hub, request: Request, task: TaskRecord) -> Reply:
    """`CreateTaskResult`: flat, no payload (T26-12, T26-13)."""
    return reply(hub, request, task_fields(task), "task")


async def get(hub: Hub, request: Request) -> Reply:
    """The task with its payload (T26-22..29). For a task that has just begun, the answer waits a moment for its end,
    because some clients poll after 20 ms, and most tools end soon after that."""
    calls.need_scope(request.principal, "tasks:read")
    if (task := await _earlier_task(hub, request)) is not None:
        return _shown_as_earlier(hub, request, task)
    need_tasks(request.capabilities)
    with hub.hints.watch(calls.task_id(request.params)) as bell:
        task = await _owned(hub, request)
        if task.state in RUNNING and time.time() - task.created_at.timestamp() < YOUNG_SECONDS:
            task = await _ended_soon(hub, request, task, bell)
    hub.polled[task.id] = time.time()
    hub.brought(task, request.principal.context_id)
    return result_reply(request.id, encoded_task(task, shapes.head(hub), calls.console_at(hub, request.incoming)))


async def _owned(hub: Hub, request: Request) -> TaskRecord:
    """The caller's task. Raises the same error for foreign, expired and unknown ids (T26-20, T26-40)."""
    task = await calls.known_task(hub, request.principal, calls.task_id(request.params), VERSION)
    if task is None:
        raise WireError(INVALID_PARAMS, "Task not found")
    return task


async def _ended_soon(hub: Hub, request: Request, task: TaskRecord, bell: asyncio.Event) -> TaskRecord:
    """The task as soon as it is neither queued nor working, or as it stands after `YOUNG_WAIT_SECONDS`."""
    with suppress(TimeoutError):
        async with asyncio.timeout(YOUNG_WAIT_SECONDS):
            while task.state in RUNNING:
                await bell.wait()
                bell.clear()
                task = await _owned(hub, request)
    return task


async def update(hub: Hub, request: Request) -> Reply:
    """Store answers to open questions; the result is empty (T26-32..37). Keys of questions that are unknown or answered
    are ignored. An answer that does not fit its question is refused with a pointer, before any answer is stored."""
    calls.need_scope(request.principal, "tasks:answer")
    need_tasks(request.capabilities)
    responses = request.params.get("inputResponses")
    calls.task_id(request.params)
    if not isinstance(responses, dict):
        raise WireError(INVALID_PARAMS, "inputResponses must be an object")
    task = await _owned(hub, request)
    await calls.store_answers(hub, request.incoming, task, responses)
    return reply(hub, request, {})


async def cancel(hub: Hub, request: Request) -> Reply:
    """Request cancellation, which the tool may ignore. The result is empty, also for an ended task (T26-38, T26-39)."""
    calls.need_scope(request.principal, "tasks:cancel")
    if (earlier_task := await _earlier_task(hub, request)) is not None:
        return await _cancel_earlier(hub, request, earlier_task)
    need_tasks(request.capabilities)
    task = await _owned(hub, request)
    await hub.lanes.run(request_cancel, task.id, actor=calls.actor_of(request.incoming))
    return reply(hub, request, {})


async def _earlier_task(hub: Hub, request: Request) -> TaskRecord | None:
    """The task that `params.taskId` names, if this caller made it in 2025-11-25 and the request declares `tasks`, the
    capability of that revision; else `None`. It lets a client that has changed to this revision read and cancel its
    earlier tasks (T26-43)."""
    public_id = request.params.get("taskId")
    if not isinstance(request.capabilities.get("tasks"), dict) or not isinstance(public_id, str):
        return None
    task = await calls.known_task(hub, request.principal, public_id, EARLIER)
    return task if task is not None and task.handle else None


def _shown_as_earlier(hub: Hub, request: Request, task: TaskRecord) -> Reply:
    fields = hub.shown(task)
    assert fields is not None  # it has a handle
    return reply(hub, request, fields)


async def _cancel_earlier(hub: Hub, request: Request, task: TaskRecord) -> Reply:
    """Cancel the task at once, as 2025-11-25 does. Raises -32602 for a task that has ended."""
    if await hub.lanes.run(cancel_now, task.id, actor=calls.actor_of(request.incoming)) is not None:
        raise WireError(INVALID_PARAMS, "Cannot cancel task: it has ended")
    return _shown_as_earlier(hub, request, await calls.fresh(hub, task))

"""Tasks in SEP-2557: the `Task` with its `requestState` (T2557-14..16), the handle, `tasks/get` and `tasks/cancel`
(T2557-07..17)."""

from __future__ import annotations

import json
import time
from typing import Any, Final

from taskhub.core.records import TaskRecord
from taskhub.core.states import TERMINAL
from taskhub.domain.tasks.cancel import request_cancel
from taskhub.lib.signing import InvalidToken
from taskhub.protocol import calls
from taskhub.protocol.envelope import result_reply
from taskhub.protocol.errors import INVALID_PARAMS, WireError
from taskhub.protocol.hub import Hub
from taskhub.protocol.incoming import Reply
from taskhub.protocol.revisions.sep_2557 import VERSION
from taskhub.protocol.stateless import shapes
from taskhub.protocol.stateless.request import Request, input_responses
from taskhub.protocol.stateless.shapes import reply, status
from taskhub.protocol.wire.tasks import task_head

STATE_SECONDS: Final = 30 * 86_400
_PURPOSE: Final = "sep-2557/task"


def task_fields(task: TaskRecord, state: str) -> dict[str, Any]:
    """The `Task`: `ttl` in seconds, `pollInterval` in milliseconds (T2557-09)."""
    fields = task_head(task, status(task), task.message)
    fields["ttl"] = None if task.ttl_ms is None else -(-task.ttl_ms // 1_000)
    fields["pollInterval"] = task.poll_interval_ms
    fields["requestState"] = state
    return fields


def encoded_task(task: TaskRecord, head: dict[str, Any], state: str, base: str) -> bytes:
    """A task as JSON: the members of `head`, the flat `Task`, and the payload of its status (T2557-10, T2557-11).
    `base` is the address of the console."""
    return shapes.encoded_task(task, {**head, **task_fields(task, state)}, base)


def wire_view(task: TaskRecord) -> dict[str, Any]:
    """The present result of `tasks/get`, as an object, for the console's wire view. Its `requestState` is a
    placeholder, because only the owner gets a valid one."""
    decoded: dict[str, Any] = json.loads(encoded_task(task, {"resultType": "task"}, "…", "…"))
    return decoded


def request_state(hub: Hub, request: Request, task: TaskRecord) -> str:
    """A new `requestState` for the task. Earlier ones stay valid until they expire (T2557-15)."""
    return hub.signer.encrypt(_PURPOSE, [task.public_id, request.principal.context_id], seconds=STATE_SECONDS)


def created(hub: Hub, request: Request, task: TaskRecord) -> Reply:
    """`CreateTaskResult`: the Task is nested and has no payload (T2557-07). Its status is `working`; if the task has
    already asked a question, the first `tasks/get` shows it."""
    fields = {**task_fields(task, request_state(hub, request, task)), "status": "working"}
    return reply(hub, request, {"task": fields}, "task")


async def _owned(hub: Hub, request: Request) -> TaskRecord:
    """The caller's task. Raises the same error for foreign, expired and unknown ids (T2557-05, T2557-22)."""
    public_id = calls.task_id(request.params)
    _check_state(hub, request, public_id)
    task = await calls.known_task(hub, request.principal, public_id, VERSION)
    if task is None:
        raise WireError(INVALID_PARAMS, "Task not found")
    return task


def _check_state(hub: Hub, request: Request, public_id: str) -> None:
    """Raises -32602 with HTTP 400 for a `requestState` that the hub did not give to this caller for this task."""
    found = request.params.get("requestState")
    if found is None:
        return
    try:
        held = hub.signer.decrypt(_PURPOSE, found) if isinstance(found, str) else None
    except InvalidToken as error:
        raise WireError(INVALID_PARAMS, f"Invalid requestState: {error}", status=400) from None
    if held != [public_id, request.principal.context_id]:
        raise WireError(INVALID_PARAMS, "Invalid requestState: it belongs to another task", status=400)


async def get(hub: Hub, request: Request) -> Reply:
    """The task with its payload, after the answers in the request were stored (T2557-10..13)."""
    calls.need_scope(request.principal, "tasks:read")
    responses = input_responses(request)
    if responses is not None:
        calls.need_scope(request.principal, "tasks:answer")
    task = await _owned(hub, request)
    if responses:
        await calls.store_answers(hub, request.incoming, task, responses)
        task = await calls.fresh(hub, task)
    hub.polled[task.id] = time.time()
    hub.brought(task, request.principal.context_id)
    state, base = request_state(hub, request, task), calls.console_at(hub, request.incoming)
    return result_reply(request.id, encoded_task(task, shapes.head(hub, "task"), state, base))


async def cancel(hub: Hub, request: Request) -> Reply:
    """Request cancellation and return the task right after it. Raises -32602 for a task that has ended (T2557-17)."""
    calls.need_scope(request.principal, "tasks:cancel")
    task = await _owned(hub, request)
    if task.state in TERMINAL:
        raise WireError(INVALID_PARAMS, f"Cannot cancel task: it is already {status(task)}")
    await hub.lanes.run(request_cancel, task.id, actor=calls.actor_of(request.incoming))
    task = await calls.fresh(hub, task)
    return reply(hub, request, task_fields(task, request_state(hub, request, task)), "task")

"""The handle, `tasks/get` and `tasks/cancel` (T2557-07..17)."""

from __future__ import annotations

import time

from taskhub.core.records import TaskRecord
from taskhub.core.states import TERMINAL
from taskhub.domain.tasks.cancel import request_cancel
from taskhub.protocol import calls
from taskhub.protocol.envelope import result_reply
from taskhub.protocol.errors import INVALID_PARAMS, WireError
from taskhub.protocol.hub import Hub
from taskhub.protocol.incoming import Reply
from taskhub.protocol.owned import known_task, store_answers, task_id
from taskhub.protocol.revisions.sep_2557 import mapping
from taskhub.protocol.revisions.sep_2557.state import check_state, request_state
from taskhub.protocol.revisions.sep_2557.wire import VERSION
from taskhub.protocol.stateless.request import Request, input_responses
from taskhub.protocol.stateless.shapes import head, reply
from taskhub.protocol.wire.tasks import status


def created(hub: Hub, request: Request, task: TaskRecord) -> Reply:
    """`CreateTaskResult`: the Task is nested, has no payload (T2557-07), and begins as `working`, though
    it may have asked by now: the first `tasks/get` says what."""
    fields = {**mapping.task_fields(task, request_state(hub, request, task)), "status": "working"}
    return reply(hub, request, {"task": fields}, "task")


async def _owned(hub: Hub, request: Request) -> TaskRecord:
    """The caller's task. Foreign, expired and unknown ids answer alike (T2557-05, T2557-22)."""
    public_id = task_id(request.params)
    check_state(hub, request, public_id)
    task = await known_task(hub, request.principal, public_id, VERSION)
    if task is None:
        raise WireError(INVALID_PARAMS, "Task not found")
    return task


async def get(hub: Hub, request: Request) -> Reply:
    """The task with its payload, after the answers that came along were stored (T2557-10..13)."""
    calls.need_scope(request.principal, "tasks:read")
    responses = input_responses(request)
    if responses is not None:
        calls.need_scope(request.principal, "tasks:answer")
    task = await _owned(hub, request)
    if responses:
        await store_answers(hub, request.incoming, task, responses)
        task = await calls.fresh(hub, task)
    hub.polled[task.id] = time.time()
    hub.brought(task, request.principal.context_id)
    shown = mapping.encoded_task(task, head(hub, "task"), request_state(hub, request, task))
    return result_reply(request.id, shown)


async def cancel(hub: Hub, request: Request) -> Reply:
    """The Task right after the wish was recorded; -32602 for one that has ended (T2557-17)."""
    calls.need_scope(request.principal, "tasks:cancel")
    task = await _owned(hub, request)
    if task.state in TERMINAL:
        raise WireError(INVALID_PARAMS, f"Cannot cancel task: it is already {status(task)}")
    await hub.lanes.run(request_cancel, task.id, actor=calls.actor_of(request.incoming))
    task = await calls.fresh(hub, task)
    return reply(hub, request, mapping.task_fields(task, request_state(hub, request, task)), "task")

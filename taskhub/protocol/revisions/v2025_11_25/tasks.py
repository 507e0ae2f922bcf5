"""`tasks/get`, `tasks/result`, `tasks/list` and `tasks/cancel` as published in 2025-11-25 (T25-19..35)."""

from __future__ import annotations

import re
import time
from typing import Any, Final

from taskhub.core.records import TaskRecord
from taskhub.core.states import TERMINAL
from taskhub.lib import jsonx
from taskhub.lib.sealing import Unsealed
from taskhub.lifecycle.sessions import cancel_now
from taskhub.protocol import calls
from taskhub.protocol.errors import INVALID_PARAMS, METHOD_NOT_FOUND, WireError
from taskhub.protocol.hub import Hub
from taskhub.protocol.incoming import Reply, Stream
from taskhub.protocol.replies import error_reply, result_reply
from taskhub.protocol.revisions.v2025_11_25 import mapping, streams
from taskhub.protocol.revisions.v2025_11_25.wire import VERSION, Request, status_of
from taskhub.queries.sessions import handed_out

_OURS: Final = re.compile(r"[A-Za-z0-9_-]{22,64}")
PAGE: Final = 50
CURSOR_SECONDS: Final = 3_600


async def owned(hub: Hub, request: Request) -> TaskRecord:
    """The caller's task of this revision. Foreign, expired and unknown ids answer alike (T25-34, T25-35)."""
    public_id = request.params.get("taskId")
    if not isinstance(public_id, str):
        raise WireError(INVALID_PARAMS, "taskId must be a string")
    task = await hub.reads.run((request.principal.context_id, public_id)) if _OURS.fullmatch(public_id) else None
    if task is None or task.revision != VERSION or not task.handle:
        raise WireError(INVALID_PARAMS, "Failed to retrieve task: Task not found")
    return task


async def get(hub: Hub, request: Request) -> Reply:
    """The flat task, never its result, and never as a stream (T25-19, T25-20)."""
    calls.need_scope(request.principal, "tasks:read")
    task = await owned(hub, request)
    hub.polled[task.id] = time.time()
    return result_reply(request.id, jsonx.encode(mapping.task_fields(task)))


async def result(hub: Hub, request: Request) -> Reply | Stream:
    """What the call answers, as soon as it does: blocks until the task has ended (T25-21..25). The
    client's questions come on the way (T25-36)."""
    calls.need_scope(request.principal, "tasks:read")
    task = await owned(hub, request)
    hub.polled[task.id] = time.time()
    if task.state not in TERMINAL:
        request_id = jsonx.encode(request.id).decode()
        return await streams.serve_task(
            hub, request.incoming, request.on, task, kind="result", request_id=request_id, token=None
        )
    outcome = mapping.result(task, related=True)
    if isinstance(outcome, WireError):
        return error_reply(request.id, outcome, status_of)
    return result_reply(request.id, outcome)


async def cancel(hub: Hub, request: Request) -> Reply:
    """The task, cancelled by the time this is answered; -32602 for one that has ended (T25-28, T25-33)."""
    calls.need_scope(request.principal, "tasks:cancel")
    task = await owned(hub, request)
    ended = await hub.lanes.run(cancel_now, task.id, actor=calls.actor_of(request.incoming))
    now = await calls.fresh(hub, task)
    if ended is not None:
        raise WireError(INVALID_PARAMS, f"Cannot cancel task: it is already {mapping.status(now)}")
    return result_reply(request.id, jsonx.encode(mapping.task_fields(now)))


async def list_tasks(hub: Hub, request: Request) -> Reply:
    """The caller's tasks, newest first (T25-26). Not for callers that cannot be told apart (T25-02)."""
    if request.principal.anonymous:
        raise WireError(METHOD_NOT_FOUND, f"Method not found: {request.method}")
    calls.need_scope(request.principal, "tasks:read")
    context_id = request.principal.context_id
    found = await hub.lanes.run(handed_out, context_id, VERSION, _before(hub, request), PAGE + 1)
    page: dict[str, Any] = {"tasks": [mapping.task_fields(task) for _, task in found[:PAGE]]}
    if len(found) > PAGE:
        page["nextCursor"] = hub.sealer.seal("tasks/list", [context_id, found[PAGE - 1][0]], seconds=CURSOR_SECONDS)
    return result_reply(request.id, jsonx.encode(page))


def _before(hub: Hub, request: Request) -> int | None:
    cursor = request.params.get("cursor")
    if cursor is None:
        return None
    try:
        context_id, before = hub.sealer.open("tasks/list", cursor) if isinstance(cursor, str) else (None, 0)
    except Unsealed:
        context_id, before = None, 0
    if context_id != request.principal.context_id:
        raise WireError(INVALID_PARAMS, "Invalid cursor: list again from the first page")
    return int(before)

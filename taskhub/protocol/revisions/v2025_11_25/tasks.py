"""`tasks/get`, `tasks/result`, `tasks/list` and `tasks/cancel` as published in 2025-11-25 (T25-19..35)."""

from __future__ import annotations

import time
from typing import Any, Final

from taskhub.core.errors import NotFound
from taskhub.core.records import TaskRecord
from taskhub.core.states import TERMINAL
from taskhub.domain.tasks.cancel import cancel_now
from taskhub.domain.tasks.handles import handed_out
from taskhub.lib import jsonx
from taskhub.protocol import calls
from taskhub.protocol.envelope import error_reply, result_reply
from taskhub.protocol.errors import INVALID_PARAMS, METHOD_NOT_FOUND, WireError
from taskhub.protocol.hub import Hub
from taskhub.protocol.incoming import Reply, Stream
from taskhub.protocol.revisions.v2025_11_25 import mapping, sep_1686, shown, streams
from taskhub.protocol.revisions.v2025_11_25.sep_1686 import PROFILE
from taskhub.protocol.revisions.v2025_11_25.wire import VERSION, Request, status_of
from taskhub.protocol.wire.lists import open_cursor, sign_cursor

PAGE: Final = 50
"""The most tasks on a page of `tasks/list`."""


async def owned(hub: Hub, request: Request) -> TaskRecord:
    """The caller's task of this revision. Raises the same error for foreign, expired and unknown ids (T25-34,
    T25-35)."""
    task = await calls.known_task(hub, request.principal, calls.task_id(request.params), VERSION)
    if task is None or not task.handle:
        raise _not_found()
    return task


def _not_found() -> WireError:
    return WireError(INVALID_PARAMS, "Failed to retrieve task: Task not found")


async def get(hub: Hub, request: Request) -> Reply:
    """The task without its result, in one piece, never as a stream (T25-19, T25-20)."""
    calls.need_scope(request.principal, "tasks:read")
    if (other := await sep_1686.named(hub, request)) is not None:
        return sep_1686.get(hub, request, other)
    task = await owned(hub, request)
    hub.polled[task.id] = time.time()
    return result_reply(request.id, jsonx.encode(mapping.task_fields(task)))


async def result(hub: Hub, request: Request) -> Reply | Stream:
    """The final answer to the call, at once or on a stream that waits until the task has ended (T25-21..25). The stream
    also sends the client's questions (T25-36)."""
    calls.need_scope(request.principal, "tasks:read")
    if (other := await sep_1686.named(hub, request)) is not None:
        return _completed(hub, request, other)
    task = await owned(hub, request)
    hub.polled[task.id] = time.time()
    if task.state not in TERMINAL:
        streams.need_room(hub, request.on)
        request_id = jsonx.encode(request.id).decode()
        return await streams.serve_task(
            hub, request.incoming, request.on, task, kind="result", request_id=request_id, token=None
        )
    outcome = shown.result(task, related=mapping.related(task))
    hub.brought(task, request.principal.context_id)
    if isinstance(outcome, WireError):
        return error_reply(request.id, outcome, status_of)
    return result_reply(request.id, outcome)


def _completed(hub: Hub, request: Request, task: TaskRecord) -> Reply:
    """`tasks/result` of SEP-1686, which does not wait. Raises -32602 unless the task is completed (T1686-13)."""
    sep_1686.need_result(task)
    outcome = shown.result(task, related=shown.related(task))
    assert not isinstance(outcome, WireError)  # `need_result` lets only completed tasks pass
    hub.brought(task, request.principal.context_id)
    return result_reply(request.id, outcome)


async def cancel(hub: Hub, request: Request) -> Reply:
    """Cancel the task, and return it as cancelled. Raises -32602 for a task that has ended (T25-28, T25-33)."""
    calls.need_scope(request.principal, "tasks:cancel")
    task = await owned(hub, request)
    try:
        ended = await hub.lanes.run(cancel_now, task.id, actor=calls.actor_of(request.incoming))
    except NotFound:  # purged since it was read
        raise _not_found() from None
    now = await calls.fresh(hub, task)
    if ended is not None:
        raise WireError(INVALID_PARAMS, f"Cannot cancel task: it is already {mapping.status(now)}")
    return result_reply(request.id, jsonx.encode(mapping.task_fields(now)))


async def list_tasks(hub: Hub, request: Request) -> Reply:
    """The tasks that `tasks/get` would find in this session, newest first, each in the form of its own revision
    (T25-26, T1686-14). Raises -32601 for callers without a token, who cannot be told apart (T25-02), unless their
    session has made tasks under ids of its own (T1686-04)."""
    revisions: list[str] = [VERSION] if request.version == VERSION else []
    if PROFILE in hub.profiles:
        revisions.append(PROFILE)
    anonymous, spoken = request.principal.anonymous, _spoken(hub, request)
    if not revisions or (anonymous and not spoken):
        raise _unknown_method(request)
    calls.need_scope(request.principal, "tasks:read")
    context_id = request.principal.context_id
    found = await hub.lanes.run(
        handed_out,
        context_id,
        revisions,
        open_cursor(hub, request.method, context_id, request.params.get("cursor")),
        PAGE + 1,
        session_id=request.on.id if anonymous else None,
    )
    if not found and not spoken and request.version != VERSION:
        raise _unknown_method(request)
    page: dict[str, Any] = {"tasks": [_listed(task) for _, task in found[:PAGE]]}
    if len(found) > PAGE:
        page["nextCursor"] = sign_cursor(hub, request.method, context_id, found[PAGE - 1][0])
    return result_reply(request.id, jsonx.encode(page))


def _listed(task: TaskRecord) -> dict[str, Any]:
    return sep_1686.task_fields(task) if task.revision == PROFILE else mapping.task_fields(task)


def _spoken(hub: Hub, request: Request) -> bool:
    """Whether the session has made a task of SEP-1686."""
    return request.on.profile == PROFILE and PROFILE in hub.profiles


def _unknown_method(request: Request) -> WireError:
    return WireError(METHOD_NOT_FOUND, f"Method not found: {request.method}")


async def of_profile(hub: Hub, request: Request) -> Reply:
    """`tasks/delete`, and the other `tasks/*` in versions that have no tasks: they exist for tasks of SEP-1686 only."""
    task = await sep_1686.named(hub, request)
    if task is None:
        raise _not_found() if _spoken(hub, request) else _unknown_method(request)
    calls.need_scope(request.principal, "tasks:read")
    match request.method:
        case "tasks/get":
            return sep_1686.get(hub, request, task)
        case "tasks/result":
            return _completed(hub, request, task)
        case _:
            return await sep_1686.delete(hub, request, task)

"""The methods of SEP-1686, as far as the id they name is that of such a task."""

from __future__ import annotations

import hashlib
import time
from typing import Any, Final

from taskhub.core.errors import KeyReused
from taskhub.core.records import State, TaskRecord
from taskhub.domain.sessions.writes import mark_profile
from taskhub.domain.tasks.handles import forget_task, keyed_task
from taskhub.lib import jsonx
from taskhub.protocol import calls
from taskhub.protocol.envelope import result_reply
from taskhub.protocol.errors import INVALID_PARAMS, WireError
from taskhub.protocol.hub import Hub
from taskhub.protocol.incoming import Reply
from taskhub.protocol.owned import known_task
from taskhub.protocol.revisions.v2025_11_25.sep_1686 import mapping
from taskhub.protocol.revisions.v2025_11_25.sep_1686.mapping import META_TASK, PROFILE
from taskhub.protocol.revisions.v2025_11_25.wire import VERSION, Request

KEEP_MS: Final = 86_400_000
KEEP_RANGE_MS: Final = (1_000, 2_592_000_000)
MAX_ID: Final = 1_024


def asked_for(hub: Hub, request: Request) -> bool:
    """Whether the request wants to be a task in these words, and the profile is switched on."""
    return META_TASK in request.meta and PROFILE in hub.profiles


async def create(hub: Hub, request: Request, details: dict[str, Any]) -> TaskRecord:
    """The call as a task under the client's id; `details` are those of `calls.created` that every
    call of a session has. Raises -32602 for an id that was used before (T1686-05)."""
    client_task_id, keep = _wanted(request.meta[META_TASK])
    if await known_task(hub, request.principal, client_task_id, VERSION) is not None:
        raise _exists(client_task_id)  # it would hide that one: an id names one task of its caller
    try:
        made = await calls.created(
            hub,
            request.incoming,
            revision=PROFILE,
            handle=True,
            ttl_ms=None,
            client_task_id=client_task_id,
            keep_ms=keep,
            **{**details, "idempotency_key": _key(request, client_task_id)},
        )
    except KeyReused:
        made = None
    if made is None or made.existed:
        raise _exists(client_task_id)
    await hub.lanes.run(mark_profile, request.on.id, PROFILE)
    return made.task


def _exists(client_task_id: str) -> WireError:
    return WireError(INVALID_PARAMS, f"Task ID already exists: {client_task_id[:128]}")


def _wanted(augmentation: Any) -> tuple[str, int]:
    """The client's id and the time to keep. Raises -32602 for what is neither (T1686-01)."""
    found = augmentation if isinstance(augmentation, dict) else {}
    client_task_id, keep = found.get("taskId"), found.get("keepAlive", KEEP_MS)
    if not isinstance(client_task_id, str) or not 1 <= len(client_task_id) <= MAX_ID:
        raise WireError(INVALID_PARAMS, f"{META_TASK}: taskId must be a string of 1 to {MAX_ID} characters")
    if jsonx.has_nul(client_task_id):
        raise WireError(INVALID_PARAMS, f"{META_TASK}: taskId cannot hold the character U+0000")
    if isinstance(keep, bool) or not isinstance(keep, (int, float)) or keep < 0:
        raise WireError(INVALID_PARAMS, f"{META_TASK}: keepAlive must be a number of milliseconds")
    return client_task_id, int(min(max(keep, KEEP_RANGE_MS[0]), KEEP_RANGE_MS[1]))


def _key(request: Request, client_task_id: str) -> str:
    """The idempotency key that the client's id is: of its principal, or of its session where callers
    cannot be told apart (T1686-04)."""
    scope = request.on.public_id if request.principal.anonymous else ""
    return f"{PROFILE}:{hashlib.sha256(f'{scope}|{client_task_id}'.encode()).hexdigest()}"


async def named(hub: Hub, request: Request) -> TaskRecord | None:
    """The task that `params.taskId` names, if it is one of these and the caller's."""
    wanted = request.params.get("taskId")
    if PROFILE not in hub.profiles or not isinstance(wanted, str) or not 1 <= len(wanted) <= MAX_ID:
        return None
    task = await hub.lanes.run(keyed_task, request.principal.context_id, _key(request, wanted))
    return task if task is not None and task.revision == PROFILE else None


def get(hub: Hub, request: Request, task: TaskRecord) -> Reply:
    """The flat task with its related-task metadata (T1686-10, T1686-18)."""
    hub.polled[task.id] = time.time()
    return result_reply(request.id, jsonx.encode({**mapping.task_fields(task), "_meta": mapping.related(task)}))


def need_result(task: TaskRecord) -> None:
    """Only a completed task has one; any other is refused at once (T1686-13)."""
    if task.state is not State.FINISHED:
        raise WireError(INVALID_PARAMS, f"Task is not completed: its status is {mapping.status(task)}")


async def delete(hub: Hub, request: Request, task: TaskRecord) -> Reply:
    """Forgets an ended task (T1686-15)."""
    calls.need_scope(request.principal, "tasks:cancel")
    forgotten = await hub.lanes.run(
        forget_task,
        task.id,
        tenant_id=request.principal.tenant_id,
        target=task.tool_name,
        actor=calls.actor_of(request.incoming),
    )
    if not forgotten:
        raise WireError(INVALID_PARAMS, f"Cannot delete task: its status is {mapping.status(task)}")
    return result_reply(request.id, jsonx.encode({"_meta": mapping.related(task)}))

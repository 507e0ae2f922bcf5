"""SEP-1686 as it was written, before it was edited into 2025-11-25: the client makes the task's id.

The profile has no protocol version of its own: requests in a session of any 2025 version use it by a key in `_meta`
(T1686-*). Where its text is silent or contradicts itself, this is decided:

- `tools/call` is the only request that becomes a task. On other requests, and for tools that never run as a task, the
  key is ignored (T1686-02).
- An id can be used once for as long as the hub keeps the task, also after `tasks/delete` (T1686-05). It belongs to the
  client, or to the session if callers cannot be told apart (T1686-04).
- `tasks/list` lists the tasks of both revisions that `tasks/get` would find in the session, each in the form of its own
  revision. The other methods answer in the form of the task that the id names.
- Only an ended task can be deleted (T1686-15). The console keeps it.
- The status `unknown` is never shown, because the state of a task is never lost (T1686-20).
"""

from __future__ import annotations

import hashlib
import time
from typing import Any, Final

from taskhub.core.errors import KeyReused
from taskhub.core.records import State, TaskRecord
from taskhub.core.versions import Proposal
from taskhub.domain.sessions.writes import mark_profile
from taskhub.domain.tasks.handles import forget_task, keyed_task
from taskhub.lib import jsonx
from taskhub.protocol import calls
from taskhub.protocol.envelope import notification_message, result_reply
from taskhub.protocol.errors import INVALID_PARAMS, WireError
from taskhub.protocol.hub import Hub
from taskhub.protocol.incoming import Reply
from taskhub.protocol.revisions.v2025_11_25.wire import VERSION, Request
from taskhub.protocol.wire import tasks

PROFILE: Final = Proposal.SEP_1686
META_TASK: Final = "modelcontextprotocol.io/task"
RELATED: Final = "modelcontextprotocol.io/related-task"
KEEP_MS: Final = 86_400_000
KEEP_RANGE_MS: Final = (1_000, 2_592_000_000)
MAX_ID: Final = 1_024


def status(task: TaskRecord) -> str:
    """The task's status in SEP-1686. A tool error is `completed` (T1686-20). A task is `submitted` only until its first
    change (T1686-07)."""
    return "submitted" if task.state is State.QUEUED and task.version <= 1 else tasks.status(task)


def related(task: TaskRecord) -> dict[str, Any]:
    """The `_meta` of all messages about the task (T1686-18)."""
    return {RELATED: {"taskId": task.client_task_id}}


def task_fields(task: TaskRecord) -> dict[str, Any]:
    """The flat task, as `tasks/list` has it (T1686-10..12, T1686-14)."""
    fields: dict[str, Any] = {
        "taskId": task.client_task_id,
        "status": status(task),
        "keepAlive": task.keep_ms,
        "pollFrequency": task.poll_interval_ms,
    }
    if task.state is State.FAULTED:
        fields["error"] = task.message
    return fields


def created(task: TaskRecord) -> bytes:
    """`notifications/tasks/created`, with nothing but the task's id (T1686-08)."""
    return notification_message("notifications/tasks/created", {"_meta": related(task)})


def asked_for(hub: Hub, request: Request) -> bool:
    """Whether the request asks for a task of SEP-1686, and the profile is switched on."""
    return META_TASK in request.meta and PROFILE in hub.profiles


async def create(hub: Hub, request: Request, details: dict[str, Any]) -> TaskRecord:
    """Make the task of the call, under the client's id. `details` are arguments of `calls.created`, as
    `toolcall._details` makes them. Raises -32602 for an id that was used before (T1686-05)."""
    client_task_id, keep = _wanted(request.meta[META_TASK])
    if await calls.known_task(hub, request.principal, client_task_id, VERSION) is not None:
        raise _exists(client_task_id)  # the new task would hide the one that has this id already
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
    """The client's id, and for how many milliseconds to keep the task. Raises -32602 if either is not valid
    (T1686-01)."""
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
    """The idempotency key that is made of the client's id. If callers cannot be told apart, it contains the session too
    (T1686-04)."""
    scope = request.on.public_id if request.principal.anonymous else ""
    return f"{PROFILE}:{hashlib.sha256(f'{scope}|{client_task_id}'.encode()).hexdigest()}"


async def named(hub: Hub, request: Request) -> TaskRecord | None:
    """The task that `params.taskId` names, if it is of SEP-1686 and the caller's."""
    wanted = request.params.get("taskId")
    if PROFILE not in hub.profiles or not isinstance(wanted, str) or not 1 <= len(wanted) <= MAX_ID:
        return None
    task = await hub.lanes.run(keyed_task, request.principal.context_id, _key(request, wanted))
    return task if task is not None and task.revision == PROFILE else None


def get(hub: Hub, request: Request, task: TaskRecord) -> Reply:
    """The flat task with its related-task metadata (T1686-10, T1686-18)."""
    hub.polled[task.id] = time.time()
    return result_reply(request.id, jsonx.encode({**task_fields(task), "_meta": related(task)}))


def need_result(task: TaskRecord) -> None:
    """Raises -32602 unless the task is completed, because no other task has a result (T1686-13)."""
    if task.state is not State.FINISHED:
        raise WireError(INVALID_PARAMS, f"Task is not completed: its status is {status(task)}")


async def delete(hub: Hub, request: Request, task: TaskRecord) -> Reply:
    """Delete an ended task for its client (T1686-15)."""
    calls.need_scope(request.principal, "tasks:cancel")
    forgotten = await hub.lanes.run(
        forget_task,
        task.id,
        tenant_id=request.principal.tenant_id,
        target=task.tool_name,
        actor=calls.actor_of(request.incoming),
    )
    if not forgotten:
        raise WireError(INVALID_PARAMS, f"Cannot delete task: its status is {status(task)}")
    return result_reply(request.id, jsonx.encode({"_meta": related(task)}))

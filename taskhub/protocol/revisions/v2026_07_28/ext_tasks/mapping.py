"""Task records in the words of the tasks extension (SEP-2663): total functions, no I/O.

The extension moves on its own clock, hence its own folder inside the revision.
"""

from __future__ import annotations

import json
from typing import Any, Final

from taskhub.core.names import PROGRESS
from taskhub.core.records import State, TaskRecord
from taskhub.lib import jsonx
from taskhub.protocol.projection import complete_result, for_client, input_requests, timestamp

STATUS: Final[dict[State, str]] = {
    State.QUEUED: "working",
    State.WORKING: "working",
    State.INPUT_REQUIRED: "input_required",
    State.FINISHED: "completed",
    State.FAULTED: "failed",
    State.CANCELLED: "cancelled",
}


def status(task: TaskRecord) -> str:
    """`input_required` only while the client itself can move the task on: what waits for people
    shows as `working`, or clients that cannot answer would cancel it."""
    if task.state is State.INPUT_REQUIRED and not for_client(task):
        return "working"
    return STATUS[task.state]


def task_fields(task: TaskRecord) -> dict[str, Any]:
    """The flat `Task` (T26-12, T26-15..17)."""
    fields: dict[str, Any] = {"taskId": task.public_id, "status": status(task)}
    if task.message:
        fields["statusMessage"] = task.message
    fields["createdAt"] = timestamp(task.created_at)
    fields["lastUpdatedAt"] = timestamp(task.updated_at)
    fields["ttlMs"] = task.ttl_ms
    fields["pollIntervalMs"] = task.poll_interval_ms
    return fields


def progress(task: TaskRecord) -> dict[str, float] | None:
    """How far a running task says it is. The extension has no field for it; `_meta` is for such."""
    if task.progress is None or task.ended_at is not None:
        return None
    return {"progress": task.progress, **({} if task.total is None else {"total": task.total})}


def encoded_task(task: TaskRecord, head: dict[str, Any]) -> bytes:
    """`head`, the flat task, and by status its payload, as JSON. Stored results and errors are
    spliced in as they lie in the database."""
    fields = {**head, **task_fields(task)}
    if (numbers := progress(task)) is not None:
        fields["_meta"] = {**head.get("_meta", {}), PROGRESS: numbers}
    match fields["status"]:
        case "input_required":
            fields["inputRequests"] = input_requests(for_client(task))
            return jsonx.encode(fields)
        case "completed":
            return jsonx.encode(fields)[:-1] + b',"result":' + complete_result(task) + b"}"
        case "failed":
            assert task.error_json is not None  # CHECK task_error_iff_faulted
            return jsonx.encode(fields)[:-1] + b',"error":' + task.error_json.encode() + b"}"
        case _:
            return jsonx.encode(fields)


def detailed_task(task: TaskRecord) -> dict[str, Any]:
    """What `tasks/get` answers now, as an object: for the console's wire view."""
    decoded: dict[str, Any] = json.loads(encoded_task(task, {"resultType": "complete"}))
    return decoded

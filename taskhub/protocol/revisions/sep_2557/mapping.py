"""Task records in the words of SEP-2557: total functions, no I/O."""

from __future__ import annotations

import json
from typing import Any, Final

from taskhub.core.records import State, TaskRecord, ToolRecord
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
    """`input_required` only while the client itself can move the task on: others would cancel it."""
    if task.state is State.INPUT_REQUIRED and not for_client(task):
        return "working"
    return STATUS[task.state]


def task_fields(task: TaskRecord, request_state: str) -> dict[str, Any]:
    """The `Task`: `ttl` in seconds, `pollInterval` in milliseconds (T2557-09)."""
    fields: dict[str, Any] = {"taskId": task.public_id, "status": status(task)}
    if task.message:
        fields["statusMessage"] = task.message
    fields["createdAt"] = timestamp(task.created_at)
    fields["lastUpdatedAt"] = timestamp(task.updated_at)
    fields["ttl"] = None if task.ttl_ms is None else -(-task.ttl_ms // 1_000)
    fields["pollInterval"] = task.poll_interval_ms
    fields["requestState"] = request_state
    return fields


def encoded_task(task: TaskRecord, head: dict[str, Any], request_state: str) -> bytes:
    """`head`, the flat task, and by status its payload, as JSON (T2557-10, T2557-11). Stored results
    and errors are spliced in as they lie in the database."""
    fields = {**head, **task_fields(task, request_state)}
    match fields["status"]:
        case "input_required":
            return jsonx.encode({**fields, "inputRequests": input_requests(for_client(task))})
        case "completed":
            return jsonx.encode(fields)[:-1] + b',"result":' + complete_result(task) + b"}"
        case "failed":
            assert task.error_json is not None  # CHECK task_error_iff_faulted
            return jsonx.encode(fields)[:-1] + b',"error":' + task.error_json.encode() + b"}"
        case _:
            return jsonx.encode(fields)


def shown(task: TaskRecord) -> dict[str, Any]:
    """What `tasks/get` answers now: for the console's wire view. No valid `requestState`, which is
    the owner's alone."""
    decoded: dict[str, Any] = json.loads(encoded_task(task, {"resultType": "task"}, "…"))
    return decoded


def wire_tool(tool: ToolRecord) -> dict[str, Any]:
    """A tool as its server describes it, under the name we expose, without any word on tasks (T2557-03)."""
    definition = {key: value for key, value in tool.definition.items() if key != "execution"}
    return {**definition, "name": tool.exposed_name}

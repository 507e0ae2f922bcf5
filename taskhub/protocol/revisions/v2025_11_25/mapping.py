"""Task records, results and questions in the words of 2025-11-25: total functions, no I/O."""

from __future__ import annotations

import json
from typing import Any, Final

from taskhub.core.records import OpenQuestion, QuestionKind, State, TaskMode, TaskRecord, ToolRecord
from taskhub.lib import jsonx
from taskhub.protocol.errors import INTERNAL_ERROR, INVALID_PARAMS, WireError
from taskhub.protocol.projection import METHOD, for_client, timestamp
from taskhub.protocol.revisions.v2025_11_25.wire import LATER_SERVER_INFO, OLDER, RELATED, VERSION

STATUS: Final[dict[State, str]] = {
    State.QUEUED: "working",
    State.WORKING: "working",
    State.INPUT_REQUIRED: "input_required",
    State.FINISHED: "completed",
    State.FAULTED: "failed",
    State.CANCELLED: "cancelled",
}

SUPPORT: Final[dict[TaskMode, str]] = {
    TaskMode.ALWAYS: "required",
    TaskMode.AUTO: "optional",
    TaskMode.NEVER: "forbidden",
}

_TOOL: Final = ("name", "description", "inputSchema", "annotations")
TOOL_MEMBERS: Final[dict[str, frozenset[str]]] = {
    "2025-03-26": frozenset(_TOOL),
    "2025-06-18": frozenset({*_TOOL, "title", "outputSchema", "_meta"}),
    VERSION: frozenset({*_TOOL, "title", "outputSchema", "_meta", "icons", "execution"}),
}


def status(task: TaskRecord) -> str:
    """A tool error is a failed task here (T25-42); what waits for people shows as `working`, or
    clients would cancel it (design section 5)."""
    if task.state is State.INPUT_REQUIRED and not for_client(task):
        return "working"
    if task.state is State.FINISHED and task.is_error:
        return "failed"
    return STATUS[task.state]


def task_fields(task: TaskRecord) -> dict[str, Any]:
    """The flat `Task` (T25-15, T25-16, T25-19)."""
    fields: dict[str, Any] = {"taskId": task.public_id, "status": status(task)}
    if task.message:
        fields["statusMessage"] = task.message
    fields["createdAt"] = timestamp(task.created_at)
    fields["lastUpdatedAt"] = timestamp(task.updated_at)
    fields["ttl"] = task.ttl_ms
    fields["pollInterval"] = task.poll_interval_ms
    return fields


def shown(task: TaskRecord) -> dict[str, Any] | None:
    """What `tasks/get` answers now: for the console's wire view. `None` for a call without a handle."""
    return task_fields(task) if task.handle else None


def wire_tool(tool: ToolRecord, version: str) -> dict[str, Any]:
    """A tool as its server describes it, under the name we expose, with the members this version has."""
    members = TOOL_MEMBERS[version]
    shown = {key: value for key, value in tool.definition.items() if key in members and key != "execution"}
    output = shown.get("outputSchema")
    if output is not None and not (isinstance(output, dict) and output.get("type") == "object"):
        del shown["outputSchema"]  # any type is legal in 2026-07-28 only (B26-47)
    if "execution" in members:
        shown["execution"] = {"taskSupport": SUPPORT[tool.mode]}
    return {**shown, "name": tool.exposed_name}


def result(task: TaskRecord, *, related: bool) -> bytes | WireError:
    """What the call answers in the end: the tool's result, or its error. `related` adds the task to
    its `_meta`, as `tasks/result` must (T25-22, T25-23)."""
    if task.state is State.FAULTED:
        assert task.error_json is not None  # CHECK task_error_iff_faulted
        error = json.loads(task.error_json)
        return WireError(error.get("code", INTERNAL_ERROR), error.get("message", ""), error.get("data"), status=200)
    if task.state is State.CANCELLED:
        if related:
            return WireError(INVALID_PARAMS, "Task was cancelled")
        text = task.message or "The call was cancelled"
        return jsonx.encode({"content": [{"type": "text", "text": text}], "isError": True})
    assert task.result_json is not None  # CHECK task_result_iff_finished
    return _of_this_wire(task.result_json.encode(), task.public_id if related else None, task.revision)


def _of_this_wire(body: bytes, task_id: str | None, version: str) -> bytes:
    """The stored result; decoded only where something must be taken out or merged in."""
    foreign = LATER_SERVER_INFO.encode() in body or b'"structuredContent":' in body
    if not foreign and b'"_meta"' not in body:
        if task_id is None:
            return body
        meta = b'"_meta":' + jsonx.encode({RELATED: {"taskId": task_id}}) + b"}"
        return body[:-1] + (b"," if body != b"{}" else b"") + meta
    found: dict[str, Any] = json.loads(body)
    structured = found.get("structuredContent")
    if structured is not None and (version in OLDER[1:] or not isinstance(structured, dict)):
        del found["structuredContent"]  # only objects, and not before 2025-06-18 (B25-27)
    meta_found = {key: value for key, value in (found.pop("_meta", None) or {}).items() if key != LATER_SERVER_INFO}
    if task_id is not None:
        meta_found[RELATED] = {"taskId": task_id}
    return jsonx.encode({**found, **({"_meta": meta_found} if meta_found else {})})


def question_request(task: TaskRecord, question: OpenQuestion) -> tuple[int, str, dict[str, Any]]:
    """A question as a request to the client: its id, method and params. Those of a task the client
    has a handle of name the task (T25-36)."""
    params = dict(question.params)
    if question.kind is QuestionKind.ELICITATION and params.get("mode") == "url":
        params.setdefault("elicitationId", f"{task.public_id}.{question.key}")
    if task.handle:
        params["_meta"] = {**(params.get("_meta") or {}), RELATED: {"taskId": task.public_id}}
    return question.id, METHOD[question.kind], params

"""Results and questions as messages of the 2025 revisions, for their own tasks and for those of SEP-1686."""

from __future__ import annotations

import json
from typing import Any

from taskhub.core.names import META_SERVER
from taskhub.core.records import OpenQuestion, QuestionKind, State, TaskRecord
from taskhub.core.versions import Version
from taskhub.domain.questions.kinds import METHODS
from taskhub.domain.sessions.writes import NewRequest
from taskhub.lib import jsonx
from taskhub.protocol import calls
from taskhub.protocol.envelope import notification_message
from taskhub.protocol.errors import INTERNAL_ERROR, INVALID_PARAMS, WireError
from taskhub.protocol.revisions.v2025_11_25 import mapping, sep_1686
from taskhub.protocol.wire.page_links import page_key, page_params


def related(task: TaskRecord) -> dict[str, Any] | None:
    """The `_meta` of messages about the task; `None` for a call without a handle."""
    if task.revision == sep_1686.PROFILE:
        return sep_1686.related(task)
    return mapping.related(task) if task.handle else None


def wire_view(task: TaskRecord) -> dict[str, Any] | None:
    """The present result of `tasks/get`, for the console; `None` for a call without a handle."""
    if task.revision == sep_1686.PROFILE:
        return {**sep_1686.task_fields(task), "_meta": sep_1686.related(task)}
    return mapping.task_fields(task) if task.handle else None


def opening(task: TaskRecord) -> bytes | None:
    """The first message on the stream of a call: `notifications/tasks/created` for SEP-1686, else `None`."""
    return sep_1686.created(task) if task.revision == sep_1686.PROFILE else None


def result(task: TaskRecord, *, related: dict[str, Any] | None) -> bytes | WireError:
    """The final answer to the call: the tool's result, or its error. `related` is merged into the `_meta` of a result
    (T25-22, T25-23, T1686-18)."""
    if task.state is State.FAULTED:
        assert task.error_json is not None  # CHECK task_error_iff_faulted
        error = json.loads(task.error_json)
        return WireError(error.get("code", INTERNAL_ERROR), error.get("message", ""), error.get("data"), status=200)
    if task.state is State.CANCELLED:
        if related is not None:
            return WireError(INVALID_PARAMS, "Task was cancelled")
        return jsonx.encode(calls.cancelled_result(task))
    assert task.result_json is not None  # CHECK task_result_iff_finished
    return _of_this_wire(task.result_json.encode(), related, task.revision)


def of_hub(result: dict[str, Any], version: str) -> bytes:
    """A result that the hub made itself, encoded: an interim result or the result of a hub tool."""
    return _of_this_wire(jsonx.encode(result), None, version)


def _of_this_wire(body: bytes, related: dict[str, Any] | None, version: str) -> bytes:
    """The result `body` without the members that this `version` does not have, and with `related` in its `_meta`. The
    JSON of `body` is decoded only if it may need a change."""
    foreign = META_SERVER.encode() in body or b'"structuredContent":' in body
    if not foreign and b'"_meta"' not in body:
        if related is None:
            return body
        meta = b'"_meta":' + jsonx.encode(related) + b"}"
        return body[:-1] + (b"," if body != b"{}" else b"") + meta
    found: dict[str, Any] = json.loads(body)
    structured = found.get("structuredContent")
    if structured is not None and (version == Version.MCP_2025_03_26 or not isinstance(structured, dict)):
        del found["structuredContent"]  # must be an object; 2025-03-26 does not have it (B25-27)
    merged = {key: value for key, value in (found.pop("_meta", None) or {}).items() if key != META_SERVER}
    merged.update(related or {})
    return jsonx.encode({**found, **({"_meta": merged} if merged else {})})


def question(task: TaskRecord, question: OpenQuestion, augmentation: dict[str, Any] | None) -> NewRequest:
    """A question as a request to the client. It names its task if the client has a handle of it (T25-36). With
    `augmentation`, the value of the parameter `task`, the client answers it by a task of its own (CH-03, CH-04)."""
    params = dict(question.params)
    if augmentation is not None:
        params["task"] = augmentation
    if question.kind is QuestionKind.ELICITATION and params.get("mode") == "url":
        params.setdefault("elicitationId", f"{task.public_id}.{question.key}")
    if (tied := related(task)) is not None:
        params["_meta"] = {**(params.get("_meta") or {}), **tied}
    assert question.id is not None  # set in every question that was read from the database
    return NewRequest(question.id, METHODS[question.kind], params)


def page(task: TaskRecord, question: OpenQuestion, base: str) -> NewRequest:
    """The request to open the page where people answer a question; `base` is the address of the console. It is never a
    task at the client, because the client can answer it as soon as the page is open."""
    params = page_params(task, question, base)
    params["elicitationId"] = f"{task.public_id}.{page_key(question)}"
    if (tied := related(task)) is not None:
        params["_meta"] = tied
    assert question.id is not None  # set in every question that was read from the database
    return NewRequest(question.id, METHODS[QuestionKind.ELICITATION], params, page=True)


def page_ended(params: dict[str, Any]) -> bytes:
    """The notification that a question is closed, for a client that was asked to open the page of the question
    (B25-22). `params`: the params of the request to open that page."""
    told: dict[str, Any] = {key: params[key] for key in ("elicitationId", "_meta") if key in params}
    return notification_message("notifications/elicitation/complete", told)

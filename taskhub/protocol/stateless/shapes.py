"""Messages that the 2026 revisions share: results with their `resultType`, tasks with their payload, questions by
key."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from taskhub.core.names import META_SERVER
from taskhub.core.records import OpenQuestion, QuestionKind, TaskRecord, ToolRecord
from taskhub.domain.questions.kinds import METHODS
from taskhub.lib import jsonx
from taskhub.protocol.envelope import result_reply
from taskhub.protocol.hub import Hub
from taskhub.protocol.incoming import Reply
from taskhub.protocol.revision import Request
from taskhub.protocol.wire import page_links, tasks
from taskhub.protocol.wire.lists import described
from taskhub.protocol.wire.tasks import for_client


def head(hub: Hub, kind: str = "complete") -> dict[str, Any]:
    """The members of every result: its `resultType` (`kind`), and the hub's `serverInfo` in `_meta` (B26-40,
    B26-41)."""
    return {"resultType": kind, "_meta": {META_SERVER: hub.server_info}}


def reply(hub: Hub, request: Request, fields: Mapping[str, Any], kind: str = "complete") -> Reply:
    """A reply with a result of these fields; `kind` is its `resultType`."""
    body = {"resultType": kind, **fields, "_meta": {META_SERVER: hub.server_info}}
    return result_reply(request.id, jsonx.encode(body))


def wire_tool(tool: ToolRecord, version: str) -> dict[str, Any]:
    """A tool as its server describes it, without `execution`: in these revisions `tools/list` says nothing of tasks
    (T26-56, T2557-03)."""
    return described(tool, ("execution",))


def input_requests(questions: tuple[OpenQuestion, ...]) -> dict[str, Any]:
    """Questions as `inputRequests`: by key, each as a method with params (T26-24, B26-61)."""
    return {q.key: {"method": METHODS[q.kind], "params": q.params} for q in questions}


def status(task: TaskRecord) -> str:
    """The status of `wire.tasks.status`, and also `input_required` while the client is asked to open a page, because
    the task then has that request among its `inputRequests`."""
    return "input_required" if page_links.pages(task) else tasks.status(task)


def page_requests(task: TaskRecord, base: str) -> dict[str, Any]:
    """The requests to open the pages of questions for people, by key; `base` is the address of the console."""
    method = METHODS[QuestionKind.ELICITATION]
    return {
        page_links.page_key(q): {"method": method, "params": page_links.page_params(task, q, base)}
        for q in page_links.pages(task)
    }


def encoded_task(task: TaskRecord, fields: dict[str, Any], base: str) -> bytes:
    """A flat task as JSON: `fields` and, depending on their `status`, `inputRequests`, `result` or `error` (T26-24..27,
    T2557-10, T2557-11). The stored result or error is inserted as JSON text. `base` is the address of the console."""
    match fields["status"]:
        case "input_required":
            asked = {**input_requests(for_client(task)), **page_requests(task, base)}
            return jsonx.encode({**fields, "inputRequests": asked})
        case "completed":
            return jsonx.encode(fields)[:-1] + b',"result":' + complete_result(task) + b"}"
        case "failed":
            assert task.error_json is not None  # CHECK task_error_iff_faulted
            return jsonx.encode(fields)[:-1] + b',"error":' + task.error_json.encode() + b"}"
        case _:
            return jsonx.encode(fields)


def complete_result(task: TaskRecord) -> bytes:
    """The tool's result as a plain call returns it, with its own `resultType` (clients reject an inlined result
    without one)."""
    assert task.result_json is not None  # CHECK task_result_iff_finished
    body = task.result_json.encode()
    if META_SERVER.encode() in body:
        # The stored `serverInfo` is that of the server behind the hub; replies of the hub name the hub.
        found = json.loads(body)
        if isinstance(meta := found.get("_meta"), dict) and meta.pop(META_SERVER, None) is not None:
            if not meta:
                del found["_meta"]
            body = jsonx.encode(found)
    return b'{"resultType":"complete"' + (b"," if body != b"{}" else b"") + body[1:]

"""The result of a call that has not ended: where it stands, who is waited for, and how to go on.

Its text and its structured content each say all of it, because most programs show their model only one of the two. It
is never an error. Its structured content has one member, `taskhub`; `relaxed_schema` changes a tool's `outputSchema` so
that this is valid.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, Final

from taskhub.core.records import OpenQuestion, TaskRecord
from taskhub.core.states import QuestionKind, State
from taskhub.domain.questions.kinds import METHODS
from taskhub.protocol.wire.page_links import question_path
from taskhub.protocol.wire.tasks import timestamp

MEMBER: Final = "taskhub"
WAIT_TOOL: Final = "taskhub_wait_for_task"
ANSWER_TOOL: Final = "taskhub_answer_task"
_APPLICATORS: Final = frozenset(
    {
        "$ref", "$dynamicRef", "allOf", "anyOf", "oneOf", "not", "if", "then", "else", "dependentSchemas",
        "dependentRequired", "dependencies", "patternProperties", "propertyNames", "unevaluatedProperties",
        "minProperties", "maxProperties", "const", "enum",
    }
)  # fmt: skip
"""JSON Schema keywords that may make an object with only the member `taskhub` invalid. A schema with one of them is not
relaxed."""


def interim_result(task: TaskRecord, *, base: str, patience: float | None, tools: bool) -> dict[str, Any]:
    """The interim result of a call, as a `CallToolResult`. `base` is the address of the console. `patience`: for how
    many seconds `taskhub_wait_for_task` may block (`None`: no limit). `tools`: whether the caller sees the hub's own
    tools; if not, it is told to make the same call again."""
    about = standing(task, base=base, tools=tools)
    about["next"] = _next(task, patience=patience, tools=tools)
    return {
        "content": [{"type": "text", "text": _text(task, about)}],
        "structuredContent": {MEMBER: about},
    }


def standing(task: TaskRecord, *, base: str, tools: bool = True) -> dict[str, Any]:
    """The present state of a task, for a model: its id and tool, its state in words, who has to answer, and its page in
    the console at `base`. `tools`: whether the caller sees the hub's own tools, with which it can answer."""
    ended = task.ended_at is not None
    about: dict[str, Any] = {
        "task_id": task.public_id,
        "tool": task.tool_name,
        "state": str(task.state),
        "ended": ended,
        "says": _closed(_sentence(task)),
        "since": timestamp(_since(task)),
        "created": timestamp(task.created_at),
    }
    if not ended and task.progress is not None:
        about["progress"] = task.progress
        if task.total is not None:
            about["total"] = task.total
    if task.state is State.INPUT_REQUIRED:
        about["waits_for"] = [_waited_for(task, question, tools=tools) for question in task.questions]
    about["page"] = f"{base}{_page(task)}"
    return about


def _waited_for(task: TaskRecord, question: OpenQuestion, *, tools: bool) -> dict[str, Any]:
    """An open question, as the client may see it. Its key, its params and the call that answers it are there only if
    the client may answer it."""
    people = question.kind not in METHODS or question.audience == "operator"
    asked: dict[str, Any] = {
        "kind": str(question.kind),
        "from": "a person" if people else "you" if question.audience == "client" else "you or a person",
    }
    if question.group:
        asked["group"] = question.group
    if not people:
        asked["key"] = question.key
        asked["question"] = question.params
        if tools:
            arguments = {"task_id": task.public_id, "key": question.key}
            asked["answer"] = {"call": ANSWER_TOOL, "arguments": arguments, "answer": _answer(question)}
    return asked


def _answer(question: OpenQuestion) -> str:
    """The form that the argument `answer` of `ANSWER_TOOL` must have for this question, in words."""
    if question.kind is not QuestionKind.ELICITATION:
        return f"the result that MCP has for {METHODS[question.kind]}"
    if question.params.get("mode") == "url":
        return '{"action": "accept"} once your user has opened the url, else {"action": "decline"}'
    return '{"action": "accept", "content": {...}} with content that fits requestedSchema, or {"action": "decline"}'


def _page(task: TaskRecord) -> str:
    asked = next((question for question in task.questions if question.audience != "client"), None)
    return question_path(task, asked) if asked is not None else f"/tasks/{task.public_id}/"


def _since(task: TaskRecord) -> datetime:
    """When the task entered its state. For a queued or running task: when it was created, because each progress changes
    `updated_at`."""
    if task.state is State.INPUT_REQUIRED:
        return task.updated_at
    return task.ended_at or task.created_at


def _closed(sentence: str) -> str:
    return sentence if sentence.endswith((".", "!", "?")) else f"{sentence}."


def _sentence(task: TaskRecord) -> str:
    match task.state:
        case State.QUEUED:
            return task.message or "It waits in the queue."
        case State.WORKING if task.cancel_requested_at is not None:
            return "It is being cancelled."  # `message` may be progress reported after the cancel request
        case State.WORKING:
            return f"It is running: {task.message}" if task.message else "It is running."
        case State.INPUT_REQUIRED:
            return task.message or "It waits for an answer."
        case State.FINISHED:
            return "It has ended with an error of the tool." if task.is_error else "It has a result."
        case State.FAULTED:
            return f"It failed: {task.message}" if task.message else "It failed."
        case State.CANCELLED:
            return task.message or "It was cancelled."


def _next(task: TaskRecord, *, patience: float | None, tools: bool) -> dict[str, Any]:
    """The call that the model should make to get the result."""
    if not tools:
        return {
            "call": task.tool_name,
            "arguments": "exactly the same as before",
            "because": "the same call joins this task and does not run the tool again",
        }
    found: dict[str, Any] = {"call": WAIT_TOOL, "arguments": {"task_id": task.public_id}}
    if patience is not None:
        found["blocks_for_seconds"] = round(patience, 1)
    return found


def _text(task: TaskRecord, about: Mapping[str, Any]) -> str:
    waited = (datetime.now(UTC) - _since(task)).total_seconds()
    lines = [
        f"{task.tool_name} has not ended yet. This is no error and no result: it goes on as task {task.public_id}.",
        f"State: {task.state}. {about['says']} So for {_duration(waited)}, since {about['since']}.",
    ]
    if (progress := about.get("progress")) is not None:
        lines.append(f"Progress: {progress:g}" + (f" of {about['total']:g}." if "total" in about else "."))
    asked = about.get("waits_for", ())
    if any(question["from"] != "you" for question in asked):
        lines.append(f"A person is waited for. Tell your user; it is done at {about['page']}")
    else:
        lines.append(f"A person can look at it at {about['page']}")
    for question in asked:
        if "key" not in question:
            continue
        params = json.dumps(question["question"], ensure_ascii=False)
        lines.append(f"It asks {question['from']} ({question['kind']}, key {question['key']}): {params}")
        if way := question.get("answer"):
            arguments = json.dumps(way["arguments"])
            lines.append(f"To answer, call {way['call']} with {arguments} and as answer {way['answer']}.")
            if question["from"] == "you":
                lines.append("Ask your user what you do not know, and answer before you wait for the result.")
    after = about["next"]
    if after["call"] == WAIT_TOOL:
        seconds = after.get("blocks_for_seconds")
        blocks = "" if seconds is None else f" It blocks for {seconds:g} s at most, and then says how to go on."
        lines.append(f"For the result call {WAIT_TOOL} with {json.dumps(after['arguments'])}.{blocks}")
        lines.append(f"Do not call {task.tool_name} again for it. You may do something else first: the task goes on.")
    else:
        lines.append(
            f"For the result call {task.tool_name} again with exactly the same arguments: that joins this task and does"
            " not run the tool again."
        )
    return "\n".join(lines)


def _duration(seconds: float) -> str:
    seconds = max(0, round(seconds))
    if seconds < 120:
        return f"{seconds} s"
    return f"{seconds // 60} min" if seconds < 7_200 else f"{seconds // 3_600} h"


def relaxed(definition: dict[str, Any]) -> dict[str, Any]:
    """A tool's definition for clients that may get an interim result: its `outputSchema` accepts one, or is left
    out."""
    if "outputSchema" not in definition:
        return definition
    schema = relaxed_schema(definition["outputSchema"])
    rest = {key: value for key, value in definition.items() if key != "outputSchema"}
    return rest if schema is None else {**rest, "outputSchema": schema}


def relaxed_schema(schema: Any) -> dict[str, Any] | None:
    """The `outputSchema`, loosened so that an interim result is valid too: without `required` and
    `additionalProperties`, and with a member `taskhub`. `None` if dropping these is not enough (`allOf`, `$ref`, …);
    the tool is then listed without an output schema."""
    if not isinstance(schema, dict) or schema.get("type") != "object" or _APPLICATORS & schema.keys():
        return None
    properties = schema.get("properties", {})
    if not isinstance(properties, dict) or MEMBER in properties:
        return None
    relaxed = {key: value for key, value in schema.items() if key not in ("required", "additionalProperties")}
    about = {
        "type": "object",
        "description": "There alone where the call has not ended yet: where it stands, and how to go on.",
    }
    return {**relaxed, "properties": {**properties, MEMBER: about}}

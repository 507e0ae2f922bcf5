"""Hosted tasks: to answer a question, the client creates a task of its own, and the hub polls that task until it has
the answer (CH-*). Each step is an outbound request in the database, so any process can take the next step, also after a
restart.

The ids of these tasks are made by the client and stored only in the params of those requests (CH-06). If the client's
session ends, the question stays open for the next session. A client that has lost the task by then answers with an
error (CH-15).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from taskhub.core.records import QuestionKind, Session
from taskhub.domain.sessions.reads import OutboundRequest
from taskhub.protocol.envelope import Response
from taskhub.protocol.errors import INTERNAL_ERROR, INVALID_PARAMS
from taskhub.protocol.revisions.v2025_11_25.wire import VERSION

TTL_MS: Final = 86_400_000
"""Milliseconds for which the client is to keep its task: a question stays open equally long."""
POLL_MS: Final = 1_000
POLL_RANGE_MS: Final = (100, 60_000)
_HOSTS: Final = {
    QuestionKind.ELICITATION: ("elicitation", "create"),
    QuestionKind.SAMPLING: ("sampling", "createMessage"),
}
"""For each kind of question, the path below `tasks.requests` where a client declares that it hosts tasks for it."""


def hosts(session: Session, kind: QuestionKind) -> bool:
    """Whether the client declares that it hosts tasks for this kind of question (CH-01, CH-02)."""
    found: Any = _tasks(session).get("requests")
    for name in _HOSTS.get(kind, ("", "")):
        found = found.get(name) if isinstance(found, dict) else None
    return session.version == VERSION and isinstance(found, dict)


def cancels(session: Session) -> bool:
    """Whether the client declares that it accepts `tasks/cancel` (CH-10)."""
    return isinstance(_tasks(session).get("cancel"), dict)


def _tasks(session: Session) -> dict[str, Any]:
    found = session.client_capabilities.get("tasks")
    return found if isinstance(found, dict) else {}


def augmentation() -> dict[str, Any]:
    """The parameter `task`, which makes a request of the hub a task at the client (CH-03)."""
    return {"ttl": TTL_MS}


@dataclass(frozen=True, slots=True)
class Answer:
    """The client's answer to the question itself."""

    result: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Refusal:
    """The client's error, or an error of the hub if the client's task breaks the protocol."""

    error: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Further:
    """There is no answer yet: send this request after `seconds`."""

    method: str
    params: dict[str, Any]
    seconds: float


def read(asked: OutboundRequest, response: Response) -> Answer | Refusal | Further:
    """The meaning of a client's response to a request of the hub: an answer, a refusal, or a further request to
    send."""
    if response.error is not None:
        return Refusal(_error(response.error, lost=asked.method == "tasks/get"))
    assert response.result is not None  # `read_envelope` lets only responses with one of the two pass
    result = {key: value for key, value in response.result.items() if key != "_meta"}
    if asked.method == "tasks/get":
        return _polled(str(asked.params["taskId"]), result)
    begun = result.get("task")
    if "task" in asked.params and isinstance(begun, dict):
        named = begun.get("taskId")
        if not isinstance(named, str) or not 1 <= len(named) <= 1_024 or "\0" in named:
            return Refusal({"code": INVALID_PARAMS, "message": "The client's task has no taskId"})
        return _polled(named, begun)
    return Answer(result)


def _polled(task_id: str, task: dict[str, Any]) -> Refusal | Further:
    match task.get("status"):
        case "working":
            interval = task.get("pollInterval")
            given = interval if isinstance(interval, (int, float)) and not isinstance(interval, bool) else POLL_MS
            wait = min(max(given, POLL_RANGE_MS[0]), POLL_RANGE_MS[1])
            return Further("tasks/get", {"taskId": task_id}, wait / 1_000)
        case "completed" | "failed" | "input_required":
            # For a task that has not ended, the client answers `tasks/result` when it ends (CH-08, CH-09).
            return Further("tasks/result", {"taskId": task_id}, 0.0)
        case "cancelled":
            return Refusal({"code": INTERNAL_ERROR, "message": "The client cancelled its own task"})
        case other:
            return Refusal({"code": INVALID_PARAMS, "message": f"The client's task has status {str(other)[:64]!r}"})


def _error(sent: dict[str, Any], *, lost: bool) -> dict[str, Any]:
    """The client's error, with parts that are not valid replaced."""
    code, message = sent.get("code"), sent.get("message")
    text = message if isinstance(message, str) and message else "The client refused to answer"
    found: dict[str, Any] = {
        "code": code if isinstance(code, int) and not isinstance(code, bool) else INTERNAL_ERROR,
        "message": f"The client lost its own task: {text}" if lost else text,
    }
    return {**found, "data": sent["data"]} if "data" in sent else found

"""The parts of a task that are the same in all revisions: total functions, no I/O."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any, Final

from taskhub.core.records import Audience, OpenQuestion, State, TaskRecord
from taskhub.domain.questions.kinds import METHODS

STATUS: Final[dict[State, str]] = {
    State.QUEUED: "working",
    State.WORKING: "working",
    State.INPUT_REQUIRED: "input_required",
    State.FINISHED: "completed",
    State.FAULTED: "failed",
    State.CANCELLED: "cancelled",
}


def status(task: TaskRecord) -> str:
    """The task's status. It is `input_required` only while the client itself may answer a question. A task that waits
    for people is `working`, because clients that cannot answer would cancel it."""
    if task.state is State.INPUT_REQUIRED and not for_client(task):
        return "working"
    return STATUS[task.state]


def task_head(task: TaskRecord, status: str, message: str) -> dict[str, Any]:
    """The first members of a flat `Task` whose id the hub made (T25-15, T26-12, T2557-09)."""
    fields: dict[str, Any] = {"taskId": task.public_id, "status": status}
    if message:
        fields["statusMessage"] = message
    fields["createdAt"] = timestamp(task.created_at)
    fields["lastUpdatedAt"] = timestamp(task.updated_at)
    return fields


def timestamp(at: datetime) -> str:
    """ISO 8601 in UTC with milliseconds (T26-17, T25-15)."""
    return at.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def for_client(task: TaskRecord) -> tuple[OpenQuestion, ...]:
    """The open questions that the client is asked in the messages of its revision."""
    return tuple(question for question in answerable(task) if not question.by_tool)


def answerable(task: TaskRecord) -> tuple[OpenQuestion, ...]:
    """The open questions that the client may answer: those that it is asked (`for_client`), and those that an interim
    result tells its model."""
    return tuple(q for q in task.questions if q.audience is not Audience.OPERATOR and q.kind in METHODS)

"""What every revision shows the same way: instants, and which questions are the client's to answer."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Final

from taskhub.core.records import Audience, OpenQuestion, QuestionKind, TaskRecord

METHOD: Final[dict[QuestionKind, str]] = {
    QuestionKind.ELICITATION: "elicitation/create",
    QuestionKind.SAMPLING: "sampling/createMessage",
    QuestionKind.ROOTS: "roots/list",
}


def timestamp(at: datetime) -> str:
    """ISO 8601 in UTC with milliseconds (T26-17, T25-15)."""
    return at.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def for_client(task: TaskRecord) -> tuple[OpenQuestion, ...]:
    """The open questions that the client may answer."""
    return tuple(q for q in task.questions if q.audience is not Audience.OPERATOR and q.kind in METHOD)

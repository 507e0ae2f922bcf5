"""Decisions that can be undone: the button in a message about them, and the sentence on the page of their task."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from taskhub.core.states import QuestionKind, State
from taskhub.domain.questions.inbox import Undoable
from taskhub.domain.tasks.detail import TaskDetail


@dataclass(frozen=True, slots=True)
class Undo:
    """Decisions of the person who reads the message. They can be undone for `seconds` from now."""

    listed: str
    """The ids of the questions, with commas between them."""
    seconds: float


def tags(public_id: str, undoable: Sequence[Undoable]) -> str:
    """The extra tags of a message: the public id of the task that it is about (empty for several tasks), and the
    decisions that can be undone from the message."""
    if not undoable:
        return public_id
    first = min(one.until for one in undoable)
    return f"{public_id} {first.isoformat()} {','.join(str(one.question) for one in undoable)}"


def task_of(extra_tags: str) -> str:
    """The public id of the task that a message is about; empty if the message has none."""
    return extra_tags.partition(" ")[0]


def undo_of(extra_tags: str) -> Undo | None:
    """The decisions that can be undone from a message; `None` if there are none, or their time is over."""
    _, _, rest = extra_tags.partition(" ")
    until, _, listed = rest.partition(" ")
    if not listed:
        return None
    seconds = (datetime.fromisoformat(until) - datetime.now(UTC)).total_seconds()
    return Undo(listed, seconds) if seconds > 0 else None


def held_words(detail: TaskDetail, now: datetime) -> str:
    """A sentence that says that the call waits because the decision on it can still be undone; empty if that is not why
    it waits."""
    approvals = [asked for asked in detail.questions if asked.kind is QuestionKind.APPROVAL]
    last = max(approvals, key=lambda asked: asked.id, default=None)
    if detail.task.state is not State.QUEUED or last is None or not last.votes:
        return ""
    vote = last.votes[-1]
    if vote.verdict == "reject":
        return f"Rejected by {vote.actor}: the caller is told when that can no longer be undone."
    if vote.undo_until is None or vote.undo_until <= now:
        return ""
    return f"Approved by {vote.actor}: the tool runs when that can no longer be undone."

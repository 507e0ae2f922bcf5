"""Decisions that can be undone: what a message about them says besides its words, and what their task says."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from taskhub.core.states import QuestionKind, State
from taskhub.domain.questions.inbox import Undoable
from taskhub.domain.tasks.detail import TaskDetail


@dataclass(frozen=True, slots=True)
class Undo:
    """Decisions of the person who reads the message, which can be undone for so many seconds."""

    listed: str
    """The ids of the questions, with commas between them."""
    seconds: float


def tags(public_id: str, undoable: Sequence[Undoable]) -> str:
    """The extra tags of a message about this task, or about several (empty id)."""
    if not undoable:
        return public_id
    first = min(one.until for one in undoable)
    return f"{public_id} {first.isoformat()} {','.join(str(one.question) for one in undoable)}"


def task_of(extra_tags: str) -> str:
    """The id of the task of a message; empty if it has none."""
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
    """That the call waits because the decision on it can still be undone, as a sentence; empty if it does not."""
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

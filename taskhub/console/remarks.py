"""Comments and handovers of a question, for its card and for the page of its task."""

from __future__ import annotations

from taskhub.domain.questions.inbox import InboxItem
from taskhub.domain.questions.remarks import Remark, remarks


def remarks_on(item: InboxItem) -> list[Remark]:
    """The remarks on the question, the oldest first."""
    return [remark for remark in remarks(item.task_id) if remark.key == item.key]


def remarks_of(found: dict[str, list[Remark]], key: str) -> list[Remark]:
    """Those of `remarks_by_key` on one question."""
    return found.get(key, [])


def remarks_by_key(task_id: int) -> dict[str, list[Remark]]:
    """The remarks on each question of the task that has some, by its key."""
    found: dict[str, list[Remark]] = {}
    for remark in remarks(task_id):
        found.setdefault(remark.key, []).append(remark)
    return found

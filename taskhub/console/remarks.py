"""Comments and handovers of a question, for its card and for the page of its task."""

from __future__ import annotations

from taskhub.domain.questions.inbox import InboxItem
from taskhub.domain.questions.remarks import Remark, remarks


def remarks_on(item: InboxItem) -> list[Remark]:
    """The remarks on the question, the oldest first."""
    return [remark for remark in remarks(item.task_id) if remark.key == item.key]


def remarks_of(found: dict[str, list[Remark]], key: str) -> list[Remark]:
    """The remarks on the question with this key, from the result of `remarks_by_key`."""
    return found.get(key, [])


def remarks_by_key(task_id: int) -> dict[str, list[Remark]]:
    """The remarks on a task's questions, by the key of the question. A question without remarks is left out."""
    found: dict[str, list[Remark]] = {}
    for remark in remarks(task_id):
        found.setdefault(remark.key, []).append(remark)
    return found

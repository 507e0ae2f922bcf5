"""Reads of single questions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from taskhub.core.states import QuestionState
from taskhub.lib import jsonx
from taskhub.store import statements


@dataclass(frozen=True, slots=True)
class _Stored:
    """A question's answer, which is there when its state is `answered`."""

    state: QuestionState
    response: str | None


_RESPONSE = statements.maybe("response_to", _Stored)


def response_to(task_id: int, key: str) -> dict[str, Any] | None:
    """The stored answer; `None` while the question is open. A question that was closed without one
    counts as cancelled."""
    found = _RESPONSE(task=task_id, key=key)
    if found is None or found.state in (QuestionState.SUPERSEDED, QuestionState.EXPIRED):
        return {"action": "cancel"}
    if found.response is None:
        return None
    answer: dict[str, Any] = jsonx.decode(found.response.encode())
    return answer

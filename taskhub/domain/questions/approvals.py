"""What an approval is about, besides the call's arguments."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from taskhub.store import statements


@dataclass(frozen=True, slots=True)
class ApprovedCall:
    """What is approved with a question. `definition` is the tool's as it was when the approval was
    asked for, and `before` as it was when the call was approved last, by `approved_by`; both are `None`
    where there is none. Digests are SHA-256 in hex, empty where they were not kept."""

    definition: dict[str, Any] | None
    definition_digest: str
    arguments_digest: str
    came_along: dict[str, Any]
    """Answers that came with the call, by the key of the question they are for."""
    before: dict[str, Any] | None
    approved_by: tuple[str, ...]


_APPROVED = statements.maybe("approved_call", ApprovedCall)


def approved_call(question_id: int) -> ApprovedCall | None:
    """Of an approval, open or not; `None` for any other question."""
    return _APPROVED(question=question_id)

"""What people say beside a decision: comments on a question, and to whom it is handed over."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Final

from taskhub.core.records import Actor
from taskhub.domain.changes import change, who
from taskhub.store import statements

MAX_REMARK: Final = 1_000
"""The most characters of a comment, or of the note of a handover."""
MAX_REMARKS: Final = 100
"""The most comments and handovers of a task."""


class RemarkOutcome(StrEnum):
    """The outcome of a remark; the SQL function `remark` says what each one means."""

    DONE = "done"
    LATE = "late"
    FULL = "full"


@dataclass(frozen=True, slots=True)
class Remark:
    """A comment on the question with this `key`; or, if `handed`, its handover to `person`, or to `group` if `person`
    is empty."""

    key: str
    actor: str
    at: datetime
    text: str
    handed: bool
    person: str
    group: str


@dataclass(frozen=True, slots=True)
class Able:
    """A person who may answer a question, with their groups."""

    user_id: int
    name: str
    groups: list[str]


_REMARK = statements.one("remark", RemarkOutcome)
_REMARKS = statements.many("remarks", Remark)
_ABLE = statements.many("able", Able)


def comment(task_id: int, question_id: int, text: str, *, actor: Actor) -> RemarkOutcome:
    """Add a comment to an open question."""
    return _store(task_id, question_id, text, None, "", handed=False, actor=actor)


def hand_over(
    task_id: int, question_id: int, note: str, *, person: int | None, group: str, actor: Actor
) -> RemarkOutcome:
    """Hand an open question over to a person, or to a group if `person` is `None`. The question leaves the queue of
    `actor`."""
    return _store(task_id, question_id, note, person, group, handed=True, actor=actor)


def remarks(task_id: int) -> tuple[Remark, ...]:
    """All comments and handovers of the task, the oldest first."""
    return tuple(_REMARKS(task=task_id))


def able(question_id: int, roles: Sequence[str]) -> tuple[Able, ...]:
    """The people in these roles who may answer the open question and have not decided on it."""
    return tuple(_ABLE(question=question_id, roles=[str(role) for role in roles]))


def _store(
    task_id: int, question_id: int, text: str, person: int | None, group: str, *, handed: bool, actor: Actor
) -> RemarkOutcome:
    return change(
        _REMARK,
        task_id,
        question=question_id,
        words=text,
        handed=handed,
        to_person=person,
        to_group=group,
        user=actor.user_id,
        most=MAX_REMARKS,
        who=who(actor),
    )

"""Use cases beside a decision: comment on a question, and hand it over."""

from __future__ import annotations

from collections.abc import Sequence

from taskhub.control.caller import Caller
from taskhub.core import permissions
from taskhub.core.errors import Invalid, LimitReached, Refused
from taskhub.core.states import Audience, QuestionState
from taskhub.domain.questions import remarks
from taskhub.domain.questions.inbox import InboxItem
from taskhub.domain.questions.kinds import KINDS
from taskhub.domain.questions.remarks import MAX_REMARK, MAX_REMARKS, Able, RemarkOutcome
from taskhub.lib.signs import without_invisible

_CLOSED = "This question is closed: nothing is added to it any more."


def comment(caller: Caller, item: InboxItem, text: str) -> None:
    """Add a comment to the question, for the people who see it. Its client and the agent are not told.

    Raises `Forbidden`, `Invalid` naming the field without a text or for one that is too long, `Refused` if the question
    is closed, or `LimitReached` if it has too many.
    """
    caller.require("question.answer", f"comment on question {item.id} of task {item.public_id}")
    if not without_invisible(text).strip():
        raise Invalid("Write a comment.", field="text")
    _stored(remarks.comment(item.task_id, item.id, _checked(text), actor=caller.actor))


def deciders(caller: Caller, item: InboxItem) -> tuple[Able, ...]:
    """The people to whom the caller can hand the question over: all others who may answer it and have not decided.
    Raises `Forbidden`."""
    caller.require("question.answer", f"see who may answer question {item.id} of task {item.public_id}")
    if item.audience is Audience.CLIENT:
        return ()
    roles = permissions.roles_with(KINDS[item.kind].permission)
    return tuple(one for one in remarks.able(item.id, roles) if one.user_id != caller.actor.user_id)


def groups_of(item: InboxItem, able: Sequence[Able]) -> tuple[str, ...]:
    """The groups to which the question can be handed over: those in which somebody may answer it."""
    return tuple(sorted({group for one in able for group in one.groups}))


def hand_over(caller: Caller, item: InboxItem, *, person: str = "", group: str = "", note: str = "") -> None:
    """Hand the question over to another person who may answer it, or to a group in which somebody may. The question
    leaves the caller's queue, and its card names them. This gives nobody a right: whether they may answer is checked
    when they do.

    Raises `Forbidden` if the question is not for the caller, `Invalid` naming the field if they may not answer it, or
    as `comment`.
    """
    caller.require(KINDS[item.kind].permission, f"hand over question {item.id} of task {item.public_id}")
    if item.state is not QuestionState.OPEN:
        raise Refused(_CLOSED)
    able = deciders(caller, item)
    found = next((one for one in able if one.name == person), None)
    if bool(person) == bool(group):
        raise Invalid("Choose a person or a group.", field="to")
    if (person and found is None) or (group and group not in groups_of(item, able)):
        raise Invalid(f"{person or group} may not answer this question, or has decided already.", field="to")
    to = None if found is None else found.user_id
    _stored(remarks.hand_over(item.task_id, item.id, _checked(note), person=to, group=group, actor=caller.actor))


def _checked(text: str) -> str:
    text = text.replace("\r\n", "\n").strip()
    if len(text) > MAX_REMARK or "\0" in text:
        raise Invalid(f"At most {MAX_REMARK:,} characters, and none of them is U+0000.", field="text")
    return text


def _stored(outcome: RemarkOutcome) -> None:
    if outcome is RemarkOutcome.LATE:
        raise Refused(_CLOSED)
    if outcome is RemarkOutcome.FULL:
        raise LimitReached(f"A call has at most {MAX_REMARKS} comments.", field="text")

"""Use cases beside a decision: an approver asks the requester of a call, or takes that question back."""

from __future__ import annotations

from taskhub.control.caller import Caller
from taskhub.control.questions import closed_to
from taskhub.core import permissions
from taskhub.core.errors import Invalid, LimitReached, NotFound, Refused
from taskhub.core.states import QuestionKind
from taskhub.domain.questions import asked_back
from taskhub.domain.questions.asked_back import (
    MAX_ASKED,
    MOST_ASKED,
    MOST_OPEN,
    AskedBack,
    AskOutcome,
    Requester,
    Way,
    WithdrawOutcome,
)
from taskhub.domain.questions.inbox import InboxItem
from taskhub.domain.questions.kinds import KINDS
from taskhub.lib.signs import without_invisible

_DECIDED = "This call is decided: nobody is asked about it any more."


def ask(caller: Caller, item: InboxItem, text: str) -> Requester:
    """Ask the requester of the call something about the approval, which stays open. Returns who is asked.

    Raises `Forbidden` if the caller may not decide the approval, `Invalid` without a text or for one that is too long,
    `Refused` if the call is decided or its requester cannot be asked, and `LimitReached` if too many such questions
    were asked already.
    """
    if item.kind is not QuestionKind.APPROVAL:
        raise Invalid("Only about a call that waits for approval is its requester asked.")
    if closed_to(caller, item) is not None:
        raise Refused("This call is decided, or you have decided: its requester is not asked any more.")
    text = text.replace("\r\n", "\n").strip()
    if not without_invisible(text).strip():
        raise Invalid("Write what you want to know.", field="text")
    if len(text) > MAX_ASKED or "\0" in text:
        raise Invalid(f"At most {MAX_ASKED:,} characters, and none of them is U+0000.", field="text")
    to = requester(caller, item)
    if to.way is Way.NONE:
        raise Refused(unreachable(to))
    outcome = asked_back.ask(item.task_id, item.id, item.tool_name, text, to=to, actor=caller.actor)
    match outcome:
        case AskOutcome.LATE:
            raise Refused(_DECIDED)
        case AskOutcome.OPEN:
            raise LimitReached(
                f"{MOST_OPEN} questions to the requester are open: wait for an answer, or take one back.", field="text"
            )
        case AskOutcome.FULL:
            raise LimitReached(f"The requester of a call is asked at most {MOST_ASKED} times.", field="text")
        case AskOutcome.ASKED:
            return to


def withdraw(caller: Caller, item: InboxItem, question_id: int) -> WithdrawOutcome:
    """Take back a question that the caller asked the requester. Returns `LATE` if the question is closed already.
    Raises `Forbidden`, and `NotFound` for a question that the caller did not ask about this approval's task."""
    caller.require(KINDS[QuestionKind.APPROVAL].permission, f"take back question {question_id} of {item.public_id}")
    if not any(one.id == question_id and one.mine for one in told(caller, item)):
        raise NotFound("You did not ask that.")
    return asked_back.withdraw(item.task_id, question_id, actor=caller.actor)


def told(caller: Caller, item: InboxItem) -> tuple[AskedBack, ...]:
    """What approvers asked the requester of the call, and the answers, the oldest first."""
    return asked_back.asked_back(item.task_id, caller.actor.user_id)


def requester(caller: Caller, item: InboxItem) -> Requester:
    """Who made the call, and how they can be asked. Raises `Forbidden`."""
    caller.require("question.answer", f"see who made the call of task {item.public_id}")
    roles = permissions.roles_with(KINDS[QuestionKind.ELICITATION].permission)
    return asked_back.requester(item.id, roles)


def unreachable(to: Requester) -> str:
    """Why the requester cannot be asked, as a sentence; empty if they can."""
    if to.way is not Way.NONE:
        return ""
    if to.decides_only:
        return "The client only waits for a decision: it makes the call itself, and cannot be asked."
    if not to.may_answer:
        return "The token of this client may not answer questions, so it cannot be asked."
    if to.session_over:
        return "The session in which the call was made is over, so its client cannot be asked."
    return "This client cannot be asked: it takes no forms, and nobody who may answer here signed it in."

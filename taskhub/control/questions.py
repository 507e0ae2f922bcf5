"""What people do in the inbox: decide approvals, and answer questions of tools."""

from __future__ import annotations

from typing import Any

from taskhub.control.caller import Caller
from taskhub.core.errors import Invalid, NotFound
from taskhub.core.states import QuestionKind
from taskhub.domain.questions import answer, inbox
from taskhub.domain.questions.answer import AnswerOutcome
from taskhub.domain.questions.inbox import InboxItem, Obstacle
from taskhub.domain.questions.kinds import KINDS


def find_question(caller: Caller, question_id: int) -> InboxItem:
    """A question of the caller's tenant, open or not, with what keeps the caller from answering it. Raises
    `NotFound`."""
    assert caller.person is not None  # questions are asked of people
    found = inbox.question(caller.person, question_id) if question_id < 2**63 else None
    if found is None:
        raise NotFound("There is no such question, or it is not yours to see.")
    return found


def decide_approval(caller: Caller, item: InboxItem, *, approve: bool, reason: str = "") -> AnswerOutcome:
    """Approve or reject the call that the question is about. Below the quorum an approval is `COUNTED`; one rejection
    ends the task. `LATE` or `TWICE` where somebody else, or the caller, has decided already.

    Raises `Forbidden` where the question is not for the caller, and `Invalid` for a rejection without a reason, which
    the agent reads.
    """
    assert item.kind is QuestionKind.APPROVAL
    if early := closed_to(caller, item):
        return early
    if not approve and not reason.strip():
        raise Invalid("Enter a reason; the caller will see it.")
    return answer.decide_approval(item.task_id, item.question, approve=approve, actor=caller.because(reason))


def answer_question(caller: Caller, item: InboxItem, response: dict[str, Any]) -> AnswerOutcome:
    """Give the tool an answer. `LATE` where somebody else was first.

    Raises `Forbidden` where the question is not for the caller, and `Invalid` for an answer that does not fit it.
    """
    assert item.kind is not QuestionKind.APPROVAL
    if early := closed_to(caller, item):
        return early
    return answer.answer_question(item.task_id, item.question, response, actor=caller.actor)


def closed_to(caller: Caller, item: InboxItem) -> AnswerOutcome | None:
    """The outcome of any answer of the caller's to a question that is closed (`LATE`) or that they decided (`TWICE`);
    `None` where they may answer. Raises `Forbidden` where the question is not for them."""
    what = f"answer question {item.id} of task {item.public_id}"
    caller.require(KINDS[item.kind].permission, what)
    match item.obstacle:
        case Obstacle.NONE:
            return None
        case Obstacle.CLOSED:
            return AnswerOutcome.LATE
        case Obstacle.DECIDED:
            return AnswerOutcome.TWICE
    raise caller.refused(what, why_not(caller, item))


def why_not(caller: Caller, item: InboxItem) -> str:
    """Why the caller may not answer an open question, in a sentence; empty when they may, or it is closed."""
    role = "" if caller.person is None else caller.person.role
    return {
        Obstacle.NONE: "",
        Obstacle.CLOSED: "",
        Obstacle.DECIDED: f"You have decided. {item.approvals} of {item.quorum} approvals so far.",
        Obstacle.CLIENT: "This question is for the client that made the call. People only watch it.",
        Obstacle.ROLE: f"Approvals need the role approver or admin; yours is {role}.",
        Obstacle.GROUP: f"This question is for the group {item.group}, and you are not in it.",
    }[item.obstacle]

"""Use cases of the inbox: decide approvals, answer questions of tools, and rule on lost runs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Final

from django.conf import settings

from taskhub.control.caller import Caller
from taskhub.control.factors import has_confirmed, own_factor
from taskhub.core.errors import Invalid, NotFound
from taskhub.core.records import Actor
from taskhub.core.states import Door, QuestionKind
from taskhub.domain.questions import answer, inbox, previews, rulings
from taskhub.domain.questions.answer import AnswerOutcome, EditOutcome
from taskhub.domain.questions.inbox import InboxFilter, InboxItem, Obstacle, Undoable, UndoOutcome
from taskhub.domain.questions.kinds import KINDS
from taskhub.domain.tasks import edits
from taskhub.domain.tasks.edits import Proposal
from taskhub.lib.signs import without_invisible

_SEARCHED: Final = 10_000
"""The most approvals among which the selected ones are looked for."""
_MAX_NAME: Final = 255
"""The most characters of an actor's name in the audit log."""
_TYPE_A_CODE: Final = "To approve this call, type a code of your second factor."
_STILL_RUNNING: Final = "The preview is still running: wait until it is here, then decide."


def find_question(caller: Caller, question_id: int) -> InboxItem:
    """A question of the caller's tenant, open or closed, with the obstacle that keeps the caller from answering it.
    Raises `NotFound`."""
    found = None
    if caller.person is None:
        found = inbox.question_for_shell(caller.tenant_id, question_id)
    elif question_id < 2**63:
        found = inbox.question(caller.person, question_id)
    if found is None:
        raise NotFound("There is no such question, or it is not yours to see.")
    return found


def find_question_of_task(caller: Caller, public_id: str, key: str) -> int | None:
    """The id of the question with this key, of a task of the caller's tenant; if there is none, the id of the task's
    newest open question. `None` if there is neither."""
    return inbox.question_of_task(caller.tenant_id, public_id, key)


def decide_approval(
    caller: Caller, item: InboxItem, *, approve: bool, reason: str = "", confirmed: str = "", preview: str = ""
) -> AnswerOutcome:
    """Approve or reject the call that the question is about. One rejection ends the task. Returns `COUNTED` for an
    approval below the quorum, `LATE` if the question is closed, `TWICE` if the caller has decided it already.

    Raises `Forbidden` if the question is not for the caller. Raises `Invalid` for a rejection without a reason, which
    the agent reads; for an approval of a critical call, if `confirmed` is not the name of its tool; for an approval of
    a call with a preview, if `preview` is not the digest of the preview that was shown; for an approval that needs a
    second factor, if the caller did not confirm theirs a moment ago.
    """
    assert item.kind is QuestionKind.APPROVAL
    if early := closed_to(caller, item):
        return early
    if not approve and not without_invisible(reason).strip():
        raise Invalid("Enter a reason; the caller will see it.", field="reason")
    if approve and item.asking.critical and confirmed.strip() != item.tool_name:
        raise Invalid(f"To approve this critical call, type the name of its tool: {item.tool_name}", field="confirmed")
    if approve and item.asking.second_factor:
        _check_factor(caller)
    if approve and item.asking.preview is not None:
        _check_preview(item, preview)
    outcome = answer.decide_approval(
        item.task_id,
        item.question,
        approve=approve,
        actor=_decider(caller, item, reason),
        undo_seconds=_undo_seconds(caller),
    )
    if outcome is AnswerOutcome.BARRED:
        # The caller may not decide any more for a reason that has arisen since the question was read: read it again.
        closed_to(caller, find_question(caller, item.id))
    if outcome is AnswerOutcome.PREVIEWING:
        raise Invalid(_STILL_RUNNING, field="verdict")
    if outcome is AnswerOutcome.UNCONFIRMED:
        _check_factor(caller)
        raise Invalid(_TYPE_A_CODE, field="code")
    return outcome


def find_alike(caller: Caller, item: InboxItem, *, wanted: InboxFilter = inbox.EVERYTHING) -> tuple[InboxItem, ...]:
    """The approvals that are `wanted` and that the caller may decide together with this one (`inbox.alike`), at most
    `inbox.SHOWN`."""
    return () if caller.person is None else inbox.alike(caller.person, item.id, wanted=wanted)


def decide_alike(
    caller: Caller, question_ids: Sequence[int], *, approve: bool, reason: str = ""
) -> Counter[AnswerOutcome]:
    """Approve or reject approvals that are alike, each as `decide_approval` does. Returns how many had each outcome. A
    question that somebody else decides meanwhile is `LATE`, and does not keep the others from being decided.

    Raises `Invalid`, and decides nothing, if there are none or more than `inbox.SHOWN`, if those still open are not all
    alike, or for a rejection without a reason; `Forbidden` or `NotFound` if one is not for the caller.
    """
    if not question_ids:
        raise Invalid("Select at least one call.", field="question")
    if len(question_ids) > inbox.SHOWN:
        raise Invalid(f"At most {inbox.SHOWN} calls are decided at once.", field="question")
    items = [find_question(caller, question_id) for question_id in dict.fromkeys(question_ids)]
    early = Counter(outcome for item in items if (outcome := closed_to(caller, item)))
    is_open = [item for item in items if item.mine]
    if not is_open:
        return early
    assert caller.person is not None
    same = {one.id for one in inbox.alike(caller.person, is_open[0].id, limit=_SEARCHED)}
    if any(item.id not in same for item in is_open):
        raise Invalid("These calls are not all alike: decide each by itself.", field="question")
    return Counter(decide_approval(caller, item, approve=approve, reason=reason) for item in items)


def undo_decisions(caller: Caller, question_ids: Sequence[int]) -> Counter[UndoOutcome]:
    """Undo the caller's own decisions on these approvals, each by itself: the approval is open again as before. Returns
    how many had each outcome. It is `LATE` if the time to undo the decision is over, or if something has happened
    since.

    Raises `Invalid` if there are none or more than `inbox.SHOWN`, `Forbidden` without the right to decide, and
    `NotFound` for a question that the caller may not see.
    """
    what = f"undo decisions on {len(question_ids)} questions"
    caller.require(KINDS[QuestionKind.APPROVAL].permission, what)
    if not 0 < len(question_ids) <= inbox.SHOWN:
        raise Invalid(f"One to {inbox.SHOWN} decisions are undone at once.")
    items = [find_question(caller, question_id) for question_id in dict.fromkeys(question_ids)]
    return Counter(answer.undo_decision(item.task_id, item.id, actor=caller.actor) for item in items)


def undoable(caller: Caller, items: Sequence[InboxItem]) -> tuple[Undoable, ...]:
    """The caller's decisions on these calls that can still be undone, each with the time until when."""
    person = caller.person
    return () if person is None else answer.undoable([item.task_id for item in items], person.user_id)


def _decider(caller: Caller, item: InboxItem, reason: str) -> Actor:
    """The actor of the decision, as it is recorded. If the caller decides as a deputy, it names the person who is away
    too."""
    actor = caller.because(reason)
    if item.acts_for is None:
        return actor
    return replace(actor, name=f"{actor.name} for {item.acts_for_name}"[:_MAX_NAME], for_user_id=item.acts_for)


def _undo_seconds(caller: Caller) -> float:
    by_hand = caller.person is not None and caller.actor.door in (Door.WEB, Door.SLACK)
    return float(settings.TASKHUB_UNDO_SECONDS) if by_hand else 0.0


def _check_factor(caller: Caller) -> None:
    if caller.person is None:
        raise Invalid(
            "The rule asks for a second factor of whoever approves, which a command does not have. Approve the call in"
            " the inbox, in a browser.",
            field="code",
        )
    if has_confirmed(caller):
        return
    if own_factor(caller) is None:
        raise Invalid(
            "The rule asks for a second factor of whoever approves, and you have none. Set one up under your account.",
            field="code",
        )
    raise Invalid(_TYPE_A_CODE, field="code")


def _check_preview(item: InboxItem, seen: str) -> None:
    shown = previews.shown_preview(item.id)
    if shown is not None and shown.ended_at is None:
        raise Invalid(_STILL_RUNNING, field="verdict")
    if shown is not None and shown.digest != seen:
        raise Invalid("The preview was not here yet when you decided: look at it, then decide.", field="verdict")


def check_edit(caller: Caller, item: InboxItem, arguments: dict[str, Any]) -> Proposal:
    """The call with these arguments, and the approval that it would need, to be shown before it is approved. Raises as
    `edit_call`."""
    if not may_edit(item):
        raise Invalid("The rule that asked does not let anybody edit the arguments of this call.")
    return edits.proposal(item.task_id, item.question, arguments, by=_decider(caller, item, "").name)


def may_edit(item: InboxItem) -> bool:
    """Whether people may change arguments of this call before they approve it."""
    return item.kind is QuestionKind.APPROVAL and bool(item.asking.editable) and "permit" not in item.params


def edit_call(
    caller: Caller, item: InboxItem, arguments: dict[str, Any], *, mark: str, reason: str = "", confirmed: str = ""
) -> EditOutcome:
    """Approve the call with these arguments in place of its own. `mark` is that of the `Proposal` that the caller has
    seen. Returns `COUNTED` if others have to approve the changed call too. Returns `PROPOSED` if the caller's own
    approval does not count for it, for example because another group is asked or its preview was not shown yet. Returns
    `LATE` or `TWICE` as `decide_approval` does; nothing was changed then.

    Raises `Forbidden` if the question is not for the caller, and `Invalid` for arguments that cannot be approved
    (`edits.proposal`), if `mark` is out of date, or as `decide_approval` does.
    """
    if early := closed_to(caller, item):
        return EditOutcome(early)
    proposed = check_edit(caller, item, arguments)
    if proposed.mark != mark:
        raise Invalid("The rules or the tool have changed meanwhile. Look at the change again.", field="mark")
    if (item.asking.critical or proposed.asking.critical) and confirmed.strip() != item.tool_name:
        raise Invalid(f"To approve this critical call, type the name of its tool: {item.tool_name}", field="confirmed")
    if item.asking.second_factor or proposed.asking.second_factor:
        _check_factor(caller)
    group, person = proposed.approval.group, caller.person
    actor = _decider(caller, item, reason)
    votes = not group or person is None or group in person.groups or actor.for_user_id is not None
    outcome = edits.edit_call(
        item.task_id,
        item.question,
        proposed,
        votes=votes,
        actor=actor,
        undo_seconds=_undo_seconds(caller),
    )
    if outcome is EditOutcome.BARRED:
        # The caller may not decide any more for a reason that has arisen since the question was read: read it again.
        closed_to(caller, find_question(caller, item.id))
    if outcome is EditOutcome.UNCONFIRMED:
        _check_factor(caller)
        raise Invalid(_TYPE_A_CODE, field="code")
    if outcome is EditOutcome.CHANGED:
        raise Invalid(
            "The tool or its server has changed since people were asked. Approve or reject the call as it is: if it is"
            " approved, people are asked again, and shown what has changed."
        )
    return outcome


def answer_question(caller: Caller, item: InboxItem, response: dict[str, Any]) -> AnswerOutcome:
    """Answer a question of a tool. Returns `LATE` if the question is closed, such as by an earlier answer.

    Raises `Forbidden` if the question is not for the caller, and `Invalid` for a response that does not fit.
    """
    assert KINDS[item.kind].method is not None
    if early := closed_to(caller, item):
        return early
    return answer.answer_question(item.task_id, item.question, response, actor=caller.actor)


def rule_outcome(
    caller: Caller, item: InboxItem, *, ran: bool, reason: str, text: str = "", json_text: str = ""
) -> AnswerOutcome:
    """Rule, for a lost run, whether the tool ran. If it did, the task ends with the result that the caller gives, as
    `text` or `json_text`, or without a result. If not, the tool runs again. Returns `LATE` if the question is closed,
    for example by another ruling or a late result.

    Raises `Forbidden` if the question is not for the caller, and `Invalid`, naming the field, without a reason or for a
    result that does not fit.
    """
    assert item.kind is QuestionKind.OUTCOME
    if early := closed_to(caller, item):
        return early
    result = check_ruling(caller, item, ran=ran, reason=reason, text=text, json_text=json_text)
    actor = caller.because(" ".join(reason.split()))
    return answer.rule_outcome(item.task_id, item.question, ran=ran, result=result, actor=actor)


def check_ruling(
    caller: Caller, item: InboxItem, *, ran: bool, reason: str, text: str = "", json_text: str = ""
) -> dict[str, Any] | None:
    """The result with which the task would end by this ruling; `None` if the tool would run again. Raises `Invalid` as
    `rule_outcome`."""
    reason = " ".join(reason.split())
    if not without_invisible(reason).strip():
        raise Invalid("Enter a reason: how do you know?", field="reason")
    if not ran:
        if text or json_text:
            raise Invalid("What did not run has no result.", field="result")
        return None
    call = rulings.lost_call(item.id)
    return rulings.ruled_result(call, by=caller.actor.name, reason=reason, text=text, json_text=json_text)


def closed_to(caller: Caller, item: InboxItem) -> AnswerOutcome | None:
    """`LATE` for a closed question, `TWICE` for one that the caller has decided already, `None` if the caller may
    answer. Raises `Forbidden` if the question is not for the caller."""
    what = f"answer question {item.id} of task {item.public_id}"
    caller.require(KINDS[item.kind].permission, what)
    match item.obstacle:
        case Obstacle.NONE:
            return None
        case Obstacle.CLOSED:
            return AnswerOutcome.LATE
        case Obstacle.DECIDED | Obstacle.DEPUTY:
            return AnswerOutcome.TWICE
    raise caller.refused(what, why_not(caller, item))


def why_not(caller: Caller, item: InboxItem) -> str:
    """A sentence that says why the caller may not answer the question; empty if they may, or if it is closed."""
    role = "" if caller.person is None else caller.person.role
    return {
        Obstacle.NONE: "",
        Obstacle.CLOSED: "",
        Obstacle.DECIDED: f"You have decided. {item.approvals} of {item.quorum} approvals so far.",
        Obstacle.DEPUTY: f"Your deputy has decided this for you. {item.approvals} of {item.quorum} approvals so far.",
        Obstacle.CLIENT: "This question is for the client that made the call. People only watch it.",
        Obstacle.ROLE: (
            f"A server is authorized for everyone by an admin; your role is {role}."
            if item.kind is QuestionKind.AUTHORIZATION
            else f"Approvals need the role approver or admin; yours is {role}."
        ),
        Obstacle.PERSON: (
            "Only the person for whom this call is made may authorize its server."
            if item.kind is QuestionKind.AUTHORIZATION
            else f"This question is for the person who signed {item.client} in."
        ),
        Obstacle.OVERDUE: "The time to decide is over: what the rule says then happens at the next sweep of a worker.",
        Obstacle.REQUESTER: f"You made this call, through {item.client}: by the rule, somebody else has to decide.",
        Obstacle.RERAN: "You ran this call again: by the rule, somebody else has to decide.",
        Obstacle.FRESH: (
            "You got your role, groups, password or access after this call was made, so your decision does not count"
            " for it. Somebody else has to decide, or the call is made again."
        ),
        Obstacle.GOVERNED: (
            "You changed the rules, or somebody’s role, groups, password or access, after this call was made, so your"
            " decision does not count for it. Somebody else has to decide, or the call is made again."
        ),
        Obstacle.GROUP: f"This question is for the group {item.group}, and you are not in it.",
    }[item.obstacle]

"""Answers: from a client, an operator or an approver. The first valid one wins."""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from typing import Any

from taskhub.core.errors import Invalid
from taskhub.core.records import Actor, OpenQuestion, QuestionKind
from taskhub.domain.changes import change, who
from taskhub.domain.questions.inbox import Undoable, UndoOutcome
from taskhub.domain.questions.kinds import checked_response, verdict_of
from taskhub.lib import jsonx
from taskhub.store import statements


class AnswerOutcome(StrEnum):
    """The outcome of an answer; the SQL function `answer` says what each one means."""

    ANSWERED = "answered"
    COUNTED = "counted"
    PASSED_ON = "passed on"
    LATE = "late"
    TWICE = "twice"
    BARRED = "barred"
    PREVIEWING = "previewing"
    UNCONFIRMED = "unconfirmed"
    UNKNOWN = "unknown"


class EditOutcome(StrEnum):
    """The outcome of an edit; the SQL function `edit_call` says what each one means."""

    ANSWERED = "answered"
    COUNTED = "counted"
    PROPOSED = "proposed"
    UNCONFIRMED = "unconfirmed"
    CHANGED = "changed"
    LATE = "late"
    TWICE = "twice"
    BARRED = "barred"
    UNKNOWN = "unknown"


_ANSWER = statements.one("answer", AnswerOutcome)
_REFUSE = statements.one("refuse", AnswerOutcome)
_UNDO = statements.one("undo_decision", UndoOutcome)
_UNDOABLE = statements.many("undoable", Undoable)


def answer_question(task_id: int, question: OpenQuestion, response: dict[str, Any], *, actor: Actor) -> AnswerOutcome:
    """Store `response` to a question that is not an approval.

    Raises `Invalid` with the reason if the response does not answer the question, which then stays open. Returns `LATE`
    if the question was closed before.
    """
    clean, verdict = checked_answer(question.kind, question.params, response)
    return _store(task_id, question.key, jsonx.encode(clean).decode(), verdict, None, actor)


def checked_answer(kind: QuestionKind, params: dict[str, Any], response: Any) -> tuple[dict[str, Any], str]:
    """The answer as it is stored, and its verdict. Raises `Invalid` if `response` does not answer the question."""
    clean = checked_response(kind, params, response)
    if jsonx.has_nul(clean):
        raise Invalid("An answer cannot hold the character U+0000.")
    return clean, verdict_of(kind, clean)


def decide_approval(
    task_id: int, question: OpenQuestion, *, approve: bool, actor: Actor, undo_seconds: float = 0.0
) -> AnswerOutcome:
    """Approve or reject. One rejection ends the task: the tool never runs, and the caller reads `actor.reason`.
    Each person counts once: a second decision is `TWICE`. An approval is `COUNTED` until the quorum is reached.
    For `undo_seconds` the person can take the decision back (`undo_decision`); until then nothing follows from it.

    Three outcomes store nothing: `BARRED`, if the person may not decide this call; `PREVIEWING`, for an approval before
    the call's preview has ended; and `UNCONFIRMED`, for an approval that needs a second factor which the person has not
    confirmed (`Actor.factor`)."""
    response = {"verdict": "approve" if approve else "reject", "by": actor.name, "reason": actor.reason}
    final = None
    if not approve:
        why = f": {actor.reason}" if actor.reason else "."
        text = f"{question.params.get('tool', 'The call')} was not approved by {actor.name}{why}"
        final = jsonx.encode({"content": [{"type": "text", "text": text}], "isError": True}).decode()
    verdict = "approve" if approve else "reject"
    return _store(task_id, question.key, jsonx.encode(response).decode(), verdict, final, actor, undo_seconds)


def undo_decision(task_id: int, question_id: int, *, actor: Actor) -> UndoOutcome:
    """Take back the decision of the person `actor` on an approval, which is open again as it was before. `LATE` if the
    time for this is over, a worker has taken the task, the task has ended, or somebody else has decided since."""
    return change(_UNDO, task_id, question=question_id, user=actor.user_id, who=who(actor))


def undoable(task_ids: Sequence[int], user_id: int) -> tuple[Undoable, ...]:
    """The decisions of the person on these tasks that can be undone."""
    return tuple(_UNDOABLE(tasks=list(task_ids), user=user_id))


def rule_outcome(
    task_id: int, question: OpenQuestion, *, ran: bool, result: dict[str, Any] | None = None, actor: Actor
) -> AnswerOutcome:
    """Rule on a run that was lost: either the tool ran, and the task ends with `result` (`rulings.ruled_result`); or
    the tool did not run, and runs again. What comes first counts: a ruling, or a late result of the run."""
    assert ran is (result is not None)
    verdict = "ran" if ran else "unrun"
    response = {"verdict": verdict, "by": actor.name, "reason": actor.reason}
    final = None if result is None else jsonx.encode(jsonx.repaired(result)).decode()
    return _store(task_id, question.key, jsonx.encode(response).decode(), verdict, final, actor)


def refuse_question(task_id: int, question: OpenQuestion, error: dict[str, Any], *, actor: Actor) -> AnswerOutcome:
    """Store the JSON-RPC error with which the client answered (CH-05), even if people could still have answered the
    question: a tool that waits for the answer gets the error in place of the answer; any other call fails with the
    error."""
    clean = jsonx.repaired(error)
    return change(
        _REFUSE,
        task_id,
        task=task_id,
        key=question.key,
        error=jsonx.encode(clean).decode(),
        message=str(clean["message"])[:1024],
        who=who(actor),
    )


def answer_authorization(task_id: int, key: str, *, actor: Actor) -> AnswerOutcome:
    """Answer a question of the kind authorization: the server has been authorized, so the call can run. Returns `LATE`
    if the question was closed before."""
    return _store(task_id, key, '{"action": "accept"}', "accept", None, actor)


def _store(
    task_id: int, key: str, response: str, verdict: str, final: str | None, actor: Actor, undo_seconds: float = 0.0
) -> AnswerOutcome:
    return change(
        _ANSWER,
        task_id,
        task=task_id,
        key=key,
        response=response,
        verdict=verdict,
        reason=actor.reason,
        user=actor.user_id,
        context=actor.context_id,
        final=final,
        who=who(actor),
        undo_seconds=undo_seconds,
    )

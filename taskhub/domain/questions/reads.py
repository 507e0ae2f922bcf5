"""Reads of single questions: a question's answer, and the call that an approval is about."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from taskhub.core import permissions
from taskhub.core.states import QuestionState
from taskhub.lib import jsonx
from taskhub.store import statements


@dataclass(frozen=True, slots=True)
class _Stored:
    """A question's state and answer. A question in the state `answered` has an answer; any other may have the error
    that the client sent in place of an answer."""

    state: QuestionState
    response: str | None
    error: str | None


class AnsweredByError(Exception):
    """The client answered the question with `error`, a JSON-RPC error."""

    def __init__(self, error: dict[str, Any]) -> None:
        super().__init__(error.get("message"))
        self.error = error


@dataclass(frozen=True, slots=True)
class ApprovedCall:
    """The call that an approval is about, without its arguments. `definition` is the tool's definition when the
    approval was asked for. `before` is the definition that people saw when they last approved the same call, and
    `approved_by` names them; if the tool changed after a call that needed no approval, `before` is the definition that
    the caller was offered. Both are `None` if there is none. Digests are SHA-256 in hex, empty where they were not
    kept; `call_digest` is of everything that people approve (`th_call_digest`)."""

    definition: dict[str, Any] | None
    definition_digest: str
    call_digest: str
    arguments_digest: str
    came_along: dict[str, Any]
    """Answers that came with the call, by the key of their question."""
    before: dict[str, Any] | None
    approved_by: tuple[str, ...]
    by_rule: bool
    """Whether the rule approved the call, because nobody decided in time."""
    of_person: bool
    """Whether the client is an application that a person signed in; that person counts as the requester."""
    rerun_by: str
    """The person who ran an earlier call again as this task; empty if the client itself made the call."""


@dataclass(frozen=True, slots=True)
class Replaced:
    """The person who changed arguments of the call that an approval was about, and the key of the approval that is
    asked for instead."""

    actor: str
    key: str


_REPLACED = statements.maybe("replaced_by", Replaced)
_EDIT_REASON = statements.maybe("edit_reason", str)
_RESPONSE = statements.maybe("response_to", _Stored)
_LEFT = statements.maybe("approvers_left", int)
_APPROVED = statements.maybe("approved_call", ApprovedCall)


def approvers_left(question_id: int) -> int | None:
    """How many people may approve the call and have not decided, counted up to the quorum; `None` if the question is no
    open approval."""
    return _LEFT(question=question_id, roles=list(permissions.roles_with("question.approve")))


def response_to(task_id: int, key: str) -> dict[str, Any] | None:
    """The stored answer; `None` while the question is open. A question that is unknown, or was closed without an
    answer, counts as cancelled. Raises `AnsweredByError`."""
    found = _RESPONSE(task=task_id, key=key)
    if found is not None and found.error is not None:
        raise AnsweredByError(json.loads(found.error))
    if found is None or found.state in (QuestionState.SUPERSEDED, QuestionState.EXPIRED):
        return {"action": "cancel"}
    if found.response is None:
        return None
    answer: dict[str, Any] = jsonx.decode(found.response.encode())
    return answer


def replaced_by(question_id: int) -> Replaced | None:
    """The person who changed arguments of the call, so that another approval is asked for; `None` if nobody did."""
    return _REPLACED(question=question_id)


def edit_reason(question_id: int) -> str:
    """The reason of whoever changed the arguments that this approval is about; empty if they gave none."""
    return _EDIT_REASON(question=question_id) or ""


def approved_call(question_id: int) -> ApprovedCall | None:
    """The call that an approval is about, open or not; `None` for any other question."""
    return _APPROVED(question=question_id)


_DIGEST = statements.maybe("question_digest", str)


def question_digest(question_id: int) -> str:
    """The SHA-256, in hex, of everything that people would approve now by this question. It differs from the digest of
    when the question was asked if the tool or its server has changed. Empty if there is no such question."""
    return _DIGEST(question=question_id) or ""

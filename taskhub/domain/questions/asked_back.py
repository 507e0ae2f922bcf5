"""Questions that an approver asks the requester of a call before they decide: whom they reach, and their answers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any, Final

from django.conf import settings

from taskhub.core.records import Actor
from taskhub.core.states import Audience, QuestionKind, QuestionState
from taskhub.domain.changes import change, who
from taskhub.domain.questions.kinds import can_answer
from taskhub.lib import jsonx
from taskhub.store import statements

MAX_ASKED: Final = 1_000
"""The most characters of a question to the requester."""
MAX_ANSWER: Final = 4_000
"""The most characters of the answer to a question to the requester."""
MOST_OPEN: Final = 3
"""The most questions to the requester of one call that are open at once."""
MOST_ASKED: Final = 10
"""The most questions to the requester of one call, open or closed."""


class AskOutcome(StrEnum):
    """The outcome of asking; the SQL function `ask_back` says what each one means."""

    ASKED = "asked"
    LATE = "late"
    OPEN = "open"
    FULL = "full"


class WithdrawOutcome(StrEnum):
    """The outcome of taking a question back; the SQL function `withdraw_asked_back` says what each one means."""

    WITHDRAWN = "withdrawn"
    LATE = "late"
    UNKNOWN = "unknown"


class Way(StrEnum):
    """How the requester of a call can be asked."""

    CLIENT = "client"
    """Through the client, in the same way as it is asked what tools ask."""
    PERSON = "person"
    """In the inbox. The person who signed the client's program in is asked."""
    MODEL = "model"
    """By an interim result, which the client's model answers with the hub's own tool."""
    NONE = "none"


@dataclass(frozen=True, slots=True)
class Requester:
    """What is known of the client that made a call, to ask about the call. `user_id` and `person`: the id and name of
    the person who signed the client's program in; `None` if there is no such person, or they may not answer in the
    inbox."""

    capabilities: dict[str, Any]
    decides_only: bool
    """Whether the client makes the call itself, and only waits for people to decide."""
    may_answer: bool
    """Whether the client's token has the scope to answer questions."""
    session_over: bool
    """Whether the session in which a plain call was made has ended."""
    hub_tools: bool
    """Whether the call is a plain call, and the client sees the hub's own tools."""
    user_id: int | None
    person: str | None
    asked: int
    """How many questions to the requester there were about the call; `open`: how many of them are open."""
    open: int

    @property
    def way(self) -> Way:
        """How the requester is asked. A person knows more than a model guesses, so a model is asked last."""
        client = self.may_answer and not self.decides_only
        if client and not self.session_over and can_answer(self.capabilities, QuestionKind.ELICITATION, {}):
            return Way.CLIENT
        if self.user_id is not None:
            return Way.PERSON
        return Way.MODEL if client and self.hub_tools else Way.NONE


@dataclass(frozen=True, slots=True)
class AskedBack:
    """A question to the requester of a call. `verdict` is `accept`, `decline` or `cancel`, and empty while there is no
    answer. `answer` is the text of the answer, empty unless the verdict is `accept`. `answered_by` is the name of the
    client or person who answered."""

    id: int
    key: str
    asker: str
    mine: bool
    """Whether the person who reads the question asked it."""
    text: str
    person: str
    """The person who is asked; empty if the client is."""
    state: QuestionState
    asked_at: datetime
    closed_at: datetime | None
    answered_by: str
    verdict: str
    note: str
    """What the hub noted about the answer, such as that a program gave it by itself."""
    answer: str
    refused: str
    """The error with which the client answered."""
    withdrawn: bool


_ASK = statements.one("ask_back", AskOutcome)
_WITHDRAW = statements.one("withdraw_asked_back", WithdrawOutcome)
_REQUESTER = statements.one("requester", Requester)
_ASKED = statements.many("asked_back", AskedBack)


def requester(question_id: int, roles: Sequence[str]) -> Requester:
    """The requester of the call that an approval is about. `roles`: the roles that may answer in the inbox."""
    return _REQUESTER(question=question_id, roles=[str(role) for role in roles], listed=settings.TASKHUB_HUB_TOOLS)


def asked_back(task_id: int, user_id: int | None) -> tuple[AskedBack, ...]:
    """All questions to the requester of the task, oldest first, as the person `user_id` reads them."""
    return tuple(_ASKED(task=task_id, user=user_id))


def ask(task_id: int, question_id: int, tool: str, text: str, *, to: Requester, actor: Actor) -> AskOutcome:
    """Ask the requester about the call that an open approval is for. The call goes on waiting for the approval."""
    person = to.way is Way.PERSON
    return change(
        _ASK,
        task_id,
        approval=question_id,
        params=jsonx.encode(params(tool, text, actor.name)).decode(),
        words=text,
        audience=str(Audience.OPERATOR if person else Audience.CLIENT),
        person=to.user_id if person else None,
        user=actor.user_id,
        most_open=MOST_OPEN,
        most=MOST_ASKED,
        who=who(actor),
    )


def withdraw(task_id: int, question_id: int, *, actor: Actor) -> WithdrawOutcome:
    """Take back a question that `actor` asked."""
    return change(_WITHDRAW, task_id, question=question_id, user=actor.user_id, who=who(actor))


def params(tool: str, text: str, asker: str) -> dict[str, Any]:
    """The params of the elicitation that asks the requester: `text`, who asks it and why, and what becomes of the
    answer."""
    return {
        "message": (
            f"{asker}, who is asked to approve your call of {tool}, wants to know before they decide:\n\n{text}\n\n"
            "The people who decide read your answer as your own words. It changes nothing about the call, which goes on"
            " waiting for their approval."
        ),
        "requestedSchema": {
            "type": "object",
            "properties": {
                "answer": {"type": "string", "title": "Your answer", "minLength": 1, "maxLength": MAX_ANSWER}
            },
            "required": ["answer"],
        },
    }

"""The kinds of news, and which event is news of which kind."""

from __future__ import annotations

from enum import StrEnum
from typing import Any, Final


class Kind(StrEnum):
    """The kind of news in a notice to a webhook. The values are part of the API."""

    ASKED = "approval.asked"
    DECIDED = "approval.decided"
    REMINDED = "approval.reminded"
    EXPIRED = "approval.expired"
    ESCALATED = "approval.escalated"
    FINISHED = "task.finished"
    FAILED = "task.failed"
    CANCELLED = "task.cancelled"


TEST: Final = "webhook.test"
"""The kind of the notice that a person sends to try a webhook."""

SAYS: Final[dict[Kind, str]] = {
    Kind.ASKED: "People are asked to approve a call",
    Kind.DECIDED: "People approved or rejected a call",
    Kind.REMINDED: "Nobody has decided yet, and the rule reminds people",
    Kind.EXPIRED: "Nobody decided in time: the rule did, or the request ended",
    Kind.ESCALATED: "Nobody decided in time: another group is asked",
    Kind.FINISHED: "A task has its result, which may be an error of the tool",
    Kind.FAILED: "A task failed",
    Kind.CANCELLED: "A task was cancelled",
}
"""Each kind in words."""

CONFIRM: Final = "address.confirm"
"""The kind of the message that asks a person to confirm their address."""

TRIAL: Final = "address.test"
"""The kind of the message that a person sends to themselves to try a channel."""

APART: Final = (CONFIRM, TRIAL)
"""Kinds of notices to people that are not about a question. Each is a message of its own, which leaves at once."""

UNDECIDABLE: Final = "approval.undecidable"
"""The kind of the message to administrators about an approval that too few people can decide."""

QUESTION: Final = "question.asked"
"""The kind of the message about a question of a tool that people may answer."""

AUTHORIZATION: Final = "server.unauthorized"
"""The kind of the message about a call that waits until somebody authorizes its server."""

OUTCOME: Final = "outcome.unknown"
"""The kind of the message about a call of which nobody knows whether it ran."""

PERSONAL: Final[dict[str, str]] = {
    Kind.ASKED: "An approval waits for me",
    Kind.REMINDED: "A reminder: nobody has decided an approval that waits for me",
    QUESTION: "A tool asks something that I may answer",
    AUTHORIZATION: "A server that I may authorize has to be authorized, or authorized again",
    OUTCOME: "Nobody knows whether a tool ran, and I may rule on it",
    UNDECIDABLE: "An approval is asked for that nobody can decide, or too few people",
}
"""The kinds of news that people may choose, in words. The last is for administrators."""

_KINDS: Final = {
    "question.approve": Kind.DECIDED,
    "question.reject": Kind.DECIDED,
    "question.undone": Kind.DECIDED,
    "question.reminded": Kind.REMINDED,
    "task.finished": Kind.FINISHED,
    "task.faulted": Kind.FAILED,
    "task.cancelled": Kind.CANCELLED,
}
ACTIONS: Final = ("question.asked", "question.undecided", *_KINDS)
"""The actions of events that may become a notice to a webhook."""
PERSONAL_ACTIONS: Final = ("question.asked", "question.passed.on", "question.reminded")
"""The actions of events that may become a notice to people."""
AWAY: Final = "person.away"
"""The action of the event that somebody goes away. The approvals that wait for them are news to their deputy."""


def kind_of(action: str, after: dict[str, Any] | None) -> Kind | None:
    """The kind of news that an event is for webhooks; `None` if it is no news. An approval is `DECIDED` here even if
    further approvals are needed: the event alone does not say whether it was the last."""
    said = after or {}
    if action == "question.asked":
        return Kind.ASKED if said.get("kind") == "approval" else None
    if action == "question.undone" and not said.get("reopened"):
        return None
    if action == "question.undecided":
        return Kind.ESCALATED if said.get("otherwise") == "escalate" else Kind.EXPIRED
    return _KINDS.get(action)


def personal_kind_of(action: str, after: dict[str, Any] | None) -> str | None:
    """The kind of news that an event is for people; the question of the event says whom it concerns."""
    if action == "question.reminded":
        return Kind.REMINDED
    asked = str((after or {}).get("kind"))
    return {"approval": Kind.ASKED, "authorization": AUTHORIZATION, "outcome": OUTCOME}.get(asked, QUESTION)

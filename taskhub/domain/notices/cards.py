"""Approvals in messages in Slack: for which approval each card was sent, and which messages have to be drawn again."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from django.db import transaction

from taskhub.store import statements

SHOWN: Final = 10
"""The most approvals that one message shows. Of the others it says only how many there are."""
LEASE_SECONDS: Final = 60.0
"""Seconds after which a message that was taken and not drawn again is taken again."""
PAUSES: Final = (5.0, 30.0, 60.0, 300.0, 1_800.0)
"""Seconds between the tries to draw a message again, after each try that failed. After the last, the message stays as
it is."""
MAX_REFUSED: Final = 500

CHANGING: Final = (
    "question.approve",
    "question.reject",
    "question.undone",
    "question.undecided",
    "question.edited",
    "task.cancelled",
    "task.faulted",
    "task.decided",
)
"""The actions of events after which a card may say something else."""


@dataclass(frozen=True, slots=True)
class Card:
    """An approval in a message, with the person to whom it was sent and the address at which Slack reaches them now.
    `refused`: why the card has no buttons; empty if it has."""

    notice_id: int
    public_id: str
    message: str
    question_id: int
    call_digest: str
    refused: str
    kind: str
    tenant_id: int
    user_id: int
    username: str
    active: bool
    address: str = field(repr=False)
    zone: str


@dataclass(frozen=True, slots=True)
class Changed:
    """A message that may have to be drawn again: where Slack has it (`conversation`, `ts`), and the digest of what it
    shows (`shown`). `more`: how many approvals it only counts."""

    public_id: str
    conversation: str
    ts: str
    more: int
    shown: str
    changes: int
    tries: int


_STORE_MESSAGE = statements.rowcount("store_slack_message")
_STORE_CARDS = statements.rowcount("store_cards")
_PLACE = statements.rowcount("place_message")
_CARD = statements.maybe("card_of_notice", Card)
_CARDS = statements.many("cards_of_message", Card)
_RETIRE = statements.rowcount("retire_card")
_CHANGED = statements.rowcount("changed_message")
_ALL_CHANGED = statements.rowcount("changed_messages")
_TAKE = statements.many("take_changed", Changed)
_END = statements.rowcount("end_changed")
_PUT_OFF = statements.rowcount("put_off_changed")


def store_cards(message: str, first: int, cards: Sequence[tuple[int, int, str]], more: int) -> None:
    """Store what a message is about to show, before it is posted. `cards`: of each card the ids of notice and question,
    and the digest of the call. `first`: the id of the message's first notice. `more`: how many further approvals the
    message only counts."""
    with transaction.atomic():
        _STORE_MESSAGE(message=message, notice=first, more=more)
        _STORE_CARDS(
            message=message,
            notices=[notice for notice, _, _ in cards],
            questions=[question for _, question, _ in cards],
            digests=[digest for _, _, digest in cards],
        )


def place_message(message: str, conversation: str, ts: str, shown: str) -> None:
    """Store where Slack has a message, and the digest of what it shows."""
    _PLACE(message=message, conversation=conversation, ts=ts, shown=shown)


def card_of(public_id: str) -> Card | None:
    """The card of a notice, by its public id."""
    return _CARD(public_id=public_id)


def cards_of(message: str) -> list[Card]:
    """The cards of a message, in the order of the message."""
    return _CARDS(message=message)


def retire(card: Card, why: str) -> None:
    """Take the buttons away from a card, and say on the card why."""
    with transaction.atomic():
        _RETIRE(notice=card.notice_id, why=why[:MAX_REFUSED])
        _CHANGED(message=card.message)


def changed(message: str) -> None:
    """Have a worker check whether a message has to be drawn again."""
    _CHANGED(message=message)


def changed_of(task_ids: Sequence[int]) -> None:
    """As `changed`, for all messages with a card of these tasks."""
    if task_ids:
        _ALL_CHANGED(tasks=list(task_ids))


def take_changed(most: int) -> list[Changed]:
    """Take messages that may have to be drawn again, under a lease."""
    return _TAKE(seconds=LEASE_SECONDS, most=most) if most > 0 else []


def end_changed(taken: Changed, shown: str) -> None:
    """Store the digest of what a message shows now. If something changed since it was taken, it is taken again."""
    _END(message=taken.public_id, changes=taken.changes, shown=shown)


def put_off_changed(taken: Changed, wanted: float = 0.0) -> None:
    """Have a message taken again after the next pause of `PAUSES`, or after `wanted` seconds if they are more. After
    the last pause, the message is taken again only when something changes."""
    pause = max(PAUSES[taken.tries], wanted) if taken.tries < len(PAUSES) else None
    _PUT_OFF(message=taken.public_id, seconds=pause)

"""Use cases of the buttons in Slack: whoever clicks decides as they would in the console, under the same rules.

A message may be old, and the rights of the person to whom it was sent may have changed since: so everything is checked
again at the click. A card whose click was refused is *retired*: it says why and has no buttons any more, while the
approval stays open in the inbox.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from typing import Final
from urllib.parse import quote

from taskhub.control import questions
from taskhub.control.caller import Caller, of_person
from taskhub.core.errors import Forbidden, Invalid, NotFound, TaskHubError, Unavailable
from taskhub.core.records import Actor, Person
from taskhub.core.states import Door, QuestionKind, QuestionState
from taskhub.domain.clients.principals import person_of
from taskhub.domain.notices import cards
from taskhub.domain.notices.cards import Card, Changed
from taskhub.domain.questions import inbox
from taskhub.domain.questions.answer import AnswerOutcome
from taskhub.domain.questions.inbox import InboxItem, Obstacle
from taskhub.domain.questions.reads import question_digest

_CHANGED: Final = "What you were asked has changed since this message. Look at it in TaskHub."
_STRANGER: Final = "This Slack account is not linked to the TaskHub account that the message was sent to."
_GONE: Final = "The TaskHub account that this message was sent to cannot sign in any more."
_SIGN_IN: Final = "Sign in to TaskHub first: your password has to be changed."
_BLIND: Final = "The rule does not say in words what this call will do. Look at its arguments in TaskHub."


@dataclass(frozen=True, slots=True)
class Click:
    """A click on a button: the public id of the card's notice, and the Slack account, as `team:user`."""

    card: str
    account: str = field(repr=False)


@dataclass(frozen=True, slots=True)
class Clicked:
    """The outcome of a click. `message` is the message that has the card, empty if there is no such card. `problem`
    says why nothing was decided; empty if something was, now or before. `reason_missing`: whether only the reason was
    wrong, which can be given again."""

    message: str = ""
    problem: str = ""
    reason_missing: bool = False


@dataclass(frozen=True, slots=True)
class State:
    """The state of a card, for the person to whom it was sent. `said` says why the card has no buttons, or what was
    decided; it is empty while the card waits for a decision. `is_open`: whether the approval is still open."""

    notice: str
    kind: str
    sentence: tuple[tuple[str, bool], ...]
    tool: str
    server: str
    client: str
    group: str
    critical: bool
    risky: bool
    due_at: datetime | None
    zone: str
    task: str
    key: str
    is_open: bool
    approve: bool
    reject: bool
    said: str

    @property
    def path(self) -> str:
        """The path of the card's page in the console."""
        return f"/inbox/task/{self.task}/?key={quote(self.key, safe='')}"


def decide(click: Click, *, approve: bool, reason: str = "") -> Clicked:
    """Approve or reject by a click, as `questions.decide_approval` does. If the card was decided already, nothing
    happens. A refused click retires the card. Raises `Unavailable` if the database is away; then nothing was
    decided."""
    card = cards.card_of(click.card)
    if card is None:
        return Clicked(problem="There is no such card any more.")
    try:
        caller, item = _looked_at(card, click)
        if item is None:
            return Clicked(card.message)
        if approve and not item.asking.sentence:
            raise Invalid(_BLIND)
        outcome = questions.decide_approval(caller, item, approve=approve, reason=reason)
        if outcome is AnswerOutcome.UNKNOWN:
            raise NotFound("There is no such approval any more.")
    except Unavailable:
        raise
    except Invalid as error:
        if error.data.get("field") == "reason":
            return Clicked(card.message, error.message, reason_missing=True)
        return _retired(card, error)
    except TaskHubError as error:
        return _retired(card, error)
    cards.changed(card.message)
    return Clicked(card.message)


def may_reject(click: Click) -> Clicked:
    """Whether a click on *Reject* may ask for the reason. If not, `problem` says why. A refused click retires the
    card."""
    card = cards.card_of(click.card)
    if card is None:
        return Clicked(problem="There is no such card any more.")
    try:
        caller, item = _looked_at(card, click)
        if item is None or questions.closed_to(caller, item) is not None:
            cards.changed(card.message)
            return Clicked(card.message, "It has been decided.")
    except Unavailable:
        raise
    except TaskHubError as error:
        return _retired(card, error)
    return Clicked(card.message)


def states_of(message: str) -> list[State]:
    """The states of the cards in a message, each for the person to whom it was sent."""
    return [state for card in cards.cards_of(message) if (state := _state(card)) is not None]


def take_changed(most: int) -> list[Changed]:
    """Take up to `most` messages that may have to be drawn anew, under a lease."""
    return cards.take_changed(most)


def _looked_at(card: Card, click: Click) -> tuple[Caller, InboxItem | None]:
    """The caller for the person who clicked, and the approval; `None` in place of the approval if the card is retired.
    Raises the error that keeps the person from deciding."""
    if not card.address or click.account != card.address:
        stranger = Caller(card.tenant_id, Actor(name=f"Slack account {click.account}"[:255], door=Door.SLACK))
        raise stranger.refused(f"decide question {card.question_id} by a click", _STRANGER)
    person = _person(card)
    if person is None:
        raise Forbidden(_GONE)
    if person.password_due:
        raise Forbidden(_SIGN_IN)
    caller = of_person(person, door=Door.SLACK)
    if card.refused:
        return caller, None
    item = questions.find_question(caller, card.question_id)
    if item.kind is not QuestionKind.APPROVAL or question_digest(item.id) != card.call_digest:
        raise Invalid(_CHANGED)
    return caller, item


def _person(card: Card) -> Person | None:
    person = person_of(card.user_id, card.username) if card.active else None
    return person if person is not None and person.tenant_id == card.tenant_id else None


def _retired(card: Card, error: TaskHubError) -> Clicked:
    cards.retire(card, error.message)
    return Clicked(card.message, error.message)


def _state(card: Card) -> State | None:
    person = _person(card)
    if person is None:
        item, said = inbox.question_for_shell(card.tenant_id, card.question_id), _GONE
    else:
        item = inbox.question(person, card.question_id)
        said = "" if item is None else _said(card, of_person(person, door=Door.SLACK), item)
    if item is None:
        return None
    asking, decidable = item.asking, not said and item.kind is QuestionKind.APPROVAL
    return State(
        notice=card.public_id,
        kind=card.kind,
        sentence=asking.sentence,
        tool=item.tool_name,
        server=item.server,
        client=item.client,
        group=item.group,
        critical=asking.critical,
        risky=asking.risk != "low",
        due_at=item.due_at if item.state is QuestionState.OPEN else None,
        zone=card.zone,
        task=item.public_id,
        key=item.key,
        is_open=item.state is QuestionState.OPEN,
        approve=decidable and asking.by_word and bool(asking.sentence),
        reject=decidable,
        said=said,
    )


def _said(card: Card, caller: Caller, item: InboxItem) -> str:
    if item.state is not QuestionState.OPEN:
        return _ended(item)
    if item.obstacle is Obstacle.DECIDED:
        return f"{_decided(item)} {item.approvals} of {item.quorum} approvals so far."
    if card.refused:
        return f"Not decided by this message. {card.refused}"
    if item.obstacle is not Obstacle.NONE:
        return questions.why_not(caller, item) or "It no longer waits for you."
    if question_digest(item.id) != card.call_digest:
        return _CHANGED
    return ""


def _ended(item: InboxItem) -> str:
    if item.state is QuestionState.ANSWERED:
        return _decided(item)
    if item.state is QuestionState.EXPIRED:
        return "Nobody decided in time."
    return "It is over: the call was cancelled, or people are asked anew."


def _decided(item: InboxItem) -> str:
    words = {"approve": "Approved by", "reject": "Rejected by", "allow": "Allowed by", "deny": "Denied by"}
    return f"{words.get(item.last_verdict, 'Decided by')} {item.last_actor or 'nobody'}."

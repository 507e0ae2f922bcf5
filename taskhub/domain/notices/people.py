"""News for people in the outbox. Queues a notice for each person who wants it and can decide, on each channel that
reaches them; gathers the notices that wait for a person in one message; and stores what came of the message.

A message keeps its id and its notices, however often it is tried. Only notices whose question no longer waits for the
person are left out. If a worker is lost after a channel has taken a message, but before this is stored, the message
goes out again, under the same id.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, time
from typing import Any, Final
from urllib.parse import quote

from django.db import transaction

from taskhub.core.asking import asking
from taskhub.core.permissions import roles_with
from taskhub.core.rules import Risk
from taskhub.domain.feed.reading import FeedEvent, begin_feed, read_feed
from taskhub.domain.notices.cards import CHANGING, changed_of
from taskhub.domain.notices.channels import Channel, channels_on, is_on
from taskhub.domain.notices.choices import Choices, leaves_at, lock_addresses
from taskhub.domain.notices.kinds import (
    APART,
    AWAY,
    CONFIRM,
    PERSONAL_ACTIONS,
    TRIAL,
    UNDECIDABLE,
    Kind,
    personal_kind_of,
)
from taskhub.domain.notices.outbox import LEASE_SECONDS, MAX_ANSWER, Delivered, pause
from taskhub.domain.notices.queueing import new_id
from taskhub.lib import jsonx
from taskhub.store import statements

CONSUMER: Final = "people"
BATCH: Final = 100
"""The most events that are looked at in one transaction: each may concern everybody."""
GATHER_SECONDS: Final = 5.0
"""Seconds that a notice waits for other notices, which then go out in the same message."""
MAX_WAITING: Final = 1_000
"""The most notices that wait for one person on one channel. Further approvals are only in the inbox."""
MAX_IN_MESSAGE: Final = MAX_WAITING
LOGGED: Final = 20
COUNTED: Final = 10_000
"""The most notices that wait on a channel and are counted for figures."""

_OVER: Final = "Not sent: it no longer waits for you, or you no longer want such messages"
_SAID_SINCE: Final = "Not sent: a later one in the same message is about the same question"


@dataclass(frozen=True, slots=True)
class _Wanting:
    event_id: int
    tenant_id: int
    user_id: int
    channel: str
    question_id: int
    kinds: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class _Reader:
    """A person with their choices and address, and the first notice that is due for them on a channel."""

    membership_id: int
    address_id: int
    tenant_id: int
    user_id: int
    username: str
    address: str
    pending: str
    kinds: tuple[str, ...]
    pace: str
    daily_at: time | None
    quiet_from: time | None
    quiet_until: time | None
    zone: str
    away_until: datetime | None
    sent_at: datetime | None
    kind: str
    message: str
    queued_at: datetime

    @property
    def choices(self) -> Choices:
        return Choices(
            self.kinds, self.pace, self.daily_at, self.quiet_from, self.quiet_until, self.zone, self.away_until
        )


@dataclass(frozen=True, slots=True)
class _Told:
    notice_id: int
    public_id: str
    kind: str
    question_id: int
    task: str
    key: str
    tool: str
    server: str
    client: str
    params: dict[str, Any]
    group: str
    quorum: int
    due_at: datetime | None
    call_digest: bytes | None
    mine: bool
    stuck: bool

    def told_as(self, kinds: Sequence[str]) -> str:
        """The kind under which a person who wants `kinds` gets this notice now; empty if they do not get it."""
        if self.stuck and UNDECIDABLE in kinds:
            return UNDECIDABLE
        # Enough people can decide this approval by now. If the person is one of them, it is news to them like any other
        # approval.
        kind = Kind.ASKED if self.kind == UNDECIDABLE else self.kind
        return kind if self.mine and kind in kinds else ""


@dataclass(frozen=True, slots=True)
class _Begun:
    id: int
    number: int


@dataclass(frozen=True, slots=True)
class Approval:
    """A question in a message, mostly an approval. `kind`: why the person gets it. `sentence`: what the rule says will
    happen, in pairs of a text and whether that is a value of the call. `by_word`: whether a word is enough to approve:
    no second factor, no name to type, no preview to see. `quorum`: how many people have to approve. `mine`:
    whether the question waits for this person."""

    notice_id: int
    public_id: str
    question_id: int
    call_digest: str
    kind: str
    sentence: tuple[tuple[str, bool], ...]
    by_word: bool
    second_factor: bool
    quorum: int
    risky: bool
    mine: bool
    tool: str
    server: str
    client: str
    group: str
    critical: bool
    due_at: datetime | None
    path: str


@dataclass(frozen=True, slots=True)
class TakenMessage:
    """A message to be handed to its channel. If `approvals` is empty, it is a test (`tests`), or asks the person to
    confirm the address."""

    id: str
    channel: Channel
    membership_id: int
    address_id: int
    username: str
    zone: str
    address: str = field(repr=False)
    approvals: tuple[Approval, ...]
    notices: tuple[tuple[int, int], ...]
    """The ids of the message's notices, each with the number of the attempt that begins now."""
    tests: bool = False

    @property
    def number(self) -> int:
        """The number of the attempt that begins now: the highest of its notices."""
        return max(number for _, number in self.notices)


@dataclass(frozen=True, slots=True)
class MessageRow:
    """A message in the log of a person, with its latest delivery. If `message` is empty, the row stands for the notices
    that are in no message yet."""

    channel: str
    message: str
    kind: str
    notices: int
    state: str
    queued_at: datetime
    due_at: datetime
    attempts: int
    problem: str
    under_way: bool
    status: int | None
    answer: str
    began_at: datetime | None

    @property
    def confirms(self) -> bool:
        """Whether the message asks the person to confirm an address."""
        return self.kind == CONFIRM

    @property
    def tests(self) -> bool:
        """Whether the person sent the message to try the channel."""
        return self.kind == TRIAL


@dataclass(frozen=True, slots=True)
class PeopleBacklog:
    """The notices that wait to be sent to people on a channel, of all tenants. `due`: their number, counted up to
    `COUNTED`. `failing`: how many of them the channel was given and did not take; `problem`: why, for the latest.
    `oldest_seconds`: for how long the oldest of them that may leave or was tried has waited; 0 if there is none."""

    channel: str
    due: int
    failing: int
    oldest_seconds: float
    problem: str


_SKIP_EVENTS = statements.rowcount("skip_unwanted_by_people")
_WANTING = statements.many("wanting_people", _Wanting)
_TAKEN_ON = statements.many("taken_on_by_deputies", _Wanting)
_ADMINS = statements.many("wanting_admins", _Wanting)
_QUEUE = statements.rowcount("queue_for_people")
_DUE = statements.one("due_to_people", bool)
_LOCK = statements.many("lock_readers", _Reader)
_PUT_OFF = statements.rowcount("put_off")
_OF_MESSAGE = statements.many("notices_of_message", int)
_TELL = statements.many("approvals_in", _Told)
_SKIP = statements.rowcount("skip_notices")
_BEGIN = statements.many("begin_message", _Begun)
_END = statements.rowcount("end_message")
_NOTE = statements.rowcount("note_sent")
_HURRY = statements.rowcount("hurry_messages")
_LOG = statements.many("message_log", MessageRow)
_BACKLOG = statements.many("backlog_to_people", PeopleBacklog)


def queue_for_people() -> int:
    """Queue notices for people about the next events of the feed. Returns how many events were looked at: `BATCH` if
    there may be more. If no channel is on, or nobody wants messages, no event is looked at."""
    on = channels_on()
    _SKIP_EVENTS(consumer=CONSUMER, channels=on)
    if not on:
        return 0
    return read_feed(CONSUMER, {*PERSONAL_ACTIONS, AWAY, *CHANGING}, _queue, most=BATCH)


def begin_telling() -> None:
    """Begin to queue notices for people about events, from now on. Called before the first address is stored."""
    begin_feed(CONSUMER)


def _queue(events: Sequence[FeedEvent]) -> None:
    if is_on(Channel.SLACK):
        changed_of([event.task_id for event in events if event.task_id and event.action in CHANGING])
    kinds = {
        event.id: personal_kind_of(event.action, event.after) for event in events if event.action in PERSONAL_ACTIONS
    }
    gone = [event.id for event in events if event.action == AWAY]
    if not kinds and not gone:
        return
    asked = [event for event, kind in kinds.items() if kind == Kind.ASKED]
    roles, where = _by_role(), {"channels": channels_on(), "most": MAX_WAITING}
    wanting = _WANTING(events=list(kinds), **roles, **where)
    stuck = _ADMINS(events=asked, roles=roles["roles"], admins=_admins(), kind=UNDECIDABLE, **where)
    taken_on = _TAKEN_ON(events=gone, kind=Kind.ASKED, **roles, **where) if gone else []
    told = {
        **{(one.event_id, one.user_id, one.channel): (Kind.ASKED, one) for one in taken_on},
        **{
            (one.event_id, one.user_id, one.channel): (kinds[one.event_id], one)
            for one in wanting
            if kinds[one.event_id] in one.kinds
        },
        **{(one.event_id, one.user_id, one.channel): (UNDECIDABLE, one) for one in stuck},
    }
    rows = [
        {
            "public_id": new_id(),
            "tenant": one.tenant_id,
            "event": one.event_id,
            "kind": kind,
            "channel": one.channel,
            "person": one.user_id,
            "body": jsonx.encode({"question": one.question_id}).decode(),
        }
        for kind, one in told.values()
    ]
    if rows:
        _QUEUE(rows=jsonx.encode(rows).decode(), wait_seconds=GATHER_SECONDS)


def take_messages(channel: Channel, most: int) -> list[TakenMessage]:
    """Take messages that may leave now on the channel, under a lease: at most `most`, and one for each person. Another
    worker that does this at the same time takes other messages. Notices that may leave only later are put off until
    then, and notices whose question no longer waits for the person are skipped."""
    if most <= 0 or not is_on(channel) or not _DUE(channel=channel):
        return []
    with transaction.atomic():
        now = datetime.now(UTC)
        readers = _LOCK(channel=channel, confirm=CONFIRM, apart=list(APART), most=most)
        return [message for reader in readers if (message := _taken(channel, reader, now)) is not None]


def _taken(channel: Channel, reader: _Reader, now: datetime) -> TakenMessage | None:
    who = {"tenant": reader.tenant_id, "user": reader.user_id}
    confirms, apart = reader.kind == CONFIRM, reader.kind in APART
    if not apart:
        leaves = leaves_at(
            reader.choices, queued_at=reader.queued_at, sent_at=reader.sent_at, now=now, again=bool(reader.message)
        )
        if leaves > now:
            _PUT_OFF(**who, channel=channel, until=leaves, apart=list(APART))
            return None
    notices = _OF_MESSAGE(**who, channel=channel, message=reader.message, most=MAX_IN_MESSAGE)
    approvals: list[Approval] = []
    if not apart:
        told = _TELL(**who, notices=notices, **_by_role(), admins=_admins(), kind=UNDECIDABLE)
        waits = {one.notice_id: kind for one in told if (kind := one.told_as(reader.kinds))}
        latest = {one.question_id: one for one in told if one.notice_id in waits}
        approvals = [_approval(waits[one.notice_id], one) for one in latest.values()]
        stays = {one.notice_id for one in latest.values()}
        since = [notice for notice in waits if notice not in stays]
        over = [notice for notice in notices if notice not in stays and notice not in since]
        _skip(since, _SAID_SINCE)
        _skip(over, _OVER)
        notices = sorted(stays)
    address = reader.pending if confirms else reader.address
    if not notices:
        return None
    if not address:  # the address that was to be confirmed is not wanted any more
        _skip(notices, _OVER)
        return None
    message = reader.message or new_id()
    begun = _BEGIN(notices=notices, message=message, lease_seconds=LEASE_SECONDS)
    return TakenMessage(
        id=message,
        channel=channel,
        membership_id=reader.membership_id,
        address_id=reader.address_id,
        username=reader.username,
        zone=reader.zone,
        address=address,
        approvals=tuple(approvals),
        notices=tuple((one.id, one.number) for one in begun),
        tests=reader.kind == TRIAL,
    )


def end_message(taken: TakenMessage, outcome: Delivered) -> None:
    """Store what came of a message. If the channel did not take it, it is due again after a pause, or has failed after
    the last pause."""
    with transaction.atomic():
        lock_addresses(taken.membership_id, taken.channel)
        _END(
            notices=[notice for notice, _ in taken.notices],
            numbers=[number for _, number in taken.notices],
            ok=outcome.ok,
            status=outcome.status,
            answer=outcome.answer.replace("\0", "\ufffd")[:MAX_ANSWER],
            problem=outcome.problem.replace("\0", "\ufffd")[:300],
            pause_seconds=None if outcome.gone else pause(taken.number, outcome.later or 0.0),
        )
        if outcome.ok and taken.approvals:
            _NOTE(membership=taken.membership_id, channel=taken.channel)


def hurry_messages(channel: Channel, begins: str = "") -> int:
    """Make messages due at once to which the channel's server did not answer, if the address begins with `begins`.
    Returns how many notices that are."""
    return _HURRY(channel=channel, begins=begins)


def message_log(tenant_id: int, user_id: int) -> list[MessageRow]:
    """The newest messages to a person, newest first."""
    return _LOG(tenant=tenant_id, user=user_id, channels=list(Channel), most=LOGGED)


def backlog() -> list[PeopleBacklog]:
    """What waits on each channel that this hub sends on."""
    on = channels_on()
    return _BACKLOG(channels=on, most=COUNTED) if on else []


def _skip(notices: Sequence[int], why: str) -> None:
    if notices:
        _SKIP(notices=list(notices), why=why)


def _by_role() -> dict[str, list[str]]:
    """The roles that decide approvals, answer questions, and authorize servers for everyone, as parameters of
    statements."""
    return {
        "roles": list(roles_with("question.approve")),
        "answerers": list(roles_with("question.answer")),
        "managers": list(roles_with("server.manage")),
    }


def _admins() -> list[str]:
    return list(roles_with("settings.view"))


def _approval(kind: str, told: _Told) -> Approval:
    said = asking(told.params)
    return Approval(
        notice_id=told.notice_id,
        public_id=told.public_id,
        question_id=told.question_id,
        call_digest=(told.call_digest or b"").hex(),
        kind=kind,
        sentence=said.sentence,
        by_word=said.by_word,
        second_factor=said.second_factor,
        quorum=told.quorum,
        risky=said.risk is not Risk.LOW,
        mine=told.mine,
        tool=told.tool,
        server=told.server,
        client=told.client,
        group=told.group,
        critical=said.critical,
        due_at=told.due_at,
        path=f"/inbox/task/{told.task}/?key={quote(told.key, safe='')}",
    )

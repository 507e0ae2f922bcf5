"""Mails in the outbox: queues a notice for each person who wants one and can decide, gathers what waits for a person in
one mail, and stores what came of it.

A mail keeps its id and what it tells of, however often it is tried; only what no longer waits for the person is left
out. If a worker is lost after the server has taken a mail and before that is stored, the mail goes out again, under the
same id.
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
from taskhub.domain.feed.reading import FeedEvent, begin_feed, read_feed
from taskhub.domain.notices.kinds import CONFIRM, MAILED_ACTIONS, UNDECIDABLE, Kind, kind_of
from taskhub.domain.notices.mailing import Choices, is_on, leaves_at
from taskhub.domain.notices.outbox import LEASE_SECONDS, MAX_ANSWER, Delivered, pause
from taskhub.domain.notices.queueing import new_id
from taskhub.lib import jsonx
from taskhub.store import statements

CONSUMER: Final = "mails"
BATCH: Final = 100
"""Most events that are looked at in one transaction: each may concern everybody."""
GATHER_SECONDS: Final = 5.0
"""How long a notice waits for others that come with it."""
MAX_WAITING: Final = 1_000
"""Notices that wait for one person; of further approvals only the inbox tells."""
MAX_IN_MAIL: Final = MAX_WAITING
LOGGED: Final = 20

_OVER: Final = "Not sent: it no longer waits for you, or you no longer want such mails"
_SAID_SINCE: Final = "Not sent: a later one in the same mail is about the same approval"


@dataclass(frozen=True, slots=True)
class _Wanting:
    event_id: int
    tenant_id: int
    user_id: int
    question_id: int
    kinds: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class _Reader:
    """A person, with what they want, and the first notice that is due for them."""

    membership_id: int
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
    mailed_at: datetime | None
    kind: str
    mail: str
    queued_at: datetime

    @property
    def choices(self) -> Choices:
        return Choices(
            self.kinds, self.pace, self.daily_at, self.quiet_from, self.quiet_until, self.zone, self.away_until
        )


@dataclass(frozen=True, slots=True)
class _Told:
    notice_id: int
    kind: str
    question_id: int
    task: str
    key: str
    tool: str
    server: str
    client: str
    params: dict[str, Any]
    group: str
    due_at: datetime | None
    mine: bool
    stuck: bool

    def told_as(self, kinds: Sequence[str]) -> str:
        """The kind as which it is told now to somebody who wants mails of these kinds; empty for not at all."""
        if self.stuck and UNDECIDABLE in kinds:
            return UNDECIDABLE
        # By now enough people can decide it, this one perhaps among them.
        kind = Kind.ASKED if self.kind == UNDECIDABLE else self.kind
        return kind if self.mine and kind in kinds else ""


@dataclass(frozen=True, slots=True)
class _Begun:
    id: int
    number: int


@dataclass(frozen=True, slots=True)
class Approval:
    """An approval that waits for the person, as a mail tells of it. `sentence` is what the rule says will happen."""

    kind: str
    sentence: str
    tool: str
    server: str
    client: str
    group: str
    critical: bool
    due_at: datetime | None
    path: str


@dataclass(frozen=True, slots=True)
class TakenMail:
    """A mail to be handed to the server. Without `approvals` it asks whether the address is the person's."""

    id: str
    membership_id: int
    username: str
    zone: str
    address: str = field(repr=False)
    approvals: tuple[Approval, ...]
    notices: tuple[tuple[int, int], ...]
    """The ids of its notices, each with the number of this attempt."""

    @property
    def number(self) -> int:
        """The number of this attempt."""
        return max(number for _, number in self.notices)


@dataclass(frozen=True, slots=True)
class MailRow:
    """A mail in the log of a person, with its latest delivery; with an empty `mail`, what is in none yet."""

    mail: str
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
        """Whether it asks to confirm an address."""
        return self.kind == CONFIRM


_SKIP_EVENTS = statements.rowcount("skip_unmailed")
_WANTING = statements.many("wanting_people", _Wanting)
_ADMINS = statements.many("wanting_admins", _Wanting)
_QUEUE = statements.rowcount("queue_mail_notices")
_DUE = statements.one("mails_due", bool)
_LOCK = statements.many("lock_readers", _Reader)
_PUT_OFF = statements.rowcount("put_off")
_OF_MAIL = statements.many("notices_of_mail", int)
_TELL = statements.many("approvals_in", _Told)
_SKIP = statements.rowcount("skip_notices")
_BEGIN = statements.many("begin_mail", _Begun)
_LOCK_ONE = statements.rowcount("lock_mailing")
_END = statements.rowcount("end_mail")
_NOTE = statements.rowcount("note_mailed")
_HURRY = statements.rowcount("hurry_mails")
_LOG = statements.many("mail_log", MailRow)


def queue_mails() -> int:
    """Queue notices for people, of the next events of the feed. Returns how many events were looked at: `BATCH` if
    there may be more. Where no mail is sent or nobody wants one, none is looked at."""
    _SKIP_EVENTS(consumer=CONSUMER, nothing=not is_on())
    if not is_on():
        return 0
    return read_feed(CONSUMER, MAILED_ACTIONS, _queue, most=BATCH)


def begin_mailing() -> None:
    """Tell of events from now on. Called before the first address is stored."""
    begin_feed(CONSUMER)


def _queue(events: Sequence[FeedEvent]) -> None:
    kinds = {event.id: kind for event in events if (kind := kind_of(event.action, event.after)) is not None}
    if not kinds:
        return
    asked = [event for event, kind in kinds.items() if kind is Kind.ASKED]
    wanting = _WANTING(events=list(kinds), roles=_deciders(), most=MAX_WAITING)
    stuck = _ADMINS(events=asked, roles=_deciders(), admins=_admins(), kind=UNDECIDABLE, most=MAX_WAITING)
    told = {
        **{
            (one.event_id, one.user_id): (kinds[one.event_id], one)
            for one in wanting
            if kinds[one.event_id] in one.kinds
        },
        **{(one.event_id, one.user_id): (UNDECIDABLE, one) for one in stuck},
    }
    rows = [
        {
            "public_id": new_id(),
            "tenant": one.tenant_id,
            "event": one.event_id,
            "kind": kind,
            "person": one.user_id,
            "body": jsonx.encode({"question": one.question_id}).decode(),
        }
        for kind, one in told.values()
    ]
    if rows:
        _QUEUE(rows=jsonx.encode(rows).decode(), wait_seconds=GATHER_SECONDS)


def take_mails(most: int) -> list[TakenMail]:
    """Take mails that may leave now, `most` at most and one of each person, under a lease. Another worker that looks at
    the same time takes others. What may leave only later is put off until then, and what no longer waits for the person
    is skipped."""
    if most <= 0 or not is_on() or not _DUE():
        return []
    with transaction.atomic():
        now = datetime.now(UTC)
        return [mail for reader in _LOCK(confirm=CONFIRM, most=most) if (mail := _taken(reader, now)) is not None]


def _taken(reader: _Reader, now: datetime) -> TakenMail | None:
    who = {"tenant": reader.tenant_id, "user": reader.user_id}
    confirms = reader.kind == CONFIRM
    if not confirms:
        leaves = leaves_at(
            reader.choices, queued_at=reader.queued_at, mailed_at=reader.mailed_at, now=now, again=bool(reader.mail)
        )
        if leaves > now:
            _PUT_OFF(**who, until=leaves, confirm=CONFIRM)
            return None
    notices = _OF_MAIL(**who, mail=reader.mail, most=MAX_IN_MAIL)
    approvals: list[Approval] = []
    if not confirms:
        told = _TELL(**who, notices=notices, roles=_deciders(), admins=_admins(), kind=UNDECIDABLE)
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
    mail = reader.mail or new_id()
    begun = _BEGIN(notices=notices, mail=mail, lease_seconds=LEASE_SECONDS)
    return TakenMail(
        id=mail,
        membership_id=reader.membership_id,
        username=reader.username,
        zone=reader.zone,
        address=address,
        approvals=tuple(approvals),
        notices=tuple((one.id, one.number) for one in begun),
    )


def end_mail(taken: TakenMail, outcome: Delivered) -> None:
    """Store what came of a mail. One that was not taken is due again after a pause, or has failed after the last."""
    with transaction.atomic():
        _LOCK_ONE(membership=taken.membership_id)
        _END(
            notices=[notice for notice, _ in taken.notices],
            numbers=[number for _, number in taken.notices],
            ok=outcome.ok,
            status=outcome.status,
            answer=outcome.answer.replace("\0", "\ufffd")[:MAX_ANSWER],
            problem=outcome.problem.replace("\0", "\ufffd")[:300],
            pause_seconds=pause(taken.number),
        )
        if outcome.ok and taken.approvals:
            _NOTE(membership=taken.membership_id)


def hurry_mails() -> int:
    """Make all mails due at once that the server did not answer. Returns how many notices that are."""
    return _HURRY()


def mail_log(tenant_id: int, user_id: int) -> list[MailRow]:
    """The newest mails of a person, newest first."""
    return _LOG(tenant=tenant_id, user=user_id, most=LOGGED)


def _skip(notices: Sequence[int], why: str) -> None:
    if notices:
        _SKIP(notices=list(notices), why=why)


def _deciders() -> list[str]:
    return list(roles_with("question.approve"))


def _admins() -> list[str]:
    return list(roles_with("settings.view"))


def _approval(kind: str, told: _Told) -> Approval:
    said = asking(told.params)
    return Approval(
        kind=kind,
        sentence="".join(part for part, _ in said.sentence),
        tool=told.tool,
        server=told.server,
        client=told.client,
        group=told.group,
        critical=said.critical,
        due_at=told.due_at,
        path=f"/inbox/task/{told.task}/?key={quote(told.key, safe='')}",
    )

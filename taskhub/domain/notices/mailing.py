"""Where each person gets mails, of what, and when."""

from __future__ import annotations

import re
import zoneinfo
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, time, timedelta
from functools import cache
from typing import Any, Final

from django.conf import settings
from django.db import transaction

from taskhub.core.errors import Invalid, LimitReached, NotFound, Refused
from taskhub.core.records import Actor
from taskhub.domain.audit.record import record_event
from taskhub.domain.notices.kinds import CONFIRM, MAILED
from taskhub.domain.notices.queueing import new_id
from taskhub.lib import jsonx
from taskhub.lib.signing import InvalidToken, Signer
from taskhub.store import statements
from taskhub.store.models import Mailing, Membership

MAX_ADDRESS: Final = 254
CONFIRM_HOURS: Final = 24
"""How long the link in a mail confirms an address."""
CONFIRMATIONS: Final = 5
"""Mails that ask one person to confirm an address, in `CONFIRM_HOURS`."""
STOP_DAYS: Final = 365
"""How long the link in a mail ends all mails."""
PACE_SECONDS: Final = 60.0
"""A person gets one mail in this time at most."""
AWAY_DAYS: Final = 366
SOON, DAILY = "soon", "daily"
_ADDRESS: Final = re.compile(
    r"[A-Za-z0-9!#$%&'*+/=?^_`{|}~-]+(\.[A-Za-z0-9!#$%&'*+/=?^_`{|}~-]+)*"
    r"@([A-Za-z0-9]([A-Za-z0-9-]{0,61}[A-Za-z0-9])?\.)*[A-Za-z0-9]([A-Za-z0-9-]{0,61}[A-Za-z0-9])?"
)

_ASK = statements.none("queue_confirmation")
_ASKED = statements.one("confirmations_asked", int)
_AGAIN = statements.rowcount("look_again")


@dataclass(frozen=True, slots=True)
class Choices:
    """What a person wants. `pace`: `soon`, or `daily` at `daily_at`. Quiet from one time of day until another, perhaps
    of the next day; `None` where it is never quiet. Times of day are meant in `zone`."""

    kinds: Sequence[str] = tuple(MAILED)
    pace: str = SOON
    daily_at: time | None = None
    quiet_from: time | None = None
    quiet_until: time | None = None
    zone: str = "UTC"
    away_until: datetime | None = None


@dataclass(frozen=True, slots=True)
class Own:
    """The mails of a person: the address that they go to, empty for none, and one that is not confirmed yet."""

    address: str = field(default="", repr=False)
    pending: str = field(default="", repr=False)
    choices: Choices = field(default_factory=Choices)


def is_on() -> bool:
    """Whether this hub sends mails."""
    return bool(settings.EMAIL_HOST)


@cache
def zones() -> tuple[str, ...]:
    """The names of time zones, `UTC` first, without those that are kept for old programs."""
    known = zoneinfo.available_timezones()
    return ("UTC", *sorted(name for name in known if "/" in name and not name.startswith(("Etc/", "SystemV/"))))


def leaves_at(
    choices: Choices, *, queued_at: datetime, mailed_at: datetime | None, now: datetime, again: bool = False
) -> datetime:
    """When a mail with news of `queued_at` may leave: `now`, or later. `again`: it was tried before, so that it waits
    for no pace."""
    zone = zoneinfo.ZoneInfo(choices.zone)
    at = now
    if again:
        pass
    elif choices.pace == DAILY and choices.daily_at is not None:
        at = max(at, _next(queued_at, choices.daily_at, zone))
    elif mailed_at is not None:
        at = max(at, mailed_at + timedelta(seconds=PACE_SECONDS))
    return not_before(choices, at)


def not_before(choices: Choices, at: datetime) -> datetime:
    """`at`, or the end of the quiet hours or of the absence that it lies in."""
    if choices.away_until is not None:
        at = max(at, choices.away_until)
    begins, ends = choices.quiet_from, choices.quiet_until
    if begins is None or ends is None:
        return at
    zone = zoneinfo.ZoneInfo(choices.zone)
    local = at.astimezone(zone).time()
    quiet = begins <= local < ends if begins < ends else local >= begins or local < ends
    return _next(at, ends, zone) if quiet else at


def _next(after: datetime, of_day: time, zone: zoneinfo.ZoneInfo) -> datetime:
    """The first moment after `after` at which clocks in the zone show that time of day."""
    day = after.astimezone(zone).date()
    for days in range(3):
        found = datetime.combine(day + timedelta(days=days), of_day, zone).astimezone(UTC)
        if found > after:
            return found
    raise AssertionError(f"no {of_day} within two days of {after}")


def mailing_of(tenant_id: int, user_id: int) -> Own:
    """The mails of a person of the tenant."""
    row = Mailing.objects.filter(membership__tenant_id=tenant_id, membership__user_id=user_id).first()
    return Own() if row is None else Own(row.address, row.pending, _choices(row))


def choose(*, tenant_id: int, user_id: int, address: str, choices: Choices, actor: Actor) -> str:
    """Store what a person wants. Another address than the present one has to be confirmed: it gets a mail with a link,
    and until then mails go where they went. An empty address ends all mails. Returns the address that was asked to be
    confirmed, empty for none.

    Raises `Invalid` naming the field, `Refused` if this hub sends no mails, or `LimitReached`.
    """
    if not is_on():
        raise Refused("This hub sends no mails: its administrators have not set TASKHUB_SMTP_URL.")
    address = address.strip()
    _check(address, choices)
    with transaction.atomic():
        memberships = Membership.objects.select_for_update(no_key=True)
        membership = memberships.filter(tenant_id=tenant_id, user_id=user_id).first()
        if membership is None:
            raise NotFound("No such person.")
        row, _ = Mailing.objects.select_for_update(no_key=True).get_or_create(membership=membership)
        before = _shown(row)
        row.kinds = [kind for kind in MAILED if kind in choices.kinds]
        row.pace, row.daily_at = choices.pace, choices.daily_at if choices.pace == DAILY else None
        row.quiet_from, row.quiet_until = choices.quiet_from, choices.quiet_until
        row.zone, row.away_until = choices.zone, choices.away_until
        asked = address if address not in ("", row.address, row.pending) else ""
        row.pending = address if address != row.address else ""
        if not address:
            row.address = ""
        row.save()
        after = _shown(row)
        if before != after:
            record_event("mail.chosen", tenant_id=tenant_id, target=actor.name, actor=actor, before=before, after=after)
        if asked:
            _ask(tenant_id, user_id, asked)
        _AGAIN(tenant=tenant_id, user=user_id)
    return asked


def ask_again(*, tenant_id: int, user_id: int) -> str:
    """Send the mail that asks to confirm the person's address once more, and return the address. Raises `Refused` if
    none is to be confirmed, or `LimitReached`."""
    with transaction.atomic():
        rows = Mailing.objects.select_for_update(no_key=True, of=("self",))
        row = rows.filter(membership__tenant_id=tenant_id, membership__user_id=user_id).first()
        if row is None or not row.pending or not is_on():
            raise Refused("No address waits to be confirmed.")
        _ask(tenant_id, user_id, row.pending)
    return str(row.pending)


def _ask(tenant_id: int, user_id: int, address: str) -> None:
    if _ASKED(user=user_id, kind=CONFIRM, hours=CONFIRM_HOURS) >= CONFIRMATIONS:
        raise LimitReached(
            f"You were sent {CONFIRMATIONS} mails to confirm an address within {CONFIRM_HOURS} hours: confirm one, or "
            "try again tomorrow."
        )
    body = jsonx.encode({"address": address}).decode()
    _ASK(public_id=new_id(), tenant=tenant_id, user=user_id, kind=CONFIRM, body=body)


def confirm(*, tenant_id: int, user_id: int, token: str, actor: Actor) -> str:
    """Make the address of the link the one that mails go to, and return it. Raises `Refused` if the link is of
    somebody else, too old, or of an address that is not waited for any more."""
    with transaction.atomic():
        rows = Mailing.objects.select_for_update(no_key=True, of=("self",))
        row = rows.filter(membership__tenant_id=tenant_id, membership__user_id=user_id).first()
        if row is None or not row.pending or _opened("confirm", token) != [row.pk, row.pending]:
            raise Refused("This link confirms no address any more: it is too old, was used, or is somebody else's.")
        row.address, row.pending = row.pending, ""
        row.save(update_fields=["address", "pending"])
        record_event("mail.confirmed", tenant_id=tenant_id, target=actor.name, actor=actor)
        _AGAIN(tenant=tenant_id, user=user_id)
    return str(row.address)


def stop(token: str, actor: Actor) -> str:
    """End all mails to the address of the link, whoever opened it, and return the address; also if they had ended.
    Raises `NotFound` for no such link, or one that is too old. The actor's name becomes the person's."""
    found = _opened("stop", token)
    with transaction.atomic():
        rows = Mailing.objects.select_for_update(no_key=True, of=("self",)).select_related("membership__user")
        row = rows.filter(pk=found[0], address=found[1]).first() if found else None
        if row is None:
            raise NotFound("This link ends no mails any more: it is too old, or they go to another address.")
        if row.kinds:
            before = _shown(row)
            row.kinds = []
            row.save(update_fields=["kinds"])
            name = row.membership.user.get_username()
            record_event(
                "mail.stopped",
                tenant_id=row.membership.tenant_id,
                target=name,
                actor=actor,
                before=before,
                after=_shown(row),
            )
    return str(row.address)


def stops(token: str) -> str:
    """The address of the link that ends all mails. Raises `NotFound` for no such link."""
    found = _opened("stop", token)
    if found is None:
        raise NotFound("This link ends no mails any more: it is too old, or they go to another address.")
    return str(found[1])


def confirm_token(membership_id: int, address: str) -> str:
    """What the link to confirm an address ends with."""
    return _signer().sign("mail confirm", [membership_id, address], seconds=CONFIRM_HOURS * 3_600)


def stop_token(membership_id: int, address: str) -> str:
    """What the link to end all mails ends with."""
    return _signer().sign("mail stop", [membership_id, address], seconds=STOP_DAYS * 86_400)


def _opened(what: str, token: str) -> list[Any] | None:
    try:
        found = _signer().verify(f"mail {what}", token)
    except InvalidToken:
        return None
    return list(found)


def _check(address: str, choices: Choices) -> None:
    if address and (len(address) > MAX_ADDRESS or not _ADDRESS.fullmatch(address)):
        raise Invalid("Give an address such as name@example.com, in ASCII.", field="address")
    if unknown := set(choices.kinds) - MAILED.keys():
        raise Invalid(f"There is no mail of the kind {min(unknown)[:64]!r}.", field="kinds")
    if choices.pace not in (SOON, DAILY):
        raise Invalid("Mails come soon or daily.", field="pace")
    if choices.pace == DAILY and choices.daily_at is None:
        raise Invalid("Say at what time the mail of the day comes.", field="daily_at")
    if (choices.quiet_from is None) != (choices.quiet_until is None):
        missing = "quiet_from" if choices.quiet_from is None else "quiet_until"
        raise Invalid("Quiet hours have a begin and an end, or neither.", field=missing)
    if choices.quiet_from is not None and choices.quiet_from == choices.quiet_until:
        raise Invalid("Quiet hours end at another time than they begin.", field="quiet_until")
    if choices.zone not in zones():
        raise Invalid(f"There is no time zone named {choices.zone[:64]!r}.", field="zone")
    if choices.away_until is not None and choices.away_until > datetime.now(UTC) + timedelta(days=AWAY_DAYS):
        raise Invalid(f"You can be away for {AWAY_DAYS} days at most.", field="away_until")


def _choices(row: Mailing) -> Choices:
    return Choices(tuple(row.kinds), row.pace, row.daily_at, row.quiet_from, row.quiet_until, row.zone, row.away_until)


def _shown(row: Mailing) -> dict[str, Any]:
    """What events say of a person's mails: not their addresses."""
    return {
        "kinds": list(row.kinds),
        "pace": row.pace,
        "daily_at": _clock(row.daily_at),
        "quiet": [_clock(row.quiet_from), _clock(row.quiet_until)] if row.quiet_from else [],
        "zone": row.zone,
        "away_until": row.away_until.isoformat() if row.away_until else "",
        "address": bool(row.address),
        "pending": bool(row.pending),
    }


def _clock(at: time | None) -> str:
    return at.isoformat("minutes") if at else ""


def _signer() -> Signer:
    return Signer(settings.SECRET_KEY.encode())

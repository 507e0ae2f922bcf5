"""Which news each person wants, and when: the same for all channels."""

from __future__ import annotations

import zoneinfo
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, time, timedelta
from functools import cache
from typing import Any, Final

from django.db import transaction

from taskhub.core.errors import Invalid, NotFound
from taskhub.core.records import Actor
from taskhub.domain.audit.record import record_event
from taskhub.domain.notices.kinds import PERSONAL
from taskhub.store import statements
from taskhub.store.models import Membership, NoticeChoices

PACE_SECONDS: Final = 60.0
"""Least seconds between two messages to a person on one channel."""
SOON, DAILY = "soon", "daily"

_LOCK = statements.rowcount("lock_addresses")
_AGAIN = statements.rowcount("look_again")


@dataclass(frozen=True, slots=True)
class Choices:
    """Which news a person wants (`kinds`), and when. `pace`: `soon`, or `daily` at `daily_at`. `quiet_from` and
    `quiet_until`: the hours without messages, which may reach into the next day; `None` if there are none. Times of day
    are in the time zone `zone`. `away_until` is stored as the person's absence (`domain.people.absences`).
    `stored`: whether the person's choices are stored; otherwise these are the defaults."""

    kinds: Sequence[str] = tuple(PERSONAL)
    pace: str = SOON
    daily_at: time | None = None
    quiet_from: time | None = None
    quiet_until: time | None = None
    zone: str = "UTC"
    away_until: datetime | None = None
    stored: bool = field(default=False, compare=False)


@cache
def zones() -> tuple[str, ...]:
    """The names of time zones, `UTC` first, without names that exist only for old programs."""
    known = zoneinfo.available_timezones()
    return ("UTC", *sorted(name for name in known if "/" in name and not name.startswith(("Etc/", "SystemV/"))))


def leaves_at(
    choices: Choices, *, queued_at: datetime, sent_at: datetime | None, now: datetime, again: bool = False
) -> datetime:
    """When a message may leave: `now`, or later. `queued_at`: when its first notice was queued. `sent_at`: when the
    person got the last message on the channel; `None` if never. `again`: the message was tried before, so that the pace
    does not hold it up."""
    zone = zoneinfo.ZoneInfo(choices.zone)
    at = now
    if again:
        pass
    elif choices.pace == DAILY and choices.daily_at is not None:
        at = max(at, _next(queued_at, choices.daily_at, zone))
    elif sent_at is not None:
        at = max(at, sent_at + timedelta(seconds=PACE_SECONDS))
    return not_before(choices, at)


def not_before(choices: Choices, at: datetime) -> datetime:
    """`at`; or, if that moment is in the person's quiet hours or absence, the end of these."""
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


def choices_of(tenant_id: int, user_id: int) -> Choices:
    """The choices of a person of the tenant; the defaults if they made none. `away_until` is not read."""
    row = NoticeChoices.objects.filter(membership__tenant_id=tenant_id, membership__user_id=user_id).first()
    return Choices() if row is None else _choices(row)


def choose(*, tenant_id: int, user_id: int, choices: Choices, actor: Actor) -> None:
    """Store a person's choices, and have their waiting notices looked at again. Raises `Invalid`, which names the
    field."""
    _check(choices)
    with transaction.atomic():
        row = locked(tenant_id, user_id)
        before = _shown(row)
        row.kinds = [kind for kind in PERSONAL if kind in choices.kinds]
        row.pace, row.daily_at = choices.pace, choices.daily_at if choices.pace == DAILY else None
        row.quiet_from, row.quiet_until = choices.quiet_from, choices.quiet_until
        row.zone = choices.zone
        row.save()
        after = _shown(row)
        if before != after:
            record_event(
                "notices.chosen", tenant_id=tenant_id, target=actor.name, actor=actor, before=before, after=after
            )
        look_again(row.pk, tenant_id, user_id)


def begin_in(tenant_id: int, user_id: int, zone: str) -> None:
    """Take the time zone of a person's browser as theirs, if none of their choices is stored. A zone that is not known
    changes nothing. Raises `NotFound` if the tenant has no such person."""
    if zone in zones():
        with transaction.atomic():
            locked(tenant_id, user_id, zone=zone)


def locked(tenant_id: int, user_id: int, *, zone: str = "UTC") -> NoticeChoices:
    """The row of a person's choices, locked until the transaction ends. If there is none, it is made, with the time
    zone `zone`. Raises `NotFound` if the tenant has no such person."""
    memberships = Membership.objects.select_for_update(no_key=True)
    membership = memberships.filter(tenant_id=tenant_id, user_id=user_id).first()
    if membership is None:
        raise NotFound("No such person.")
    rows = NoticeChoices.objects.select_for_update(no_key=True)
    row, _ = rows.get_or_create(membership=membership, defaults={"kinds": list(PERSONAL), "zone": zone})
    return row


def lock_addresses(membership_id: int, channel: str | None = None) -> None:
    """Lock a person's address of the channel, or of all channels if it is `None`, until the transaction ends. This has
    to come before any change of the person's notices."""
    _LOCK(membership=membership_id, channel=channel)


def look_again(membership_id: int, tenant_id: int, user_id: int, channel: str | None = None) -> None:
    """Have a person's waiting notices looked at now, because their choices or addresses have changed: on the channel,
    or on all channels if it is `None`."""
    lock_addresses(membership_id, channel)
    _AGAIN(tenant=tenant_id, user=user_id, channel=channel)


def _check(choices: Choices) -> None:
    if unknown := set(choices.kinds) - PERSONAL.keys():
        raise Invalid(f"There is no news of the kind {min(unknown)[:64]!r}.", field="kinds")
    if choices.pace not in (SOON, DAILY):
        raise Invalid("Messages come soon or daily.", field="pace")
    if choices.pace == DAILY and choices.daily_at is None:
        raise Invalid("Say at what time the message of the day comes.", field="daily_at")
    if (choices.quiet_from is None) != (choices.quiet_until is None):
        missing = "quiet_from" if choices.quiet_from is None else "quiet_until"
        raise Invalid("Quiet hours have a begin and an end, or neither.", field=missing)
    if choices.quiet_from is not None and choices.quiet_from == choices.quiet_until:
        raise Invalid("Quiet hours end at another time than they begin.", field="quiet_until")
    if choices.zone not in zones():
        raise Invalid(f"There is no time zone named {choices.zone[:64]!r}.", field="zone")


def _choices(row: NoticeChoices) -> Choices:
    return Choices(tuple(row.kinds), row.pace, row.daily_at, row.quiet_from, row.quiet_until, row.zone, stored=True)


def _shown(row: NoticeChoices) -> dict[str, Any]:
    """What events say of a person's choices."""
    return {
        "kinds": list(row.kinds),
        "pace": row.pace,
        "daily_at": _clock(row.daily_at),
        "quiet": [_clock(row.quiet_from), _clock(row.quiet_until)] if row.quiet_from else [],
        "zone": row.zone,
    }


def _clock(at: time | None) -> str:
    return at.isoformat("minutes") if at else ""

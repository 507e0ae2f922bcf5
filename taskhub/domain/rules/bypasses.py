"""A tenant's bypass: begins it, ends it, and records that its time was over.

A bypass ends at its time by the database's clock, whether or not a worker runs: `close_overdue` only records the end.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Final, NamedTuple

from django.db import transaction

from taskhub.core.bypass import Bypass, checked_minutes, checked_reason
from taskhub.core.errors import NotFound, Refused
from taskhub.core.hints import CatalogueChanged
from taskhub.core.records import Actor
from taskhub.core.states import Door
from taskhub.domain.audit.record import record_event
from taskhub.domain.hints.announce import notify
from taskhub.domain.rules.changes import note_governed
from taskhub.store import statements
from taskhub.store.models import Bypass as Bypasses
from taskhub.store.models import Server

LISTED: Final = 20
"""The most bypasses that the page lists."""
_CLOCK: Final = Actor(name="bypass", door=Door.POLICY)


@dataclass(frozen=True, slots=True)
class PastBypass:
    """A bypass of the tenant, which may be over. `ended_at` is `None` until its end is recorded."""

    id: int
    reason: str
    begun_by: str
    began_at: datetime
    ends_at: datetime
    server_id: int | None
    server: str
    ended_at: datetime | None


class Overdue(NamedTuple):
    """A bypass whose time was over, and whose end has just been recorded."""

    id: int
    tenant_id: int


_PRESENT = statements.maybe("present_bypass", Bypass, without=("over_at",))
_ALL = statements.many("bypasses", PastBypass)
_BEGIN = statements.maybe("begin_bypass", int)
_END = statements.maybe("end_bypass", int)
_CLOSE = statements.many("close_overdue", Overdue)


def present_bypass(tenant_id: int) -> Bypass | None:
    """The bypass that is in force, for people; `None` if there is none. Its `over_at` is not set."""
    return _PRESENT(tenant=tenant_id)


def bypasses(tenant_id: int) -> list[PastBypass]:
    """The newest bypasses of the tenant, newest first."""
    return _ALL(tenant=tenant_id, most=LISTED)


def begin_bypass(tenant_id: int, *, minutes: int, reason: str, server_id: int | None = None, actor: Actor) -> Bypass:
    """For `minutes` minutes, let calls pass that people would be asked about: calls to all servers, or to the server
    `server_id`. The person who begins a bypass may not decide on calls that were made before, as after saving rules.

    Raises `Invalid`, which names the field, `NotFound` for a server that the tenant does not have, or `Refused` if a
    bypass is in force.
    """
    reason, minutes = checked_reason(reason), checked_minutes(minutes)
    with transaction.atomic():
        if server_id is not None:
            kept = Server.objects.filter(tenant_id=tenant_id, pk=server_id, removed_at__isnull=True)
            if server_id >= 2**63 or not kept.exists():
                raise NotFound("There is no such server.")
        _note_ends(_CLOSE(tenant=tenant_id))
        if _BEGIN(tenant=tenant_id, server=server_id, minutes=minutes, reason=reason, made_by=actor.name) is None:
            raise Refused("A bypass is in force already: end it first, or wait for its end.")
        begun = present_bypass(tenant_id)
        assert begun is not None  # it was just begun, and takes a minute at least
        note_governed(tenant_id, actor)
        after = begun.stored()
        after = {"bypass": after["id"], "until": after["until"], "reason": reason, "minutes": minutes}
        if begun.server:
            after["server"] = begun.server
        record_event(
            "rules.bypass.started",
            tenant_id=tenant_id,
            target="rules",
            actor=replace(actor, reason=reason),
            after=after,
        )
        notify(CatalogueChanged())
    return begun


def end_bypass(tenant_id: int, bypass_id: int, *, actor: Actor) -> None:
    """End the bypass before its time. Calls that it let pass and that no worker has taken are decided again. Raises
    `NotFound`, or `Refused` if it is over already."""
    with transaction.atomic():
        if bypass_id >= 2**63 or not Bypasses.objects.filter(tenant_id=tenant_id, pk=bypass_id).exists():
            raise NotFound("There is no such bypass.")
        if _END(tenant=tenant_id, bypass=bypass_id) is None:
            raise Refused("This bypass is over already.")
        _note(tenant_id, bypass_id, actor, in_time=False)
        notify(CatalogueChanged())


def close_overdue() -> int:
    """Record the ends of all bypasses whose time is over. Returns how many there were."""
    with transaction.atomic():
        over = _CLOSE(tenant=None)
        _note_ends(over)
        if over:
            notify(CatalogueChanged())
    return len(over)


def _note_ends(over: list[Overdue]) -> None:
    for one in over:
        _note(one.tenant_id, one.id, _CLOCK, in_time=True)


def _note(tenant_id: int, bypass_id: int, actor: Actor, *, in_time: bool) -> None:
    after = {"bypass": bypass_id, "in_time": in_time}
    record_event("rules.bypass.ended", tenant_id=tenant_id, target="rules", actor=actor, after=after)


def minutes_left(bypass: Bypass) -> int:
    """The minutes until the bypass is over, at least 1: for people."""
    return max(1, round((bypass.ends_at - datetime.now(UTC)).total_seconds() / 60))

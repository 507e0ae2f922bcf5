"""Who is away, until when, and who stands in for them: their deputy."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from django.db import transaction

from taskhub.core.errors import Invalid, NotFound, Refused
from taskhub.core.records import Actor
from taskhub.domain.audit.record import record_event
from taskhub.store import statements
from taskhub.store.models import Absence, Membership

AWAY_DAYS: Final = 366


@dataclass(frozen=True, slots=True)
class Away:
    """An absence of `person`. `deputy`: whom the person has named; empty if nobody."""

    person: str
    until: datetime
    deputy: str


_STANDS_IN = statements.many("stands_in_for", Away)


def absence_of(tenant_id: int, user_id: int) -> Away | None:
    """The absence of a person of the tenant; `None` if they are not away."""
    return next(_present(membership__tenant_id=tenant_id, membership__user_id=user_id), None)


def stands_in_for(tenant_id: int, user_id: int) -> tuple[Away, ...]:
    """The absences of people who have named this person as their deputy, ordered by name."""
    return tuple(_STANDS_IN(tenant=tenant_id, user=user_id))


def possible_deputies(tenant_id: int, user_id: int, roles: Sequence[str]) -> tuple[str, ...]:
    """The names of the other people of the tenant who have one of these roles and are not disabled."""
    found = Membership.objects.filter(tenant_id=tenant_id, role__in=roles, user__is_active=True)
    return tuple(found.exclude(user_id=user_id).order_by("user__username").values_list("user__username", flat=True))


def go_away(*, tenant_id: int, user_id: int, until: datetime, deputy: str, roles: Sequence[str], actor: Actor) -> None:
    """Store that the person is away until `until`, in place of an earlier absence. `deputy`: the name of somebody who
    has one of `roles`; empty for no deputy. Raises `Invalid`, which names the field, or `NotFound`."""
    now = datetime.now(UTC)
    if not now < until <= now + timedelta(days=AWAY_DAYS):
        raise Invalid(f"Give a time in the future, at most {AWAY_DAYS} days from now.", field="until")
    with transaction.atomic():
        own = Membership.objects.select_for_update(no_key=True).filter(tenant_id=tenant_id, user_id=user_id).first()
        if own is None:
            raise NotFound("No such person.")
        named = None
        if deputy and deputy in possible_deputies(tenant_id, user_id, roles):
            named = Membership.objects.get(tenant_id=tenant_id, user__username=deputy)
        elif deputy:
            raise Invalid("Choose somebody else who may approve calls.", field="deputy")
        before = absence_of(tenant_id, user_id)
        Absence.objects.update_or_create(membership=own, defaults={"until": until, "deputy": named})
        after = Away(actor.name, until, deputy)
        if before != after:
            record_event(
                "person.away",
                tenant_id=tenant_id,
                target=actor.name,
                actor=actor,
                before=_shown(before),
                after=_shown(after),
            )


def come_back(*, tenant_id: int, user_id: int, actor: Actor) -> None:
    """End the absence of the person. From then on no deputy decides for them. Raises `Refused` if they are not away."""
    with transaction.atomic():
        rows = Absence.objects.select_for_update(of=("self",))
        row = rows.filter(membership__tenant_id=tenant_id, membership__user_id=user_id).first()
        before = absence_of(tenant_id, user_id)
        if row is not None:
            row.delete()
        if before is None:
            raise Refused("You are not away.")
        record_event("person.back", tenant_id=tenant_id, target=actor.name, actor=actor, before=_shown(before))


def _present(**whose: Any) -> Any:
    found = Absence.objects.filter(until__gt=datetime.now(UTC), **whose).order_by("membership__user__username")
    for name, until, deputy in found.values_list("membership__user__username", "until", "deputy__user__username"):
        yield Away(name, until, deputy or "")


def _shown(away: Away | None) -> dict[str, Any]:
    return {"until": away.until.isoformat() if away else "", "deputy": away.deputy if away else ""}

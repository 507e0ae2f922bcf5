"""Use cases of absences: a person says that they are away, names a deputy, and says that they are back."""

from __future__ import annotations

from datetime import datetime

from django.db import transaction

from taskhub.control.caller import Caller
from taskhub.core.errors import Invalid, Refused
from taskhub.core.permissions import roles_with
from taskhub.domain.notices import choices
from taskhub.domain.people import absences
from taskhub.domain.people.absences import Away


def own_absence(caller: Caller) -> Away | None:
    """Until when the caller is away, and their deputy; `None` if they are not."""
    return absences.absence_of(caller.tenant_id, _own(caller))


def stands_in_for(caller: Caller) -> tuple[Away, ...]:
    """The people who are away and for whom the caller decides as their deputy. Empty if the caller may not approve."""
    if caller.person is None or not caller.may("question.approve"):
        return ()
    return absences.stands_in_for(caller.tenant_id, caller.person.user_id)


def possible_deputies(caller: Caller) -> tuple[str, ...]:
    """The usernames of those whom the caller may name as deputy: all others who may approve calls. Empty if the caller
    may not approve."""
    if not caller.may("question.approve"):
        return ()
    return absences.possible_deputies(caller.tenant_id, _own(caller), roles_with("question.approve"))


def go_away(caller: Caller, until: datetime, deputy: str = "") -> None:
    """Store that the caller is away until `until`. Before that time no message comes, and `deputy`, if one is named,
    decides for them too. Raises `Invalid` naming the field."""
    user_id = _own(caller)
    if deputy and not caller.may("question.approve"):
        raise Invalid("Your role does not approve calls, so nobody can approve them for you.", field="deputy")
    absences.go_away(
        tenant_id=caller.tenant_id,
        user_id=user_id,
        until=until,
        deputy=deputy,
        roles=roles_with("question.approve"),
        actor=caller.actor,
    )


def come_back(caller: Caller) -> None:
    """End the caller's absence: from now on their deputy decides nothing for them, and messages come again. Raises
    `Refused` if the caller is not away."""
    user_id = _own(caller)
    with transaction.atomic():
        absences.come_back(tenant_id=caller.tenant_id, user_id=user_id, actor=caller.actor)
        row = choices.locked(caller.tenant_id, user_id)
        choices.look_again(row.pk, caller.tenant_id, user_id)


def _own(caller: Caller) -> int:
    if caller.person is None:
        raise Refused("An absence is a person's own: they say so in the console, under their account.")
    return caller.person.user_id

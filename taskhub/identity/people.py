"""People: who may sign in, as what. Accounts are made here and by commands, never by strangers."""

from __future__ import annotations

import re
import secrets
from collections.abc import Sequence
from typing import Any, Final

from django.contrib.auth import get_user_model
from django.db import IntegrityError, connection, transaction

from taskhub.core.errors import Invalid, NotFound, Refused
from taskhub.core.names import HINT_CHANNEL
from taskhub.core.records import Actor
from taskhub.core.states import Role
from taskhub.lifecycle.events import record_event
from taskhub.store.models import Membership

MAX_GROUPS: Final = 20
_USERNAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9@.+_-]{0,149}")
_GROUP = re.compile(r"[\w][\w .@+-]{0,63}")
_WORDS: Final = "abcdefghjkmnpqrstuvwxyz23456789"
"""Letters of a generated password: none that are mistaken for another when read aloud."""


def add_person(
    *, tenant_id: int, username: str, role: str, groups: Sequence[str] = (), actor: Actor
) -> tuple[int, str]:
    """A new person in the tenant: the user's id and the generated password, which is stored as
    a hash only and cannot be shown again.

    Raises `Invalid` naming the field, or `Refused` for a username that is taken.
    """
    username = username.strip()
    if not _USERNAME.fullmatch(username):
        raise Invalid(
            "A username has 1 to 150 letters, digits or the signs @ . + - _, the first a letter or digit.",
            field="username",
        )
    wanted = _role(role)
    names = _groups(groups)
    users: Any = get_user_model()
    password = "-".join("".join(secrets.choice(_WORDS) for _ in range(5)) for _ in range(4))
    with transaction.atomic():
        # Names that differ in case only would be told apart by nobody.
        if users.objects.filter(username__iexact=username).exists():
            raise Refused(f"There is a person named {username} already.", field="username")
        try:
            with transaction.atomic():
                user = users.objects.create_user(username=username, password=password)
        except IntegrityError:
            raise Refused(f"There is a person named {username} already.", field="username") from None
        Membership.objects.create(tenant_id=tenant_id, user=user, role=wanted, groups=names)
        record_event(
            "person.added", tenant_id=tenant_id, target=username, actor=actor, after={"role": wanted, "groups": names}
        )
        _announce()
    return int(user.pk), password


def set_role(*, tenant_id: int, user_id: int, role: str, groups: Sequence[str] | None = None, actor: Actor) -> bool:
    """Give a person another role, and other groups unless `groups` is `None`; it counts from the
    person's next request. `False`: nothing differed.

    Raises `NotFound`, `Invalid`, or `Refused` when the tenant would be left without an admin.
    """
    wanted = _role(role)
    names = None if groups is None else _groups(groups)
    with transaction.atomic():
        # All rows of the tenant are locked in one order: two admins who demote each other at the
        # same moment would otherwise both find the other still in office.
        rows = list(
            Membership.objects.select_for_update(of=("self",))
            .select_related("user")
            .filter(tenant_id=tenant_id)
            .order_by("id")
        )
        found = next((row for row in rows if row.user_id == user_id), None)
        if found is None:
            raise NotFound("No such person.")
        before: dict[str, object] = {"role": found.role, "groups": list(found.groups)}
        after: dict[str, object] = {"role": wanted.value, "groups": before["groups"] if names is None else names}
        if before == after:
            return False
        admins = [row for row in rows if row.role == Role.ADMIN and row.user.is_active]
        if wanted is not Role.ADMIN and [row.pk for row in admins] == [found.pk]:
            raise Refused(f"{found.user.get_username()} is the only admin; make somebody else admin first.")
        found.role = wanted
        if names is not None:
            found.groups = names
        found.save(update_fields=["role", "groups"])
        record_event(
            "person.role.changed",
            tenant_id=tenant_id,
            target=found.user.get_username(),
            actor=actor,
            before=before,
            after=after,
        )
        _announce()
    return True


def _role(role: str) -> Role:
    try:
        return Role(role)
    except ValueError:
        raise Invalid(f"Choose one of: {', '.join(Role)}.", field="role") from None


def _groups(groups: Sequence[str]) -> list[str]:
    names = sorted({name.strip() for name in groups if name.strip()})
    wrong = next((name for name in names if not _GROUP.fullmatch(name)), None)
    if wrong is not None:
        raise Invalid(
            f"{wrong[:70]!r} is no group's name: up to 64 letters, digits, spaces or the signs _ . @ + -.",
            field="groups",
        )
    if len(names) > MAX_GROUPS:
        raise Invalid(f"A person is in at most {MAX_GROUPS} groups.", field="groups")
    return names


def _announce() -> None:
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_notify(%s, 'p')", [HINT_CHANNEL])


def has_people(tenant_id: int) -> bool:
    """Whether anybody may sign in to the tenant."""
    return Membership.objects.filter(tenant_id=tenant_id).exists()

"""People: their accounts and roles. Accounts are made here and by commands, never by a sign-up.

Neither the person who gives somebody a role, groups, a password or access, nor the person who gets it, decides on calls
that were made before (`th_barred` in `domain/questions/functions.sql`)."""

from __future__ import annotations

import re
import secrets
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final

from django.contrib.auth import get_user_model
from django.contrib.auth.password_validation import validate_password
from django.core.exceptions import ValidationError
from django.db import IntegrityError, transaction

from taskhub.core.errors import Invalid, NotFound, Refused
from taskhub.core.hints import StandingChanged
from taskhub.core.records import Actor
from taskhub.core.states import Role
from taskhub.domain.audit.record import record_event
from taskhub.domain.hints.announce import notify
from taskhub.domain.oauth.consents import forget_person
from taskhub.domain.people import factors
from taskhub.domain.rules.changes import note_governed
from taskhub.store.models import Membership, ServerGrant, Tenant

MAX_GROUPS: Final = 20
_USERNAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9@.+_-]{0,149}")
_GROUP = re.compile(r"[\w][\w .@+-]{0,63}")
_LETTERS: Final = "abcdefghjkmnpqrstuvwxyz23456789"
"""Characters of a generated password, without those that are easily confused."""


def add_person(
    *,
    tenant_id: int,
    username: str,
    role: str,
    groups: Sequence[str] = (),
    actor: Actor,
    password_due: bool = True,
    with_password: bool = True,
) -> tuple[int, str]:
    """Add a person to the tenant. Returns the user id and the generated password, which is stored as a hash only and
    cannot be shown again. With `password_due`, the person has to choose another password before anything else. If
    `with_password` is false, the returned password is empty, and nobody can sign in as the person until `give_password`
    is called.

    Raises `Invalid`, which names the field, or `Refused` for a username that is taken.
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
    password = _generated() if with_password else None
    with transaction.atomic():
        # The case of letters is ignored, because people could not tell apart two names that differ only in case.
        user = users.objects.select_for_update().filter(username__iexact=username).first()
        if user is not None:
            if user.is_active or user.has_usable_password() or Membership.objects.filter(user=user).exists():
                raise Refused(f"There is a person named {username} already.", field="username")
            # The account of a removed person is used again: so a name in the log always stands for one account, which
            # cannot decide a question twice.
            user.is_active = True
            user.set_password(password)
            user.save(update_fields=["is_active", "password"])
        else:
            try:
                with transaction.atomic():
                    user = users.objects.create_user(username=username, password=password)
            except IntegrityError:
                raise Refused(f"There is a person named {username} already.", field="username") from None
        Membership.objects.create(tenant_id=tenant_id, user=user, role=wanted, groups=names, password_due=password_due)
        note_governed(tenant_id, actor)
        record_event(
            "person.added",
            tenant_id=tenant_id,
            target=user.get_username(),
            actor=actor,
            after={"role": wanted, "groups": names},
        )
        notify(StandingChanged())
    return int(user.pk), password or ""


def set_role(*, tenant_id: int, user_id: int, role: str, groups: Sequence[str] | None = None, actor: Actor) -> bool:
    """Set a person's role, and their groups unless `groups` is `None`; it takes effect at the person's next request.
    Returns `False` if nothing differed.

    Raises `NotFound`, `Invalid`, or `Refused` when the tenant would be left without an admin.
    """
    wanted = _role(role)
    names = None if groups is None else _groups(groups)
    with _changing(tenant_id, user_id) as found:
        before: dict[str, object] = {"role": found.role, "groups": list(found.groups)}
        after: dict[str, object] = {"role": wanted.value, "groups": before["groups"] if names is None else names}
        if before == after:
            return False
        if wanted is not Role.ADMIN:
            _leaves_an_admin(found)
        found.role = wanted
        if names is not None:
            found.groups = names
        found.save(update_fields=["role", "groups"])
        note_governed(tenant_id, actor)
        record_event(
            "person.role.changed",
            tenant_id=tenant_id,
            target=found.user.get_username(),
            actor=actor,
            before=before,
            after=after,
        )
        notify(StandingChanged())
    return True


def find_person(tenant_id: int, username: str) -> int:
    """The user id of a person with a role; the case of `username` is ignored. Raises `NotFound`."""
    found = Membership.objects.filter(tenant_id=tenant_id, user__username__iexact=username.strip()).first()
    if found is None:
        raise NotFound(f"There is no person named {username}; `manage.py person list` names all.")
    return int(found.user_id)


def disable(*, tenant_id: int, user_id: int, actor: Actor) -> bool:
    """Disable a person's account until `enable`. They, and the programs that act for them, are signed out everywhere at
    once. Returns `False` if the account was disabled already.

    Raises `NotFound`, or `Refused` when the tenant would be left without an admin.
    """
    return _set_active(tenant_id, user_id, active=False, actor=actor)


def enable(*, tenant_id: int, user_id: int, actor: Actor) -> bool:
    """Let a disabled person sign in again, with their role and groups. Returns `False` if the account was not disabled.
    Raises `NotFound`."""
    return _set_active(tenant_id, user_id, active=True, actor=actor)


def remove(*, tenant_id: int, user_id: int, actor: Actor) -> str:
    """Remove a person from the tenant: deletes their role, their grants at its servers and, if the role was the last
    one, their consents to programs, and signs them out everywhere at once. The account is disabled, not deleted, so
    that the username in decisions and events stays theirs. Returns the username.

    Raises `NotFound`, or `Refused` when the tenant would be left without an admin.
    """
    with _changing(tenant_id, user_id) as found:
        _leaves_an_admin(found)
        user = found.user
        found.delete()
        ServerGrant.objects.filter(user=user, server__tenant_id=tenant_id).delete()
        if not Membership.objects.filter(user=user).exists():
            user.is_active = False
            user.set_unusable_password()
            user.save(update_fields=["is_active", "password"])
            forget_person(user.pk)
            factors.forget(user.pk)
        record_event(
            "person.removed",
            tenant_id=tenant_id,
            target=user.get_username(),
            actor=actor,
            before={"role": found.role, "groups": list(found.groups)},
        )
        notify(StandingChanged())
    return str(user.get_username())


def give_password(*, tenant_id: int, user_id: int, password: str = "", actor: Actor) -> tuple[str, str]:
    """Give a person another password: `password`, or a generated one if it is empty. Returns their username and the
    password. Ends all their browser sessions; at the next sign-in they have to choose a password of their own.

    Raises `NotFound`, or `Invalid` saying what is wrong with the password.
    """
    with _changing(tenant_id, user_id) as found:
        user = found.user
        try:
            validate_password(password or (password := _generated()), user)
        except ValidationError as error:
            raise Invalid(" ".join(error.messages), field="password") from None
        user.set_password(password)
        user.save(update_fields=["password"])
        found.password_due = True
        found.save(update_fields=["password_due"])
        note_governed(tenant_id, actor)
        record_event("person.password.set", tenant_id=tenant_id, target=user.get_username(), actor=actor)
    return str(user.get_username()), password


def _set_active(tenant_id: int, user_id: int, *, active: bool, actor: Actor) -> bool:
    with _changing(tenant_id, user_id) as found:
        user = found.user
        if user.is_active == active:
            return False
        if not active:
            _leaves_an_admin(found)
        user.is_active = active
        user.save(update_fields=["is_active"])
        if active:
            note_governed(tenant_id, actor)
        record_event(
            "person.enabled" if active else "person.disabled",
            tenant_id=tenant_id,
            target=user.get_username(),
            actor=actor,
            before={"active": not active},
            after={"active": active},
        )
        notify(StandingChanged())
    return True


@contextmanager
def _changing(tenant_id: int, user_id: int) -> Iterator[Membership]:
    """Yield the person's membership in a transaction that locks the tenant against other changes of people. Without the
    lock, two admins who disable each other at the same moment would both succeed, and no admin would be left. A guard
    in the database (`store/sql/guards.sql`) enforces the same for other changes. Raises `NotFound`.
    """
    with transaction.atomic():
        list(Tenant.objects.select_for_update(no_key=True).filter(pk=tenant_id))
        found = Membership.objects.select_related("user").filter(tenant_id=tenant_id, user_id=user_id).first()
        if found is None:
            raise NotFound("No such person.")
        yield found


def _leaves_an_admin(leaving: Membership) -> None:
    if leaving.role != Role.ADMIN or not leaving.user.is_active:
        return
    others = Membership.objects.filter(tenant_id=leaving.tenant_id, role=Role.ADMIN, user__is_active=True)
    if not others.exclude(pk=leaving.pk).exists():
        raise Refused(f"{leaving.user.get_username()} is the only admin; make somebody else admin first.")


def _generated() -> str:
    return "-".join("".join(secrets.choice(_LETTERS) for _ in range(5)) for _ in range(4))


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


def has_people(tenant_id: int) -> bool:
    """Whether the tenant has any person."""
    return Membership.objects.filter(tenant_id=tenant_id).exists()

"""Use cases for people: accounts, roles, groups, passwords."""

from __future__ import annotations

from collections.abc import Sequence

from taskhub.control.caller import Caller
from taskhub.core.errors import NotFound
from taskhub.domain.people import writes


def add_person(
    caller: Caller,
    *,
    username: str,
    role: str,
    groups: Sequence[str] = (),
    password_due: bool = True,
    with_password: bool = True,
) -> tuple[int, str]:
    """Add a person. Returns the user id and the generated password, which cannot be shown again. With `password_due`,
    the person has to choose another password before anything else. Unless `with_password`, they have no password, and
    nobody can sign in as them before `set_password`.

    Raises `Forbidden`, `Invalid` naming the field, or `Refused` for a username that is taken.
    """
    caller.require("settings.view", f"add person {username}")
    return writes.add_person(
        tenant_id=caller.tenant_id,
        username=username,
        role=role,
        groups=groups,
        password_due=password_due,
        with_password=with_password,
        actor=caller.actor,
    )


def find_person(caller: Caller, username: str) -> int:
    """The user id of a person with a role; the case of `username` is ignored. Raises `Forbidden` or `NotFound`."""
    caller.require("settings.view", f"find person {username}")
    return writes.find_person(caller.tenant_id, username)


def set_role(caller: Caller, user_id: int, role: str, groups: Sequence[str] | None = None) -> bool:
    """Set a person's role, and their groups unless `groups` is `None`; it takes effect at the person's next request.
    Returns `False` if nothing differed.

    Raises `Forbidden`, `NotFound`, `Invalid`, or `Refused` when the tenant would be left without an admin.
    """
    _may_change(caller, user_id, "set the role of")
    return writes.set_role(tenant_id=caller.tenant_id, user_id=user_id, role=role, groups=groups, actor=caller.actor)


def disable_person(caller: Caller, user_id: int) -> bool:
    """Disable a person's account. The person, and the programs that act for them, are signed out everywhere at once.
    Returns `False` if the account was disabled already.

    Raises `Forbidden`, `NotFound`, or `Refused` when the tenant would be left without an admin.
    """
    _may_change(caller, user_id, "disable")
    return writes.disable(tenant_id=caller.tenant_id, user_id=user_id, actor=caller.actor)


def enable_person(caller: Caller, user_id: int) -> bool:
    """Let a disabled person sign in again. Returns `False` if the account was not disabled. Raises `Forbidden` or
    `NotFound`."""
    _may_change(caller, user_id, "enable")
    return writes.enable(tenant_id=caller.tenant_id, user_id=user_id, actor=caller.actor)


def remove_person(caller: Caller, user_id: int) -> str:
    """Remove a person from the tenant, with their role and their consents to programs. Returns their username, which
    the audit log keeps.

    Raises `Forbidden`, `NotFound`, or `Refused` when the tenant would be left without an admin.
    """
    _may_change(caller, user_id, "remove")
    return writes.remove(tenant_id=caller.tenant_id, user_id=user_id, actor=caller.actor)


def set_password(caller: Caller, user_id: int, password: str = "") -> tuple[str, str]:
    """Give a person another password, a generated one if `password` is empty. Returns their username and the password.
    Ends all their browser sessions; at the next sign-in they have to choose a password of their own.

    Raises `Forbidden`, `NotFound`, or `Invalid` saying what is wrong with the password.
    """
    _may_change(caller, user_id, "set the password of")
    return writes.give_password(tenant_id=caller.tenant_id, user_id=user_id, password=password, actor=caller.actor)


def _may_change(caller: Caller, user_id: int, what: str) -> None:
    caller.require("settings.view", f"{what} person {user_id}")
    if user_id >= 2**63:
        raise NotFound("No such person.")

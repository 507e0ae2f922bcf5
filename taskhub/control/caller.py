"""Who uses a use case, and whether they may."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

from taskhub.core import permissions
from taskhub.core.errors import Forbidden
from taskhub.core.records import Actor, Person
from taskhub.core.states import Door
from taskhub.domain.audit.record import record_denial
from taskhub.domain.clients.principals import default_tenant

SHELL: Final = "manage.py"
"""What the audit log calls whoever runs a command."""


@dataclass(frozen=True, slots=True)
class Caller:
    """A person with a role, or, where `person` is `None`, the shell of a machine that has the secret key and the
    database: it may do everything."""

    tenant_id: int
    actor: Actor
    person: Person | None = None

    def may(self, permission: str) -> bool:
        """Whether the caller has the permission."""
        return self.person is None or permissions.allows(self.person, permission)

    def require(self, permission: str, what: str) -> None:
        """Raises `Forbidden` unless the caller has the permission; the audit log then has what they wanted, `what`."""
        if not self.may(permission):
            role = "" if self.person is None else self.person.role
            raise self.refused(what, f"Your role, {role}, does not include this.", permission)

    def refused(self, what: str, message: str, permission: str = "") -> Forbidden:
        """The error for somebody who may not do `what`; it is on record, with the permission that they lack."""
        record_denial(tenant_id=self.tenant_id, what=what, lacking=permission, actor=self.actor)
        return Forbidden(message, permission=permission)

    def because(self, reason: str) -> Actor:
        """The actor, with a reason for the audit log."""
        return replace(self.actor, reason=reason)


def of_person(person: Person, *, door: Door, address: str = "") -> Caller:
    """The caller for a signed-in person, who came in by `door`."""
    actor = Actor(name=person.username, door=door, address=address, user_id=person.user_id)
    return Caller(person.tenant_id, actor, person)


def of_shell(name: str = SHELL) -> Caller:
    """The caller for a command, in the default tenant."""
    return Caller(default_tenant().pk, Actor(name=name, door=Door.CLI))

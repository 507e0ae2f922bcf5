"""`Caller`: the person or shell that calls a use case, and the check of its permissions."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from typing import Final

from taskhub.core import permissions
from taskhub.core.errors import Forbidden
from taskhub.core.records import Actor, Confirmed, Person
from taskhub.core.states import Door
from taskhub.domain.audit.record import record_denial
from taskhub.domain.clients.principals import default_tenant

SHELL: Final = "manage.py"
"""The actor's name in the audit log for a command of `manage.py`."""
CONFIRMED_SECONDS: Final = 300
"""For how many seconds a confirmed second factor counts, in the browser session in which it was confirmed."""
_AHEAD_SECONDS: Final = 60
"""By how many seconds the clock of the web process in which a factor was confirmed may be ahead of this one's clock."""


@dataclass(frozen=True, slots=True)
class Caller:
    """A person with a role. If `person` is `None`, a shell on the hub's machine, which may do everything, since it has
    the secret key and the database."""

    tenant_id: int
    actor: Actor
    person: Person | None = None
    for_file: bool = False
    """Whether the caller is applying a file of configuration (`control.configuration`)."""

    def may(self, permission: str) -> bool:
        """Whether the caller has the permission."""
        return self.person is None or permissions.allows(self.person, permission)

    def require(self, permission: str, what: str) -> None:
        """Raise `Forbidden` unless the caller has the permission. The audit log records the refused action, `what`."""
        if not self.may(permission):
            role = "" if self.person is None else self.person.role
            raise self.refused(what, f"Your role, {role}, does not include this.", permission)

    def refused(self, what: str, message: str, permission: str = "") -> Forbidden:
        """Record that the caller was refused `what` for lack of `permission`. Returns the error to raise."""
        record_denial(tenant_id=self.tenant_id, what=what, lacking=permission, actor=self.actor)
        return Forbidden(message, permission=permission)

    def because(self, reason: str) -> Actor:
        """The actor, with a reason for the audit log."""
        return replace(self.actor, reason=reason)


def of_person(person: Person, *, door: Door, address: str = "", confirmed: Confirmed | None = None) -> Caller:
    """The caller for a signed-in person who came in by `door`. `confirmed`: the last confirmation of their second
    factor in this session, which counts for `CONFIRMED_SECONDS`."""
    fresh = confirmed is not None and -_AHEAD_SECONDS < time.time() - confirmed.at < CONFIRMED_SECONDS
    factor = confirmed.factor if confirmed is not None and fresh else None
    actor = Actor(name=person.username, door=door, address=address, user_id=person.user_id, factor=factor)
    return Caller(person.tenant_id, actor, person)


def of_shell(name: str = SHELL) -> Caller:
    """The caller for a command, in the default tenant."""
    return Caller(default_tenant().pk, Actor(name=name, door=Door.CLI))

"""The permissions of each role, in one table.

`control` looks a permission up before it changes anything, and a page before it shows anything. Access to rows is
enforced by the queries, which filter by tenant or client: a row of another tenant gives the same answer as one that
does not exist.
"""

from __future__ import annotations

from typing import Final

from taskhub.core.names import APPROVALS_SCOPE, SCOPES
from taskhub.core.records import Person
from taskhub.core.states import Role

_SEE: Final = frozenset({"task.view", "server.view", "worker.view"})
_OPERATE: Final = _SEE | {"task.cancel", "task.rerun", "question.answer", "client.view"}

PERMISSIONS: Final[dict[Role, frozenset[str]]] = {
    Role.VIEWER: _SEE,
    Role.OPERATOR: _OPERATE,
    Role.APPROVER: _SEE | {"question.answer", "question.approve"},
    Role.AUDITOR: _SEE | {"audit.view", "audit.export", "client.view"},
    Role.ADMIN: _OPERATE
    | {
        "question.approve",
        "audit.view",
        "audit.export",
        "client.manage",
        "server.manage",
        "settings.view",
    },
}
"""The permissions of each role. `settings.view` covers the pages of people and limits."""

SCOPE_NEEDS: Final[dict[str, str]] = {
    "tasks:call": "task.rerun",
    "tasks:read": "task.view",
    "tasks:answer": "question.answer",
    "tasks:cancel": "task.cancel",
    APPROVALS_SCOPE: "task.rerun",
}
"""For each scope, the permission that a person needs to grant it to a program: nobody may grant more than they may do
themselves. `tasks:call` needs `task.rerun`, which lets a person make a tool run; so does the scope with which a program
gets permits."""


def grantable(role: str) -> tuple[str, ...]:
    """The scopes that a person with this role may give a program."""
    return tuple(scope for scope in SCOPES if SCOPE_NEEDS[scope] in PERMISSIONS[Role(role)])


def roles_with(permission: str) -> tuple[Role, ...]:
    """The roles that have the permission."""
    return tuple(role for role in Role if permission in PERMISSIONS[role])


def allows(person: Person, permission: str) -> bool:
    """Whether the person's role has the permission."""
    return permission in PERMISSIONS[Role(person.role)]

"""People, groups, and the settings in force with where each comes from."""

from __future__ import annotations

import os
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from django.conf import settings

from taskhub.core.states import Role
from taskhub.store.models import Membership

MEMBERS_SHOWN = 1_000


@dataclass(frozen=True, slots=True)
class Member:
    """A person with a role in the tenant."""

    user_id: int
    username: str
    role: Role
    groups: tuple[str, ...]
    active: bool
    joined_at: datetime
    last_login_at: datetime | None


@dataclass(frozen=True, slots=True)
class Group:
    """People who approve together."""

    name: str
    members: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Setting:
    """A value in force. `variable` is the environment variable that sets it; `is_set` tells
    whether it does, otherwise the value is the default.
    """

    title: str
    value: str
    variable: str
    is_set: bool
    about: str


_LIMITS: Final = (
    ("TASKHUB_CONTEXT_LIVE", "Live tasks per client", "", "A client with more is refused until some have ended."),
    ("TASKHUB_CONTEXT_RUNNING", "Running tasks per client", "", "More wait their turn in the queue."),
    ("TASKHUB_CONTEXT_REQUESTS", "Requests a second per client", "", "At each web process; 0 for no limit."),
    ("TASKHUB_CONTEXT_KIB", "Requests per client", " KiB a second", "At each web process; 0 for no limit."),
    ("TASKHUB_INLINE_WAIT_MS", "Wait before a handle", " ms", "How long a call in auto mode may answer directly."),
    ("TASKHUB_LEASE_SECONDS", "Lease of a task", " s", "A worker silent for longer loses its tasks."),
    ("TASKHUB_SLOTS", "Slots per worker", "", "Tools that one worker runs at once."),
    ("TASKHUB_LANES", "Database threads per web process for /mcp", "", ""),
    ("TASKHUB_PAGE_LANES", "Database threads per web process for pages", "", ""),
    ("TASKHUB_MAX_BODY", "Largest request", " bytes", "Larger requests are refused."),
    ("TASKHUB_OAUTH_TOKEN_SECONDS", "Access token of a sign-in", " s", "Programs refresh theirs by themselves."),
    ("TASKHUB_OAUTH_REFRESH_DAYS", "Unused sign-in of a program", " days", "Then a person is asked again."),
    ("TASKHUB_RETENTION_DAYS", "History kept", " days", "Ended tasks are purged afterwards; the audit log is not."),
)
_SERVICE: Final = (
    ("PUBLIC_URL", "Public address", "", "Shown to clients and put into links."),
    ("ALLOWED_HOSTS", "Host names answered", "", ""),
    ("ALLOWED_ORIGINS", "Sites whose pages may call /mcp", "", ""),
    ("TASKHUB_REVISIONS", "Protocol revisions", "", ""),
    ("TASKHUB_ANONYMOUS", "Calls without a token", "", "For trials only: all callers share one context."),
    ("TASKHUB_OAUTH", "Built-in authorization server", "", "People sign programs in with their browser."),
    ("TASKHUB_OAUTH_REGISTRATION", "Programs register themselves", "", "Without anybody being asked."),
    ("OIDC_ISSUER", "Outside issuer", "", "Its JWTs are accepted."),
    ("TRUSTED_PROXIES", "Trusted proxies", "", "How many are believed about a caller's address."),
    ("LOG_LEVEL", "Log level", "", ""),
    ("DEBUG", "Debug pages", "", "Never in production."),
)
_SECRETS: Final = (
    ("SECRET_KEY", "Signing key", "Signs sessions, cursors and audit seals."),
    ("DATABASE_URL", "Database", "Unset: the embedded Postgres in the data directory."),
)
_ELSEWHERE: Final = {"TRUSTED_PROXIES": "ALLAUTH_TRUSTED_PROXY_COUNT"}
"""Variables whose setting has another name."""


def members(tenant_id: int) -> tuple[Member, ...]:
    """Everybody with a role in the tenant, by name."""
    rows = Membership.objects.filter(tenant_id=tenant_id).select_related("user").order_by("user__username")
    return tuple(
        Member(
            user_id=row.user_id,
            username=row.user.get_username(),
            role=Role(row.role),
            groups=tuple(row.groups),
            active=row.user.is_active,
            joined_at=row.user.date_joined,
            last_login_at=row.user.last_login,
        )
        for row in rows[:MEMBERS_SHOWN]
    )


def groups_of(people: tuple[Member, ...]) -> tuple[Group, ...]:
    """The groups of these people, by name."""
    found: dict[str, list[str]] = {}
    for person in people:
        for name in person.groups:
            found.setdefault(name, []).append(person.username)
    return tuple(Group(name, tuple(found[name])) for name in sorted(found))


def limits() -> tuple[Setting, ...]:
    """What TaskHub allows at most, and for how long."""
    return tuple(_setting(*line) for line in _LIMITS)


def service() -> tuple[Setting, ...]:
    """How this installation is reached; secrets say only whether they are set."""
    plain = tuple(_setting(*line) for line in _SERVICE)
    return plain + tuple(
        Setting(title, "set" if _is_set(name) else "from the data directory", name, _is_set(name), about)
        for name, title, about in _SECRETS
    )


def _setting(variable: str, title: str, unit: str, about: str) -> Setting:
    value = getattr(settings, _ELSEWHERE.get(variable, variable))
    if isinstance(value, bool):
        text = "yes" if value else "no"
    elif isinstance(value, int):
        text = f"{value:,}{unit}"
    elif isinstance(value, (list, tuple)):
        text = ", ".join(map(str, value))
    else:
        text = str(value)
    return Setting(title, text or "not set", variable, _is_set(variable), about)


def _is_set(variable: str) -> bool:
    return bool(os.environ.get(variable) or os.environ.get(f"{variable}_FILE"))

"""People, groups, and the settings in force, each with its source."""

from __future__ import annotations

import os
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from django.conf import settings

from taskhub.core.states import Role
from taskhub.domain.people.factors import with_factor
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
    has_factor: bool
    """Whether the person has a second factor."""


@dataclass(frozen=True, slots=True)
class Group:
    """People who approve together."""

    name: str
    members: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Setting:
    """A setting in force, as its page shows it. `variable`: the environment variable that sets it. `is_set`: whether
    the variable is set; otherwise the value is the default.
    """

    title: str
    value: str
    variable: str
    is_set: bool
    about: str


_LIMITS: Final = (
    (
        "TASKHUB_CONTEXT_LIVE",
        "Live tasks per client",
        "",
        "Further calls are refused until some have ended.",
    ),
    (
        "TASKHUB_CONTEXT_APPROVALS",
        "Calls per client that wait for approval",
        "",
        "Further calls that need an approval are refused until people have decided some.",
    ),
    (
        "TASKHUB_CONVERSATION_APPROVALS",
        "Calls per conversation that wait for approval",
        "",
        "The same for the calls of one session, or of one trace where there are no sessions.",
    ),
    ("TASKHUB_CONTEXT_RUNNING", "Running tasks per client", "", "More wait their turn in the queue."),
    ("TASKHUB_CONTEXT_REQUESTS", "Requests a second per client", "", "Per web process; 0 means no limit."),
    ("TASKHUB_CONTEXT_KIB", "Requests per client", " KiB a second", "Per web process; 0 means no limit."),
    (
        "TASKHUB_INLINE_WAIT_MS",
        "Wait before a task handle",
        " ms",
        "Calls in auto mode that take longer get one.",
    ),
    (
        "TASKHUB_PATIENCE_SECONDS",
        "Wait before an interim result",
        " s",
        "For clients without tasks, unless their own patience is known; 0 means no limit.",
    ),
    ("TASKHUB_LEAVE_SECONDS", "Time to call again", " s", "Until then a call whose caller left is not cancelled."),
    ("TASKHUB_LEASE_SECONDS", "Lease of a task", " s", "A worker silent for longer loses its tasks."),
    ("TASKHUB_OUTCOME_HOURS", "Wait for a ruling", " h", "An unknown outcome: then the task fails; 0 means at once."),
    ("TASKHUB_UNDO_SECONDS", "Time to undo a decision", " s", "The call waits for as long; 0 means no undo."),
    ("TASKHUB_SLOTS", "Slots per worker", "", "Tools that one worker runs concurrently."),
    ("TASKHUB_WEB_SLOTS", "Slots per web process", "", "Plain calls that it runs concurrently, without the queue."),
    ("TASKHUB_LANES", "Database threads per web process for /mcp", "", ""),
    ("TASKHUB_PAGE_LANES", "Database threads per web process for pages", "", ""),
    ("TASKHUB_MAX_BODY", "Largest request", " bytes", "Larger requests are refused."),
    ("TASKHUB_OAUTH_TOKEN_SECONDS", "Access token of a sign-in", " s", "Programs refresh it automatically."),
    (
        "TASKHUB_OAUTH_REFRESH_DAYS",
        "Unused sign-in of a program",
        " days",
        "After that, a person signs in again.",
    ),
    ("TASKHUB_RETENTION_DAYS", "Retention of ended tasks", " days", "Then they are purged; the audit log is kept."),
)
_SERVICE: Final = (
    ("PUBLIC_URL", "Public address", "", "Shown to clients and used in links."),
    ("ALLOWED_HOSTS", "Host names answered", "", ""),
    ("ALLOWED_ORIGINS", "Sites whose pages may call /mcp", "", ""),
    ("TASKHUB_REVISIONS", "Protocol revisions", "", ""),
    ("TASKHUB_ANONYMOUS", "Calls without a token", "", "For trials only: all callers share one client."),
    ("TASKHUB_OAUTH", "Built-in authorization server", "", "People sign in programs with their browser."),
    ("TASKHUB_OAUTH_REGISTRATION", "Dynamic client registration", "", "Programs register themselves without approval."),
    ("TASKHUB_HUB_TOOLS", "Tools of the hub", "", "Clients without tasks wait, look and cancel with them."),
    ("OIDC_ISSUER", "External issuer", "", "Its JWTs are accepted."),
    ("TASKHUB_SMTP_URL", "Mail server", "", "Mails to people are handed to it; without one, none is sent."),
    ("TASKHUB_MAIL_FROM", "Sender of mails", "", ""),
    ("TASKHUB_SLACK_API_URL", "API of Slack", "", "Approvals are told there, if the tokens are set."),
    ("TASKHUB_APPRISE_URLS", "Other services", "", "People can be told there; only the names are shown."),
    ("TRUSTED_PROXIES", "Trusted proxies", "", "How many proxies are trusted for a caller's address."),
    ("LOG_LEVEL", "Log level", "", ""),
    ("DEBUG", "Debug pages", "", "Never in production."),
)
_SECRETS: Final = (
    ("SECRET_KEY", "Signing key", "Signs sessions, cursors and audit seals."),
    ("DATABASE_URL", "Database", "Unset: the embedded Postgres in the data directory."),
)
_ELSEWHERE: Final = {"TRUSTED_PROXIES": "ALLAUTH_TRUSTED_PROXY_COUNT", "TASKHUB_SMTP_URL": "EMAIL_HOST"}
"""Variables whose value is in a Django setting with another name. Only the host of the mail server is shown."""


def members(tenant_id: int) -> tuple[Member, ...]:
    """The people with a role in the tenant, ordered by user name."""
    rows = Membership.objects.filter(tenant_id=tenant_id).select_related("user").order_by("user__username")
    rows = rows.annotate(has_factor=with_factor("user_id"))
    return tuple(
        Member(
            user_id=row.user_id,
            username=row.user.get_username(),
            role=Role(row.role),
            groups=tuple(row.groups),
            active=row.user.is_active,
            joined_at=row.user.date_joined,
            last_login_at=row.user.last_login,
            has_factor=row.has_factor,
        )
        for row in rows[:MEMBERS_SHOWN]
    )


def groups_of(people: tuple[Member, ...]) -> tuple[Group, ...]:
    """The groups in which these people are, ordered by name, each with its members among them."""
    found: dict[str, list[str]] = {}
    for person in people:
        for name in person.groups:
            found.setdefault(name, []).append(person.username)
    return tuple(Group(name, tuple(found[name])) for name in sorted(found))


def limits() -> tuple[Setting, ...]:
    """The limits of TaskHub: sizes, numbers and times."""
    return tuple(_setting(*line) for line in _LIMITS)


def service() -> tuple[Setting, ...]:
    """The other settings: how this hub is reached, what it offers, and its secrets. For a secret, it is only shown
    whether it is set."""
    plain = tuple(_setting(*line) for line in _SERVICE)
    return plain + tuple(
        Setting(title, "set" if _is_set(name) else "from the data directory", name, _is_set(name), about)
        for name, title, about in _SECRETS
    )


def _setting(variable: str, title: str, unit: str, about: str) -> Setting:
    value = getattr(settings, _ELSEWHERE.get(variable, variable))
    if isinstance(value, bool):
        text = "yes" if value else "no"
    elif value == 0 and "no limit" in about:
        text = "no limit"
    elif isinstance(value, int):
        text = f"{value >> 20:,} MiB" if unit == " bytes" and value and value % 2**20 == 0 else f"{value:,}{unit}"
    elif isinstance(value, (list, tuple, dict)):  # of a dict only the names, because the values may have tokens
        text = ", ".join(map(str, value))
    else:
        text = str(value)
    return Setting(title, text or "not set", variable, _is_set(variable), about)


def _is_set(variable: str) -> bool:
    return bool(os.environ.get(variable) or os.environ.get(f"{variable}_FILE"))

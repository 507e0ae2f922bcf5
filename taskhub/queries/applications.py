"""Applications: programs that people sign in with, and who allowed them what."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Final

from taskhub.core.names import OAUTH_ISSUER
from taskhub.lib.addresses import host_of
from taskhub.queries._read import read

SHOWN: Final = 500
"""Applications on the page, and people on an application's page."""

_APPLICATIONS: Final = """
    SELECT a.id, r.name, r.client_id, r.registration_source, r.client_type = 'confidential', r.redirect_uris,
           a.created_at, a.blocked_at, consents.n, tokens.live, tokens.used_at
    FROM application a
    JOIN oauth2_provider_application r ON r.id = a.registration_id
    CROSS JOIN LATERAL (SELECT count(*) AS n FROM consent s WHERE s.application_id = a.id) consents
    CROSS JOIN LATERAL (
        SELECT (SELECT count(*) FROM oauth2_provider_accesstoken t
                JOIN consent s ON s.user_id = t.user_id AND s.application_id = a.id
                WHERE t.application_id = r.id AND t.expires > clock_timestamp()) AS live,
               (SELECT max(c.last_seen_at) FROM auth_context c
                WHERE c.tenant_id = a.tenant_id AND c.issuer = %(issuer)s AND c.client_id = r.client_id) AS used_at
        ) tokens
    WHERE a.tenant_id = %(tenant)s
"""

_ALLOWED: Final = """
    s.scopes, s.created_at, s.updated_at,
    (SELECT count(*) FROM oauth2_provider_accesstoken t
     WHERE t.application_id = r.id AND t.user_id = u.id AND t.expires > clock_timestamp()),
    c.id, c.last_seen_at
"""

_CONSENTS: Final = """
    FROM consent s
    JOIN application a ON a.id = s.application_id
    JOIN oauth2_provider_application r ON r.id = a.registration_id
    JOIN auth_user u ON u.id = s.user_id
    LEFT JOIN auth_context c ON c.tenant_id = a.tenant_id AND c.issuer = %(issuer)s
                            AND c.subject = 'user:' || u.id AND c.client_id = r.client_id
"""


@dataclass(frozen=True, slots=True)
class _Named:
    """What an application calls itself, and how it is known: `source` is `manual` (registered here), `cimd`
    (known by its document) or `dcr` (registered itself)."""

    id: int
    own_name: str
    client_id: str
    source: str
    confidential: bool

    @property
    def name(self) -> str:
        """What it is called."""
        return self.own_name or self.host or self.client_id

    @property
    def host(self) -> str:
        """The host that vouches for it, in ASCII."""
        return host_of(self.client_id) if self.source == "cimd" else ""


@dataclass(frozen=True, slots=True)
class ApplicationRow(_Named):
    """An application."""

    redirect_uris: str
    created_at: datetime
    blocked_at: datetime | None
    people: int
    live_tokens: int
    last_used_at: datetime | None

    @property
    def redirects(self) -> list[str]:
        """The addresses it leads people back to."""
        return self.redirect_uris.split()

    @property
    def manual(self) -> bool:
        """Whether an administrator registered it, and may change it."""
        return self.source == "manual"


@dataclass(frozen=True, slots=True)
class ConsentRow:
    """What one person allows an application; `context` is the client whose tasks it starts."""

    id: int
    user_id: int
    username: str
    role: str | None
    scopes: tuple[str, ...]
    created_at: datetime
    updated_at: datetime
    live_tokens: int
    context: int | None
    last_used_at: datetime | None


@dataclass(frozen=True, slots=True)
class AllowedRow(_Named):
    """An application that a person allows something; `id` is the consent's."""

    blocked_at: datetime | None
    scopes: tuple[str, ...]
    updated_at: datetime
    live_tokens: int
    last_used_at: datetime | None


def application_rows(tenant_id: int) -> tuple[ApplicationRow, ...]:
    """The tenant's applications by name."""
    rows = read(
        f"{_APPLICATIONS} ORDER BY lower(coalesce(nullif(r.name, ''), r.client_id)), a.id LIMIT {SHOWN}",
        {"tenant": tenant_id, "issuer": OAUTH_ISSUER},
    )
    return tuple(ApplicationRow(*row) for row in rows)


def application_detail(tenant_id: int, application_id: int) -> ApplicationRow | None:
    """One application of the tenant."""
    rows = read(
        f"{_APPLICATIONS} AND a.id = %(id)s", {"tenant": tenant_id, "issuer": OAUTH_ISSUER, "id": application_id}
    )
    return ApplicationRow(*rows[0]) if rows else None


def application_of_client(tenant_id: int, client_id: str) -> ApplicationRow | None:
    """The application behind a client of ours that came by OAuth."""
    rows = read(
        f"{_APPLICATIONS} AND r.client_id = %(client)s",
        {"tenant": tenant_id, "issuer": OAUTH_ISSUER, "client": client_id},
    )
    return ApplicationRow(*rows[0]) if rows else None


def consent_rows(tenant_id: int, application_id: int, *, context_id: int | None = None) -> tuple[ConsentRow, ...]:
    """Who allows the application what; with `context_id` only the person behind that client."""
    rows = read(
        f"""
        SELECT s.id, u.id, u.username, m.role, {_ALLOWED} {_CONSENTS}
        LEFT JOIN membership m ON m.user_id = u.id AND m.tenant_id = a.tenant_id
        WHERE a.tenant_id = %(tenant)s AND a.id = %(id)s AND (%(context)s::bigint IS NULL OR c.id = %(context)s)
        ORDER BY u.username LIMIT {SHOWN}
        """,
        {"tenant": tenant_id, "id": application_id, "issuer": OAUTH_ISSUER, "context": context_id},
    )
    return tuple(ConsentRow(row[0], row[1], row[2], row[3], tuple(row[4]), *row[5:]) for row in rows)


def allowed_rows(tenant_id: int, user_id: int) -> tuple[AllowedRow, ...]:
    """What the person allows, the latest answer first."""
    rows = read(
        f"""
        SELECT s.id, r.name, r.client_id, r.registration_source, r.client_type = 'confidential', a.blocked_at,
               {_ALLOWED} {_CONSENTS}
        WHERE a.tenant_id = %(tenant)s AND u.id = %(user)s
        ORDER BY s.updated_at DESC, s.id LIMIT {SHOWN}
        """,
        {"tenant": tenant_id, "user": user_id, "issuer": OAUTH_ISSUER},
    )
    return tuple(
        AllowedRow(pk, name, client_id, source, confidential, blocked_at, tuple(scopes), updated_at, live, used_at)
        for pk, name, client_id, source, confidential, blocked_at, scopes, _, updated_at, live, _, used_at in rows
    )

"""Applications (programs that people sign in with) and people's consents, as the console shows them."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Final

from taskhub.core.names import OAUTH_ISSUER
from taskhub.lib.addresses import host_of
from taskhub.store import statements

SHOWN: Final = 500
"""The most applications or consents on one page."""


@dataclass(frozen=True, slots=True)
class _Named:
    """The name of an application, and how it was registered: `source` is `manual` (by an administrator), `cimd` (by its
    metadata document) or `dcr` (dynamically, by itself)."""

    id: int
    own_name: str
    client_id: str
    source: str
    confidential: bool

    @property
    def name(self) -> str:
        """The application's own name; if it has none, the host of its document; otherwise its client id."""
        return self.own_name or self.host or self.client_id

    @property
    def host(self) -> str:
        """The host that serves the application's metadata document, in ASCII; empty if it has no document."""
        return host_of(self.client_id) if self.source == "cimd" else ""


@dataclass(frozen=True, slots=True)
class ApplicationRow(_Named):
    """An application in a list. `people`: how many people have a consent for it."""

    redirect_uris: str
    created_at: datetime
    blocked_at: datetime | None
    people: int
    live_tokens: int
    last_used_at: datetime | None

    @property
    def redirects(self) -> list[str]:
        """The application's redirect URIs."""
        return self.redirect_uris.split()

    @property
    def manual(self) -> bool:
        """Whether an administrator registered the application, and may change it."""
        return self.source == "manual"


@dataclass(frozen=True, slots=True)
class ConsentRow:
    """One person's consent to an application. `context` is the id of the client that owns the tasks."""

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
    """An application to which a person has given consent. `id` is the id of the consent."""

    blocked_at: datetime | None
    scopes: tuple[str, ...]
    updated_at: datetime
    live_tokens: int
    last_used_at: datetime | None


_APPLICATIONS = statements.many("applications", ApplicationRow)
_CONSENTS = statements.many("consents", ConsentRow)
_ALLOWED = statements.many("allowed", AllowedRow)


def application_rows(tenant_id: int) -> tuple[ApplicationRow, ...]:
    """The tenant's applications, by name."""
    return _found(tenant_id)


def application_detail(tenant_id: int, application_id: int) -> ApplicationRow | None:
    """The application of the tenant with this id; `None` if there is none."""
    return next(iter(_found(tenant_id, application_id=application_id)), None)


def application_of_client(tenant_id: int, client_id: str) -> ApplicationRow | None:
    """The application with this client id; `None` if the tenant has none."""
    return next(iter(_found(tenant_id, client_id=client_id)), None)


def _found(
    tenant_id: int, *, application_id: int | None = None, client_id: str | None = None
) -> tuple[ApplicationRow, ...]:
    return tuple(
        _APPLICATIONS(tenant=tenant_id, issuer=OAUTH_ISSUER, application=application_id, client=client_id, most=SHOWN)
    )


def consent_rows(tenant_id: int, application_id: int, *, context_id: int | None = None) -> tuple[ConsentRow, ...]:
    """The consents to the application, by username; with `context_id`, only the consent of the person of that
    client."""
    return tuple(
        _CONSENTS(tenant=tenant_id, issuer=OAUTH_ISSUER, application=application_id, context=context_id, most=SHOWN)
    )


def allowed_rows(tenant_id: int, user_id: int) -> tuple[AllowedRow, ...]:
    """The applications that have a consent of the person, the latest consent first."""
    return tuple(_ALLOWED(tenant=tenant_id, issuer=OAUTH_ISSUER, user=user_id, most=SHOWN))

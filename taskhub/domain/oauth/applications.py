"""Applications: programs that people sign in with. Administrators register them here. A program may also be known by
its metadata document, or register itself if that is turned on."""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from django.db import transaction
from oauth2_provider.models import clear_expired

from taskhub.core.errors import Invalid, LimitReached, NotFound
from taskhub.core.hints import StandingChanged
from taskhub.core.records import Actor
from taskhub.domain.audit.record import record_event
from taskhub.domain.hints.announce import notify
from taskhub.domain.oauth.consents import RefreshToken, Registration, shown_name
from taskhub.domain.oauth.documents import redirect_allowed
from taskhub.store.chores import run_each
from taskhub.store.models import Application, Consent, TokenFamily

MAX_REDIRECTS: Final = 20
MAX_REGISTERED: Final = 1_000
"""The most programs that have registered themselves. There is a limit because anybody can register a program."""
UNUSED_DAYS: Final = 30
"""Days after which a program without any consent is deleted, unless an administrator registered it."""


def add_application(
    *, tenant_id: int, name: str, redirects: Sequence[str], confidential: bool, actor: Actor
) -> tuple[int, str]:
    """Register an application of the tenant. Returns its id and its secret, which is stored only as a digest and cannot
    be shown again; the secret is empty unless the application is confidential.

    Raises `Invalid`, which names the field.
    """
    name, uris = _name(name), _redirects(redirects)
    with transaction.atomic():
        registration, secret = _create(name, uris, confidential=confidential, source="manual")
        row = Application.objects.create(tenant_id=tenant_id, registration=registration)
        _record("application.added", row, registration, actor, after=_facts(registration))
    return row.pk, secret


def change_application(
    *, tenant_id: int, application_id: int, name: str, redirects: Sequence[str], actor: Actor
) -> bool:
    """Change the name and the redirect URIs of an application that an administrator registered. Returns `False` if
    nothing differed. Raises `NotFound`, or `Invalid`, also for any other application."""
    name, uris = _name(name), _redirects(redirects)
    with transaction.atomic():
        row, registration = _manual(tenant_id, application_id)
        before = _facts(registration)
        registration.name, registration.redirect_uris = name, " ".join(uris)
        if before == _facts(registration):
            return False
        registration.save(update_fields=["name", "redirect_uris", "updated"])
        _record("application.changed", row, registration, actor, before=before, after=_facts(registration))
    return True


def renew_secret(*, tenant_id: int, application_id: int, actor: Actor) -> str:
    """Give a confidential application a new secret, and return it; the old secret is refused at once. Raises
    `NotFound`, or `Invalid` for an application that has no secret or was not registered by an administrator."""
    with transaction.atomic():
        row, registration = _manual(tenant_id, application_id)
        if registration.client_type != Registration.CLIENT_CONFIDENTIAL:
            raise Invalid("A public application has no secret.")
        secret = secrets.token_urlsafe(32)
        registration.client_secret = secret
        registration.save(update_fields=["client_secret", "updated"])
        _record("application.secret.renewed", row, registration, actor)
    return secret


def remove_application(*, tenant_id: int, application_id: int, actor: Actor) -> None:
    """Delete an application that an administrator registered, with its consents and tokens. Its tasks stay. Raises
    `NotFound`, or `Invalid` for any other application."""
    with transaction.atomic():
        row, registration = _manual(tenant_id, application_id)
        _record("application.removed", row, registration, actor, before=_facts(registration))
        registration.delete()
        notify(StandingChanged())


def set_blocked(*, tenant_id: int, application_id: int, blocked: bool, actor: Actor) -> None:
    """Block an application for everybody in the tenant, or unblock it. Raises `NotFound`."""
    with transaction.atomic():
        row, registration = _known(tenant_id, application_id)
        if (row.blocked_at is not None) != blocked:
            row.blocked_at = datetime.now(UTC) if blocked else None
            row.save(update_fields=["blocked_at"])
            _record("application.blocked" if blocked else "application.unblocked", row, registration, actor)
        notify(StandingChanged())


def register(document: dict[str, Any], *, actor: Actor) -> dict[str, Any]:
    """Dynamic client registration (RFC 7591): register a program by the document that it sent; returns the response.

    Used in place of the endpoint of django-oauth-toolkit, which would let the program choose other grants, and would
    issue tokens for changing the registration that never expire.

    Raises `Invalid`, which names the field, or `LimitReached`.
    """
    redirects = document.get("redirect_uris")
    name = document.get("client_name", "")
    method = document.get("token_endpoint_auth_method", "client_secret_basic")
    grants = document.get("grant_types", ["authorization_code"])
    if not isinstance(redirects, list) or not all(isinstance(uri, str) for uri in redirects):
        raise Invalid("redirect_uris must be a list of addresses.", field="redirect_uris")
    if not isinstance(name, str) or method not in ("none", "client_secret_basic", "client_secret_post"):
        raise Invalid("client_name must be text, token_endpoint_auth_method one that the metadata name.")
    if not isinstance(grants, list) or "authorization_code" not in grants:
        raise Invalid("grant_types must hold authorization_code.")
    uris = _redirects(redirects)
    with transaction.atomic():
        if Registration.objects.filter(registration_source="dcr").count() >= MAX_REGISTERED:
            raise LimitReached("Too many programs have registered themselves; ask an administrator.")
        registration, secret = _create(
            _name(name or "unnamed program"), uris, confidential=method != "none", source="dcr"
        )
        record_event(
            "application.registered", tenant_id=None, target=registration.name, actor=actor, after=_facts(registration)
        )
    answer = {
        "client_id": registration.client_id,
        "client_id_issued_at": int(registration.created.timestamp()),
        "client_name": registration.name,
        "redirect_uris": uris,
        "grant_types": ["authorization_code", "refresh_token"],
        "response_types": ["code"],
        "token_endpoint_auth_method": method,
    }
    return {**answer, "client_secret": secret, "client_secret_expires_at": 0} if secret else answer


def sweep() -> None:
    """Delete expired tokens and codes, token families without tokens, and unused applications that no administrator
    registered. Safe to run from any number of processes. If one of these deletions fails, the others are still made;
    raises `ChoresFailed` then."""
    run_each(
        {
            "sweeping tokens": clear_expired,
            "sweeping sign-ins": _sweep_families,
            "sweeping applications": _sweep_unused,
        }
    )


def _sweep_families() -> None:
    TokenFamily.objects.filter(created_at__lt=datetime.now(UTC) - timedelta(days=1)).exclude(
        family__in=RefreshToken.objects.filter(token_family__isnull=False).values("token_family")
    ).delete()


def _sweep_unused() -> None:
    with transaction.atomic():
        # A program with a consent keeps its row, because the program's tokens refer to the row.
        unused = Registration.objects.filter(
            registration_source__in=("dcr", "cimd"), created__lt=datetime.now(UTC) - timedelta(days=UNUSED_DAYS)
        ).exclude(pk__in=Consent.objects.values("application__registration_id"))
        # A blocked program keeps its row too: a new one would not be blocked.
        unused.exclude(known_as__blocked_at__isnull=False).delete()


def _create(name: str, uris: list[str], *, confidential: bool, source: str) -> tuple[Any, str]:
    secret = secrets.token_urlsafe(32)
    registration = Registration.objects.create(
        name=name,
        client_id=secrets.token_urlsafe(18),
        client_secret=secret,
        client_type=Registration.CLIENT_CONFIDENTIAL if confidential else Registration.CLIENT_PUBLIC,
        authorization_grant_type=Registration.GRANT_AUTHORIZATION_CODE,
        redirect_uris=" ".join(uris),
        registration_source=source,
    )
    return registration, secret if confidential else ""


def _known(tenant_id: int, application_id: int) -> tuple[Application, Any]:
    row = (
        Application.objects.select_for_update(of=("self",))
        .select_related("registration")
        .filter(pk=application_id, tenant_id=tenant_id)
        .first()
    )
    if row is None:
        raise NotFound("There is no such application.")
    return row, row.registration


def _manual(tenant_id: int, application_id: int) -> tuple[Application, Any]:
    row, registration = _known(tenant_id, application_id)
    if registration.registration_source != "manual":
        raise Invalid("This application describes itself; it can be locked out, not changed.")
    return row, registration


def _name(name: str) -> str:
    name = name.strip()
    if not name or len(name) > 100 or not name.isprintable():
        raise Invalid("An application needs a name of 1 to 100 printable characters.", field="name")
    return name


def _redirects(redirects: Sequence[str]) -> list[str]:
    uris = list(dict.fromkeys(uri.strip() for uri in redirects if uri.strip()))
    wrong = next((uri for uri in uris if not redirect_allowed(uri) or len(uri) > 1_000 or not uri.isascii()), None)
    wrong = wrong or next((uri for uri in uris if any(sign.isspace() for sign in uri)), None)
    if wrong is not None:
        raise Invalid(
            f"{wrong[:100]!r} will not do: an address to return to starts with https://, or with http:// and an"
            " address of the person's own machine such as 127.0.0.1, and has no fragment.",
            field="redirect_uris",
        )
    if not 1 <= len(uris) <= MAX_REDIRECTS:
        raise Invalid(f"Name 1 to {MAX_REDIRECTS} addresses to return to.", field="redirect_uris")
    return uris


def _facts(registration: Any) -> dict[str, object]:
    return {
        "client_id": registration.client_id,
        "name": registration.name,
        "type": registration.client_type,
        "redirects": registration.redirect_uris.split(),
    }


def _record(
    action: str,
    row: Application,
    registration: Any,
    actor: Actor,
    before: dict[str, object] | None = None,
    after: dict[str, object] | None = None,
) -> None:
    record_event(
        action,
        tenant_id=row.tenant_id,
        target=shown_name(registration),
        actor=actor,
        before=before,
        after=after,
    )

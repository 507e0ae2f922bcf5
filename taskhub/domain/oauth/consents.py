"""Consents: the scopes that people allow applications, and which of these apply now."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

from django.db import transaction
from oauth2_provider.models import (
    get_access_token_model,
    get_application_model,
    get_grant_model,
    get_refresh_token_model,
)

from taskhub.core import permissions as gate
from taskhub.core.errors import NotFound
from taskhub.core.hints import StandingChanged
from taskhub.core.names import OAUTH_ISSUER, SCOPES
from taskhub.core.records import Actor
from taskhub.domain.audit.record import record_event
from taskhub.domain.hints.announce import notify
from taskhub.lib import addresses
from taskhub.store.models import Application, AuthContext, Consent, Membership, TokenFamily

MAX_TARGET: Final = 300
MAX_TARGETS: Final = 50
"""The most redirect hosts kept with a consent. If there are more, the oldest are dropped, and people are asked about
them again."""

Registration: Any = get_application_model()
AccessToken: Any = get_access_token_model()
RefreshToken: Any = get_refresh_token_model()
Grant: Any = get_grant_model()


@dataclass(frozen=True, slots=True)
class Standing:
    """What an application may do for a person now: in which tenant and with which scopes. `context`: the client that
    this application and person are, which owns the tasks."""

    tenant_id: int
    scopes: tuple[str, ...]
    context: AuthContext


def subject_of(user_id: int) -> str:
    """The OAuth subject of a person: the user id, so that a later owner of the username inherits no tasks."""
    return f"user:{user_id}"


def shown_name(registration: Any) -> str:
    """The name of an application that people see: its own name; if it has none, the host of its document; otherwise its
    client id."""
    return str(registration.name) or host_of(registration) or str(registration.client_id)


def host_of(registration: Any) -> str:
    """The host that serves the application's metadata document, in ASCII; empty if it has no document."""
    if registration.registration_source != "cimd":
        return ""
    return addresses.host_of(str(registration.client_id))


def known(tenant_id: int, registration: Any) -> Application | None:
    """The tenant's application for a registration. An application that an administrator registered belongs to a single
    tenant; any other is added to a tenant at its first request there. Returns `None` if the application belongs to
    another tenant, or is blocked."""
    found = Application.objects.filter(tenant_id=tenant_id, registration_id=registration.pk).first()
    if found is None and registration.registration_source != "manual":
        found, _ = Application.objects.get_or_create(tenant_id=tenant_id, registration_id=registration.pk)
    return found if found is not None and found.blocked_at is None else None


def remembered(application: Application, user_id: int, target: str) -> frozenset[str]:
    """The scopes that the person has allowed the application when it redirects to `target` (host and port); empty if
    they were never asked about that target."""
    consent = Consent.objects.filter(
        application=application, user_id=user_id, targets__contains=[target[:MAX_TARGET]]
    ).first()
    return frozenset(consent.scopes if consent else ())


def remember(
    application: Application,
    *,
    registration: Any,
    asked: tuple[str, ...],
    allowed: tuple[str, ...],
    target: str,
    actor: Actor,
) -> None:
    """Store the person's consent: of the scopes that were `asked` for, only the `allowed` ones are allowed from now on.
    Scopes that were not asked for this time stay as they were."""
    assert actor.user_id is not None
    with transaction.atomic():
        consent = Consent.objects.filter(application=application, user_id=actor.user_id).first()
        before = frozenset(consent.scopes if consent else ())
        scopes = [scope for scope in SCOPES if scope in (before - set(asked)) | set(allowed)]
        targets = [known for known in (consent.targets if consent else ()) if known != target[:MAX_TARGET]]
        Consent.objects.update_or_create(
            application=application,
            user_id=actor.user_id,
            defaults={
                "scopes": scopes,
                "targets": [*targets, target[:MAX_TARGET]][-MAX_TARGETS:],
                "updated_at": datetime.now(UTC),
            },
        )
        record_event(
            "consent.given",
            tenant_id=application.tenant_id,
            target=shown_name(registration),
            actor=actor,
            before={"scopes": sorted(before)},
            after={"client_id": registration.client_id, "scopes": scopes, "leads_back_to": target},
        )
        notify(StandingChanged())


def refuse(application: Application, *, registration: Any, asked: tuple[str, ...], actor: Actor) -> None:
    """Record that the person refused consent. Scopes that they allowed before stay allowed."""
    record_event(
        "consent.refused",
        tenant_id=application.tenant_id,
        target=shown_name(registration),
        actor=actor,
        after={"client_id": registration.client_id, "asked": list(asked)},
    )


def revoke_consent(*, tenant_id: int, consent_id: int, actor: Actor, own: bool = False) -> str:
    """Delete a person's consent to an application, and the application's tokens for that person. With `own`, only a
    consent of the actor's own is found. Returns the application's name; raises `NotFound`."""
    whose = {"user_id": actor.user_id} if own else {}
    with transaction.atomic():
        consent = (
            Consent.objects.select_for_update(of=("self",))
            .select_related("application__registration", "user")
            .filter(pk=consent_id, application__tenant_id=tenant_id, **whose)
            .first()
        )
        if consent is None:
            raise NotFound("There is no such permission any more.")
        registration: Any = consent.application.registration
        end_tokens(registration, user_id=consent.user_id)
        consent.delete()
        record_event(
            "consent.revoked",
            tenant_id=tenant_id,
            target=shown_name(registration),
            actor=actor,
            before={"person": consent.user.get_username(), "scopes": list(consent.scopes)},
        )
        notify(StandingChanged())
        return shown_name(registration)


def end_tokens(registration: Any, *, user_id: int | None = None) -> None:
    """Delete the application's tokens and codes, for one person or for all."""
    whose = {} if user_id is None else {"user_id": user_id}
    TokenFamily.objects.filter(registration=registration, **whose).delete()
    for model in (Grant, RefreshToken, AccessToken):
        model.objects.filter(application=registration, **whose).delete()


def forget_person(user_id: int) -> None:
    """Delete all consents of the person, and all tokens and codes that applications hold for them."""
    for model in (Consent, TokenFamily, Grant, RefreshToken, AccessToken):
        model.objects.filter(user_id=user_id).delete()


def standing(user: Any, registration: Any) -> Standing | None:
    """What the application may do for the person now. `None` if the person is disabled or has no role or consent, or if
    the application, or its client for this person, is blocked."""
    if user is None or not user.is_active:
        return None
    # The same membership that `person_of` takes for a sign-in.
    member = Membership.objects.filter(user_id=user.pk).order_by("tenant_id").first()
    if member is None:
        return None
    consent = Consent.objects.filter(
        user_id=user.pk,
        application__registration_id=registration.pk,
        application__tenant_id=member.tenant_id,
        application__blocked_at__isnull=True,
    ).first()
    if consent is None:
        return None
    context, _ = AuthContext.objects.get_or_create(
        tenant_id=member.tenant_id,
        issuer=OAUTH_ISSUER,
        subject=subject_of(user.pk),
        client_id=registration.client_id,
        defaults={"name": f"{user.get_username()} with {shown_name(registration)}"[:128]},
    )
    if context.disabled_at is not None:
        return None
    may = gate.grantable(member.role)
    return Standing(member.tenant_id, tuple(scope for scope in consent.scopes if scope in may), context)

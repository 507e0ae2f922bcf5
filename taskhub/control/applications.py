"""Use cases for OAuth applications: register, change, block and remove them, and revoke consents."""

from __future__ import annotations

from collections.abc import Sequence

from taskhub.control.caller import Caller
from taskhub.core.errors import NotFound
from taskhub.domain.oauth import applications, consents, reads


def find_application(caller: Caller, application_id: int) -> reads.ApplicationRow:
    """An application of the caller's tenant. Raises `NotFound`."""
    found = reads.application_detail(caller.tenant_id, application_id) if application_id < 2**63 else None
    if found is None:
        raise NotFound("There is no such application.")
    return found


def add_application(caller: Caller, *, name: str, redirects: Sequence[str], confidential: bool) -> tuple[int, str]:
    """Register an application. Returns its id and its secret, which cannot be shown again (empty for a public one).

    Raises `Forbidden`, or `Invalid` naming the field.
    """
    caller.require("client.manage", f"add application {name}")
    return applications.add_application(
        tenant_id=caller.tenant_id, name=name, redirects=redirects, confidential=confidential, actor=caller.actor
    )


def change_application(caller: Caller, application_id: int, *, name: str, redirects: Sequence[str]) -> bool:
    """Change the name and the redirect URIs. Returns `False` if nothing differed. Raises `Forbidden`, `NotFound`, or
    `Invalid`, also for an application that was not registered by an administrator."""
    caller.require("client.manage", f"change application {application_id}")
    return applications.change_application(
        tenant_id=caller.tenant_id,
        application_id=application_id,
        name=name,
        redirects=redirects,
        actor=caller.actor,
    )


def renew_secret(caller: Caller, application_id: int) -> str:
    """Replace the secret and return the new one, which cannot be shown again. Raises `Forbidden`, `NotFound`, or
    `Invalid` for an application that is public or was not registered by an administrator."""
    caller.require("client.manage", f"renew the secret of application {application_id}")
    return applications.renew_secret(tenant_id=caller.tenant_id, application_id=application_id, actor=caller.actor)


def set_application_locked(caller: Caller, application_id: int, *, locked: bool) -> None:
    """Block an application for everybody in the tenant, or unblock it. Raises `Forbidden` or `NotFound`."""
    caller.require("client.manage", f"{'lock' if locked else 'unlock'} application {application_id}")
    applications.set_blocked(
        tenant_id=caller.tenant_id, application_id=application_id, blocked=locked, actor=caller.actor
    )


def remove_application(caller: Caller, application_id: int) -> None:
    """Delete an application with its consents and tokens. Raises `Forbidden`, `NotFound`, or `Invalid` for an
    application that was not registered by an administrator."""
    caller.require("client.manage", f"remove application {application_id}")
    applications.remove_application(tenant_id=caller.tenant_id, application_id=application_id, actor=caller.actor)


def revoke_consent(caller: Caller, application_id: int, consent_id: int) -> None:
    """Revoke a person's consent to the application. Raises `Forbidden` or `NotFound`."""
    caller.require("client.manage", f"revoke a consent of application {application_id}")
    if consent_id not in {row.id for row in reads.consent_rows(caller.tenant_id, application_id)}:
        raise NotFound("There is no such permission any more.")
    consents.revoke_consent(tenant_id=caller.tenant_id, consent_id=consent_id, actor=caller.actor)


def revoke_own_consent(caller: Caller, consent_id: int) -> str:
    """Revoke one of the caller's own consents; returns the application's name. Raises `NotFound`, also for another
    person's consent."""
    return consents.revoke_consent(
        tenant_id=caller.tenant_id, consent_id=min(consent_id, 2**63 - 1), actor=caller.actor, own=True
    )

"""What people do about applications: register them, lock them out, allow them to act for a person, and take it back."""

from __future__ import annotations

from collections.abc import Sequence

from taskhub.control.caller import Caller
from taskhub.core.errors import NotFound
from taskhub.domain.oauth import applications, consents, reads


def find_application(caller: Caller, application_id: int) -> reads.ApplicationRow:
    """An application that the caller's tenant knows. Raises `NotFound`."""
    found = reads.application_detail(caller.tenant_id, application_id) if application_id < 2**63 else None
    if found is None:
        raise NotFound("There is no such application.")
    return found


def add_application(caller: Caller, *, name: str, redirects: Sequence[str], confidential: bool) -> tuple[int, str]:
    """Register an application: its id, and the secret of a confidential one, which cannot be shown again.

    Raises `Forbidden`, or `Invalid` naming the field.
    """
    caller.require("client.manage", f"add application {name}")
    return applications.add_application(
        tenant_id=caller.tenant_id, name=name, redirects=redirects, confidential=confidential, actor=caller.actor
    )


def change_application(caller: Caller, application_id: int, *, name: str, redirects: Sequence[str]) -> bool:
    """Change the name and the addresses. `False`: nothing differed. Raises `Forbidden`, `NotFound`, or `Invalid` naming
    the field."""
    caller.require("client.manage", f"change application {application_id}")
    return applications.change_application(
        tenant_id=caller.tenant_id,
        application_id=application_id,
        name=name,
        redirects=redirects,
        actor=caller.actor,
    )


def renew_secret(caller: Caller, application_id: int) -> str:
    """Another secret, which cannot be shown again; the old one ends. Raises `Forbidden` or `NotFound`."""
    caller.require("client.manage", f"renew the secret of application {application_id}")
    return applications.renew_secret(tenant_id=caller.tenant_id, application_id=application_id, actor=caller.actor)


def set_application_locked(caller: Caller, application_id: int, *, locked: bool) -> None:
    """Lock an application out for everybody, or let it in again. Raises `Forbidden` or `NotFound`."""
    caller.require("client.manage", f"{'lock' if locked else 'unlock'} application {application_id}")
    applications.set_blocked(
        tenant_id=caller.tenant_id, application_id=application_id, blocked=locked, actor=caller.actor
    )


def remove_application(caller: Caller, application_id: int) -> None:
    """Forget an application with all its tokens. Raises `Forbidden` or `NotFound`."""
    caller.require("client.manage", f"remove application {application_id}")
    applications.remove_application(tenant_id=caller.tenant_id, application_id=application_id, actor=caller.actor)


def revoke_consent(caller: Caller, application_id: int, consent_id: int) -> None:
    """Take back what a person allowed the application. Raises `Forbidden` or `NotFound`."""
    caller.require("client.manage", f"revoke a consent of application {application_id}")
    if consent_id not in {row.id for row in reads.consent_rows(caller.tenant_id, application_id)}:
        raise NotFound("There is no such permission any more.")
    consents.revoke_consent(tenant_id=caller.tenant_id, consent_id=consent_id, actor=caller.actor)


def revoke_own_consent(caller: Caller, consent_id: int) -> str:
    """Take back what the caller allowed an application; returns its name. Raises `NotFound`, also for what somebody
    else allowed."""
    return consents.revoke_consent(
        tenant_id=caller.tenant_id, consent_id=min(consent_id, 2**63 - 1), actor=caller.actor, own=True
    )

"""Auth contexts of clients whose tokens TaskHub issues."""

from __future__ import annotations

from taskhub.store.models import AuthContext


def client_context(tenant_id: int, name: str) -> int:
    """The id of the auth context of the client `name`; created on first use."""
    context, _ = AuthContext.objects.get_or_create(
        tenant_id=tenant_id, issuer="taskhub", subject=name, client_id=name, defaults={"name": name}
    )
    return context.pk

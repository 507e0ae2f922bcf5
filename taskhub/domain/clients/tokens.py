"""Issue and revoke bearer tokens. A token is returned once and stored as a digest only."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

from django.db import transaction

from taskhub.core.errors import Invalid, LimitReached, NotFound
from taskhub.core.hints import ClientStandingChanged
from taskhub.core.names import CALL_SCOPES, SCOPES
from taskhub.core.records import Actor
from taskhub.domain.audit.record import record_event
from taskhub.domain.hints.announce import notify
from taskhub.lib import ids
from taskhub.store.models import AccessToken, AuthContext

MAX_LIVE_TOKENS = 50


def issue_token(
    *, tenant_id: int, client: str, scopes: list[str] | None = None, days: int = 90, actor: Actor
) -> tuple[str, AccessToken]:
    """A new token for the client named `client`, which is made on first use; and the token's row.

    Raises `Invalid` for an unknown scope, an empty name, or `days` outside of 1 to 3,650; `LimitReached` if the client
    already has `MAX_LIVE_TOKENS` live tokens.
    """
    wanted = list(CALL_SCOPES) if scopes is None else scopes
    unknown = [scope for scope in wanted if scope not in SCOPES]
    if unknown or not wanted:
        raise Invalid(f"Unknown scope {', '.join(unknown) or '(none)'}; there are: {', '.join(SCOPES)}.")
    if not client.strip() or len(client) > 128 or "\0" in client:
        raise Invalid("A client needs a name of 1 to 128 characters.")
    if not 1 <= days <= 3_650:
        raise Invalid(f"A token lives 1 to 3650 days, not {days}.")
    token = ids.token()
    with transaction.atomic():
        context, _ = AuthContext.objects.get_or_create(
            tenant_id=tenant_id, issuer="taskhub", subject=client, client_id=client, defaults={"name": client}
        )
        AuthContext.objects.select_for_update(of=("self",)).get(pk=context.pk)  # one at a time, so that the limit holds
        now = datetime.now(UTC)
        live = AccessToken.objects.filter(context=context, revoked_at__isnull=True).exclude(expires_at__lte=now)
        if live.count() >= MAX_LIVE_TOKENS:
            raise LimitReached(f"{client} already holds {MAX_LIVE_TOKENS} live tokens; revoke one first.")
        row = AccessToken.objects.create(
            context=context,
            digest=ids.digest(token),
            prefix=token[:10],
            scopes=wanted,
            expires_at=now + timedelta(days=days),
        )
        _record("token.issued", context, actor, after={"prefix": row.prefix, "scopes": wanted, "days": days})
        notify(ClientStandingChanged(context.pk))
    return token, row


def revoke_token(*, tenant_id: int, token_id: int, actor: Actor) -> None:
    """End a token at once, everywhere. Revoking twice changes nothing. Raises `NotFound`."""
    with transaction.atomic():
        row = (
            AccessToken.objects.select_for_update(of=("self",))
            .select_related("context")
            .filter(pk=token_id, context__tenant_id=tenant_id)
            .first()
        )
        if row is None:
            raise NotFound("No such token.")
        if row.revoked_at is None:
            row.revoked_at = datetime.now(UTC)
            row.save(update_fields=["revoked_at"])
            _record("token.revoked", row.context, actor, after={"prefix": row.prefix})
        notify(ClientStandingChanged(row.context_id))


def set_context_disabled(*, tenant_id: int, context_id: int, disabled: bool, actor: Actor) -> None:
    """Lock a client out, or let it in again. Its tasks are kept. Raises `NotFound`."""
    with transaction.atomic():
        context = AuthContext.objects.select_for_update().filter(pk=context_id, tenant_id=tenant_id).first()
        if context is None:
            raise NotFound("No such client.")
        if (context.disabled_at is not None) != disabled:
            context.disabled_at = datetime.now(UTC) if disabled else None
            context.save(update_fields=["disabled_at"])
            _record("client.disabled" if disabled else "client.enabled", context, actor)
        notify(ClientStandingChanged(context_id))


def _record(action: str, context: AuthContext, actor: Actor, after: dict[str, object] | None = None) -> None:
    # The event belongs to the client, whoever the actor is.
    record_event(
        action,
        tenant_id=context.tenant_id,
        target=context.name,
        actor=replace(actor, context_id=context.pk),
        after=after,
    )

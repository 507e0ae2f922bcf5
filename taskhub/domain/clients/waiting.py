"""Writes what an admin sets for a client's plain calls; `patience` reads it."""

from __future__ import annotations

from dataclasses import replace

from django.db import transaction

from taskhub.core.errors import Invalid, NotFound
from taskhub.core.hints import ClientStandingChanged
from taskhub.core.records import Actor
from taskhub.domain.audit.record import record_event
from taskhub.domain.hints.announce import notify
from taskhub.store.models import AuthContext, LearnedPatience
from taskhub.store.models.people import PATIENCE_RANGE_MS


def set_caller_settings(
    *, tenant_id: int, context_id: int, patience_ms: int | None, hub_tools: bool | None, actor: Actor
) -> None:
    """Set the patience of the client's plain calls (`patience_ms`), and whether the client is shown the hub's own tools
    (`hub_tools`). `None` means that the hub chooses. If `patience_ms` becomes `None`, what was learned about the
    client's programs is forgotten. Raises `NotFound`, or `Invalid`, which names the field."""
    low, high = PATIENCE_RANGE_MS
    if patience_ms is not None and not low <= patience_ms <= high:
        raise Invalid(f"From {low // 1_000} to {high // 1_000:,} seconds.", field="patience")
    with transaction.atomic():
        context = AuthContext.objects.select_for_update().filter(pk=context_id, tenant_id=tenant_id).first()
        if context is None:
            raise NotFound("No such client.")
        before = {"patience_ms": context.patience_ms, "hub_tools": context.hub_tools}
        after = {"patience_ms": patience_ms, "hub_tools": hub_tools}
        if before == after:
            return
        if patience_ms is None and context.patience_ms is not None:
            LearnedPatience.objects.filter(context=context).delete()
        context.patience_ms, context.hub_tools = patience_ms, hub_tools
        context.save(update_fields=["patience_ms", "hub_tools"])
        record_event(
            "client.waiting.changed",
            tenant_id=tenant_id,
            target=context.name,
            actor=replace(actor, context_id=context_id),  # the event belongs to the client, whoever the actor is
            before=before,
            after=after,
        )
        notify(ClientStandingChanged(context_id))

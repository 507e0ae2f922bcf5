"""Audit events that no trigger writes: changes of settings, exports, denials."""

from __future__ import annotations

import warnings
from typing import Any

from taskhub.core.records import Actor
from taskhub.domain.audit.kinds import unlike
from taskhub.store.models import Event


def record_event(
    action: str,
    *,
    tenant_id: int | None,
    target: str,
    actor: Actor,
    before: dict[str, Any] | None = None,
    after: dict[str, Any] | None = None,
) -> int:
    """Add one event and return its id. Called inside the transaction of what it tells about, so
    that neither is there without the other. Warns of one that is not as `kinds.py` has it: in tests that is an error,
    and elsewhere no reason to lose it.
    """
    if problem := unlike(action, before, after):
        warnings.warn(problem, stacklevel=2)
    event = Event.objects.create(
        tenant_id=tenant_id,
        action=action,
        actor=actor.name,
        door=actor.door,
        address=actor.address,
        user_id=actor.user_id,
        context_id=actor.context_id,
        target=target,
        reason=actor.reason,
        before=before,
        after=after,
    )
    return int(event.pk)


def record_export(*, tenant_id: int, form: str, query: dict[str, str], up_to: int, actor: Actor) -> int:
    """Note that somebody takes events `up_to` that id away, before the first byte leaves: an
    export that is broken off is on record too.
    """
    return record_event(
        "audit.exported", tenant_id=tenant_id, target=form, actor=actor, after={"query": query, "up_to": up_to}
    )


def record_denial(*, tenant_id: int, what: str, lacking: str, actor: Actor) -> int:
    """Note that somebody known asked for what they may not do: `what`, for want of the permission or scope."""
    shown = what.replace("\0", "\ufffd")[:200]  # an address may hold what no text here does
    return record_event("access.denied", tenant_id=tenant_id, target=shown, actor=actor, after={"lacking": lacking})


def record_verification(
    *,
    ok: bool,
    events: int,
    seals: int,
    problem: str,
    actor: Actor,
    full: bool = True,
    seconds: float | None = None,
    mark: dict[str, Any] | None = None,
) -> int:
    """Note that somebody compared events with their seals, what came of it and how long it took: the audit page shows
    the latest. From the `mark` the next one goes on. It concerns every tenant and belongs to none.
    """
    after: dict[str, Any] = {"ok": ok, "events": events, "seals": seals, "problem": problem, "full": full}
    more = {"seconds": None if seconds is None else round(seconds, 3), "mark": mark}
    after |= {name: value for name, value in more.items() if value is not None}
    return record_event("audit.verified", tenant_id=None, target="audit log", actor=actor, after=after)

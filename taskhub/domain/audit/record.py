"""Events that no trigger writes: changes of settings, exports, denials."""

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
    """Add one event and return its id. To be called in the transaction of the change that it records, so that there is
    never one without the other. Warns of an event that is not as described in `kinds.py`: an error in tests, but
    elsewhere no reason to lose the event.
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
    """Record that somebody takes events up to the id `up_to` away. Before the first byte leaves, so that an export that
    is broken off is on record too.
    """
    return record_event(
        "audit.exported", tenant_id=tenant_id, target=form, actor=actor, after={"query": query, "up_to": up_to}
    )


def record_denial(*, tenant_id: int, what: str, lacking: str, actor: Actor) -> int:
    """Record that a known caller asked for `what`, and lacked the permission or scope `lacking`."""
    shown = what.replace("\0", "\ufffd")[:200]  # an address may hold U+0000, which text in the database may not
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
    """Record that the events were compared with their seals, the result and how long it took; the audit page shows the
    latest. The next verification goes on from `mark`. The event concerns every tenant and belongs to none.
    """
    after: dict[str, Any] = {"ok": ok, "events": events, "seals": seals, "problem": problem, "full": full}
    more = {"seconds": None if seconds is None else round(seconds, 3), "mark": mark}
    after |= {name: value for name, value in more.items() if value is not None}
    return record_event("audit.verified", tenant_id=None, target="audit log", actor=actor, after=after)

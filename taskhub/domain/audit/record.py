"""Events that no trigger writes: changes of settings, exports, denials."""

from __future__ import annotations

import hashlib
import warnings
from typing import Any

from taskhub.core.records import Actor, ToolRecord
from taskhub.core.rules import Then, Verdict
from taskhub.domain.audit.kinds import unlike
from taskhub.lib import jsonx
from taskhub.store.models import Event


def record_event(
    action: str,
    *,
    tenant_id: int | None,
    target: str,
    actor: Actor,
    before: dict[str, Any] | None = None,
    after: dict[str, Any] | None = None,
    task_id: int | None = None,
) -> int:
    """Add one event and return its id. Call it in the transaction of the change that it records, so that neither is
    committed without the other. Warns of an event that differs from its description in `kinds.py`. Tests turn the
    warning into an error; elsewhere the event is written all the same.
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
        task_id=task_id,
        target=target,
        reason=actor.reason,
        before=before,
        after=after,
    )
    return int(event.pk)


def record_export(*, tenant_id: int, form: str, query: dict[str, str], up_to: int, actor: Actor) -> int:
    """Record an export of the events up to the id `up_to`; returns the id of the new event. Call it before the first
    byte is sent, so that an aborted export is on record too.
    """
    return record_event(
        "audit.exported", tenant_id=tenant_id, target=form, actor=actor, after={"query": query, "up_to": up_to}
    )


def record_denial(*, tenant_id: int, what: str, lacking: str, actor: Actor) -> int:
    """Record that an authenticated caller asked for `what` without the permission or scope `lacking`."""
    shown = what.replace("\0", "\ufffd")[:200]  # a URL path may hold U+0000, which Postgres text may not
    return record_event("access.denied", tenant_id=tenant_id, target=shown, actor=actor, after={"lacking": lacking})


def record_verdict(
    verdict: Verdict, *, tenant_id: int, tool: ToolRecord, arguments: dict[str, Any], actor: Actor
) -> None:
    """Record a call that a rule denied, or that rules with `shadow` matched; the target is the tool's name."""
    about = {"server": tool.server_name, "arguments_sha256": hashlib.sha256(jsonx.canonical(arguments)).hexdigest()}
    if verdict.shadows:
        after = {"rules": list(verdict.shadows), "version": verdict.version, **about}
        record_event("rules.tried", tenant_id=tenant_id, target=tool.exposed_name, actor=actor, after=after)
    if verdict.then is Then.DENY and verdict.rule is not None:
        decided = {"rule": verdict.rule.name, "version": verdict.version, "doubt": verdict.doubt}
        record_event("rules.denied", tenant_id=tenant_id, target=tool.exposed_name, actor=actor, after=decided | about)


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
    """Record a verification of the audit log, with its result and duration; returns the id of the event. The audit page
    shows the latest one. The next incremental verification continues from `mark`. The event belongs to no tenant, since
    it concerns all.
    """
    after: dict[str, Any] = {"ok": ok, "events": events, "seals": seals, "problem": problem, "full": full}
    more = {"seconds": None if seconds is None else round(seconds, 3), "mark": mark}
    after |= {name: value for name, value in more.items() if value is not None}
    return record_event("audit.verified", tenant_id=None, target="audit log", actor=actor, after=after)

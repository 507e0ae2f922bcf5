"""Issues permits for calls that a rule allows, redeems permits, and deletes old ones."""

from __future__ import annotations

from datetime import datetime

from taskhub.core.records import Actor, ToolRecord
from taskhub.core.rules import NO_VERDICT, Verdict
from taskhub.domain.audit.record import record_event
from taskhub.domain.changes import change, who
from taskhub.domain.permits.records import KEPT_HOURS, Permit, Redemption
from taskhub.lib import ids, jsonx
from taskhub.store import statements

_OWNED = statements.maybe("owned_permit", Permit)
_ISSUE = statements.one("issue_permit", datetime)
_REDEEM = statements.one("redeem_permit", Redemption)
_PURGE = statements.rowcount("purge_permits")


def owned_permit(public_id: str, context_id: int) -> Permit | None:
    """The client's permit with this id, even if it was used or has expired; `None` if the client has no such permit."""
    return _OWNED(public_id=public_id, context=context_id)


def issue_permit(
    *,
    tenant_id: int,
    context_id: int,
    tool: ToolRecord,
    arguments_sha256: str,
    verdict: Verdict,
    seconds: int,
    actor: Actor,
) -> Permit:
    """Issue a permit for a call that needs no approval according to `verdict`. Raises `Unavailable`."""
    public_id = ids.public_id()
    change(
        _ISSUE,
        id=public_id,
        tenant=tenant_id,
        context=context_id,
        tool=tool.id,
        arguments=arguments_sha256,
        definition=tool.digest,
        rules=verdict.version,
        seconds=seconds,
        passed=_passed(verdict),
        who=who(actor),
    )
    made = owned_permit(public_id, context_id)
    assert made is not None  # committed by the statement before
    return made


def redeem_permit(
    public_id: str, *, context_id: int, arguments_sha256: str, verdict: Verdict = NO_VERDICT, actor: Actor
) -> Redemption:
    """Redeem the permit for these arguments. `verdict` is what the rules say of the call now. Of any number of
    attempts, at most one is `REDEEMED`."""
    return change(
        _REDEEM,
        id=public_id,
        context=context_id,
        arguments=arguments_sha256,
        passed=_passed(verdict),
        who=who(actor),
    )


def _passed(verdict: Verdict) -> str | None:
    """The verdict as JSON, if a bypass let the call pass; otherwise `None`."""
    return None if verdict.bypass is None else jsonx.encode(verdict.stored()).decode()


def record_refusal(permit: Permit, why: str, *, tenant_id: int, actor: Actor) -> None:
    """Record that a permit was presented and not redeemed, for the reason `why`."""
    after = {"permit": permit.public_id, "why": why}
    record_event(
        "permit.refused",
        tenant_id=tenant_id,
        target=permit.exposed_name,
        actor=actor,
        after=after,
        task_id=permit.task_id,
    )


def purge_permits(*, limit: int = 1_000) -> int:
    """Delete permits that expired `KEPT_HOURS` ago, up to `limit`. Returns how many."""
    return _PURGE(kept_hours=KEPT_HOURS, most=limit)

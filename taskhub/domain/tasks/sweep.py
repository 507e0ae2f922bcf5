"""Changes that are due by time alone: lost leases, unanswered questions, expiry, purge."""

from __future__ import annotations

from taskhub.core.records import Actor
from taskhub.core.states import Door
from taskhub.domain.changes import change, who
from taskhub.domain.tasks.run import outcome_seconds
from taskhub.store import statements

CANCEL_GRACE_SECONDS = 10.0
ACTOR = Actor(name="sweep", door=Door.POLICY)

_SWEEP = statements.one("sweep", int)
_PURGE = statements.rowcount("purge_tasks")


def sweep(*, limit: int = 500) -> int:
    """Make the changes that are due. Requeue tasks of lost workers, or ask people whether they ran; force overdue
    cancellations; close overdue questions, or do what their rule says for that case; remind people of approvals when
    their rule says so; fault tasks that expired before they ran; make sure that runnable tasks have a wake-up. Safe to
    run in any number of processes at once. Returns how many tasks changed, or had people reminded of them."""
    return change(
        _SWEEP, grace_seconds=CANCEL_GRACE_SECONDS, most=limit, outcome_seconds=outcome_seconds(), who=who(ACTOR)
    )


def purge(*, retention_days: int, limit: int = 1_000) -> int:
    """Delete ended tasks past the retention, at most `limit`; their events stay."""
    return _PURGE(retention_days=retention_days, most=limit)

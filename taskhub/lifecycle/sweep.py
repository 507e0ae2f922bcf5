"""What time alone brings about: lost leases, unanswered questions, expiry, purge."""

from __future__ import annotations

from taskhub.core.records import Actor
from taskhub.core.states import Door
from taskhub.lifecycle._records import change, who
from taskhub.store import call

CANCEL_GRACE_SECONDS = 10.0
ACTOR = Actor(name="sweep", door=Door.POLICY)


def sweep(*, limit: int = 500) -> int:
    """Take tasks from lost workers, force overdue cancellations, close overdue questions, fault
    tasks that expired unrun, and make sure runnable tasks have a wake-up. Safe to run from any
    number of processes at once. Returns how many tasks changed."""
    return int(change("SELECT sweep_v1(%s::float8, %s::int, %s)", (CANCEL_GRACE_SECONDS, limit, who(ACTOR)))[0])


def purge(*, retention_days: int, limit: int = 1_000) -> int:
    """Delete ended tasks past the retention, at most `limit`; their events stay."""
    # An array, not `IN`: a plan may run a subquery of `IN` again and take other rows each time.
    # The statement's time, not the clock's: a bound that changes with every row is none for an index.
    found = call.rows(
        "DELETE FROM task WHERE id = ANY (ARRAY(SELECT id FROM task WHERE ended_at < statement_timestamp()"
        " - make_interval(days => %s::int) ORDER BY ended_at LIMIT %s FOR UPDATE SKIP LOCKED)) RETURNING id",
        (retention_days, limit),
    )
    return len(found)

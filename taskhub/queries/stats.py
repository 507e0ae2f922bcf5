"""The few numbers of the overview."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from taskhub.queries._read import read

HOURS = 24


@dataclass(frozen=True, slots=True)
class Numbers:
    """How the tenant's work stands now. `failed` counts the last 24 hours."""

    queued: int
    working: int
    waiting_people: int
    waiting_client: int
    failed: int
    oldest_waiting_at: datetime | None
    live_workers: int
    servers: int
    tools: int
    tokens: int
    ever: bool


@dataclass(frozen=True, slots=True)
class Hour:
    """Tasks that ended in one hour, by how."""

    start: datetime
    finished: int
    failed: int
    cancelled: int

    @property
    def total(self) -> int:
        """All that ended."""
        return self.finished + self.failed + self.cancelled


@dataclass(frozen=True, slots=True)
class Failing:
    """A tool that failed in the last 24 hours: how often, of how many, and its latest failure."""

    tool_name: str
    failed: int
    ended: int
    last_at: datetime
    last_message: str
    last_public_id: str


def numbers(tenant_id: int) -> Numbers:
    """One query; every count is over live tasks or the last 24 hours, so it never grows with history."""
    (row,) = read(
        """
        WITH waiting AS (
            SELECT t.id, bool_or(q.audience <> 'client') AS people, min(q.opened_at) AS since
            FROM task t JOIN question q ON q.task_id = t.id AND q.state = 'open'
            WHERE t.tenant_id = %(tenant)s AND t.state = 'input_required' GROUP BY t.id)
        SELECT (SELECT count(*) FROM task WHERE tenant_id = %(tenant)s AND state = 'queued'),
               (SELECT count(*) FROM task WHERE tenant_id = %(tenant)s AND state = 'working'),
               (SELECT count(*) FROM waiting WHERE people), (SELECT count(*) FROM waiting WHERE NOT people),
               (SELECT count(*) FROM task WHERE tenant_id = %(tenant)s AND (state = 'faulted' OR is_error)
                AND ended_at > now() - interval '24 hours'),
               (SELECT min(since) FROM waiting),
               (SELECT count(*) FROM worker WHERE stopped_at IS NULL AND heartbeat_at > now() - interval '30 seconds'),
               (SELECT count(*) FROM server WHERE tenant_id = %(tenant)s AND enabled),
               (SELECT count(*) FROM tool o JOIN server s ON s.id = o.server_id
                WHERE s.tenant_id = %(tenant)s AND o.gone_at IS NULL),
               (SELECT count(*) FROM access_token a JOIN auth_context c ON c.id = a.context_id
                WHERE c.tenant_id = %(tenant)s AND a.revoked_at IS NULL
                AND (a.expires_at IS NULL OR a.expires_at > now())),
               EXISTS (SELECT 1 FROM task WHERE tenant_id = %(tenant)s)
        """,
        {"tenant": tenant_id},
    )
    return Numbers(*row)


def hours(tenant_id: int, *, now: datetime | None = None) -> tuple[Hour, ...]:
    """The last 24 hours, oldest first, the current one last; hours without tasks included."""
    end = (now or datetime.now(UTC)).replace(minute=0, second=0, microsecond=0)
    start = end - timedelta(hours=HOURS - 1)
    found = {
        row[0]: row[1:]
        for row in read(
            """
            SELECT date_trunc('hour', ended_at, 'UTC'), count(*) FILTER (WHERE state = 'finished' AND NOT is_error),
                   count(*) FILTER (WHERE state = 'faulted' OR is_error), count(*) FILTER (WHERE state = 'cancelled')
            FROM task WHERE tenant_id = %s AND ended_at >= %s GROUP BY 1
            """,
            [tenant_id, start],
        )
    }
    moments = [start + timedelta(hours=n) for n in range(HOURS)]
    return tuple(Hour(moment, *found.get(moment, (0, 0, 0))) for moment in moments)


def failing(tenant_id: int, *, limit: int = 5) -> tuple[Failing, ...]:
    """The tools that failed most in the last 24 hours, worst first."""
    return tuple(
        Failing(*row)
        for row in read(
            """
            WITH recent AS (
                SELECT tool_name, state = 'faulted' OR is_error AS bad, ended_at, message, public_id
                FROM task WHERE tenant_id = %s AND ended_at > now() - interval '24 hours')
            SELECT tool_name, count(*) FILTER (WHERE bad), count(*), max(ended_at) FILTER (WHERE bad),
                   (array_agg(message ORDER BY ended_at DESC) FILTER (WHERE bad))[1],
                   (array_agg(public_id ORDER BY ended_at DESC) FILTER (WHERE bad))[1]
            FROM recent GROUP BY tool_name HAVING bool_or(bad) ORDER BY 2 DESC, 4 DESC LIMIT %s
            """,
            [tenant_id, limit],
        )
    )

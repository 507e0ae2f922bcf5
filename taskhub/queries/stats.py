"""The few numbers of the overview."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from taskhub.store import statements

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


_NUMBERS = statements.one("numbers", Numbers)
_ENDED = statements.many("ended_by_hour", Hour)
_FAILING = statements.many("failing", Failing)


def numbers(tenant_id: int) -> Numbers:
    """One query; every count is over live tasks or the last 24 hours, so it never grows with history."""
    return _NUMBERS(tenant=tenant_id)


def hours(tenant_id: int, *, now: datetime | None = None) -> tuple[Hour, ...]:
    """The last 24 hours, oldest first, the current one last; hours without tasks included."""
    end = (now or datetime.now(UTC)).replace(minute=0, second=0, microsecond=0)
    start = end - timedelta(hours=HOURS - 1)
    found = {hour.start: hour for hour in _ENDED(tenant=tenant_id, since=start)}
    moments = [start + timedelta(hours=n) for n in range(HOURS)]
    return tuple(found.get(moment, Hour(moment, 0, 0, 0)) for moment in moments)


def failing(tenant_id: int, *, limit: int = 5) -> tuple[Failing, ...]:
    """The tools that failed most in the last 24 hours, worst first."""
    return tuple(_FAILING(tenant=tenant_id, most=limit))

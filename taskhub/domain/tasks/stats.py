"""The numbers and the chart of the overview."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, fields
from datetime import UTC, datetime, timedelta
from typing import Final

from taskhub.domain.tasks.listing import COUNTED
from taskhub.lib.caches import ExpiringCache
from taskhub.store import statements

HOURS = 24
_LATE = timedelta(minutes=1)
"""How long after its end an hour counts as over: by then every task that ended in that hour is committed."""

_FOREVER = datetime.max.replace(tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Numbers:
    """The present numbers of a tenant's tasks, workers, servers, tools and tokens. `tools` are those that
    clients are offered, `signed_in` how often a person has let a program call for them. `unruled`: tasks whose outcome
    is unknown and waits for a ruling; they are among `waiting_people`. `ever`: whether there was ever a task."""

    working: int
    waiting_people: int
    waiting_client: int
    unruled: int
    unfetched: int
    abandoned: int
    live_workers: int
    servers: int
    tools: int
    tokens: int
    signed_in: int
    ever: bool

    @property
    def unfetched_text(self) -> str:
        """The count of results that were not fetched, with a plus sign if counting stopped at `COUNTED`."""
        return f"{COUNTED:,}+" if self.unfetched > COUNTED else f"{self.unfetched:,}"


@dataclass(frozen=True, slots=True)
class Counts:
    """How many tasks ended, by how they ended: a tab of `listing.TABS` each."""

    finished: int = 0
    error: int = 0
    faulted: int = 0
    rejected: int = 0
    expired: int = 0
    denied: int = 0
    cancelled: int = 0

    @property
    def total(self) -> int:
        """How many tasks ended."""
        return sum(self.of(tab) for tab in ENDS)

    @property
    def errors(self) -> int:
        """How many tasks failed, or ended with an error of their tool."""
        return self.error + self.faulted

    def of(self, tab: str) -> int:
        """How many tasks ended as this tab of `ENDS` says."""
        found: int = getattr(self, tab)
        return found

    def __add__(self, other: Counts) -> Counts:
        return Counts(*(self.of(tab) + other.of(tab) for tab in ENDS))


ENDS: Final = tuple(field.name for field in fields(Counts))
"""The tabs of `listing.TABS` of tasks that have ended."""


@dataclass(frozen=True, slots=True)
class Hour:
    """Tasks that ended in one hour."""

    start: datetime
    counts: Counts


@dataclass(frozen=True, slots=True)
class Failing:
    """A tool with calls that failed, or ended with its error, in the last 24 hours. `errors` counts these calls,
    `ended` all calls of the tool that ended; `last_at` and the fields after it are about the latest of `errors`. A call
    that people rejected, say, counts as ended: the tool did not fail."""

    tool_name: str
    errors: int
    ended: int
    last_at: datetime
    last_message: str
    last_public_id: str


@dataclass(frozen=True, slots=True)
class Ended:
    """Tasks of one tool that ended in one hour, by outcome, and the latest that failed or whose tool reported an error
    among them."""

    start: datetime
    tool_name: str
    finished: int
    error: int
    faulted: int
    rejected: int
    expired: int
    denied: int
    cancelled: int
    last_at: datetime | None
    last_message: str | None
    last_public_id: str | None

    @property
    def counts(self) -> Counts:
        """The numbers alone."""
        return Counts(*(getattr(self, tab) for tab in ENDS))


@dataclass(frozen=True, slots=True)
class Day:
    """The tasks that ended since `since`, 24 hours ago. `hours` are whole hours of the clock, oldest first and the
    current one last, also those without tasks; `failing` are the tools that failed, worst first; `counts` are of all
    24 hours."""

    since: datetime
    hours: tuple[Hour, ...]
    failing: tuple[Failing, ...]
    counts: Counts


_NUMBERS = statements.one("numbers", Numbers)
_ENDED = statements.many("ended", Ended)
_over: ExpiringCache[tuple[int, datetime, datetime], tuple[Ended, ...]] = ExpiringCache(seconds=300.0, most=500)
"""The tasks that ended in hours that are over, by tenant, start and end. They do not change, but are kept for a short
time only, because a made-up history may still be added to them (`domain.seeding.history`)."""


def numbers(tenant_id: int) -> Numbers:
    """The tenant's numbers, in one query. Every count is of live tasks, or stops at `COUNTED`, so it never grows with
    history."""
    return _NUMBERS(tenant=tenant_id, most=COUNTED + 1)


def day(tenant_id: int, *, now: datetime | None = None) -> Day:
    """The tasks that ended in the last 24 hours. Costs two queries over an hour's tasks, and every five minutes one
    over the day's, whose rows all viewers share."""
    now = now or datetime.now(UTC)
    end = now.replace(minute=0, second=0, microsecond=0)
    start = end - timedelta(hours=HOURS - 1)
    over = (now - _LATE).replace(minute=0, second=0, microsecond=0)
    shown = [*_hours_over(tenant_id, start, over), *_ENDED(tenant=tenant_id, since=over, until=_FOREVER)]
    moments = [start + timedelta(hours=n) for n in range(HOURS)]
    # The first hour of the clock begins less than 24 hours ago: the tools that failed before it, within 24 hours, count
    # too.
    since = now - timedelta(hours=HOURS)
    rows = [*shown, *_ENDED(tenant=tenant_id, since=since, until=start)]
    return Day(since, tuple(_hour(moment, shown) for moment in moments), _failing(rows), _summed(rows))


def _hours_over(tenant_id: int, start: datetime, until: datetime) -> tuple[Ended, ...]:
    key = (tenant_id, start, until)
    found = _over.get(key)
    if found is None:
        since = _over.since()
        found = tuple(_ENDED(tenant=tenant_id, since=start, until=until))
        _over.keep(key, found, since)
    return found


def _hour(moment: datetime, rows: Iterable[Ended]) -> Hour:
    return Hour(moment, _summed(row for row in rows if row.start == moment))


def _summed(rows: Iterable[Ended]) -> Counts:
    return sum((row.counts for row in rows), start=Counts())


def _failing(rows: Iterable[Ended]) -> tuple[Failing, ...]:
    by_tool: dict[str, list[Ended]] = {}
    for row in rows:
        by_tool.setdefault(row.tool_name, []).append(row)
    found = []
    for name, of in by_tool.items():
        last = max(
            ((row.last_at, row.last_message or "", row.last_public_id or "") for row in of if row.last_at),
            default=None,
        )
        if last is not None:
            counts = _summed(of)
            found.append(Failing(name, counts.errors, counts.total, *last))
    return tuple(sorted(found, key=lambda tool: (tool.errors, tool.last_at), reverse=True))

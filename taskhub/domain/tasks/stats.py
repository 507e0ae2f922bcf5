"""The numbers and the chart of the overview."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from taskhub.domain.tasks.listing import COUNTED
from taskhub.lib.caches import ExpiringCache
from taskhub.store import statements

HOURS = 24
_LATE = timedelta(minutes=1)
"""How long after its end an hour counts as over: by then every task that ended in that hour is committed."""

_FOREVER = datetime.max.replace(tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Numbers:
    """The present numbers of a tenant's tasks, workers, servers, tools and tokens. `unruled`: tasks whose outcome is
    unknown and waits for a ruling; they are among `waiting_people`. `ever`: whether there was ever a task."""

    working: int
    waiting_people: int
    waiting_client: int
    unruled: int
    unfetched: int
    live_workers: int
    servers: int
    tools: int
    tokens: int
    ever: bool

    @property
    def unfetched_text(self) -> str:
        """The count of results that were not fetched, with a plus sign if counting stopped at `COUNTED`."""
        return f"{COUNTED:,}+" if self.unfetched > COUNTED else f"{self.unfetched:,}"


@dataclass(frozen=True, slots=True)
class Hour:
    """Tasks that ended in one hour, by outcome."""

    start: datetime
    finished: int
    failed: int
    cancelled: int

    @property
    def total(self) -> int:
        """How many tasks ended."""
        return self.finished + self.failed + self.cancelled


@dataclass(frozen=True, slots=True)
class Failing:
    """A tool that failed in the last 24 hours: its number of failures, its number of calls, and its latest failure.
    Calls that a rule denied after they had waited are in neither number: the tool never ran."""

    tool_name: str
    failed: int
    ended: int
    last_at: datetime
    last_message: str
    last_public_id: str


@dataclass(frozen=True, slots=True)
class Ended:
    """Tasks of one tool that ended in one hour, by outcome, and the latest failure of the tool among them. `denied`:
    how many of `failed` a rule denied when a worker took them."""

    start: datetime
    tool_name: str
    finished: int
    failed: int
    denied: int
    cancelled: int
    last_at: datetime | None
    last_message: str | None
    last_public_id: str | None


@dataclass(frozen=True, slots=True)
class Day:
    """The tasks that ended in the last 24 hours. `hours` are whole hours of the clock, oldest first and the current
    one last, also those without tasks; `failing` are the tools that failed, worst first; `failed` is how many tasks
    failed."""

    hours: tuple[Hour, ...]
    failing: tuple[Failing, ...]
    failed: int


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
    rows = [*shown, *_ENDED(tenant=tenant_id, since=now - timedelta(hours=HOURS), until=start)]
    return Day(tuple(_hour(moment, shown) for moment in moments), _failing(rows), sum(row.failed for row in rows))


def _hours_over(tenant_id: int, start: datetime, until: datetime) -> tuple[Ended, ...]:
    key = (tenant_id, start, until)
    found = _over.get(key)
    if found is None:
        since = _over.since()
        found = tuple(_ENDED(tenant=tenant_id, since=start, until=until))
        _over.keep(key, found, since)
    return found


def _hour(moment: datetime, rows: Iterable[Ended]) -> Hour:
    of = [row for row in rows if row.start == moment]
    return Hour(
        moment, sum(row.finished for row in of), sum(row.failed for row in of), sum(row.cancelled for row in of)
    )


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
            ended = sum(row.finished + row.failed - row.denied + row.cancelled for row in of)
            found.append(Failing(name, sum(row.failed - row.denied for row in of), ended, *last))
    return tuple(sorted(found, key=lambda tool: (tool.failed, tool.last_at), reverse=True))

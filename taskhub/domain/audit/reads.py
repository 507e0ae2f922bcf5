"""The audit log as people read it: pages by keyset, one event, exports, and how far it is sealed.

The log only grows, so the cost of a read must not grow with it: a page walks the index from its cursor, a time is found
by bisection over the ids, and a search that no index answers reads `WINDOW` events at a time and says where it stopped.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any

from taskhub.lib.numbers import whole
from taskhub.store import statements
from taskhub.store.likes import escaped_like
from taskhub.store.models import Task

PAGE_ROWS = 50
WINDOW = 8_000
"""The most events that are searched for one page when no index answers the filter."""

EXPORT_ROWS = 100_000
"""The most events in one export."""

_CHUNK = 1_000
_SKEW = timedelta(minutes=10)
"""Tolerance when a time is looked up by bisection over ids. Ids and times grow together, except for concurrent
transactions (by 10 seconds at most) and after a clock was set back. If that was by more than this tolerance, a search
may miss events."""


@dataclass(frozen=True, slots=True)
class EventFilter:
    """Which events to show; empty fields mean everything. `action`: an exact name, or a category such as `task`.
    `task`: a public id or, for a purged task, its number. `actor`: a part of the actor's name. `address`: the beginning
    of the address. `text`: a part of the event's `target`, `reason`, `before` or `after`.
    """

    action: str = ""
    actor: str = ""
    task: str = ""
    door: str = ""
    address: str = ""
    since: datetime | None = None
    until: datetime | None = None
    text: str = ""


@dataclass(frozen=True, slots=True)
class ArchivedLog:
    """The archived beginning of the log: the number of events, and the newest time in the last archived part."""

    until: datetime
    events: int


@dataclass(frozen=True, slots=True)
class EventRow:
    """One event. `task_public_id` is `None` when there is no task or it was purged."""

    id: int
    at: datetime
    action: str
    actor: str
    door: str
    address: str
    task_id: int | None
    task_public_id: str | None
    target: str
    reason: str
    before: Any
    after: Any
    context_id: int | None
    context_name: str | None
    xid: int

    @property
    def changes(self) -> tuple[tuple[str, str | None, str | None], ...]:
        """(field, before, after) as text, for each field of the objects `before` and `after`."""
        before = self.before if isinstance(self.before, dict) else {}
        after = self.after if isinstance(self.after, dict) else {}
        names = [*before, *(name for name in after if name not in before)]
        return tuple(
            (
                name,
                _short(before[name]) if name in before else None,
                _short(after[name]) if name in after else None,
            )
            for name in names
        )


@dataclass(frozen=True, slots=True)
class EventPage:
    """A page of events, newest first. `older` and `newer` are cursors (event ids), or `None`. `searched_to` is the time
    at which a search stopped after `WINDOW` events; `older` continues from there.
    """

    rows: tuple[EventRow, ...]
    older: int | None
    newer: int | None
    searched_to: datetime | None = None


@dataclass(frozen=True, slots=True)
class SealStatus:
    """The tenant's newest sealed event, and when events were last sealed, last verified, and last verified in full.

    `waiting` counts events that no seal covers yet, up to 1,000.
    """

    event_id: int | None
    event_at: datetime | None
    sealed_at: datetime | None
    waiting: int
    waiting_since: datetime | None
    verified_at: datetime | None
    verified_by: str
    verified_ok: bool | None
    verified_in_full_at: datetime | None
    to_xid: int


@dataclass(frozen=True, slots=True)
class Verifications:
    """The last verification on record, and the last full one that found no fault."""

    at: datetime | None
    ok: bool | None
    problem: str
    in_full_at: datetime | None


_JSON = {"before": statements.from_json, "after": statements.from_json}
_OLDER = statements.many("older_events", EventRow, convert=_JSON)
_NEWER = statements.many("newer_events", EventRow, convert=_JSON)
_OLDER_SEARCHED = statements.many("older_events_searched", EventRow, convert=_JSON)
_NEWER_SEARCHED = statements.many("newer_events_searched", EventRow, convert=_JSON)
_EDGE = statements.maybe("last_event_looked_at", tuple[int, datetime])
_FIRST_AT = statements.one("first_event_id_at", int)
_BY_ID = statements.maybe("event_by_id", EventRow, convert=_JSON)
_NEWEST = statements.maybe("newest_event_id", int)
_ACTIONS = statements.many("known_actions", str)
_SEALED = statements.one("seal_status", SealStatus)
_VERIFICATIONS = statements.one("verifications", Verifications)
_ARCHIVED = statements.maybe("archived_last", ArchivedLog)


def event_page(
    tenant_id: int, wanted: EventFilter, *, before: int | None = None, after: int | None = None, limit: int = PAGE_ROWS
) -> EventPage:
    """The page of events older than `before`, or newer than `after`; without both, the newest page."""
    ascending = after is not None and before is None
    bounds = _bounds(tenant_id, wanted)
    if bounds is None:
        return EventPage((), None, None)
    low, high = bounds
    if before is not None:
        high = min(high, before)
    if ascending and after is not None:
        low = max(low, after + 1)
    found = _rows(tenant_id, wanted, low, high, limit + 1, ascending=ascending)
    full, found = len(found) > limit, found[:limit]
    if ascending:
        found.reverse()
        older = found[-1].id if found else (after or 0) + 1
        return EventPage(tuple(found), older, found[0].id if full else None)
    newer = found[0].id if found and before is not None else None
    if full:
        return EventPage(tuple(found), found[-1].id, newer)
    if _indexed(wanted):
        return EventPage(tuple(found), None, newer)
    edge = _EDGE(tenant=tenant_id, low=low, high=high, looked_at=WINDOW)
    if edge is None:
        return EventPage(tuple(found), None, newer)
    return EventPage(tuple(found), edge[0], newer, searched_to=edge[1])


def count_newer(tenant_id: int, wanted: EventFilter, after: int, limit: int = 99) -> int:
    """The number of matching events with ids above `after`; counting stops at `limit` + 1."""
    bounds = _bounds(tenant_id, wanted)
    if bounds is None:
        return 0
    return len(_rows(tenant_id, wanted, max(bounds[0], after + 1), bounds[1], limit + 1, ascending=True))


def event_by_id(tenant_id: int, event_id: int) -> EventRow | None:
    """The event of the tenant with this id; `None` if there is none."""
    return _BY_ID(tenant=tenant_id, event=event_id)


def newest_event_id(tenant_id: int) -> int:
    """The id of the tenant's newest event; 0 if there is none."""
    return _NEWEST(tenant=tenant_id) or 0


def export_events(tenant_id: int, wanted: EventFilter, *, up_to: int) -> Iterator[EventRow]:
    """Yield matching events, newest first, from the id `up_to` down, without those written after the export began.

    Yields up to `EXPORT_ROWS` + 1 rows, so that the caller knows whether it has to cut. Each
    statement reads a bounded part; no cursor or transaction stays open between them.
    """
    left, before = EXPORT_ROWS + 1, up_to + 1
    while left > 0:
        page = event_page(tenant_id, wanted, before=before, limit=min(_CHUNK, left))
        yield from page.rows
        left -= len(page.rows)
        if page.older is None:
            return
        before = page.older


def known_actions(tenant_id: int) -> tuple[str, ...]:
    """Every action in the tenant's log, sorted. Costs one index step for each, however long the log is."""
    return tuple(_ACTIONS(tenant=tenant_id))


def seal_status(tenant_id: int) -> SealStatus:
    """How far the tenant's log is sealed, and the latest verification on record."""
    return _SEALED(tenant=tenant_id)


def archived_log() -> ArchivedLog | None:
    """The log's record of what is archived; `None` if nothing is."""
    return _ARCHIVED()


def verifications() -> Verifications:
    """The log's record of its last verifications."""
    return _VERIFICATIONS()


def _indexed(wanted: EventFilter) -> bool:
    """Whether an index answers the whole filter, so that no window is needed."""
    exact = replace(wanted, since=None, until=None)
    if exact.action and "." in exact.action and exact.action[-1] not in ".*":
        exact = replace(exact, action="")
    return exact == EventFilter() or bool(wanted.task)


def _bounds(tenant_id: int, wanted: EventFilter) -> tuple[int, int] | None:
    """The range of ids that can match, as (low, high): from `low` up to, not including, `high`. `None` if no event can
    match."""
    low, high = 0, 2**63 - 1
    if wanted.since is not None:
        low = _FIRST_AT(tenant=tenant_id, moment=wanted.since - _SKEW)
    if wanted.until is not None:
        high = _FIRST_AT(tenant=tenant_id, moment=wanted.until + _SKEW)
    return (low, high) if low < high else None


def _rows(tenant_id: int, wanted: EventFilter, low: int, high: int, limit: int, *, ascending: bool) -> list[EventRow]:
    conditions = _conditions(tenant_id, wanted)
    if conditions is None:
        return []
    given = {**conditions, "tenant": tenant_id, "low": low, "high": high, "most": limit}
    if _indexed(wanted):
        return _NEWER(**given) if ascending else _OLDER(**given)
    if ascending:
        return _NEWER_SEARCHED(**given, looked_at=WINDOW)
    return _OLDER_SEARCHED(**given, looked_at=WINDOW)


def _conditions(tenant_id: int, wanted: EventFilter) -> dict[str, object] | None:
    """The parameters of the search statements; a parameter is `None` if its condition is not set. Returns `None` if no
    event can match."""
    task_id = _task_id(tenant_id, wanted.task) if wanted.task else None
    if wanted.task and task_id is None:
        return None
    category = bool(wanted.action) and _category(wanted.action)
    return {
        "action": (wanted.action or None) if not category else None,
        "category": f"{escaped_like(wanted.action.rstrip('.*'))}.%" if category else None,
        "task": task_id,
        "door": wanted.door or None,
        "actor": f"%{escaped_like(wanted.actor)}%" if wanted.actor else None,
        "address": f"{escaped_like(wanted.address)}%" if wanted.address else None,
        "since": wanted.since,
        "until": wanted.until,
        "text": f"%{escaped_like(wanted.text)}%" if wanted.text else None,
    }


def _category(action: str) -> bool:
    return "." not in action or action[-1] in ".*"


def _task_id(tenant_id: int, task: str) -> int | None:
    """The internal id of a task; a purged task is still found by its number."""
    known = Task.objects.filter(public_id=task, tenant_id=tenant_id).values_list("pk", flat=True).first()
    return whole(task.removeprefix("#")) if known is None else known


def _short(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)

"""The audit log as people read it: pages by key, one event, exports, and how far it is sealed.

The log only grows, so no read here may grow with it: a page walks the index from its cursor,
a moment in time is found by bisection over the ids, and conditions that no index answers look
at `WINDOW` events at a time and say where they stopped.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any

from taskhub.queries._read import read

PAGE_ROWS = 50
WINDOW = 100_000
"""Events looked at for one page when no index answers the question."""

EXPORT_ROWS = 100_000
"""Most events in one export."""

_CHUNK = 1_000
_SKEW = timedelta(minutes=10)
"""Ids and times run together, but for transactions in flight (10 seconds at most) and clocks that
were set back: by more than this, and a search between two moments misses what the clock repeated."""

_COLUMNS = (
    "e.id, e.at, e.action, e.actor, e.door, e.address, e.task_id, t.public_id, e.target, e.reason, e.before::text,"
    " e.after::text, e.context_id, c.name, e.xid"
)
_JOINS = (
    " LEFT JOIN task t ON t.id = e.task_id AND t.tenant_id = e.tenant_id"
    " LEFT JOIN auth_context c ON c.id = e.context_id AND c.tenant_id = e.tenant_id"
)


@dataclass(frozen=True, slots=True)
class EventFilter:
    """What to show. `action` is an exact name, or a category such as `task`; `task` the public
    id or, for a task that was purged, its number; `actor` a part of the name; `address` its
    beginning; `text` a part of target, reason, before or after.
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
        """(field, before, after) as text, when both or one of them are objects."""
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
    """Newest first. `older` and `newer` are cursors (event ids) or `None`. `searched_to` is set
    when the search stopped at `WINDOW` events: `older` goes on from there.
    """

    rows: tuple[EventRow, ...]
    older: int | None
    newer: int | None
    searched_to: datetime | None = None


@dataclass(frozen=True, slots=True)
class SealStatus:
    """Up to where the tenant's events are sealed, and when somebody last verified the seals.

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
    to_xid: int


def event_page(
    tenant_id: int, wanted: EventFilter, *, before: int | None = None, after: int | None = None, limit: int = PAGE_ROWS
) -> EventPage:
    """The page older than `before`, or newer than `after`, or the newest."""
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
    edge = _edge(tenant_id, low, high)
    if edge is None:
        return EventPage(tuple(found), None, newer)
    return EventPage(tuple(found), edge[0], newer, searched_to=edge[1])


def count_newer(tenant_id: int, wanted: EventFilter, after: int, limit: int = 99) -> int:
    """How many events beyond `after` fit, up to `limit` + 1."""
    bounds = _bounds(tenant_id, wanted)
    if bounds is None:
        return 0
    return len(_rows(tenant_id, wanted, max(bounds[0], after + 1), bounds[1], limit + 1, ascending=True))


def event_by_id(tenant_id: int, event_id: int) -> EventRow | None:
    """One event of the tenant."""
    found = _select(
        f"SELECT {_COLUMNS} FROM event e{_JOINS} WHERE e.tenant_id = %s AND e.id = %s",
        [tenant_id, event_id],
    )
    return found[0] if found else None


def newest_event_id(tenant_id: int) -> int:
    """The tenant's newest event, 0 when there is none."""
    return int(_one("SELECT id FROM event WHERE tenant_id = %s ORDER BY id DESC LIMIT 1", [tenant_id], (0,))[0])


def export_events(tenant_id: int, wanted: EventFilter, *, up_to: int) -> Iterator[EventRow]:
    """Newest first, from `up_to` down: what was written after the export began is not in it.

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
    """Every action the tenant's log holds: one index step per action, however long the log."""
    found = read(
        """
        WITH RECURSIVE step(action) AS (
            (SELECT action FROM event WHERE tenant_id = %s ORDER BY action LIMIT 1)
            UNION ALL
            SELECT (SELECT e.action FROM event e WHERE e.tenant_id = %s AND e.action > step.action
                    ORDER BY e.action LIMIT 1)
            FROM step WHERE step.action IS NOT NULL
        )
        SELECT action FROM step WHERE action IS NOT NULL LIMIT 200
        """,
        [tenant_id, tenant_id],
    )
    return tuple(row[0] for row in found)


def seal_status(tenant_id: int) -> SealStatus:
    """Up to where the tenant's log is sealed, and the latest verification on record."""
    found = read(
        """
        WITH last AS (SELECT to_xid, at, (SELECT max(id) FROM unnest(event_ids) AS ids(id)) AS top
                      FROM seal ORDER BY to_xid DESC LIMIT 1),
             -- From the seal's own last event downwards: a sealer that stopped long ago must
             -- not make this walk through everything that came since.
             covered AS (SELECT e.id, e.at FROM last, LATERAL (
                             SELECT id, at FROM event
                             WHERE tenant_id = %(tenant)s AND id <= last.top AND xid < last.to_xid
                             ORDER BY id DESC LIMIT 1) e),
             open AS (SELECT e.at FROM event e
                      WHERE e.tenant_id = %(tenant)s AND e.xid >= coalesce((SELECT to_xid FROM last), 0)
                      ORDER BY e.xid, e.id LIMIT 1000),
             -- One index step each; OR would leave the index and search the whole log.
             verified AS (SELECT * FROM (
                 (SELECT id, at, actor, after ->> 'ok' AS ok FROM event
                  WHERE tenant_id = %(tenant)s AND action = 'audit.verified' ORDER BY id DESC LIMIT 1)
                 UNION ALL
                 (SELECT id, at, actor, after ->> 'ok' AS ok FROM event
                  WHERE tenant_id IS NULL AND action = 'audit.verified' ORDER BY id DESC LIMIT 1)) either
                 ORDER BY id DESC LIMIT 1)
        SELECT (SELECT id FROM covered), (SELECT at FROM covered), (SELECT at FROM last),
               (SELECT count(*) FROM open), (SELECT min(at) FROM open),
               (SELECT at FROM verified), coalesce((SELECT actor FROM verified), ''),
               (SELECT ok FROM verified), coalesce((SELECT to_xid FROM last), 0)
        """,
        {"tenant": tenant_id},
    )
    row = found[0]
    ok = None if row[7] is None else row[7] == "true"
    values: Any = (*row[:7], ok, row[8])
    return SealStatus(*values)


def _indexed(wanted: EventFilter) -> bool:
    """Whether an index answers the whole filter, so that no window is needed."""
    exact = replace(wanted, since=None, until=None)
    if exact.action and "." in exact.action and exact.action[-1] not in ".*":
        exact = replace(exact, action="")
    return exact == EventFilter() or bool(wanted.task)


def _bounds(tenant_id: int, wanted: EventFilter) -> tuple[int, int] | None:
    """Ids `low <= id < high` that can hold an answer; `None` when nothing can."""
    low, high = 0, 2**63 - 1
    if wanted.since is not None:
        low = _first_id_at(tenant_id, wanted.since - _SKEW)
    if wanted.until is not None:
        high = _first_id_at(tenant_id, wanted.until + _SKEW)
    return (low, high) if low < high else None


def _first_id_at(tenant_id: int, moment: datetime) -> int:
    """The first id at or after `moment`, by bisection: there is no index on time."""
    found = read(
        """
        WITH RECURSIVE search(lo, hi) AS (
            SELECT min(id), max(id) + 1 FROM event WHERE tenant_id = %(tenant)s
            UNION ALL
            SELECT CASE WHEN probe.at < %(moment)s THEN probe.id + 1 ELSE s.lo END,
                   CASE WHEN probe.at < %(moment)s THEN s.hi ELSE (s.lo + s.hi) / 2 END
            FROM search s, LATERAL (
                SELECT id, at FROM event WHERE tenant_id = %(tenant)s AND id >= (s.lo + s.hi) / 2
                ORDER BY id LIMIT 1) probe
            WHERE s.lo < s.hi
        )
        SELECT coalesce(max(lo), 0) FROM search
        """,
        {"tenant": tenant_id, "moment": moment},
    )
    return int(found[0][0])


def _rows(tenant_id: int, wanted: EventFilter, low: int, high: int, limit: int, *, ascending: bool) -> list[EventRow]:
    where, params = _conditions(tenant_id, wanted)
    if where is None:
        return []
    order = "ASC" if ascending else "DESC"
    reach = "e.tenant_id = %s AND e.id >= %s AND e.id < %s"
    if _indexed(wanted):
        source, conditions = "event e", f"{reach}{where}"
    else:
        # The inner LIMIT is what bounds the work; the outer one stops it as soon as the page is full.
        source = f"(SELECT * FROM event e WHERE {reach} ORDER BY e.id {order} LIMIT {WINDOW}) e"
        conditions = f"true{where}"
    return _select(
        f"SELECT {_COLUMNS} FROM {source}{_JOINS} WHERE {conditions} ORDER BY e.id {order} LIMIT %s",
        [tenant_id, low, high, *params, limit],
    )


def _conditions(tenant_id: int, wanted: EventFilter) -> tuple[str | None, list[Any]]:
    """SQL after the tenant and the ids; `None` when nothing can fit."""
    sql, params = "", list[Any]()
    if wanted.action:
        if _category(wanted.action):
            sql += " AND e.action LIKE %s"
            params.append(_like(wanted.action.rstrip(".*")) + ".%")
        else:
            sql += " AND e.action = %s"
            params.append(wanted.action)
    if wanted.task:
        task_id = _task_id(tenant_id, wanted.task)
        if task_id is None:
            return None, []
        sql += " AND e.task_id = %s"
        params.append(task_id)
    if wanted.door:
        sql += " AND e.door = %s"
        params.append(wanted.door)
    if wanted.actor:
        sql += " AND e.actor ILIKE %s"
        params.append(f"%{_like(wanted.actor)}%")
    if wanted.address:
        sql += " AND e.address LIKE %s"
        params.append(f"{_like(wanted.address)}%")
    if wanted.since is not None:
        sql += " AND e.at >= %s"
        params.append(wanted.since)
    if wanted.until is not None:
        sql += " AND e.at <= %s"
        params.append(wanted.until)
    if wanted.text:
        sql += " AND concat_ws(' ', e.target, e.reason, e.before::text, e.after::text) ILIKE %s"
        params.append(f"%{_like(wanted.text)}%")
    return sql, params


def _category(action: str) -> bool:
    return "." not in action or action[-1] in ".*"


def _task_id(tenant_id: int, task: str) -> int | None:
    """The number behind a public id; a purged task is still found by its number."""
    row = _one("SELECT id FROM task WHERE public_id = %s AND tenant_id = %s", [task, tenant_id], None)
    if row is not None:
        return int(row[0])
    number = task.removeprefix("#")
    return int(number) if number.isascii() and number.isdigit() and len(number) < 19 else None


def _edge(tenant_id: int, low: int, high: int) -> tuple[int, datetime] | None:
    """The last event of a full window, if there is anything beyond it."""
    row = _one(
        f"SELECT id, at FROM event WHERE tenant_id = %s AND id >= %s AND id < %s"
        f" ORDER BY id DESC OFFSET {WINDOW - 1} LIMIT 1",
        [tenant_id, low, high],
        None,
    )
    return None if row is None else (row[0], row[1])


def _select(sql: str, params: list[Any]) -> list[EventRow]:
    return [_event(row) for row in read(sql, params)]


def _event(row: Any) -> EventRow:
    """A row in the order of `_COLUMNS`."""
    values: Any = (*row[:10], _decoded(row[10]), _decoded(row[11]), *row[12:])
    return EventRow(*values)


def _one(sql: str, params: list[Any], missing: Any) -> Any:
    found = read(sql, params)
    return found[0] if found else missing


def _decoded(text: str | None) -> Any:
    return None if text is None else json.loads(text)


def _like(text: str) -> str:
    return text.replace("\\", "\\\\").replace("%", r"\%").replace("_", r"\_")


def _short(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)

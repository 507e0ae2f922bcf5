"""Pages of tasks: newest first, keyed by id, so that page 10,000 costs what page 1 costs.

What no index answers (text, age, tool) looks at the newest `WINDOW` ids only, and the page
says so. Counts stop at `COUNTED`.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from taskhub.core.states import State
from taskhub.queries._read import read

PAGE_ROWS: Final = 30
WINDOW: Final = 100_000
COUNTED: Final = 1_000
SUMMARY: Final = 400

TABS: Final = ("queued", "working", "input_required", "finished", "error", "faulted", "cancelled")
"""Tabs of the list: the states, with `error` for finished tasks whose tool reported an error."""

AGES: Final[dict[str, int]] = {"1h": 3_600, "24h": 86_400, "7d": 604_800}


@dataclass(frozen=True, slots=True)
class TaskFilter:
    """What a list of tasks is narrowed to. Empty values mean everything."""

    tab: str = ""
    tool: str = ""
    context_id: int | None = None
    text: str = ""
    age: str = ""

    @property
    def windowed(self) -> bool:
        """Whether only the newest `WINDOW` tasks are looked at."""
        return bool(self.text or self.tool or self.age)


@dataclass(frozen=True, slots=True)
class TaskRow:
    """One line of a list. `summary` is a short text of the arguments; `waiting_for` is
    `people`, `client` or empty.
    """

    id: int
    public_id: str
    tool_name: str
    summary: str
    client: str
    context_id: int
    state: State
    is_error: bool
    message: str
    progress: float | None
    total: float | None
    cancel_requested_at: datetime | None
    created_at: datetime
    updated_at: datetime
    ended_at: datetime | None
    last_polled_at: datetime | None
    waiting_for: str


@dataclass(frozen=True, slots=True)
class TaskPage:
    """Rows and the cursor of the page after; `None` on the last one."""

    rows: tuple[TaskRow, ...]
    next_before: int | None


@dataclass(frozen=True, slots=True)
class TabCount:
    """How many tasks a tab holds; `more` when counting stopped at `COUNTED`."""

    tab: str
    count: int
    more: bool


@dataclass(frozen=True, slots=True)
class Choices:
    """What the list can be narrowed to."""

    tools: tuple[str, ...]
    clients: tuple[tuple[int, str], ...]


_ROW = """
    SELECT t.id, t.public_id, t.tool_name, left(t.arguments::text, {summary}), c.name, t.context_id, t.state,
           t.is_error, t.message, t.progress, t.total, t.cancel_requested_at, t.created_at, t.updated_at, t.ended_at,
           t.last_polled_at,
           CASE WHEN t.state <> 'input_required' THEN ''
                WHEN EXISTS (SELECT 1 FROM question q WHERE q.task_id = t.id AND q.state = 'open'
                             AND q.audience <> 'client') THEN 'people'
                ELSE 'client' END
    FROM task t JOIN auth_context c ON c.id = t.context_id
    WHERE {conditions} ORDER BY t.id DESC LIMIT %s
"""


def task_page(tenant_id: int, wanted: TaskFilter, *, before: int | None = None, limit: int = PAGE_ROWS) -> TaskPage:
    """The newest tasks with ids below `before`. One query, whatever the filter."""
    conditions, params = _conditions(tenant_id, wanted)
    if wanted.tab:
        condition, value = _tab(wanted.tab)
        conditions.append(condition)
        params.append(value)
    if before is not None:
        conditions.append("t.id < %s")
        params.append(before)
    sql = _ROW.format(summary=SUMMARY, conditions=" AND ".join(conditions))
    found = [task_row(row) for row in read(sql, [*params, limit + 1])]
    rows = tuple(found[:limit])
    return TaskPage(rows=rows, next_before=rows[-1].id if len(found) > limit else None)


def tab_counts(tenant_id: int, wanted: TaskFilter) -> tuple[TabCount, ...]:
    """How many tasks each tab holds under the rest of the filter. One query."""
    conditions, params = _conditions(tenant_id, wanted)
    parts: list[str] = []
    values: list[object] = []
    for tab in TABS:
        condition, value = _tab(tab)
        parts.append(
            f"SELECT '{tab}', count(*) FROM (SELECT 1 FROM task t WHERE {' AND '.join([*conditions, condition])}"
            f" LIMIT {COUNTED + 1}) counted"
        )
        values += [*params, value]
    found = dict(read(" UNION ALL ".join(parts), values))
    return tuple(TabCount(tab=tab, count=min(found[tab], COUNTED), more=found[tab] > COUNTED) for tab in TABS)


def choices(tenant_id: int) -> Choices:
    """The tools and clients of the tenant, the first 500 of each by name."""
    tools = read(
        "SELECT DISTINCT o.exposed_name FROM tool o JOIN server s ON s.id = o.server_id WHERE s.tenant_id = %s"
        " ORDER BY 1 LIMIT 500",
        [tenant_id],
    )
    clients = read("SELECT id, name FROM auth_context WHERE tenant_id = %s ORDER BY name, id LIMIT 500", [tenant_id])
    return Choices(tools=tuple(row[0] for row in tools), clients=tuple((row[0], row[1]) for row in clients))


def task_row(row: tuple[Any, ...]) -> TaskRow:
    """A row of `_ROW` as a record."""
    values = list(row)
    values[3] = summarized(row[3])
    values[6] = State(row[6])
    return TaskRow(*values)


def summarized(text: str) -> str:
    """Arguments on one line: `service: api, version: 1.2`. `text` is JSON, perhaps cut short."""
    try:
        arguments = json.loads(text)
    except ValueError:
        return text
    if not isinstance(arguments, dict):
        return text
    return ", ".join(
        f"{name}: {value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)}"
        for name, value in arguments.items()
    )


def _tab(tab: str) -> tuple[str, object]:
    if tab == "error":
        return "t.state = %s AND t.is_error", "finished"
    if tab == "finished":
        return "t.state = %s AND NOT t.is_error", "finished"
    return "t.state = %s", tab


def _conditions(tenant_id: int, wanted: TaskFilter) -> tuple[list[str], list[object]]:
    conditions = ["t.tenant_id = %s"]
    values: list[object] = [tenant_id]
    if wanted.windowed:
        conditions.append("t.id > (SELECT coalesce(max(id), 0) - %s FROM task)")
        values.append(WINDOW)
    if wanted.tool:
        conditions.append("t.tool_name = %s")
        values.append(wanted.tool)
    if wanted.context_id is not None:
        conditions.append("t.context_id = %s")
        values.append(wanted.context_id)
    if wanted.age in AGES:
        conditions.append("t.created_at > now() - make_interval(secs => %s)")
        values.append(AGES[wanted.age])
    if wanted.text:
        literal = wanted.text.replace("\\", "\\\\").replace("%", "\\%").replace("_", "\\_")
        conditions.append(
            "(t.public_id LIKE %s OR t.tool_name ILIKE %s OR t.message ILIKE %s OR t.arguments::text ILIKE %s)"
        )
        values += [f"{literal}%", f"%{literal}%", f"%{literal}%", f"%{literal}%"]
    return conditions, values

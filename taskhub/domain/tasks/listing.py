"""Pages of tasks, newest first, with keyset pagination by id, so that page 10,000 costs as much as page 1.

For filters without an index (text, age, tool) each page searches only a range of ids, and the next page goes on below
it. Counts are of the newest range, and stop at `COUNTED`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from taskhub.core import calls
from taskhub.core.bypass import Passed, passed
from taskhub.core.states import State
from taskhub.store import statements
from taskhub.store.models import AuthContext, Tool

PAGE_ROWS: Final = 30
WINDOW: Final = 100_000
TEXT_WINDOW: Final = 5_000
"""How many ids are searched for one page: `WINDOW` by tool and age, which are columns; `TEXT_WINDOW` by text, which may
be anywhere in a task."""

COUNTED: Final = 1_000
MOST_WORDS: Final = 8
"""Words of a search that are looked for; more are ignored."""
SUMMARY: Final = 400

REFUSED: Final = ("rejected", "expired", "denied")
"""How tasks end whose tool neither answered nor failed (`Task.ended_as`)."""

TABS: Final = ("queued", "working", "input_required", "finished", "error", "faulted", *REFUSED, "cancelled")
"""The tabs of the list: the states; `error`, for finished tasks whose tool reported an error; and the ends of
`REFUSED`, whose tasks are in no other tab. Every task is in one tab."""

PARTS: Final = {
    "people": "input_required",
    "client": "input_required",
    "unknown": "input_required",
    "abandoned": "finished",
    "unfetched": "finished",
    "errors": "error",
}
"""Tabs that are shown only while they are selected, each with the tab to the left of which it is shown. `people`,
`client`: tasks that wait for people, or for their client. `unknown`: tasks whose outcome is unknown and waits for a
ruling. `abandoned`: plain calls that go on although their caller left. `unfetched`: plain calls that ended, whose
caller left and has not fetched the result. `errors`: `error` and `faulted` together."""


@dataclass(frozen=True, slots=True)
class TaskFilter:
    """The filter of a list of tasks. Empty values mean everything."""

    tab: str = ""
    tool: str = ""
    context_id: int | None = None
    text: str = ""
    since: datetime | None = None
    until: datetime | None = None
    by_end: bool = False
    """Whether `since` and `until` are about the end of a task, not about its creation."""

    @property
    def window(self) -> int | None:
        """How many ids are searched for one page; `None` if an index finds the tasks."""
        if self.text:
            return TEXT_WINDOW
        return WINDOW if self.tool or self.since or self.until or self.tab == "errors" else None


@dataclass(frozen=True, slots=True)
class TaskRow:
    """A line of a list of tasks. `given` is the beginning of the arguments, as JSON. `left_at` is when the caller of a
    plain call left, if nobody waits for it or has fetched its result since. `waiting_for` is `people`, `client`,
    `unknown` or empty."""

    id: int
    public_id: str
    tool_name: str
    given: str
    client: str
    context_id: int
    state: State
    is_error: bool
    ended_as: str
    message: str
    progress: float | None
    total: float | None
    cancel_requested_at: datetime | None
    created_at: datetime
    updated_at: datetime
    ended_at: datetime | None
    last_polled_at: datetime | None
    left_at: datetime | None
    waiting_for: str
    passed: Passed | None
    """The bypass that let the call pass."""

    @property
    def summary(self) -> str:
        """A short text of the arguments."""
        return summarized(self.given[:SUMMARY])

    @property
    def called(self) -> str:
        """The arguments in a few words."""
        return calls.short(calls.begun(self.given))


@dataclass(frozen=True, slots=True)
class TaskPage:
    """A page of the list. `next_before`: the cursor of the next page; `None` on the last page. If only a range of ids
    was searched, there may be a next page although this page is not full."""

    rows: tuple[TaskRow, ...]
    next_before: int | None


@dataclass(frozen=True, slots=True)
class TabCount:
    """How many tasks a tab has; `more` is true if counting stopped at `COUNTED`."""

    tab: str
    count: int
    more: bool


@dataclass(frozen=True, slots=True)
class _Found:
    """The result of a search for a text: the number of found tasks in each tab, their number in the selected tab
    (`chosen`), and the ids of the newest of these (`ids`)."""

    queued: int
    working: int
    input_required: int
    finished: int
    error: int
    faulted: int
    rejected: int
    expired: int
    denied: int
    cancelled: int
    chosen: int
    ids: list[int]


@dataclass(frozen=True, slots=True)
class Choices:
    """The choices of the filters by tool and by client."""

    tools: tuple[str, ...]
    clients: tuple[tuple[int, str], ...]


def task_list(
    tenant_id: int, wanted: TaskFilter, *, before: int | None = None
) -> tuple[tuple[TabCount, ...], TaskPage]:
    """`tab_counts` and `task_page`. With a text in the filter both use one search: the counts are returned with the
    first page only."""
    if not wanted.text:
        return tab_counts(tenant_id, wanted), task_page(tenant_id, wanted, before=before)
    if before is not None:
        return (), task_page(tenant_id, wanted, before=before)
    above = _above(wanted)
    found = _FOUND(**_conditions(tenant_id, wanted, above), **_tab(wanted), most=PAGE_ROWS + 1)
    rows = _LISTED(ids=found.ids[:PAGE_ROWS], given=calls.BEGINNING)
    page = _paged(tenant_id, rows, above, full=len(found.ids) > PAGE_ROWS)
    counts = {tab: getattr(found, tab) for tab in TABS}
    return _tab_counts(counts, {wanted.tab: found.chosen} if wanted.tab in PARTS else {}), page


def task_page(tenant_id: int, wanted: TaskFilter, *, before: int | None = None, limit: int = PAGE_ROWS) -> TaskPage:
    """The newest tasks with ids below `before`. One query; if only a range of ids is searched, up to two more, to find
    the range and whether there is a task below it."""
    above = _above(wanted, before)
    given = {**_conditions(tenant_id, wanted, above), **_tab(wanted)}
    found = _PAGE(**given, before=before, given=calls.BEGINNING, most=limit + 1)
    return _paged(tenant_id, found[:limit], above, full=len(found) > limit)


def tab_counts(tenant_id: int, wanted: TaskFilter) -> tuple[TabCount, ...]:
    """How many tasks each tab has under the rest of the filter, ignoring its text, which only `task_list` searches for.
    A selected tab of `PARTS` is counted too. One query; one more if only a range of ids is searched, and one for a tab
    of `PARTS` other than `errors`."""
    given = _conditions(tenant_id, wanted, _above(wanted))
    del given["words"]
    counts = dict(_COUNTS(**given, most=COUNTED + 1))
    part = {}
    if wanted.tab == "errors":
        part = {"errors": counts["error"] + counts["faulted"]}
    elif wanted.tab == "unfetched":
        part = {"unfetched": _UNFETCHED(**given, most=COUNTED + 1)}
    elif wanted.tab == "abandoned":
        part = {"abandoned": _ABANDONED(**given, most=COUNTED + 1)}
    elif wanted.tab == "unknown":
        part = {"unknown": _UNRULED(**given, most=COUNTED + 1)}
    elif wanted.tab in PARTS:
        part = {wanted.tab: _WAITING(**given, people=wanted.tab == "people", most=COUNTED + 1)}
    return _tab_counts(counts, part)


def choices(tenant_id: int) -> Choices:
    """The tools and clients of the tenant, the first 500 of each by name."""
    tools = Tool.objects.filter(server__tenant_id=tenant_id).order_by("exposed_name")
    clients = AuthContext.objects.filter(tenant_id=tenant_id).order_by("name", "id")
    return Choices(
        tools=tuple(tools.values_list("exposed_name", flat=True).distinct()[:500]),
        clients=tuple(clients.values_list("id", "name")[:500]),
    )


def summarized(text: str) -> str:
    """Arguments on one line: `service: api, version: 1.2`. `text` is JSON, and may be cut off."""
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


def searched(text: str) -> list[str]:
    """The words of a search, as the database looks for them: what stands between blanks, without quotation marks."""
    found = (word.replace('"', "") for word in text.replace(": ", ":").split())
    return [word for word in found if word][:MOST_WORDS]


def _tab(wanted: TaskFilter) -> dict[str, object]:
    """The conditions of the selected tab, as parameters of the statements; `None` for a condition that does not
    apply."""
    others = dict.fromkeys(("error", "errors", "ended_as", "people", "unruled", "unfetched", "abandoned"))
    return {"state": wanted.tab or None, **others, **_TABS.get(wanted.tab, {})}


def _tab_counts(found: Mapping[str, int], part: Mapping[str, int]) -> tuple[TabCount, ...]:
    """The counts of all tabs, with a selected tab of `PARTS` before the tab that it belongs to."""
    counts: list[tuple[str, int]] = []
    for tab in TABS:
        counts += [(name, count) for name, count in part.items() if PARTS[name] == tab]
        counts.append((tab, found[tab]))
    return tuple(TabCount(tab=tab, count=min(count, COUNTED), more=count > COUNTED) for tab, count in counts)


def _paged(tenant_id: int, rows: Sequence[TaskRow], above: int | None, *, full: bool) -> TaskPage:
    """The page with these rows. If it is not full, there may be more tasks below the range that was searched."""
    if full:
        return TaskPage(rows=tuple(rows), next_before=rows[-1].id)
    below = _UP_TO(tenant=tenant_id, above=above) if above is not None and above > 0 else None
    return TaskPage(rows=tuple(rows), next_before=None if below is None else below + 1)


def _above(wanted: TaskFilter, before: int | None = None) -> int | None:
    """The lower bound of the range of ids to search, exclusive; `None` if all ids are searched."""
    if wanted.window is None:
        return None
    return (_NEWEST() if before is None else before - 1) - wanted.window


def _conditions(tenant_id: int, wanted: TaskFilter, above: int | None) -> dict[str, object]:
    """The filter as parameters of the statements; `None` for a condition that is not set."""
    return {
        "tenant": tenant_id,
        "above": above,
        "tool": wanted.tool or None,
        "context": wanted.context_id,
        "since": wanted.since,
        "until": wanted.until,
        "by_end": wanted.by_end,
        "words": searched(wanted.text) or None,
    }


_ROW: Final = {"passed": lambda kept: passed({"bypass": statements.from_json(kept)})}
_PAGE = statements.many("task_page", TaskRow, convert=_ROW)
_FOUND = statements.one("found_tasks", _Found)
_LISTED = statements.many("listed_tasks", TaskRow, convert=_ROW)
_NEWEST = statements.one("newest_task_id", int)
_UP_TO = statements.maybe("newest_task_up_to", int)
_COUNTS = statements.many("tab_counts", tuple[str, int])
_WAITING = statements.one("waiting_count", int)
_UNRULED = statements.one("unruled_count", int)
_UNFETCHED = statements.one("unfetched_count", int)
_ABANDONED = statements.one("abandoned_count", int)
_TABS: Final[dict[str, dict[str, object]]] = {
    "finished": {"error": False},
    "error": {"state": "finished", "error": True, "ended_as": ""},
    "faulted": {"ended_as": ""},
    **{name: {"state": None, "ended_as": name} for name in REFUSED},
    "people": {"state": "input_required", "people": True},
    "client": {"state": "input_required", "people": False},
    "unknown": {"state": "input_required", "unruled": True},
    "unfetched": {"state": None, "unfetched": True},
    "abandoned": {"state": None, "abandoned": True},
    "errors": {"state": None, "errors": True},
}
"""The conditions of the tabs that are not just a state."""

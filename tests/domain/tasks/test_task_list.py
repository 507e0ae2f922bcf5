"""Pages of tasks by key, and what they can be narrowed to, each filter alone and all of them together."""

from __future__ import annotations

import random
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from itertools import product
from typing import Any

import pytest

from taskhub.core.records import TaskRecord, ToolRecord
from taskhub.core.states import Audience, State
from taskhub.domain.tasks import callers, listing, stats
from taskhub.domain.tasks.listing import (
    PAGE_ROWS,
    TABS,
    TaskFilter,
    choices,
    summarized,
    tab_counts,
    task_list,
    task_page,
)
from taskhub.domain.tasks.sweep import purge
from taskhub.store.models import AuthContext, Task
from tests.domain.cost import make_old, past_the_guards
from tests.factories import WORKER, make_context, make_question, make_server, make_task, make_tenant, make_tool

pytestmark = pytest.mark.django_db
EVERYTHING = TaskFilter()
LONG_AGO = datetime.now(UTC) - timedelta(days=365)


@pytest.fixture
def context() -> AuthContext:
    return make_context(make_tenant(), "agent-a")


def shown(context: AuthContext, wanted: TaskFilter, limit: int = 100) -> list[int]:
    return [row.id for row in task_page(context.tenant_id, wanted, limit=limit).rows]


def walk(context: AuthContext, wanted: TaskFilter = EVERYTHING, *, limit: int, between: Any = None) -> list[int]:
    """Every id of every page, in the order they are met; `between` is called after each page."""
    met: list[int] = []
    before: int | None = None
    while True:
        page = task_page(context.tenant_id, wanted, before=before, limit=limit)
        assert len(page.rows) <= limit
        met += [row.id for row in page.rows]
        if page.next_before is None:
            return met
        assert len(page.rows) == limit
        assert before is None or page.next_before < before
        before = page.next_before
        if between:
            between()


# --- paging


@pytest.mark.parametrize(
    ("tasks", "limit", "pages"), [(0, 3, 1), (2, 3, 1), (3, 3, 1), (4, 3, 2), (6, 3, 2), (7, 3, 3)]
)
def test_the_last_page_is_the_last_also_when_it_is_full(
    context: AuthContext, tasks: int, limit: int, pages: int
) -> None:
    tool = make_tool(make_server(context.tenant))
    made = [make_task(context, tool).id for _ in range(tasks)]
    turned: list[int] = []
    assert walk(context, limit=limit, between=lambda: turned.append(1)) == made[::-1]
    assert len(turned) + 1 == pages


def test_no_task_is_met_twice_or_missed_while_others_come_and_go(context: AuthContext) -> None:
    tool = make_tool(make_server(context.tenant))
    there = [make_task(context, tool, state="cancelled").id for _ in range(12)]
    come: list[int] = []

    def meanwhile() -> None:
        come.extend(make_task(context, tool).id for _ in range(2))
        make_task(make_context(make_tenant()), tool)

    assert walk(context, limit=3, between=meanwhile) == there[::-1]
    assert len(come) == 6
    assert walk(context, limit=3) == (there + come)[::-1]


def test_a_page_goes_on_where_the_task_at_its_edge_was_purged(context: AuthContext) -> None:
    tool = make_tool(make_server(context.tenant))
    there = [make_task(context, tool, state="cancelled").id for _ in range(6)]
    page = task_page(context.tenant_id, EVERYTHING, limit=3)
    assert page.next_before == there[3]
    make_old({there[3]: timedelta(days=40)})
    assert purge(retention_days=30) == 1
    rest = task_page(context.tenant_id, EVERYTHING, before=page.next_before, limit=3)
    assert [row.id for row in rest.rows] == there[2::-1]


def test_a_filter_holds_across_pages(context: AuthContext) -> None:
    server = make_server(context.tenant)
    one, other = make_tool(server, "one"), make_tool(server, "other")
    wanted = [make_task(context, tool).id for tool in (one, other) * 5][::2]
    assert walk(context, TaskFilter(tool="one"), limit=2) == wanted[::-1]


def test_a_row_says_what_the_list_shows(context: AuthContext) -> None:
    tool = make_tool(make_server(context.tenant), "deploy")
    question = make_question(audience=Audience.CLIENT)
    task = make_task(context, tool, state="input_required", arguments={"a": "x", "n": [1, None]}, question=question)
    (row,) = task_page(context.tenant_id, EVERYTHING).rows
    assert (row.id, row.public_id, row.tool_name) == (task.id, task.public_id, "deploy")
    assert (row.client, row.context_id, row.state) == ("agent-a", context.pk, State.INPUT_REQUIRED)
    assert (row.summary, row.message, row.waiting_for) == ("a: x, n: [1, null]", "Waiting for an answer", "client")
    assert (row.created_at, row.ended_at, row.is_error) == (task.created_at, None, False)


@pytest.mark.parametrize(
    ("audience", "waiting_for"),
    [(Audience.CLIENT, "client"), (Audience.OPERATOR, "people"), (Audience.EITHER, "people")],
)
def test_a_row_says_who_is_waited_for(context: AuthContext, audience: Audience, waiting_for: str) -> None:
    make_task(context, state="input_required", question=make_question(audience=audience))
    make_task(context, make_tool(make_server(context.tenant)))
    assert [row.waiting_for for row in task_page(context.tenant_id, EVERYTHING).rows] == ["", waiting_for]


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("{}", ""),
        ('{"text": "a, b: c"}', "text: a, b: c"),
        ('{"ü": "grüezi", "deep": {"k": ["ä"]}}', 'ü: grüezi, deep: {"k": ["ä"]}'),
        ('{"cut": "off', '{"cut": "off'),
        ("[1]", "[1]"),
    ],
)
def test_arguments_become_one_line(text: str, line: str) -> None:
    assert summarized(text) == line


# --- filters


AGES_OF = {"1h": 3_600, "24h": 86_400, "7d": 604_800}
AGES = [timedelta(minutes=5), timedelta(hours=5), timedelta(days=2), timedelta(days=20)]
STATES = ("queued", "working", "input_required", "finished", "finished-error", "faulted", "cancelled")
REFUSED = {"rejected": "finished-error", "expired": "faulted", "denied": "faulted"}
STATE_OF = {"error": "finished-error"}


def made_as(ended_as: str, context: AuthContext, tool: ToolRecord, **more: Any) -> TaskRecord:
    """A task that ended so; how that comes about is tested where it does (`test_ends.py`)."""
    task = make_task(context, tool, state=REFUSED[ended_as], **more)
    with past_the_guards():
        Task.objects.filter(pk=task.id).update(ended_as=ended_as)
    return task


@pytest.fixture
def zoo(context: AuthContext) -> list[tuple[TaskRecord, dict[str, str]]]:
    """Tasks of all states, two tools, two clients, two words and four ages, each with what it is; and
    one that fits everything in another tenant, where nobody looks."""
    dice = random.Random(7)
    make_task(make_context(make_tenant(), "agent-a"), arguments={"colour": "blue"})
    server = make_server(context.tenant)
    tools = {name: make_tool(server, name) for name in ("echo", "deploy")}
    clients = {"agent-a": context, "agent-b": make_context(context.tenant, "agent-b")}
    made, ages = [], {}
    for state in (*STATES, *REFUSED):
        for tool, client, word in product(tools, clients, ("blue", "red")):
            arguments = {"colour": word}
            if state in REFUSED:
                task = made_as(state, clients[client], tools[tool], arguments=arguments)
            else:
                task = make_task(clients[client], tools[tool], state=state, arguments=arguments)
            age = dice.randrange(4)
            ages[task.id] = AGES[age]
            made.append((task, {"state": state, "tool": tool, "client": client, "text": word, "age": str(age)}))
    make_old(ages)
    return made


def test_every_combination_of_filters_shows_what_it_says_and_counts_what_it_shows(
    context: AuthContext, zoo: list[tuple[TaskRecord, dict[str, str]]]
) -> None:
    second = AuthContext.objects.get(tenant=context.tenant, name="agent-b")
    clients: dict[int | None, str] = {None: "", context.pk: "agent-a", second.pk: "agent-b"}
    ages = {"": "0123", "1h": "0", "24h": "01", "7d": "012"}
    met = 0
    for tool, client, text, age in product(("", "echo", "deploy"), clients, ("", "blue", "LUE"), ages):
        since = datetime.now(UTC) - timedelta(seconds=AGES_OF[age]) if age else None
        wanted = TaskFilter(tool=tool, context_id=client, text=text, since=since)

        def fits(facts: dict[str, str], *, of: TaskFilter = wanted, age: str = age) -> bool:
            return (
                of.tool in ("", facts["tool"])
                and clients[of.context_id] in ("", facts["client"])
                and of.text.lower() in facts["text"]
                and facts["age"] in ages[age]
            )

        hits = [(task.id, facts["state"]) for task, facts in zoo if fits(facts)]
        assert shown(context, wanted) == [key for key, _ in hits][::-1], wanted
        by_tab = {tab: [key for key, found in hits if found == STATE_OF.get(tab, tab)] for tab in TABS}
        tabs, page = task_list(context.tenant_id, wanted)
        counts = {tab.tab: tab.count for tab in tabs}
        assert [row.id for row in page.rows] == [key for key, _ in hits][::-1][:PAGE_ROWS], wanted
        assert counts == {tab: len(keys) for tab, keys in by_tab.items()}, wanted
        for tab in TABS if wanted == EVERYTHING else [TABS[met % len(TABS)]]:
            assert shown(context, replace(wanted, tab=tab)) == by_tab[tab][::-1], (wanted, tab)
        met += 1
    assert met == 108


def test_text_is_looked_for_in_id_tool_message_and_arguments_to_the_letter(context: AuthContext) -> None:
    server = make_server(context.tenant)
    plain = make_tool(server, "plain")
    tool = make_task(context, make_tool(server, "Spindle"))
    words = make_task(context, plain, arguments={"path": "a_b\\c 100%"})
    message = make_task(context, plain, state="faulted")
    found = {
        "sPIN": [tool.id],
        "a_b": [words.id],
        "aXb": [],
        "00%": [words.id],
        "0%0": [],
        "BOOM": [message.id],
        tool.public_id[:8]: [tool.id],
        tool.public_id[4:]: [],
        "agent-a": [message.id, words.id, tool.id],
        "agent-b": [],
        # As a row shows it, and in any order.
        "path: a_b\\c 100%": [words.id],
        "path:a_b\\c": [words.id],
        "100% PLAIN agent": [words.id],
        "100% spindle": [],
        '"100%"': [words.id],
    }
    assert {text: shown(context, TaskFilter(text=text)) for text in found} == found


def test_what_no_index_answers_looks_at_a_part_of_the_tasks_for_each_page(
    context: AuthContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    tool = make_tool(make_server(context.tenant), "echo")
    made = [make_task(context, tool, arguments={"colour": "blue"}).id for _ in range(6)]
    newest = Task.objects.order_by("-id").values_list("id", flat=True)[0]
    monkeypatch.setattr(listing, "WINDOW", newest - made[2])
    monkeypatch.setattr(listing, "TEXT_WINDOW", newest - made[2])
    for wanted in (TaskFilter(text="blue"), TaskFilter(tool="echo"), TaskFilter(since=LONG_AGO)):
        assert wanted.window
        assert shown(context, wanted) == made[:2:-1]
        first = task_page(context.tenant_id, wanted, limit=100)
        assert first.next_before == made[2] + 1
        second = task_page(context.tenant_id, wanted, before=first.next_before, limit=100)
        assert ([row.id for row in second.rows], second.next_before) == (made[2::-1], None)
    for wanted in (TaskFilter(), TaskFilter(tab="queued"), TaskFilter(context_id=context.pk)):
        assert wanted.window is None
        assert shown(context, wanted) == made[::-1]


def test_a_search_goes_on_to_the_end_over_what_is_no_task_of_ours(
    context: AuthContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    tool, other = make_tool(make_server(context.tenant)), make_context(make_tenant())
    found = make_task(context, tool, arguments={"colour": "blue"})
    for _ in range(9):
        make_task(other)
    make_task(context, tool, arguments={"colour": "red"})
    monkeypatch.setattr(listing, "TEXT_WINDOW", 2)
    first = task_page(context.tenant_id, TaskFilter(text="blue"))
    assert (first.rows, first.next_before) == ((), found.id + 1)
    assert task_list(context.tenant_id, TaskFilter(text="blue"))[1] == first
    second = task_page(context.tenant_id, TaskFilter(text="blue"), before=first.next_before)
    assert ([row.id for row in second.rows], second.next_before) == ([found.id], None)
    assert task_list(context.tenant_id, TaskFilter(text="blue"), before=first.next_before) == ((), second)


def test_a_search_shows_a_page_of_what_it_finds_and_counts_the_rest(
    context: AuthContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(listing, "PAGE_ROWS", 2)
    tool = make_tool(make_server(context.tenant))
    made = [make_task(context, tool, arguments={"colour": "blue"}).id for _ in range(5)]
    for tab in ("", "queued"):
        tabs, page = task_list(context.tenant_id, TaskFilter(text="blue", tab=tab))
        assert {tab.tab: tab.count for tab in tabs if tab.count} == {"queued": 5}
        assert ([row.id for row in page.rows], page.next_before) == (made[:2:-1], made[3])
    tabs, page = task_list(context.tenant_id, TaskFilter(text="blue", tab="faulted"))
    assert {tab.tab: tab.count for tab in tabs if tab.count} == {"queued": 5}
    assert page.rows == ()


def test_counting_stops_and_says_so(context: AuthContext, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(listing, "COUNTED", 2)
    tool = make_tool(make_server(context.tenant))
    for state, count in (("queued", 3), ("cancelled", 2), ("faulted", 1)):
        for _ in range(count):
            make_task(context, tool, state=state)
    found = {tab.tab: (tab.count, tab.more) for tab in tab_counts(context.tenant_id, EVERYTHING)}
    assert found == {
        "queued": (2, True), "cancelled": (2, False), "faulted": (1, False), "working": (0, False),
        "input_required": (0, False), "finished": (0, False), "error": (0, False),
        **dict.fromkeys(REFUSED, (0, False)),
    }  # fmt: skip


def test_one_can_choose_among_the_tenants_own_tools_and_clients(context: AuthContext) -> None:
    for home in (context.tenant, make_tenant()):
        for server in (make_server(home), make_server(home)):
            make_tool(server, f"tool of {home.slug}", exposed_name="b")
            make_tool(server, exposed_name=f"a of {home.slug}")
    other = make_context(context.tenant, "AAA")
    found = choices(context.tenant_id)
    assert found.tools == (f"a of {context.tenant.slug}", "b")
    assert found.clients == ((other.pk, "AAA"), (context.pk, "agent-a"))


@pytest.mark.parametrize("text", ["", "blue"])
def test_what_waits_for_whom_and_what_failed_are_lists_with_counts_of_their_own(
    context: AuthContext, monkeypatch: pytest.MonkeyPatch, text: str
) -> None:
    tool = make_tool(make_server(context.tenant))
    words = {"arguments": {"colour": "blue"}}
    made: dict[str, list[int]] = {"people": [], "client": [], "errors": [], "unfetched": []}
    for audience, part in ((Audience.CLIENT, "client"), (Audience.OPERATOR, "people"), (Audience.EITHER, "people")):
        question = make_question(audience=audience)
        made[part].append(make_task(context, tool, state="input_required", question=question, **words).id)
    for state in STATES:
        task = make_task(context, tool, state=state, **words)
        made["people"] += [task.id] * (state == "input_required")
        made["errors"] += [task.id] * (state in ("finished-error", "faulted"))
        left = make_task(context, tool, state=state, waiter="w", **words)
        callers.leave(left.id, "w", actor=WORKER)
        made["people"] += [left.id] * (state == "input_required")
        made["errors"] += [left.id] * (state in ("finished-error", "faulted"))
        made["unfetched"] += [left.id] * (state in ("finished", "finished-error", "faulted"))
    fetched = make_task(context, tool, state="finished", waiter="w", **words)
    callers.leave(fetched.id, "w", actor=WORKER)
    callers.fetched(fetched.id)
    for tab, ids in made.items():
        wanted = TaskFilter(tab=tab, text=text)
        counts, page = task_list(context.tenant_id, wanted)
        assert [row.id for row in page.rows] == ids[::-1], tab
        assert {count.tab: count.count for count in counts}[tab] == len(ids)
        assert [count.tab for count in counts if count.tab in TABS] == list(TABS)
    assert {count.tab for count in tab_counts(context.tenant_id, EVERYTHING)} == set(TABS)


def test_what_ended_lately_is_not_what_was_made_lately(context: AuthContext) -> None:
    tool = make_tool(make_server(context.tenant))
    old, long, live = (make_task(context, tool, state=state) for state in ("faulted", "finished-error", "working"))
    make_old({old.id: timedelta(hours=25), live.id: timedelta(minutes=1)})
    with past_the_guards():
        Task.objects.filter(pk=long.id).update(created_at=long.created_at - timedelta(days=2))
    day = datetime.now(UTC) - timedelta(days=1)
    assert shown(context, TaskFilter(since=day, by_end=True)) == [long.id]
    assert shown(context, TaskFilter(since=day)) == [live.id]
    assert shown(context, TaskFilter(until=day, by_end=True)) == [old.id]
    assert shown(context, TaskFilter(until=day)) == [long.id, old.id]
    wanted = TaskFilter("errors", since=day, by_end=True)
    counts = {count.tab: count.count for count in tab_counts(context.tenant_id, wanted)}
    assert (counts["errors"], counts["error"], counts["faulted"], counts["working"]) == (1, 1, 0, 0)


def test_what_nobody_let_run_is_no_failure(context: AuthContext) -> None:
    tool = make_tool(make_server(context.tenant))
    made = {name: made_as(name, context, tool).id for name in REFUSED}
    broken = [make_task(context, tool, state=state).id for state in ("finished-error", "faulted")]
    assert {name: shown(context, TaskFilter(name)) for name in made} == {name: [key] for name, key in made.items()}
    assert shown(context, TaskFilter("errors")) == broken[::-1]
    assert [shown(context, TaskFilter(tab)) for tab in ("error", "faulted", "finished")] == [
        [broken[0]],
        [broken[1]],
        [],
    ]
    day = stats.day(context.tenant_id)
    assert (day.counts.errors, day.counts.total, day.counts.rejected, day.counts.expired, day.counts.denied) == (
        2,
        5,
        1,
        1,
        1,
    )
    assert [(tool.errors, tool.ended) for tool in day.failing] == [(2, 5)]

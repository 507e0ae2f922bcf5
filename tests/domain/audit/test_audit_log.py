"""The audit log as it is read: pages in both directions while it grows, filters, batches of an export."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import fields
from datetime import UTC, datetime, timedelta
from itertools import combinations
from typing import Any

import pytest
from django.db import connection

from taskhub.core.records import Actor
from taskhub.core.states import Door
from taskhub.domain.audit import reads as audit
from taskhub.domain.audit.reads import EventFilter, count_newer, event_by_id, event_page, export_events, known_actions
from taskhub.domain.audit.record import record_verification
from taskhub.domain.audit.seal import seal_events
from taskhub.store.models import Event, Tenant
from tests.domain.cost import statements
from tests.factories import make_context, make_task, make_tenant
from tests.factories import make_event as record

pytestmark = pytest.mark.django_db
EVERYTHING = EventFilter()
START = datetime(2026, 3, 1, tzinfo=UTC)


@pytest.fixture
def tenant() -> Tenant:
    return make_tenant()


def ids(page: audit.EventPage) -> list[int]:
    return [row.id for row in page.rows]


# --- one entry


def test_an_entry_names_its_client_and_its_task_to_its_own_tenant_only(tenant: Tenant) -> None:
    client = make_context(tenant, "nightly")
    task = make_task(client)
    entry = event_by_id(tenant.pk, record(tenant, context_id=client.pk, task_id=task.id))
    assert entry is not None
    assert (entry.context_id, entry.context_name) == (client.pk, "nightly")
    assert (entry.task_id, entry.task_public_id) == (task.id, task.public_id)
    other = make_tenant()
    entry = event_by_id(other.pk, record(other, context_id=client.pk, task_id=task.id))
    assert entry is not None
    assert (entry.context_name, entry.task_public_id) == (None, None)


# --- pages


def test_nothing_is_met_twice_or_missed_while_the_log_grows_between_pages(tenant: Tenant) -> None:
    there = [record(tenant) for _ in range(11)]
    met, before = list[int](), None
    while True:
        page = event_page(tenant.pk, EVERYTHING, before=before, limit=3)
        met += ids(page)
        record(tenant)
        record(make_tenant())
        if page.older is None:
            break
        before = page.older
    assert met == there[::-1]


@pytest.mark.parametrize("count", [4, 6, 7])
def test_back_from_the_oldest_page_leads_over_every_entry_to_the_newest(tenant: Tenant, count: int) -> None:
    there = [record(tenant) for _ in range(count)]
    page = event_page(tenant.pk, EVERYTHING, limit=3)
    assert page.newer is None  # there is nothing above the first page
    while page.older is not None:
        page = event_page(tenant.pk, EVERYTHING, before=page.older, limit=3)
    met = ids(page)[::-1]
    while page.newer is not None:
        there.append(record(tenant))  # the log grows under the reader
        page = event_page(tenant.pk, EVERYTHING, after=page.newer, limit=3)
        met += ids(page)[::-1]
        assert ids(page) == sorted(ids(page), reverse=True)
    assert met == there


def test_a_page_backwards_knows_the_way_on_from_both_its_ends(tenant: Tenant) -> None:
    there = [record(tenant) for _ in range(9)]
    page = event_page(tenant.pk, EVERYTHING, after=there[2], limit=3)
    assert (ids(page), page.older, page.newer) == (there[5:2:-1], there[3], there[5])
    assert ids(event_page(tenant.pk, EVERYTHING, before=page.older, limit=3)) == there[2::-1]
    assert ids(event_page(tenant.pk, EVERYTHING, after=page.newer, limit=3)) == there[8:5:-1]


def test_back_from_an_empty_page_leads_to_the_entry_it_came_from(tenant: Tenant) -> None:
    there = [record(tenant) for _ in range(2)]
    page = event_page(tenant.pk, EVERYTHING, after=there[-1], limit=3)
    assert (ids(page), page.newer) == ([], None)
    assert ids(event_page(tenant.pk, EVERYTHING, before=page.older, limit=3)) == there[::-1]


def test_a_filtered_log_is_paged_in_both_directions_like_the_whole(tenant: Tenant) -> None:
    there = [record(tenant, "a.b" if n % 3 else "c.d", reason="needle" if n % 2 else "") for n in range(24)]
    for wanted, hits in (
        (EventFilter(action="c.d"), there[::3]),
        (EventFilter(text="needle"), there[1::2]),
        (EventFilter(action="c", text="needle"), [there[n] for n in (3, 9, 15, 21)]),
    ):
        page, met = event_page(tenant.pk, wanted, limit=2), list[int]()
        while True:
            met += ids(page)
            if page.older is None:
                break
            page = event_page(tenant.pk, wanted, before=page.older, limit=2)
        assert met == hits[::-1]
        met = ids(page)[::-1]
        while page.newer is not None:
            page = event_page(tenant.pk, wanted, after=page.newer, limit=2)
            met += ids(page)[::-1]
        assert met == hits


def test_newer_entries_are_counted_under_the_filter_and_up_to_a_limit(tenant: Tenant) -> None:
    there = [record(tenant, "a.b" if n % 2 else "c.d") for n in range(8)]
    record(make_tenant(), "a.b")
    assert count_newer(tenant.pk, EVERYTHING, there[-1]) == 0
    assert count_newer(tenant.pk, EVERYTHING, there[2]) == 5
    assert count_newer(tenant.pk, EventFilter(action="a.b"), there[2]) == 3
    assert count_newer(tenant.pk, EVERYTHING, there[0], limit=4) == 5  # one more than the limit: "4+"
    assert count_newer(tenant.pk, EventFilter(task="nonesuch"), 0) == 0


def test_the_newest_entry_is_the_tenants_own(tenant: Tenant) -> None:
    assert audit.newest_event_id(tenant.pk) == 0
    mine = record(tenant)
    theirs = record(make_tenant())
    assert theirs > mine == audit.newest_event_id(tenant.pk)
    assert event_by_id(tenant.pk, theirs) is None
    assert event_by_id(tenant.pk, mine) == event_page(tenant.pk, EVERYTHING).rows[0]


# --- filters


def facts(n: int) -> dict[str, Any]:
    """Of the n-th entry, so that every combination of filters has hits and misses."""
    dice = random.Random(n)
    return {
        "action": dice.choice(["task.created", "task.created.again", "tasks.counted", "token.issued"]),
        "actor": dice.choice(["Mia", "mia_b", "bob"]),
        "door": dice.choice([Door.WEB, Door.CLI]),
        "address": dice.choice(["10.1.2.3", "10.12.2.3"]),
        "target": dice.choice(["100%", "1000"]),
        "at": START + timedelta(hours=n),
    }


FILTERS: dict[str, tuple[Any, Any]] = {
    "action": ("task", lambda of: of["action"].startswith("task.")),
    "actor": ("A_B", lambda of: of["actor"] == "mia_b"),
    "door": ("cli", lambda of: of["door"] == "cli"),
    "address": ("10.1.", lambda of: of["address"] == "10.1.2.3"),
    "since": (START + timedelta(hours=20), lambda of: of["at"] >= START + timedelta(hours=20)),
    "until": (START + timedelta(hours=100), lambda of: of["at"] <= START + timedelta(hours=100)),
    "text": ("0%", lambda of: of["target"] == "100%"),
}


def test_filters_narrow_alone_and_in_every_pair_and_all_together(tenant: Tenant) -> None:
    made = [(Event.objects.create(tenant=tenant, **facts(n)).pk, facts(n)) for n in range(120)]
    assert set(FILTERS) | {"task"} == {field.name for field in fields(EventFilter)}
    sets = [*combinations(FILTERS, 1), *combinations(FILTERS, 2), tuple(FILTERS)]
    for names in sets:
        wanted = EventFilter(**{name: FILTERS[name][0] for name in names})
        hits = [key for key, of in made if all(FILTERS[name][1](of) for name in names)]
        assert ids(event_page(tenant.pk, wanted, limit=200)) == hits[::-1], wanted
        assert len(hits) < len(made), wanted
        assert hits or len(names) > 2, wanted


def test_a_task_is_found_in_its_tenant_only_and_with_other_filters(tenant: Tenant) -> None:
    task = make_task(make_context(tenant), state="finished")
    created, claimed, finished = reversed(ids(event_page(tenant.pk, EventFilter(task=task.public_id))))
    assert ids(event_page(tenant.pk, EventFilter(task=task.public_id, action="task.claimed"))) == [claimed]
    assert ids(event_page(tenant.pk, EventFilter(task=task.public_id, door="client"))) == [created]
    assert ids(event_page(tenant.pk, EventFilter(task=f"#{task.id}", text="finished"))) == [finished]
    for other in (EventFilter(task=task.public_id), EventFilter(task=str(task.id))):
        assert ids(event_page(make_tenant().pk, other)) == []


@pytest.mark.parametrize("task", ["#", "-1", "1.5", "٣", "9" * 19, "9" * 40, "#1#", " 1"])
def test_what_is_no_tasks_name_finds_nothing(tenant: Tenant, task: str) -> None:
    record(tenant)
    assert ids(event_page(tenant.pk, EventFilter(task=task))) == []


def test_clocks_that_ran_ahead_a_little_hide_nothing(tenant: Tenant) -> None:
    """Ids and moments run together only roughly; a moment is still found to the second."""
    minutes = [0, 1, 2, 8, 3, 4, 9, 5, 6, 7]
    made = {
        n: Event.objects.create(tenant=tenant, action="a.b", actor="x", door="web", at=START + timedelta(minutes=n)).pk
        for n in minutes
    }
    for since, until in ((3, 5), (8, 9), (0, 0), (2, 8)):
        wanted = EventFilter(since=START + timedelta(minutes=since), until=START + timedelta(minutes=until))
        hits = {key for n, key in made.items() if since <= n <= until}
        assert set(ids(event_page(tenant.pk, wanted))) == hits


def test_the_actions_of_a_log_are_listed_once_each_and_only_its_own(tenant: Tenant) -> None:
    assert known_actions(tenant.pk) == ()
    for action in ("b.b", "a.a", "b.b", "c.c", "a.a"):
        record(tenant, action)
    record(make_tenant(), "z.z")
    assert known_actions(tenant.pk) == ("a.a", "b.b", "c.c")


def test_the_changes_of_an_entry_are_its_fields_before_and_after(tenant: Tenant) -> None:
    entry = record(tenant, before={"role": "viewer", "gone": 1}, after={"role": "admin", "new": [True, None]})
    row = event_by_id(tenant.pk, entry)
    assert row is not None
    assert set(row.changes) == {("role", "viewer", "admin"), ("gone", "1", None), ("new", None, "[true, null]")}
    assert len(row.changes) == 3
    plain = event_by_id(tenant.pk, record(tenant))
    assert plain is not None
    assert plain.changes == ()


# --- exports


@pytest.mark.parametrize("count", [0, 1, 4, 5, 6, 15, 16])
def test_an_export_is_the_log_in_batches_without_a_seam(
    tenant: Tenant, monkeypatch: pytest.MonkeyPatch, count: int
) -> None:
    monkeypatch.setattr(audit, "_CHUNK", 5)
    there = [record(tenant) for _ in range(count)]
    up_to = audit.newest_event_id(tenant.pk)
    record(tenant)
    assert [row.id for row in export_events(tenant.pk, EVERYTHING, up_to=up_to)] == there[::-1]
    batches = statements(lambda: list(export_events(tenant.pk, EVERYTHING, up_to=up_to)))
    assert batches == max(1, -(-count // 5))


def test_what_is_written_while_an_export_runs_is_not_in_it(tenant: Tenant, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(audit, "_CHUNK", 3)
    there = [record(tenant) for _ in range(10)]
    taken = list[int]()
    for row in export_events(tenant.pk, EVERYTHING, up_to=there[-1]):
        taken.append(row.id)
        record(tenant)
    assert taken == there[::-1]


def test_an_export_reads_no_further_than_its_reader(tenant: Tenant, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(audit, "_CHUNK", 3)
    there = [record(tenant) for _ in range(10)]
    rows: Iterator[audit.EventRow] = export_events(tenant.pk, EVERYTHING, up_to=there[-1])
    assert statements(lambda: [next(rows) for _ in range(3)]) == 1
    assert statements(lambda: next(rows)) == 1


def test_an_export_that_no_index_answers_goes_on_beyond_the_window(
    tenant: Tenant, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(audit, "_CHUNK", 2)
    monkeypatch.setattr(audit, "WINDOW", 4)
    there = [record(tenant, reason="needle" if n in (0, 1, 2, 13, 14, 25) else "") for n in range(30)]
    taken = [row.id for row in export_events(tenant.pk, EventFilter(text="needle"), up_to=there[-1])]
    assert taken == [there[n] for n in (25, 14, 13, 2, 1, 0)]


def test_an_export_ends_one_entry_beyond_its_limit(tenant: Tenant, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(audit, "_CHUNK", 4)
    monkeypatch.setattr(audit, "EXPORT_ROWS", 6)
    there = [record(tenant) for _ in range(9)]
    assert [row.id for row in export_events(tenant.pk, EVERYTHING, up_to=there[-1])] == there[:1:-1]


# --- seals


def test_the_seals_line_counts_what_waits_and_names_the_last_entry_that_does_not(transactional_db: None) -> None:
    tenant, other = make_tenant(), make_tenant()
    empty = audit.seal_status(tenant.pk)
    assert (empty.event_id, empty.sealed_at, empty.waiting, empty.to_xid) == (None, None, 0, 0)
    sealed = [record(tenant) for _ in range(3)]
    record(other)
    assert audit.seal_status(tenant.pk).waiting == 3
    seal_events()
    waiting = [record(tenant) for _ in range(2)]
    now = audit.seal_status(tenant.pk)
    assert (now.event_id, now.waiting) == (sealed[-1], 2)
    first = event_by_id(tenant.pk, waiting[0])
    assert first is not None
    assert now.waiting_since == first.at
    assert now.to_xid <= first.xid
    assert audit.seal_status(other.pk).waiting == 0


def test_the_latest_verification_is_told_to_every_tenant_and_a_tenants_own_to_it_alone(tenant: Tenant) -> None:
    other = make_tenant()
    assert audit.seal_status(tenant.pk).verified_ok is None
    root = Actor(name="root", door=Door.CLI)
    record_verification(ok=False, events=3, seals=1, problem="event 2", actor=root)
    for of in (tenant, other):
        status = audit.seal_status(of.pk)
        assert (status.verified_by, status.verified_ok) == ("root", False)
    record(tenant, "audit.verified", actor="ada", after={"ok": True})
    assert audit.seal_status(tenant.pk).verified_by == "ada"
    assert audit.seal_status(tenant.pk).verified_ok is True
    assert audit.seal_status(other.pk).verified_by == "root"


def test_the_latest_full_verification_is_told_beside_a_later_incremental_one(tenant: Tenant) -> None:
    root = Actor(name="root", door=Door.CLI)
    record(tenant)
    assert audit.seal_status(tenant.pk).verified_in_full_at is None
    record_verification(ok=True, events=3, seals=1, problem="", actor=root)
    full_at = audit.seal_status(tenant.pk).verified_at
    for ok, full in ((True, False), (False, True), (False, False)):
        record_verification(ok=ok, events=3, seals=1, problem="" if ok else "event 2", full=full, actor=root)
        status = audit.seal_status(tenant.pk)
        assert (status.verified_ok, status.verified_in_full_at) == (ok, full_at)
        assert (audit.verifications().ok, audit.verifications().in_full_at) == (ok, full_at)
    # As a release wrote it that read every event each time.
    with connection.cursor() as cursor:
        cursor.execute(
            "INSERT INTO event (action, actor, door, after) VALUES ('audit.verified', 'root', 'cli', '{\"ok\": true}')"
        )
    status = audit.seal_status(tenant.pk)
    assert status.verified_in_full_at == status.verified_at


def test_no_read_of_the_log_leaves_a_transaction_open(transactional_db: None) -> None:
    tenant = make_tenant()
    there = [record(tenant) for _ in range(3)]
    rows = export_events(tenant.pk, EVERYTHING, up_to=there[-1])
    next(rows)
    with connection.cursor() as cursor:
        cursor.execute("SELECT now() = statement_timestamp()")  # the transaction began with this statement
        assert cursor.fetchone() == (True,)

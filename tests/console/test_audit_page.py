"""The audit log's page and its exports."""

from __future__ import annotations

import csv
import io
import json
import re
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse

from taskhub.console.views.audit import MOST_STEPS
from taskhub.core.records import Actor
from taskhub.core.states import Door
from taskhub.domain.audit import reads as audit
from taskhub.domain.audit.record import record_verification
from taskhub.lib.signs import spelled
from taskhub.store.models import Event, Seal, Tenant
from tests.console.admin import HTMX, browser, words
from tests.factories import make_context, make_person, make_task, make_tenant
from tests.factories import make_event as record

pytestmark = pytest.mark.django_db
URL = "/audit/"


@pytest.fixture
def auditor(tenant: Tenant) -> Client:
    return browser(make_person("auditor", tenant, username="ada"))


def shown(response: Any) -> list[int]:
    """Ids of the rows of a page, in order."""
    return [int(found) for found in re.findall(r'id="event-(\d+)"', response.content.decode())]


def test_the_newest_entries_come_first_and_only_the_tenants_own(tenant: Tenant, auditor: Client) -> None:
    mine = [record(tenant) for _ in range(3)]
    record(make_tenant())
    assert shown(auditor.get(URL)) == mine[::-1]


@pytest.mark.parametrize(
    ("query", "hits"),
    [
        ({"action": "task.created"}, {0}),
        ({"action": "task"}, {0, 1}),
        ({"action": "task.*"}, {0, 1}),
        ({"action": "tas"}, set()),
        ({"actor": "MIA"}, {0, 2}),
        ({"door": "api"}, {1}),
        ({"address": "10.1."}, {0, 1}),
        ({"address": "0.1."}, set()),
        ({"text": "blue"}, {1}),
        ({"text": "50%"}, {2}),
        ({"text": "5_%"}, set()),
        ({"action": "task", "actor": "mia"}, {0}),
        ({"since": "1h"}, {0, 1, 2}),
        ({"until": "2020-01-01"}, set()),
        ({"since": "2099-01-01"}, set()),
    ],
)
def test_filters_say_what_is_shown(tenant: Tenant, auditor: Client, query: dict[str, str], hits: set[int]) -> None:
    ids = [
        record(tenant, "task.created"),
        record(tenant, "task.cancelled", actor="bob", door=Door.API, after={"colour": "blue"}),
        record(tenant, "token.issued", address="192.0.2.1", reason="half, 50% of it"),
    ]
    assert shown(auditor.get(URL, query)) == [ids[n] for n in sorted(hits, reverse=True)]


def test_a_tasks_entries_are_found_by_its_public_id_and_by_its_number(tenant: Tenant, auditor: Client) -> None:
    task = make_task(make_context(tenant), state="finished")
    make_task(make_context(tenant))
    by_id = shown(auditor.get(URL, {"task": task.public_id}))
    assert len(by_id) == 3  # created, claimed, finished
    assert shown(auditor.get(URL, {"task": f"#{task.id}"})) == by_id
    assert shown(auditor.get(URL, {"task": "nonesuch"})) == []


def test_a_filter_that_is_not_understood_is_named_and_not_applied(tenant: Tenant, auditor: Client) -> None:
    entry = record(tenant)
    response = auditor.get(URL, {"since": "yesterday-ish", "door": "window"})
    assert shown(response) == [entry]
    assert "Not understood, so ignored: door, since" in words(response.content.decode())


def test_paging_visits_every_entry_once_in_both_directions(tenant: Tenant, auditor: Client) -> None:
    ids = [record(tenant) for _ in range(120)]
    seen: list[int] = []
    url: str | None = URL
    pages = []
    while url:
        page = auditor.get(url).content.decode()
        pages.append(url)
        seen += [int(found) for found in re.findall(r'id="event-(\d+)"', page)]
        older = re.search(r'href="([^"]+)">Older', page)
        url = URL + older[1] if older else None
    assert seen == ids[::-1]
    assert len(pages) == 3
    last = auditor.get(pages[-1]).content.decode()
    newer = re.search(r'href="([^"]+)"><svg.*?Newer', last, re.DOTALL)
    hrefs = re.findall(r'href="(\?after=\d+)"', last)
    assert newer
    assert hrefs
    assert shown(auditor.get(URL + hrefs[0])) == ids[20:70][::-1]


def test_a_search_without_an_index_stops_and_offers_to_go_on(
    tenant: Tenant, auditor: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    needle = record(tenant, reason="needle")
    for _ in range(30):
        record(tenant)
    monkeypatch.setattr(audit, "WINDOW", 10)
    url, steps, found = URL + "?text=needle", 0, []
    while True:
        response = auditor.get(url)
        found += shown(response)
        onward = re.search(r'href="(\?[^"]*before=\d+)">Search further back', response.content.decode())
        if not onward:
            break
        url, steps = URL + onward[1].replace("&amp;", "&"), steps + 1
        assert steps < 10
    assert found == [needle]
    assert steps == 3
    first = auditor.get(f"{URL}?text=needle", headers=HTMX).content.decode()
    going_on = re.search(r'hx-get="(\?[^"]+)" hx-target="#audit-log"[^>]*hx-trigger="load"', first)
    assert going_on
    assert shown(auditor.get(URL + going_on[1].replace("&amp;", "&"))) == []
    tired = auditor.get(f"{URL}?text=needle&steps={MOST_STEPS}").content.decode()
    assert 'hx-trigger="load"' not in tired
    assert "Search further back" in tired


def test_a_moment_is_found_by_bisection(tenant: Tenant) -> None:
    start = datetime(2026, 1, 1, tzinfo=UTC)
    ids = []
    for hour in range(50):
        # `at` may be set on insert; only changing it afterwards is refused.
        event = Event.objects.create(
            tenant=tenant, action="a.b", actor="x", door="web", target="", at=start + timedelta(hours=hour)
        )
        ids.append(event.pk)
    wanted = audit.EventFilter(since=start + timedelta(hours=10), until=start + timedelta(hours=12))
    assert [row.id for row in audit.event_page(tenant.pk, wanted).rows] == ids[10:13][::-1]
    for hour in (-1, 0, 25, 49, 60):
        low = audit._FIRST_AT(tenant=tenant.pk, moment=start + timedelta(hours=hour))
        assert low == (ids[max(hour, 0)] if hour < 50 else ids[-1] + 1)


def test_an_entry_shows_before_and_after_and_what_surrounds_it(tenant: Tenant, auditor: Client) -> None:
    entry = record(tenant, before={"role": "viewer", "gone": 1}, after={"role": "<b>admin</b>"}, reason="she asked")
    response = auditor.get(URL, {"event": entry})
    html = response.content.decode()
    text = words(html)
    assert "role viewer &lt;b&gt;admin&lt;/b&gt;" in text
    assert "gone 1 –" in text
    assert "she asked" in text
    assert "Not sealed yet" in text
    assert "<b>admin</b>" not in html


def test_a_foreign_entry_does_not_exist(tenant: Tenant, auditor: Client) -> None:
    assert auditor.get(URL, {"event": record(make_tenant())}).status_code == 404


def test_the_partial_equals_the_page(tenant: Tenant, auditor: Client) -> None:
    record(tenant)
    page, part = auditor.get(URL), auditor.get(URL, headers=HTMX)
    assert "<html" not in part.content.decode()
    assert shown(part) == shown(page)


def test_newer_entries_are_counted_and_never_pushed_under_the_reader(tenant: Tenant, auditor: Client) -> None:
    first = record(tenant)
    url = re.search(r'hx-get="(\?part=newer[^"]*)"', auditor.get(URL).content.decode())
    assert url
    for _ in range(2):
        record(tenant)
    part = words(auditor.get(URL + url[1].replace("&amp;", "&"), headers=HTMX).content.decode())
    assert part == "Show 2 newer"
    assert f"after={first}" in url[1]


def test_the_seal_line_tells_what_is_covered_and_when_it_was_verified(tenant: Tenant, auditor: Client) -> None:
    record(tenant)
    assert "Not sealed yet" in words(auditor.get(URL).content.decode())
    status = audit.seal_status(tenant.pk)
    assert (status.event_id, status.waiting, status.verified_at) == (None, 1, None)


def test_sealed_entries_say_so(tenant: Tenant, auditor: Client) -> None:
    entry = record(tenant)
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_current_xact_id()::text::bigint")
        (now,) = cursor.fetchone()
    # One transaction holds the whole test, so the sealer itself would wait for its end.
    Seal.objects.create(
        from_xid=0, to_xid=now + 1, count=1, event_ids=[entry], leaves=b"x" * 32, root=b"x", previous=b"x",
        signature=b"x", key_id="k",
    )  # fmt: skip
    page = words(auditor.get(URL, {"event": entry}).content.decode())
    assert f"Sealed through entry {entry:,}" in page
    assert "Never verified" in page
    by = Actor(name="root", door=Door.CLI)
    record_verification(ok=True, events=1, seals=1, problem="", actor=by)
    assert re.search(r"Verified in full \S.* by root\.", words(auditor.get(URL).content.decode()))
    record_verification(ok=True, events=1, seals=1, problem="", full=False, actor=by)
    assert re.search(r"New entries verified .* by root; verified in full \S", words(auditor.get(URL).content.decode()))
    record_verification(ok=False, events=1, seals=1, problem="event 1", actor=by)
    assert "Verification failed" in words(auditor.get(URL).content.decode())


def exported(client: Client, form: str, **query: str) -> bytes:
    response = client.get("/audit/export", {"format": form, **query})
    assert response.status_code == 200
    assert f".{form}" in response["Content-Disposition"]
    return b"".join(response.streaming_content)  # type: ignore[attr-defined]


def test_an_export_holds_exactly_the_filtered_entries(tenant: Tenant, auditor: Client) -> None:
    wanted = record(tenant, "task.created", after={"n": 1, "wörd": "ü"})
    record(tenant, "token.issued")
    (line,) = [json.loads(line) for line in exported(auditor, "jsonl", action="task").splitlines()]
    assert (line["id"], line["action"], line["actor"], line["after"]) == (
        wanted,
        "task.created",
        "mia",
        {"n": 1, "wörd": "ü"},
    )
    rows = list(csv.DictReader(io.StringIO(exported(auditor, "csv", action="task").decode())))
    assert [row["id"] for row in rows] == [str(wanted)]
    assert json.loads(rows[0]["after"]) == {"n": 1, "wörd": "ü"}


def test_an_export_is_an_entry_of_its_own_and_not_in_itself(tenant: Tenant, auditor: Client) -> None:
    entry = record(tenant)
    assert [json.loads(line)["id"] for line in exported(auditor, "jsonl", actor="mia").splitlines()] == [entry]
    event = Event.objects.get(tenant=tenant, action="audit.exported")
    assert (event.actor, event.door, event.target) == ("ada", "web", "jsonl")
    assert event.after == {"query": {"actor": "mia"}, "up_to": entry}


def test_an_export_is_on_record_before_it_is_read(tenant: Tenant, auditor: Client) -> None:
    record(tenant)
    auditor.get("/audit/export", {"format": "csv"})  # nobody reads the body
    assert Event.objects.filter(tenant=tenant, action="audit.exported").count() == 1


@pytest.mark.parametrize("sign", ["=", "+", "-", "@", "\t", "\r", " =", "＝"])
def test_no_cell_of_a_csv_is_a_formula(tenant: Tenant, auditor: Client, sign: str) -> None:
    evil = f'{sign}HYPERLINK("https://evil.example";"click")'
    record(tenant, actor=evil, target=evil, reason=evil, address=evil[:60], after={"x": evil})
    (row,) = csv.DictReader(io.StringIO(exported(auditor, "csv").decode()))
    for value in row.values():
        assert not value.lstrip(" ").startswith(("=", "+", "-", "@", "\t", "\r", "＝"))
    assert row["actor"] == (spelled(evil) if sign in "\t\r" else f"'{evil}")


def test_a_cut_export_says_so(tenant: Tenant, auditor: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    for _ in range(7):
        record(tenant)
    monkeypatch.setattr(audit, "EXPORT_ROWS", 5)
    lines = [json.loads(line) for line in exported(auditor, "jsonl").splitlines()]
    assert len(lines) == 6
    assert "cut at 5 rows" in lines[-1]["cut"]
    rows = list(csv.reader(io.StringIO(exported(auditor, "csv").decode())))
    assert len(rows) == 7
    assert "cut at 5 rows" in rows[-1][0]
    monkeypatch.setattr(audit, "EXPORT_ROWS", 9)
    assert b"cut at" not in exported(auditor, "jsonl")


def test_an_export_refuses_a_query_it_does_not_understand(tenant: Tenant, auditor: Client) -> None:
    for query in ({}, {"format": "pdf"}, {"format": "csv", "since": "whenever"}):
        assert auditor.get("/audit/export", query).status_code == 400
    assert not Event.objects.filter(tenant=tenant, action="audit.exported").exists()


def test_as_many_queries_for_thirty_entries_as_for_one(tenant: Tenant, auditor: Client) -> None:
    def queries() -> int:
        with CaptureQueriesContext(connection) as captured:
            assert auditor.get(reverse("audit-list")).status_code == 200
        return len(captured)

    context = make_context(tenant)
    make_task(context)
    one = queries()
    for _ in range(30):
        make_task(context)
    assert queries() == one
    assert one <= 9

"""The overview."""

from __future__ import annotations

import html
import json
import re
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.utils import timezone
from pytest_django import DjangoAssertNumQueries

from taskhub.console.chart import chart
from taskhub.core.states import Audience, QuestionKind, Role
from taskhub.domain.notices.webhooks import Wanted, add_webhook
from taskhub.domain.tasks import callers
from taskhub.domain.tasks.stats import Counts, Hour
from taskhub.domain.workers.writes import heartbeat
from taskhub.store.models import Consent, Server, Task, Tool, Webhook
from tests.console.admin import words
from tests.console.conftest import Login
from tests.domain.cost import make_old, past_the_guards
from tests.factories import (
    WORKER,
    make_context,
    make_person,
    make_question,
    make_server,
    make_task,
    make_tenant,
    make_tool,
)
from tests.support.oauth import make_application

pytestmark = pytest.mark.django_db

OVERVIEW_QUERIES = 13


def test_an_empty_hub_shows_what_to_do_first(tenant: Any, sign_in: Login) -> None:
    client = sign_in(make_person(Role.ADMIN, tenant))
    page = client.get("/").content.decode()
    assert "Three steps to your first task" in page
    assert "Tasks ended per hour" not in page
    make_tool(make_server(tenant))
    assert "1 connected, 1 tools on offer." in client.get("/").content.decode()


def test_a_webhook_that_does_not_answer_is_told_to_whoever_can_look_after_it(tenant: Any, sign_in: Login) -> None:
    """Not for one failure, and not of another tenant."""
    admin, operator = (sign_in(make_person(role, tenant)) for role in (Role.ADMIN, Role.OPERATOR))
    now = timezone.now()
    hook, _ = add_webhook(
        tenant_id=tenant.id, wanted=Wanted("<b>", "https://a.example/x", ["task.failed"]), actor=WORKER
    )
    stranger, _ = add_webhook(
        tenant_id=make_tenant().id, wanted=Wanted("other", "https://b.example/", ["task.failed"]), actor=WORKER
    )
    Webhook.objects.filter(pk=stranger).update(failing_since=now - timedelta(hours=1))
    for since, enabled, told in ((None, True, False), (5, True, False), (300, True, True), (300, False, False)):
        when = None if since is None else now - timedelta(seconds=since)
        Webhook.objects.filter(pk=hook).update(failing_since=when, enabled=enabled)
        page = admin.get("/").content.decode()
        said = f'The webhook <a href="/settings/webhooks/{hook}/">&lt;b&gt;</a> does not answer'
        assert (said in " ".join(page.split())) is told, (since, enabled)
        assert page.count("does not answer") == int(told)
        assert "does not answer" not in operator.get("/").content.decode()


def test_a_step_is_done_only_when_it_is(tenant: Any, sign_in: Login) -> None:
    client = sign_in(make_person(Role.ADMIN, tenant, username="root"))

    def done() -> int:
        return client.get("/").content.decode().count('<li class="done">')

    tool = make_tool(make_server(tenant))
    for changes in ({"enabled": False}, {"rejected": "a bad name"}):
        before = {name: getattr(Tool.objects.get(pk=tool.id), name) for name in changes}
        Tool.objects.update(**changes)
        assert done() == 0, changes
        Tool.objects.update(**before)
    assert done() == 1
    application, _ = make_application(tenant)
    assert done() == 1
    Consent.objects.create(application=application, user=User.objects.get(username="root"), scopes=["tasks:call"])
    assert done() == 2  # a program that a person signed in needs no token
    page = words(client.get("/").content.decode())
    assert "1 signed in by a person." in page
    assert "choose a server’s tool and try it" in page


def tiles(page: str) -> dict[str, tuple[str, str]]:
    """By its name: the figure of each tile, and where it leads."""
    found = {}
    for address, inside in re.findall(r'<a href="([^"]+)">\s*(<span class="name">.*?)</a>', page, re.DOTALL):
        name, figure, *_ = re.findall(r'<span class="(?:name|figure)[^"]*">(.*?)</span>', inside, re.DOTALL)
        found[name] = (words(figure), html.unescape(address))
    return found


def test_each_tile_leads_to_a_list_of_as_many_as_it_says(tenant: Any, sign_in: Login) -> None:
    context, other, server, off = make_context(tenant), make_context(tenant), make_server(tenant), make_server(tenant)
    tool = make_tool(server)
    counts = {"queued": 4, "working": 2, "finished": 3, "finished-error": 3, "faulted": 2, "cancelled": 1}
    for state, count in counts.items():
        for _ in range(count):
            make_task(context, tool, state=state)
    for state in ("finished", "finished", "finished-error", "cancelled"):
        left = make_task(other, tool, state=state, waiter="w")
        callers.leave(left.id, "w", actor=WORKER)
    left = make_task(other, tool, state="input_required", question=make_question(audience=Audience.CLIENT), waiter="w")
    callers.leave(left.id, "w", actor=WORKER)
    paused = make_task(context, make_tool(off))
    Server.objects.filter(pk=off.pk).update(enabled=False)
    for audience, count in ((Audience.CLIENT, 1), (Audience.OPERATOR, 2), (Audience.EITHER, 1)):
        for _ in range(count):
            make_task(other, tool, state="input_required", question=make_question(audience=audience))
    make_task(other, tool, state="input_required", question=make_question(QuestionKind.OUTCOME))
    old, long = (make_task(context, tool, state="faulted") for _ in range(2))
    make_old({old.id: timedelta(hours=30)})
    with past_the_guards():  # it was called days ago, and failed just now
        Task.objects.filter(pk=long.id).update(created_at=long.created_at - timedelta(days=3))
    for name in ("one", "two"):
        heartbeat(name, slots=4, busy=0)
    client = sign_in(make_person(Role.APPROVER, tenant))
    found = tiles(client.get("/").content.decode())
    assert {name: figure for name, (figure, _) in found.items() if name != "Longest wait"} == {
        "Queued": "5", "Working": "2", "Needs a person": "4", "Outcome unknown": "1", "Waiting for client": "2",
        "Abandoned": "1", "Not fetched": "3", "Went wrong in 24 h": "7", "Workers alive": "2",
    }  # fmt: skip
    for name, (figure, address) in found.items():
        page = client.get(address).content.decode()
        if name == "Longest wait":
            continue
        if name == "Workers alive":
            assert words(page).count(" Alive ") == int(figure)
            continue
        assert page.count('<tr id="row-') == int(figure), name
        (tab,) = re.findall(r'aria-current="page">(.*?)</a>', page[page.index('aria-label="By state"') :], re.DOTALL)
        assert words(tab).split()[-1] == figure, name
    assert paused.public_id in client.get(found["Queued"][1]).content.decode()


def test_what_a_tool_failed_leads_to_just_these(tenant: Any, sign_in: Login) -> None:
    context, server = make_context(tenant), make_server(tenant)
    flaky, other = make_tool(server, "a.b"), make_tool(server, "other")
    for tool, state in ((flaky, "faulted"), (flaky, "finished-error"), (flaky, "finished"), (other, "faulted")):
        make_task(context, tool, state=state)
    client = sign_in(make_person(Role.VIEWER, tenant))
    page = client.get("/").content.decode()
    listed = page[page.index('id="failing"') :]
    addresses = re.findall(r'<a href="([^"]+)">\s*(\d)\s+(went wrong|that ended)</a>', listed)
    assert [(count, what) for _, count, what in addresses] == [
        ("2", "went wrong"), ("3", "that ended"), ("1", "went wrong"), ("1", "that ended"),
    ]  # fmt: skip
    for address, count, _ in addresses:
        assert client.get(html.unescape(address)).content.decode().count('<tr id="row-') == int(count)


def test_each_number_of_the_chart_leads_to_just_these(tenant: Any, sign_in: Login) -> None:
    context, tool = make_context(tenant), make_tool(make_server(tenant))
    for state, count in (("finished", 3), ("finished-error", 2), ("faulted", 1), ("cancelled", 4)):
        for _ in range(count):
            make_task(context, tool, state=state)
    with past_the_guards():
        Task.objects.filter(pk=make_task(context, tool, state="faulted").id).update(ended_as="expired")
        Task.objects.filter(pk=make_task(context, tool, state="faulted").id).update(ended_as="denied")
        Task.objects.filter(pk=make_task(context, tool, state="finished-error").id).update(ended_as="rejected")
    client = sign_in(make_person(Role.VIEWER, tenant))
    page = client.get("/").content.decode()
    table = page[page.index('class="chart-table"') :]
    bars = re.findall(r'<a tabindex="-1" href="([^"]+)">.*?UTC: (\d+) ', page, re.DOTALL)
    numbers = re.findall(r'<td class="end">\s*<a href="([^"]+)">(\d+)</a>', table)
    assert sorted(numbers) == sorted(bars)
    found: dict[str, int] = {}
    for address, number in numbers:
        shown = client.get(html.unescape(address)).content.decode()
        assert shown.count('<tr id="row-') == int(number), address
        (tab,) = re.findall(r"state=(\w+)", address)
        found[tab] = found.get(tab, 0) + int(number)  # the hour may have ended meanwhile
    assert found == {
        "finished": 3, "error": 2, "faulted": 1, "cancelled": 4, "expired": 1, "denied": 1, "rejected": 1,
    }  # fmt: skip


def test_the_oldest_that_waits_is_the_same_on_the_overview_the_workers_and_metrics(tenant: Any, sign_in: Login) -> None:
    context, off = make_context(tenant), make_server(tenant)
    paused, waits = make_task(context, make_tool(off)), make_task(context, make_tool(make_server(tenant)))
    make_task(context, state="input_required")
    Server.objects.filter(pk=off.pk).update(enabled=False)
    make_old({paused.id: timedelta(hours=9), waits.id: timedelta(hours=2)})
    now = timezone.now()
    for task, age in ((paused, timedelta(hours=9)), (waits, timedelta(minutes=28))):
        Task.objects.filter(pk=task.id).update(runnable_at=now - age)
    client = sign_in(make_person(Role.VIEWER, tenant))
    overview, workers = client.get("/").content.decode(), client.get("/workers/").content.decode()
    waited, address = tiles(overview)["Longest wait"]
    assert (waited.startswith("28 min"), address) == (True, f"/tasks/{waits.public_id}/")  # and some seconds, maybe
    assert "1 paused" in words(overview)
    assert re.search(rf'href="/tasks/{waits.public_id}/"><span[^>]*>Longest wait:</span>\s*<time[^>]*>28 min', workers)
    assert "Of these, paused 1" in words(workers)
    figures = dict(re.findall(r"^(taskhub_\w+) (\S+)$", client.get("/metrics").content.decode(), re.MULTILINE))
    assert 28 * 60 <= float(figures["taskhub_oldest_queued_seconds"]) < 29 * 60
    assert float(figures["taskhub_tasks_paused"]) == 1


def test_failing_tools_come_with_their_last_words(tenant: Any, sign_in: Login) -> None:
    context, tool = make_context(tenant), make_tool(make_server(tenant), "flaky")
    for state in ("finished", "faulted", "finished-error"):
        make_task(context, tool, state=state)
    page = sign_in(make_person(Role.VIEWER, tenant)).get("/").content.decode()
    assert "2 went wrong of 3 that ended" in words(page)
    assert "it broke" in page


def test_the_list_of_decisions_leads_where_the_role_may_go(tenant: Any, sign_in: Login) -> None:
    task = make_task(make_context(tenant), make_tool(make_server(tenant)), state="input_required")
    viewer = sign_in(make_person(Role.VIEWER, tenant)).get("/").content.decode()
    assert "/inbox/" not in viewer
    assert f"/tasks/{task.public_id}/" in viewer
    assert "/inbox/" in sign_in(make_person(Role.OPERATOR, tenant)).get("/").content.decode()


def test_the_chart_has_a_table_behind_it(tenant: Any, sign_in: Login) -> None:
    make_task(make_context(tenant), make_tool(make_server(tenant)), state="finished")
    response = sign_in(make_person(Role.VIEWER, tenant)).get("/")
    page = response.content.decode()
    assert page.count('<th scope="row">') == 24
    assert 'role="group" aria-label="1 tasks ended in the last 24 hours' in page


def test_columns_never_leave_the_chart() -> None:
    at = datetime(2026, 11, 21, tzinfo=UTC)
    for count in (0, 1, 3, 9, 11, 99, 123_456):
        drawn = chart([Hour(at, Counts(finished=count, faulted=count))] * 24)
        assert drawn.half * 2 == drawn.top >= 2 * count
        for column in drawn.columns:
            assert sum(float(part.height) for part in column.segments) <= drawn.height + 3
            assert all(float(part.y) >= 0 for part in column.segments)


@pytest.mark.parametrize("rows", [1, 30])
def test_the_overview_costs_the_same_at_1_and_30_tasks(
    tenant: Any, sign_in: Login, rows: int, django_assert_num_queries: DjangoAssertNumQueries
) -> None:
    context, server = make_context(tenant), make_server(tenant)
    for _ in range(rows):
        make_task(context, make_tool(server), state="input_required")
        make_task(context, make_tool(server), state="faulted")
    client = sign_in(make_person(Role.ADMIN, tenant))
    with django_assert_num_queries(OVERVIEW_QUERIES + 1):
        client.get("/")
    with django_assert_num_queries(OVERVIEW_QUERIES):
        client.get("/")  # the hours that are over are known


@pytest.mark.parametrize("role", [Role.VIEWER, Role.ADMIN])
def test_the_sheet_of_keys_shows_each_that_leads_somewhere_and_no_other(
    tenant: Any, sign_in: Login, role: Role
) -> None:
    page = sign_in(make_person(role, tenant)).get("/").content.decode()
    leading = json.loads(html.unescape(re.search(r'data-go="([^"]*)"', page)[1]))  # type: ignore[index]
    shown = re.findall(r"<dt><kbd>g</kbd> <kbd>(\w)</kbd></dt>", page)
    assert shown == [*leading]
    assert ("e" in shown) is (role is Role.ADMIN)

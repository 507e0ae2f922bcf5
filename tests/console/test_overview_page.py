"""The overview."""

from __future__ import annotations

import html
import json
import re
from datetime import UTC, datetime
from typing import Any

import pytest
from pytest_django import DjangoAssertNumQueries

from taskhub.console.chart import chart
from taskhub.core.states import Audience, Role
from taskhub.queries.stats import Hour
from tests.console.conftest import Login
from tests.factories import make_context, make_person, make_question, make_server, make_task, make_tool

pytestmark = pytest.mark.django_db

OVERVIEW_QUERIES = 9


def test_an_empty_hub_shows_what_to_do_first(tenant: Any, sign_in: Login) -> None:
    client = sign_in(make_person(Role.ADMIN, tenant))
    page = client.get("/").content.decode()
    assert "Three steps to the first task" in page
    assert "Tasks ended per hour" not in page
    make_tool(make_server(tenant))
    assert "1 connected, 1 tools on offer." in client.get("/").content.decode()


def test_the_numbers_count_what_they_say(tenant: Any, sign_in: Login) -> None:
    context, server = make_context(tenant), make_server(tenant)
    for state in ("queued", "working", "working", "finished", "finished-error", "faulted", "input_required"):
        make_task(context, make_tool(server), state=state)
    for_client = make_question(audience=Audience.CLIENT)
    make_task(context, make_tool(server), state="input_required", question=for_client)
    shown = sign_in(make_person(Role.VIEWER, tenant)).get("/").context
    numbers = shown["numbers"]
    assert (numbers.queued, numbers.working, numbers.waiting_people, numbers.waiting_client, shown["failed"]) == (
        1,
        2,
        1,
        1,
        2,
    )
    assert numbers.oldest_waiting_at is not None


def test_failing_tools_come_with_their_last_words(tenant: Any, sign_in: Login) -> None:
    context, tool = make_context(tenant), make_tool(make_server(tenant), "flaky")
    for state in ("finished", "faulted", "finished-error"):
        make_task(context, tool, state=state)
    page = sign_in(make_person(Role.VIEWER, tenant)).get("/").content.decode()
    assert "2 of 3" in page
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
    assert 'role="img" aria-label="1 tasks ended in the last 24 hours' in page


def test_columns_never_leave_the_chart() -> None:
    at = datetime(2026, 11, 21, tzinfo=UTC)
    for count in (0, 1, 3, 9, 11, 99, 123_456):
        drawn = chart([Hour(at, count, count, 0)] * 24)
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

"""A list that many look at is rendered once for all who were told to look again, and for nobody else."""

from __future__ import annotations

from typing import Any

import pytest
from django.test import Client
from pytest_django import DjangoAssertNumQueries

from taskhub.console import shared
from taskhub.domain.hints.generation import hear
from taskhub.store.models import Tenant
from tests.console.conftest import Login
from tests.factories import make_context, make_person, make_server, make_task, make_tenant, make_tool

pytestmark = pytest.mark.django_db
FRAME_QUERIES = 3
"""Who is asking: the session, the account, the role."""


def look(browser: Client, address: str = "/tasks/", *, because_of: str = "task-list") -> str:
    """The list as htmx gets it, because of a hint unless something else is named that was pressed."""
    answer = browser.get(address, headers={"hx-request": "true", "hx-trigger": because_of, "hx-target": "task-list"})
    assert answer.status_code == 200
    return answer.content.decode()


def create(tenant: Tenant, name: str) -> None:
    make_task(make_context(tenant), make_tool(make_server(tenant), name))


@pytest.fixture
def two(tenant: Tenant, sign_in: Login) -> tuple[Client, Client]:
    """Browsers of two people of one role."""
    return sign_in(make_person("viewer", tenant)), sign_in(make_person("viewer", tenant))


def test_two_who_were_told_get_one_list_until_there_is_news(
    two: tuple[Client, Client], tenant: Tenant, django_assert_max_num_queries: DjangoAssertNumQueries
) -> None:
    first, second = two
    create(tenant, "early")
    before = look(first)
    assert "early" in before
    create(tenant, "late")
    with django_assert_max_num_queries(FRAME_QUERIES):
        assert look(second) == before
    hear(make_tenant().pk)
    assert look(second) == before
    hear(tenant.pk)
    assert "late" in look(second)
    create(tenant, "latest")
    hear(None)
    assert "latest" in look(first)


def test_who_presses_something_reads_for_themselves(two: tuple[Client, Client], tenant: Tenant) -> None:
    look(two[0])
    create(tenant, "late")
    assert "late" in look(two[1], because_of="filters")
    assert "late" in two[1].get("/tasks/").content.decode()


def test_another_address_another_role_another_tenant_get_their_own(
    two: tuple[Client, Client], tenant: Tenant, sign_in: Login
) -> None:
    create(tenant, "early")
    look(two[0])
    create(tenant, "late")
    assert "late" in look(two[1], "/tasks/?state=queued")
    assert "late" in look(sign_in(make_person("admin", tenant)))
    elsewhere = look(sign_in(make_person("viewer", make_tenant())))
    assert "late" not in elsewhere
    assert "early" not in elsewhere


def test_who_may_not_look_any_more_gets_nothing(two: tuple[Client, Client], tenant: Tenant) -> None:
    look(two[0])
    two[1].logout()
    answer = two[1].get("/tasks/", headers={"hx-request": "true", "hx-trigger": "task-list"})
    assert answer.headers["HX-Redirect"].startswith("/accounts/login/")


def test_a_list_that_is_some_seconds_old_is_read_again(
    two: tuple[Client, Client], tenant: Tenant, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shared, "SHARED_SECONDS", 0.0)
    look(two[0])
    create(tenant, "late")
    assert "late" in look(two[1])


def test_no_more_are_kept_than_there_is_room_for(
    two: tuple[Client, Client], tenant: Tenant, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shared, "MOST_SHARED", 2)
    for state in ("queued", "working", "finished"):
        look(two[0], f"/tasks/?state={state}")
    parts: Any = shared._parts
    assert [key[2] for key in parts if key[0] == tenant.pk] == ["/tasks/?state=working", "/tasks/?state=finished"]

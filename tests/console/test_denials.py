"""Somebody who asks for what their role does not include is turned away, and it is on record."""

from __future__ import annotations

from typing import Any

import pytest
from django.test import Client

from taskhub.store.models import Event, Tenant
from tests.console.admin import HTMX, browser, words
from tests.factories import make_context, make_person, make_server, make_task, make_tool, make_user

pytestmark = pytest.mark.django_db


def denials() -> list[Event]:
    return list(Event.objects.filter(action="access.denied").order_by("id"))


@pytest.mark.parametrize(
    ("role", "method", "path", "lacking"),
    [
        ("viewer", "POST", "/tasks/some-task/cancel", "task.cancel"),
        ("viewer", "GET", "/audit/", "audit.view"),
        ("operator", "GET", "/audit/", "audit.view"),
        ("operator", "GET", "/settings/", "settings.view"),
        ("auditor", "POST", "/clients/issue", "client.manage"),
    ],
)
def test_a_denial_says_who_wanted_what_and_what_they_lack(
    tenant: Tenant, role: str, method: str, path: str, lacking: str
) -> None:
    mia = make_person(role, tenant, username="mia")
    response = browser(mia).generic(method, path, REMOTE_ADDR="192.0.2.9")
    assert response.status_code == 403
    (event,) = denials()
    assert (event.tenant_id, event.actor, event.user_id, event.door, event.address) == (
        tenant.pk,
        "mia",
        mia.user_id,
        "web",
        "192.0.2.9",
    )
    assert event.target == f"{method} {path}"
    assert event.after == {"lacking": lacking}


def test_every_denial_is_on_record_also_one_behind_a_page(tenant: Tenant) -> None:
    mia = browser(make_person("viewer", tenant))
    for headers in ({}, HTMX, {}):
        assert mia.get("/audit/", headers=headers).status_code == 403
    assert len(denials()) == 3


def test_what_is_asked_in_the_query_is_not_kept(tenant: Tenant) -> None:
    browser(make_person("viewer", tenant)).get("/audit/?q=private-words")
    assert [event.target for event in denials()] == ["GET /audit/"]


def test_a_path_of_any_length_is_kept_in_part(tenant: Tenant) -> None:
    path = f"/tasks/{'x' * 3_000}/cancel"
    assert browser(make_person("viewer", tenant)).post(path).status_code == 403
    assert [event.target for event in denials()] == [f"POST {path}"[:200]]


def test_nobody_else_is_on_record(tenant: Tenant) -> None:
    task = make_task(make_context(tenant), make_tool(make_server(tenant), "echo"), state="finished")
    stranger = Client()
    stranger.force_login(make_user())
    viewer = browser(make_person("viewer", tenant))
    outsider = browser(make_person("admin"))
    seen: list[Any] = [
        Client().get("/audit/"),  # signs in first
        stranger.get("/audit/"),  # has no role, belongs to no tenant
        viewer.get("/tasks/"),  # may
        viewer.get("/nowhere/"),
        viewer.get("/tasks/no-such-task-no-such-task/"),
        outsider.get(f"/tasks/{task.public_id}/"),  # is told that it is not there
    ]
    assert [response.status_code for response in seen] == [302, 403, 200, 404, 404, 404]
    assert denials() == []


def test_the_auditor_of_that_tenant_reads_it_and_no_other(tenant: Tenant) -> None:
    browser(make_person("viewer", tenant, username="mia")).get("/settings/")
    browser(make_person("viewer", username="mallory")).get("/settings/")
    page = words(browser(make_person("auditor", tenant)).get("/audit/").content.decode())
    assert "access.denied" in page
    assert "GET /settings/" in page
    assert "mia" in page
    assert "mallory" not in page


def test_an_address_that_no_text_can_hold_is_denied_like_any_other(tenant: Tenant) -> None:
    mia = browser(make_person("viewer", tenant))
    for send in (mia.get, mia.post):
        assert send("/tasks/%00/cancel").status_code == 403
    assert {event.target for event in denials()} == {"GET /tasks/\ufffd/cancel", "POST /tasks/\ufffd/cancel"}

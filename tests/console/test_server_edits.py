"""A server is edited, disabled with a reason, and removed, on its page."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from django.test import Client

from taskhub.core.states import Role
from taskhub.domain.catalogue.connection_tests import store_steps, take_tests
from taskhub.domain.catalogue.sync import enabled_servers
from taskhub.domain.workers.lines import store_lines
from taskhub.store.models import ConnectionTest, Event, Server, Tenant
from tests.console.admin import words
from tests.console.conftest import Login
from tests.factories import claim_task, make_context, make_person, make_server, make_task, make_tool

pytestmark = pytest.mark.django_db


@pytest.fixture
def page(admin: Client, tenant: Tenant) -> str:
    form = {"name": "paid", "spec": "stdio:env KEY=sw0rdfish paid-server", "prefix": "p_"}
    assert admin.post("/servers/add", form).status_code == 302
    return f"/servers/{Server.objects.get(tenant=tenant).pk}/"


def test_it_is_edited_and_a_hidden_secret_stays_as_it_is(admin: Client, page: str) -> None:
    html = admin.get(f"{page}?edit").content.decode()
    assert 'value="stdio:env KEY=••• paid-server"' in html
    assert "sw0rdfish" not in html
    form = {"spec": "stdio:env KEY=••• paid-server", "prefix": "q_", "calls_at_once": ""}
    assert admin.post(f"{page}edit", form).status_code == 302
    (row,) = enabled_servers()
    assert (row.target, row.prefix) == ("env KEY=sw0rdfish paid-server", "q_")
    assert Event.objects.get(action="server.changed").after == {"prefix": "q_"}
    answer = admin.post(f"{page}edit", {**form, "spec": "https://paid.example/mcp", "calls_at_once": "7"})
    assert answer.status_code == 302
    (row,) = enabled_servers()
    assert (row.transport, row.target, row.calls_at_once) == ("http", "https://paid.example/mcp", 7)


def test_what_a_server_is_given_is_typed_in_pairs_and_values_are_never_sent_back(admin: Client, page: str) -> None:
    form = {
        "spec": "stdio:env KEY=••• paid-server",
        "prefix": "p_",
        "environment_name": ["TOKEN", "LEVEL", ""],
        "environment_value": ["s3cret", "debug", ""],
        "directory": "/srv/notes",
        "connect_seconds": "30",
    }
    assert admin.post(f"{page}edit", form).status_code == 302
    (row,) = enabled_servers()
    assert dict(row.environment) == {"TOKEN": "s3cret", "LEVEL": "debug"}
    assert (row.directory, row.connect_seconds) == ("/srv/notes", 30)
    html = admin.get(f"{page}?edit").content.decode()
    assert "Variables LEVEL, TOKEN Working directory /srv/notes Time to connect 30 s" in words(html)
    assert "s3cret" not in html
    assert html.count('placeholder="as it is stored"') == 2
    form |= {"environment_name": ["LEVEL", "TOKEN", "NEW"], "environment_value": ["", "an0ther", ""]}
    refused = admin.post(f"{page}edit", form).content.decode()
    assert "Give a value for NEW." in words(refused)
    assert "an0ther" not in refused
    assert 'placeholder="type it again" required' in refused, "it would be lost otherwise"
    assert dict(enabled_servers()[0].environment)["TOKEN"] == "s3cret"
    form |= {"environment_name": ["LEVEL"], "environment_value": [""]}
    admin.post(f"{page}edit", form)
    assert dict(enabled_servers()[0].environment) == {"LEVEL": "debug"}, "what has no name any more is removed"


@pytest.mark.parametrize(
    ("typed", "said"),
    [
        ({"environment_name": ["A", "A"], "environment_value": ["b", "c"]}, "A is given twice."),
        ({"environment_name": [""], "environment_value": ["b"]}, "Name the variable that has this value."),
        ({"headers_name": ["A"], "headers_value": ["b"]}, "Only a server with a URL is sent headers."),
        ({"directory": "srv"}, "A working directory is a full path"),
        ({"connect_seconds": "500"}, "From 1 to 120."),
    ],
)
def test_what_cannot_be_given_is_refused_beside_its_field(
    admin: Client, page: str, typed: dict[str, str | list[str]], said: str
) -> None:
    answer = admin.post(f"{page}edit", {"spec": "stdio:env KEY=••• paid-server", "prefix": "", **typed})
    html = answer.content.decode()
    assert (answer.status_code, said in words(html)) == (400, True)
    assert '<details class="further" open>' in html


@pytest.mark.parametrize(
    ("typed", "said"),
    [
        ({"spec": "stdio:env KEY=••• other"}, "Give the whole address or command"),
        ({"spec": ""}, "A server is given as one line"),
        ({"prefix": "1"}, "A prefix has letters"),
        ({"calls_at_once": "1001"}, "From 1 to 1,000."),
        ({"calls_at_once": "x"}, "Give a whole number"),
    ],
)
def test_what_cannot_be_is_refused_where_it_was_typed(
    admin: Client, page: str, typed: dict[str, str], said: str
) -> None:
    before = enabled_servers()
    form = {"spec": "stdio:env KEY=••• paid-server", "prefix": "new_", "calls_at_once": "", **typed}
    answer = admin.post(f"{page}edit", form)
    assert (answer.status_code, said in words(answer.content.decode())) == (400, True)
    assert enabled_servers() == before, "all of it or nothing"


def test_a_token_that_was_for_the_address_of_before_is_dropped_and_that_is_said(admin: Client, page: str) -> None:
    form = {"spec": "https://paid.example/mcp", "prefix": "", "calls_at_once": ""}
    admin.post(f"{page}edit", form)
    admin.post(f"{page}token", {"token": "t0ken"})
    answer = admin.post(f"{page}edit", {**form, "spec": "https://other.example/mcp"}, follow=True)
    assert "The token was for the address of before" in words(answer.content.decode())
    assert enabled_servers()[0].token == ""


def test_the_reason_why_it_is_disabled_is_shown_with_its_state(admin: Client, page: str) -> None:
    assert "Reason (optional)" in words(admin.get(f"{page}?toggle").content.decode())
    answer = admin.post(f"{page}toggle", {"enabled": "0", "reason": "x" * 201})
    assert (answer.status_code, "at most 200" in words(answer.content.decode())) == (400, True)
    admin.post(f"{page}toggle", {"enabled": "0", "reason": "The vendor moves"})
    for url in (page, "/servers/"):
        assert "Disabled The vendor moves" in words(admin.get(url).content.decode())
    admin.post(f"{page}toggle", {"enabled": "1"})
    assert "The vendor" not in words(admin.get(page).content.decode())


def test_removing_asks_and_says_what_becomes_of_its_calls(admin: Client, tenant: Tenant, page: str) -> None:
    assert "It has no calls that have not ended." in words(admin.get(f"{page}?remove").content.decode())
    context, tool = make_context(tenant), make_tool(Server.objects.get(tenant=tenant))
    claim_task(running := make_task(context, tool))
    waiting = make_task(context, tool)
    asked = words(admin.get(f"{page}?remove").content.decode())
    assert "Those that wait fail: 1. Those that run go on to their end: 1." in asked
    answer = admin.post(f"{page}remove", follow=True)
    said = words(answer.content.decode())
    assert "paid removed. Calls that waited for it and have failed: 1. Calls that run to their end: 1." in said
    assert "No server yet." in said
    assert (admin.get(page).status_code, admin.post(f"{page}remove").status_code) == (404, 404)
    for task in (running, waiting):
        html = admin.get(f"/tasks/{task.public_id}/").content.decode()
        assert "paid (removed)" in words(html)
        assert f'href="{page}"' not in html


def test_its_connection_is_tested_and_each_step_is_shown(admin: Client, tenant: Tenant, page: str) -> None:
    server = Server.objects.get(tenant=tenant)
    assert "Test of the connection" not in words(admin.get(page).content.decode())
    assert admin.post(f"{page}test").headers["Location"] == f"{page}#server-test"
    assert "Waiting for a worker." in words(admin.get(page).content.decode())
    (taken,) = take_tests("worker-7")
    assert taken.server.target == "env KEY=sw0rdfish paid-server"
    step = {"name": "Program", "ok": False, "seconds": 0.25, "says": "there is no program paid-server here"}
    store_steps(taken, [step], ended=True)
    shown = words(admin.get(page).content.decode())
    assert "Program Failed 250 ms there is no program paid-server here" in shown
    assert "by worker-7" in shown
    admin.post(f"{page}test")
    ConnectionTest.objects.filter(server=server).update(requested_at=datetime.now(UTC) - timedelta(hours=1))
    assert "No worker made it in time." in words(admin.get(page).content.decode())
    admin.post(f"{page}toggle", {"enabled": "0"})
    assert admin.post(f"{page}test").status_code == 409


def test_who_may_not_manage_servers_is_not_offered_it(sign_in: Login, tenant: Tenant) -> None:
    viewer = sign_in(make_person(Role.VIEWER, tenant))
    page = f"/servers/{make_server(tenant).pk}/"
    for asked in ("edit", "remove", "toggle", "test"):
        assert f"{page}{asked}" not in viewer.get(f"{page}?{asked}").content.decode()
        assert viewer.post(f"{page}{asked}").status_code == 403


def test_what_its_processes_say_is_for_admins(admin: Client, tenant: Tenant, sign_in: Login, page: str) -> None:
    assert "What its processes say" not in admin.get(page).content.decode()
    store_lines(Server.objects.get().pk, ["Listening", "<b>bold</b> \u202e"], worker="w1")
    html = admin.get(page).content.decode()
    assert "What its processes say" in html
    assert "w1 Listening" in words(html)
    assert "&lt;b&gt;bold&lt;/b&gt;" in html
    assert "\u202e" not in html
    for role in Role:
        if role is not Role.ADMIN:
            assert "Listening" not in sign_in(make_person(role, tenant)).get(page).content.decode()


def test_a_python_object_gets_a_process_of_its_own(admin: Client, tenant: Tenant) -> None:
    form = {"name": "mine", "spec": "python:mine:server", "own_process": "on"}
    form |= {"environment_name": "LEVEL", "environment_value": "debug"}
    assert admin.post("/servers/add", form).status_code == 302
    page = f"/servers/{Server.objects.get(tenant=tenant).pk}/"
    store_lines(Server.objects.get().pk, ["Listening"], worker="w1")
    html = admin.get(f"{page}?edit").content.decode()
    assert "Process its own, in each worker Variables LEVEL" in words(html)
    assert "w1 Listening" in words(html)
    form = {"spec": "python:mine:server", "environment_name": "LEVEL", "environment_value": ""}
    refused = admin.post(f"{page}edit", form)
    assert refused.status_code == 400
    assert "or an object in a process of its own" in words(refused.content.decode())
    assert admin.post(f"{page}edit", {"spec": "python:mine:server"}).status_code == 302
    (row,) = enabled_servers()
    assert (row.own_process, row.environment) == (False, ())
    refused = admin.post(f"{page}edit", {"spec": "stdio:mine", "own_process": "on"})
    assert "Only a Python object can be given" in words(refused.content.decode())

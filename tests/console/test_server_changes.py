"""The page of what a server has changed, where people confirm it, and what leads there."""

from __future__ import annotations

import re

import pytest
from django.test import Client

from taskhub.core.states import Role
from taskhub.domain.catalogue.view import catalogue, forget_catalogues
from taskhub.store.models import Event, Server, Tenant, Tool
from tests.console.admin import words
from tests.console.conftest import Login
from tests.domain.catalogue.test_versions import definition, lists
from tests.factories import make_person, make_server, make_tenant

pytestmark = pytest.mark.django_db


@pytest.fixture
def server(admin: Client, tenant: Tenant) -> Server:
    """A server whose tools wait: `look` has changed, `other` is new, `old` is gone."""
    server = make_server(tenant, "files")
    lists(server, definition("one"), definition("a", "old"))
    form = {"spec": f"{server.transport}:{server.target}", "prefix": "", "review": "on"}
    assert admin.post(f"/servers/{server.pk}/edit", form).status_code == 302
    lists(server, definition("two"), definition("b", "other"))
    return server


def buttons(html: str) -> list[str]:
    """What the buttons on the page send, that for all of them first."""
    return re.findall(r'name="seen" value="([^"]*)"', html)


def offered(server: Server) -> list[str]:
    forget_catalogues()
    return [tool.name for tool in catalogue(server.tenant_id).tools]


def test_the_switch_is_in_the_form_and_on_the_page(admin: Client, server: Server) -> None:
    html = admin.get(f"/servers/{server.pk}/?edit").content.decode()
    assert re.search(r'<input[^>]*name="review"[^>]*checked', html)
    assert "Review new and changed tools wait for a person" in words(html)
    form = {"spec": f"{server.transport}:{server.target}", "prefix": ""}
    admin.post(f"/servers/{server.pk}/edit", form)
    assert offered(server) == ["look", "other"]


def test_it_says_what_is_new_changed_and_gone_and_leads_there(admin: Client, server: Server) -> None:
    link = f"/servers/{server.pk}/changes"
    page = admin.get(f"/servers/{server.pk}/").content.decode()
    assert "2 tools wait for a person" in words(page)
    assert "Not confirmed yet: 1 new, 1 changed, 1 gone." in words(page)
    assert link in page
    assert "2 waiting" in words(admin.get("/servers/").content.decode())
    overview = admin.get("/").content.decode()
    assert "2 tools of files wait for a person" in words(overview)
    assert link in overview
    tool = Tool.objects.get(name="look")
    html = words(admin.get(f"/servers/{server.pk}/?tool={tool.pk}").content.decode())
    assert "The tool has changed since somebody confirmed it: it is not offered until then." in html
    html = admin.get(link).content.decode()
    for said in ("Changed look", "New other", "Gone old", "Changed Description"):
        assert said in words(html)
    assert ("<del>one</del>" in html, "<ins>two</ins>" in html) == (True, True)


def test_one_is_confirmed_or_all_of_them(admin: Client, server: Server) -> None:
    page = f"/servers/{server.pk}/changes"
    everything, *each = buttons(admin.get(page).content.decode())
    assert everything.split(",") == each
    other = Tool.objects.get(name="other")
    (one,) = (sent for sent in each if sent.startswith(f"{other.pk}:"))
    answer = admin.post(f"/servers/{server.pk}/confirm", {"seen": one})
    assert (answer.status_code, answer["Location"]) == (302, page)
    assert offered(server) == ["other"]
    event = Event.objects.get(action="tool.confirmed")
    assert (event.target, event.actor, event.door) == ("files/other", "root", "web")
    admin.post(f"/servers/{server.pk}/confirm", {"seen": everything})
    assert offered(server) == ["look", "other"]
    html = words(admin.get(page).content.decode())
    assert "Confirmed: 2." in html
    assert "Nothing new." in html
    admin.post(f"/servers/{server.pk}/confirm", {"seen": everything})
    assert "Somebody had confirmed that already" in words(admin.get(page).content.decode())
    tool = admin.get(f"/servers/{server.pk}/?tool={other.pk}").content.decode()
    assert "by root." in words(tool)


def test_what_has_changed_again_is_shown_and_not_confirmed(admin: Client, server: Server) -> None:
    everything = buttons(admin.get(f"/servers/{server.pk}/changes").content.decode())[0]
    lists(server, definition("three"), definition("b", "other"))
    answer = admin.post(f"/servers/{server.pk}/confirm", {"seen": everything})
    assert answer.status_code == 409
    html = answer.content.decode()
    assert "The server has changed look again meanwhile." in words(html)
    assert "<ins>three</ins>" in html
    assert offered(server) == []


@pytest.mark.parametrize("sent", ["", "x", "1:", ":", "99999999:abc", "1" * 50 + ":abc"])
def test_what_no_page_sends_confirms_nothing(admin: Client, server: Server, sent: str) -> None:
    assert admin.post(f"/servers/{server.pk}/confirm", {"seen": sent}).status_code == 404
    assert admin.post(f"/servers/{2**70}/confirm", {"seen": sent}).status_code == 404
    assert admin.get(f"/servers/{2**70}/changes").status_code == 404


def test_who_may_not_manage_servers_looks_only(sign_in: Login, server: Server, tenant: Tenant) -> None:
    ada = sign_in(make_person(Role.APPROVER, tenant))
    html = ada.get(f"/servers/{server.pk}/changes").content.decode()
    assert "until an admin confirms it" in words(html)
    assert buttons(html) == []
    assert ada.post(f"/servers/{server.pk}/confirm", {"seen": "1:a"}).status_code == 403
    elsewhere = sign_in(make_person(Role.ADMIN, make_tenant()))
    assert elsewhere.get(f"/servers/{server.pk}/changes").status_code == 404


def test_without_the_switch_clients_are_offered_it_all_the_same(admin: Client, tenant: Tenant) -> None:
    server = make_server(tenant, "files")
    lists(server, definition("one"))
    assert "Not confirmed yet" not in words(admin.get(f"/servers/{server.pk}/").content.decode())
    lists(server, definition("two"))
    assert "Not confirmed yet: 1 changed." in words(admin.get(f"/servers/{server.pk}/").content.decode())
    assert "Clients are offered what is new or changed already." in words(
        admin.get(f"/servers/{server.pk}/changes").content.decode()
    )
    assert "waits for a person" not in words(admin.get("/").content.decode())

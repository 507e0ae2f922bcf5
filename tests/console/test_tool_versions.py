"""The page of a tool's versions, and what differs between two of them."""

from __future__ import annotations

import pytest
from django.test import Client

from taskhub.store.models import Server, Tenant, Tool
from tests.console.admin import words
from tests.domain.catalogue.test_versions import definition, lists
from tests.factories import make_server, make_tenant

pytestmark = pytest.mark.django_db


@pytest.fixture
def server(tenant: Tenant) -> Server:
    return make_server(tenant, "files")


def page_of(server: Server) -> str:
    return f"/servers/{server.pk}/tools/{Tool.objects.get(server=server).pk}/versions"


def test_any_two_versions_are_compared(admin: Client, server: Server) -> None:
    for text in ("one", "two", "three"):
        lists(server, definition(text))
    page = page_of(server)
    html = admin.get(page).content.decode()
    assert "Changed Description" in words(html)
    assert "In the definition Version 2 Version 3" in words(html)
    assert "text two three" in words(html)
    assert "<del>two</del>" in html, "the newest with the one before it, unless others are chosen"
    assert "<ins>three</ins>" in html
    html = admin.get(f"{page}?before=1&after=2").content.decode()
    assert ("<del>one</del>" in html, "<ins>two</ins>" in html) == (True, True)
    assert "Version 1 as JSON" in words(html)
    html = admin.get(f"{page}?before=3&after=1").content.decode()
    assert ("<del>three</del>" in html, "<ins>one</ins>" in html) == (True, True)
    assert "A version does not differ from itself." in words(admin.get(f"{page}?before=2&after=2").content.decode())
    assert "<ins>three</ins>" in admin.get(f"{page}?before=x&after=99999").content.decode()


def test_a_value_without_a_name_is_called_a_value(admin: Client, server: Server) -> None:
    for hint in (True, False):
        lists(server, {**definition("one"), "annotations": {"destructiveHint": hint}})
    html = admin.get(page_of(server)).content.decode()
    assert "Changed Annotation destructiveHint value true false" in words(html)
    head = html[html.index("<thead>") : html.index("</thead>")]
    assert head.count("<tr") == 1


def test_the_dates_of_each_version_are_listed(admin: Client, server: Server) -> None:
    lists(server, definition("one"))
    html = words(admin.get(page_of(server)).content.decode())
    assert "The server has listed no other definition of this tool." in html
    assert "1 Confirmed" in html
    assert "listed now" in html
    tool = Tool.objects.get()
    assert page_of(server) in admin.get(f"/servers/{server.pk}/?tool={tool.pk}").content.decode()


def test_text_of_the_server_is_shown_as_such(admin: Client, server: Server) -> None:
    lists(server, definition("one"))
    lists(server, {**definition("<script>x</script>"), "_meta": {"<b>key</b>": "\u202eevil"}})
    html = admin.get(page_of(server)).content.decode()
    assert "<script>x" not in html
    assert "<b>key" not in html
    assert "\u202e" not in html


def test_a_tool_of_another_server_or_tenant_is_not_found(admin: Client, server: Server) -> None:
    lists(server, definition("one"))
    lists(elsewhere := make_server(make_tenant(), "files"), definition("one"))
    assert admin.get(page_of(elsewhere)).status_code == 404
    assert admin.get(page_of(server).replace(str(server.pk), str(2**70), 1)).status_code == 404
    assert admin.get(f"/servers/{server.pk}/tools/{2**70}/versions").status_code == 404


def test_a_tool_without_a_usable_definition_has_none(admin: Client, server: Server) -> None:
    lists(server, {**definition("wrong"), "inputSchema": None})
    assert "No version yet." in words(admin.get(page_of(server)).content.decode())

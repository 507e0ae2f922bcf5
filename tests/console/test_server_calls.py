"""How many calls a server takes at once, as its page shows and changes it."""

from __future__ import annotations

import pytest
from django.test import Client

from taskhub.core.states import Role
from taskhub.store.models import Server, Tenant
from tests.console.admin import words
from tests.console.conftest import Login
from tests.factories import make_person, make_server

pytestmark = pytest.mark.django_db


def remote(tenant: Tenant, transport: str = "http") -> Server:
    server = make_server(tenant, "remote")
    Server.objects.filter(pk=server.pk).update(transport=transport, target="https://tools.example.com/mcp")
    return server


def test_it_is_changed_where_it_is_shown(admin: Client, tenant: Tenant) -> None:
    page = f"/servers/{remote(tenant).pk}/"

    def shown() -> str:
        return words(admin.get(page).content.decode())

    assert "Concurrent calls 20 per worker Change" in shown()
    assert 'name="calls_at_once" value=' not in admin.get(f"{page}?calls").content.decode()
    answer = admin.post(f"{page}calls", {"calls_at_once": " 1,500 "})
    assert answer.status_code == 400
    assert admin.post(f"{page}calls", {"calls_at_once": "7"}).status_code == 302
    assert "Concurrent calls 7 per worker" in shown()
    assert 'value="7"' in admin.get(f"{page}?calls").content.decode()
    assert admin.post(f"{page}calls", {"calls_at_once": ""}).status_code == 302
    assert "Concurrent calls 20 per worker" in shown()


@pytest.mark.parametrize(
    ("given", "said"),
    [("0", "From 1 to 1,000."), ("1001", "From 1 to 1,000."), ("many", "Give a whole number, not")],
)
def test_what_cannot_be_is_refused_where_it_was_typed(admin: Client, tenant: Tenant, given: str, said: str) -> None:
    server = remote(tenant)
    answer = admin.post(f"/servers/{server.pk}/calls", {"calls_at_once": given})
    assert answer.status_code == 400
    assert said in words(answer.content.decode())
    assert f'value="{given}"' in answer.content.decode()
    server.refresh_from_db()
    assert server.calls_at_once is None


def test_a_command_has_a_number_too(admin: Client, tenant: Tenant) -> None:
    server = remote(tenant, "stdio")
    assert "Concurrent calls 20 per worker" in words(admin.get(f"/servers/{server.pk}/?calls").content.decode())
    assert admin.post(f"/servers/{server.pk}/calls", {"calls_at_once": "2"}).status_code == 302
    assert "Concurrent calls 2 per worker" in words(admin.get(f"/servers/{server.pk}/").content.decode())


def test_who_may_not_change_it_sees_it(sign_in: Login, tenant: Tenant) -> None:
    viewer = sign_in(make_person(Role.VIEWER, tenant))
    page = words(viewer.get(f"/servers/{remote(tenant).pk}/?calls").content.decode())
    assert "Concurrent calls 20 per worker Reports as" in page
    assert "Save" not in page

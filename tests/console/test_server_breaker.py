"""That the calls of a server wait, why and until when, as its page shows it; and a task of it."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta

import pytest
from django.test import Client

from taskhub.core.states import Role
from taskhub.domain.catalogue.breakers import OPENS_AFTER, store_failure, store_reached, take_probe
from taskhub.domain.workers.writes import heartbeat
from taskhub.store.models import Event, Server, Tenant
from tests.console.admin import words
from tests.console.conftest import Login
from tests.factories import make_context, make_person, make_server, make_task, make_tool

pytestmark = pytest.mark.django_db


@pytest.fixture
def server(tenant: Tenant) -> Server:
    return make_server(tenant, "weather")


def fail(server: Server, times: int = 1) -> None:
    for _ in range(times):
        store_failure(server.pk, "ConnectError: <b>refused</b>\u202e", probing=False)


def due(server: Server) -> None:
    Server.objects.filter(pk=server.pk).update(retry_at=datetime.now(UTC) - timedelta(seconds=1))


def test_its_page_tells_each_state_and_why(admin: Client, server: Server) -> None:
    def shown() -> str:
        return words(admin.get(f"/servers/{server.pk}/").content.decode())

    assert "Breaker" not in shown()
    fail(server)
    assert "Breaker Closed but the last call could not connect" in shown()
    fail(server)
    assert "Breaker Closed but the last 2 calls could not connect" in shown()
    fail(server, OPENS_AFTER - 2)
    Server.objects.filter(pk=server.pk).update(retry_at=datetime.now(UTC) + timedelta(seconds=40))
    page = shown()
    assert "Breaker Open Opened just now" in page
    assert f": {OPENS_AFTER} calls in a row could not connect. Other calls wait in the queue. Next try:" in page
    assert re.search(r"in (3\d|40) s", page)
    assert "Try now" in page
    raw = admin.get(f"/servers/{server.pk}/").content.decode()
    assert "<b>refused" not in raw
    assert "\u202e" not in raw
    assert "Calls wait" in words(admin.get("/servers/").content.decode())
    due(server)
    assert "Half-open Opened just now" in shown()
    assert take_probe(server.pk)
    assert "One call may try now. Try now" in shown()
    store_reached(server.pk)
    assert "Breaker" not in shown()
    assert "Calls wait" not in words(admin.get("/servers/").content.decode())


def test_try_now_is_for_who_manages_servers_and_is_on_record(
    admin: Client, sign_in: Login, tenant: Tenant, server: Server
) -> None:
    nothing = admin.post(f"/servers/{server.pk}/try", follow=True)
    assert "there is nothing to try" in words(nothing.content.decode())
    fail(server, OPENS_AFTER)
    viewer = sign_in(make_person(Role.VIEWER, tenant))
    page = words(viewer.get(f"/servers/{server.pk}/").content.decode())
    assert "Breaker Open" in page
    assert "Try now" not in page
    assert viewer.post(f"/servers/{server.pk}/try").status_code == 403
    assert not take_probe(server.pk)
    assert not Event.objects.filter(action="server.probe.requested").exists()
    answer = admin.post(f"/servers/{server.pk}/try", follow=True)
    assert "The next call tries the server now." in words(answer.content.decode())
    assert take_probe(server.pk)
    event = Event.objects.get(action="server.probe.requested")
    assert (event.target, event.door) == ("weather", "web")
    assert admin.post("/servers/999999999/try").status_code == 404
    assert admin.post(f"/servers/{2**63}/try").status_code == 404


def test_a_task_says_what_it_waits_for_and_for_how_long(admin: Client, tenant: Tenant, server: Server) -> None:
    heartbeat("worker-1", slots=8, busy=1)
    task = make_task(make_context(tenant), make_tool(server))

    def why() -> str:
        return words(admin.get(f"/tasks/{task.public_id}/").content.decode())

    assert "Waiting for a free slot" in why()
    fail(server, OPENS_AFTER)
    ago, ahead = timedelta(minutes=3, seconds=1), timedelta(seconds=40.5)
    Server.objects.filter(pk=server.pk).update(open_since=datetime.now(UTC) - ago, retry_at=datetime.now(UTC) + ahead)
    assert "Waiting for its server, which could not be reached for 3 min" in why()
    assert "The next attempt is in 40 s." in why()
    due(server)
    assert "The next attempt is now." in why()

"""Workers: who is alive, what they hold, what waits."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from taskhub.store.models import Task, Tenant, UpstreamSession, Worker
from tests.console.admin import HTMX, browser, words
from tests.factories import claim_task, make_context, make_person, make_server, make_task, make_tenant

pytestmark = pytest.mark.django_db
URL = "/workers/"


@pytest.fixture
def viewer(tenant: Tenant) -> Client:
    return browser(make_person("viewer", tenant))


def make_worker(name: str, **parts: Any) -> Worker:
    return Worker.objects.create(**{"name": name, "host": "node", "pid": 7, "version": "0.1", "slots": 4, **parts})


def test_without_a_worker_the_page_says_how_to_start_one(tenant: Tenant, viewer: Client) -> None:
    make_task(make_context(tenant))
    make_task(make_context(make_tenant()))
    text = words(viewer.get(URL).content.decode())
    assert "No worker is running. 1 task waits. Start one: uv run manage.py worker" in text


def test_a_worker_is_shown_with_what_it_runs(tenant: Tenant, viewer: Client) -> None:
    make_worker("w1", busy=2)
    mine, foreign = make_task(make_context(tenant)), make_task(make_context(make_tenant()))
    claim_task(mine, "w1")
    claim_task(foreign, "w1")
    html = viewer.get(URL).content.decode()
    assert "w1 Alive 2 of 4 slots busy" in words(html)
    assert f"/tasks/{mine.public_id}/" in html
    assert foreign.public_id not in html
    assert "And 1 more." in html
    assert "No worker is running" not in html


def test_a_web_process_that_runs_calls_in_place_is_shown_and_is_no_worker_for_the_queue(viewer: Client) -> None:
    make_worker("web-1", busy=1, in_place=True)
    text = words(viewer.get(URL).content.decode())
    assert "web-1 Alive web, runs calls in place 1 of 4 slots busy" in text
    assert "Slots busy 0 of 0 Workers alive 0" in text
    assert "No worker is running" in text


def test_silence_and_a_proper_end_are_told_apart_and_forgotten_after_a_day(viewer: Client) -> None:
    now = timezone.now()
    make_worker("w-silent", heartbeat_at=now - timedelta(minutes=5))
    make_worker("w-stopped", stopped_at=now)
    make_worker("w-old", heartbeat_at=now - timedelta(days=2), stopped_at=now - timedelta(days=2))
    text = words(viewer.get(URL).content.decode())
    assert "w-silent Silent" in text
    assert "w-stopped Stopped" in text
    assert "w-old" not in text
    assert "No worker is running" in text


def test_tasks_that_lost_their_worker_are_counted(tenant: Tenant, viewer: Client) -> None:
    make_worker("w1")
    task = make_task(make_context(tenant))
    claim_task(task, "w1")
    Task.objects.filter(pk=task.id).update(lease_until=timezone.now() - timedelta(seconds=1))
    text = words(viewer.get(URL).content.decode())
    assert "1 task has lost its worker" in text
    assert "Lease expired" in text


def test_the_partial_equals_the_page(viewer: Client) -> None:
    make_worker("w1")
    page, part = viewer.get(URL).content.decode(), viewer.get(URL, headers=HTMX).content.decode()
    assert "<html" not in part
    assert words(part) in words(page)


def test_as_many_queries_for_thirty_as_for_one(tenant: Tenant, viewer: Client) -> None:
    def queries() -> int:
        with CaptureQueriesContext(connection) as captured:
            assert viewer.get(URL).status_code == 200
        return len(captured)

    make_worker("w0")
    claim_task(make_task(make_context(tenant)), "w0")
    one = queries()
    for number in range(1, 30):
        make_worker(f"w{number}")
        claim_task(make_task(make_context(tenant)), f"w{number}")
    assert queries() == one
    assert one <= 7


def test_the_processes_of_clients_are_counted_and_weighed(tenant: Tenant, viewer: Client) -> None:
    make_worker("w1")
    server = make_server(tenant)
    for pid in (1, 2):
        context = make_context(tenant)
        UpstreamSession.objects.create(server=server, context=context, worker="w1", pid=pid, memory=3 * 1_048_576)
    assert "Clients’ processes 2, 6.0 MB" in words(viewer.get(URL).content.decode()).replace("\xa0", " ")


def test_a_servers_page_lists_the_sessions_of_clients(tenant: Tenant, viewer: Client) -> None:
    make_worker("w1")
    server, context = make_server(tenant), make_context(tenant)
    UpstreamSession.objects.create(server=server, context=context, worker="w1", pid=1)
    page, operator = f"/servers/{server.pk}/", browser(make_person("operator", tenant))
    assert "a client w1, pid 1" in words(viewer.get(page).content.decode())
    assert f"{context.name} w1, pid 1" in words(operator.get(page).content.decode())
    UpstreamSession.objects.update(ended_at=timezone.now(), why="its process ended")
    assert "Ended its process ended" in words(viewer.get(page).content.decode())

"""Who runs tasks: which workers are shown, as what, and with which tasks."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

import pytest
from django.utils import timezone

from taskhub.core.records import TaskRecord
from taskhub.domain.workers.reads import Queue, fleet, queue
from taskhub.domain.workers.writes import goodbye, heartbeat, heartbeat_of
from taskhub.store.models import Server, Task, Worker
from tests.factories import claim_task, make_context, make_server, make_task, make_tenant, make_tool

pytestmark = pytest.mark.django_db


@pytest.fixture
def now() -> datetime:
    return timezone.now()


def ages(name: str, **columns: Any) -> None:
    heartbeat(name, slots=4, busy=1)
    Worker.objects.filter(name=name).update(**columns)


def test_workers_are_shown_for_a_day_after_they_were_last_heard_of_those_alive_first(now: datetime) -> None:
    days = {n: now - timedelta(hours=n) for n in (2, 23, 25)}
    ages("first", started_at=days[25])
    ages("second", started_at=days[2])
    ages("silent", started_at=days[25], heartbeat_at=now - timedelta(minutes=10))
    ages("left", started_at=days[25], heartbeat_at=days[25], stopped_at=days[23])
    ages("lost", started_at=days[25], heartbeat_at=days[25])
    ages("left long ago", started_at=days[25], heartbeat_at=days[25], stopped_at=days[25])
    shown = [(worker.name, worker.state) for worker in fleet(make_tenant().pk).workers]
    assert shown == [("second", "alive"), ("first", "alive"), ("silent", "silent"), ("left", "stopped")]


def test_a_goodbye_is_of_one_worker_and_lasts_until_its_next_heartbeat() -> None:
    for name in ("one", "other"):
        heartbeat(name, slots=4, busy=3)
    goodbye("one")
    found = {worker.name: (worker.state, worker.busy) for worker in fleet(make_tenant().pk).workers}
    assert found == {"one": ("stopped", 0), "other": ("alive", 3)}
    assert heartbeat_of("one") is None
    assert heartbeat_of("other") == Worker.objects.get(name="other").heartbeat_at
    heartbeat("one", slots=5, busy=1)
    found = {worker.name: (worker.state, worker.slots) for worker in fleet(make_tenant().pk).workers}
    assert found == {"one": ("alive", 5), "other": ("alive", 4)}


def test_of_what_a_worker_holds_the_tenants_own_is_named(now: datetime) -> None:
    heartbeat("worker-1", slots=4, busy=3)
    context = make_context(make_tenant())
    late, mine = (make_task(context, state="working") for _ in range(2))
    stranger = make_context(make_tenant())
    make_task(stranger, state="working")
    make_task(stranger)
    Task.objects.filter(pk=late.id).update(lease_until=now - timedelta(seconds=1))
    found = fleet(context.tenant_id)
    (worker,) = found.workers
    assert [(task.public_id, task.overdue) for task in worker.running] == [
        (late.public_id, True),
        (mine.public_id, False),
    ]
    assert worker.others == 1
    assert (found.queue.depth, found.queue.lost) == (0, 1)
    assert (fleet(stranger.tenant_id).queue.depth, fleet(stranger.tenant_id).queue.lost) == (1, 0)


def test_a_task_is_held_since_the_attempt_that_runs(now: datetime) -> None:
    heartbeat("worker-1", slots=4, busy=1)
    context = make_context(make_tenant())
    task = make_task(context, state="working")
    first = Task.objects.get(pk=task.id).attempts.get()
    Task.objects.filter(pk=task.id).update(lease_until=None, state="queued")
    claim_task(task)
    ((held,),) = [worker.running for worker in fleet(context.tenant_id).workers]
    second = Task.objects.get(pk=task.id).attempts.latest("number")
    assert (held.since, second.number) == (second.started_at, first.number + 1)


def queued_at(now: datetime, task: TaskRecord, minutes: int) -> datetime:
    at = now - timedelta(minutes=minutes)
    Task.objects.filter(pk=task.id).update(runnable_at=at)
    return at


def test_the_oldest_that_waits_is_one_that_could_run_and_the_paused_ones_are_counted_apart(now: datetime) -> None:
    tenant, other = make_tenant(), make_tenant()
    context, second = make_context(tenant), make_context(tenant)
    tool, off = make_tool(make_server(tenant)), make_tool(make_server(tenant))
    for task in [make_task(context, off) for _ in range(3)]:
        queued_at(now, task, 50)
    Server.objects.filter(pk=off.server_id).update(enabled=False)
    later, oldest, delayed = make_task(context, tool), make_task(second, tool), make_task(context, tool)
    queued_at(now, later, 3)
    since = queued_at(now, oldest, 7)
    queued_at(now, delayed, -5)
    foreign = make_task(make_context(other))
    before = queued_at(now, foreign, 20)
    assert queue(tenant.pk) == Queue(6, 3, since, oldest.public_id, 0)
    assert queue(other.pk) == Queue(1, 0, before, foreign.public_id, 0)
    assert queue(None) == Queue(7, 3, before, foreign.public_id, 0)
    Task.objects.filter(pk__in=[later.id, oldest.id]).update(runnable_at=now + timedelta(hours=1))
    assert queue(tenant.pk) == Queue(6, 3, None, None, 0)

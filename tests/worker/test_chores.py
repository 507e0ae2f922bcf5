"""Chores of the worker: what cannot be purged keeps nothing else."""

from __future__ import annotations

import time
from datetime import timedelta

import pytest
from django.utils import timezone

from taskhub.lifecycle import seal
from taskhub.lifecycle.sessions import start_session
from taskhub.store.chores import ChoresFailed
from taskhub.store.models import Session, SignIn, Stream, Task
from taskhub.worker import engine, jobs
from tests.factories import make_context, make_task, make_tenant
from tests.lifecycle import kit
from tests.store.flushing import superuser
from tests.worker.kit import Hall, call, ended, wait_until

pytestmark = pytest.mark.django_db(transaction=True)


def test_what_happened_faster_than_one_batch_is_sealed_at_once_all_the_same(
    hall: Hall, monkeypatch: pytest.MonkeyPatch
) -> None:
    sealed: list[tuple[int, float]] = []

    def counted() -> int:
        count = seal.seal_events()
        sealed.append((count, time.monotonic()))
        return count

    monkeypatch.setattr(engine, "seal_events", counted)
    monkeypatch.setattr(engine, "SEAL_SECONDS", 2.0)
    monkeypatch.setattr(seal, "BATCH", 4)
    tool = hall.tool(hall.server(), "echo")
    for _ in range(20):
        kit.create(tool)
    hall.start()
    wait_until(lambda: len(sealed) >= 3, "three seals")
    (first, began), _, (_, third) = sealed[:3]
    assert first > 0
    assert third - began < engine.SEAL_SECONDS


def aged() -> None:
    """A task that ended long ago, a session nobody used for as long, a stream of another, and a browser's session
    that is over beside one that is not."""
    for digit, days in (("0", -1), ("1", 1)):
        SignIn.objects.create(
            session_key=digit * 64, session_data="", expire_date=timezone.now() + timedelta(days=days)
        )
    context = make_context(make_tenant())
    for _ in range(2):
        start_session(
            tenant_id=context.tenant_id,
            context_id=context.pk,
            version="2025-11-25",
            client_info={},
            capabilities={},
        )
    unused, used = Session.objects.order_by("id")
    Stream.objects.create(session=used, kind="listen")
    make_task(context, state="finished")
    with superuser(autocommit=True) as raw:
        raw.execute("SET session_replication_role = replica")
        raw.execute("UPDATE task SET ended_at = ended_at - interval '40 days'")
        raw.execute("UPDATE session SET seen_at = seen_at - interval '40 days' WHERE id = %s", (unused.pk,))
        raw.execute("UPDATE stream SET seen_at = seen_at - interval '40 days'")


def left() -> tuple[int, int, int]:
    return Task.objects.count(), Session.objects.count(), Stream.objects.count()


def test_a_purge_that_fails_stops_no_other(caplog: pytest.LogCaptureFixture) -> None:
    aged()
    with superuser() as other:
        # Attempts go with their task; who holds them lets the purge of tasks run out of its time.
        other.execute("LOCK TABLE attempt IN ACCESS EXCLUSIVE MODE")
        with pytest.raises(ChoresFailed, match=r"^purging tasks$"):
            jobs.purge_old(timestamp=0)
        other.rollback()
    assert left() == (1, 1, 0)
    assert [row.session_key[0] for row in SignIn.objects.all()] == ["1"]
    assert "purging tasks: The database is too busy; try again shortly." in caplog.messages
    jobs.purge_old(timestamp=0)
    assert left() == (0, 1, 0)


def test_relays_that_cannot_be_swept_keep_no_task_waiting(hall: Hall) -> None:
    world = hall.tool(hall.server(enabled=False), "echo")
    task = call(world)
    kit.turn_back(task, "expires_at", 1)
    with superuser() as other:
        other.execute("LOCK TABLE relay IN ACCESS EXCLUSIVE MODE")
        hall.start()
        assert ended(task).message == "Expired before a worker took it"
        other.rollback()
        hall.stop()

"""Chores of the worker: what cannot be purged keeps nothing else."""

from __future__ import annotations

import asyncio
import threading
import time
from datetime import timedelta
from types import SimpleNamespace
from typing import Any

import pytest
from django.utils import timezone

from taskhub.core.errors import Unavailable
from taskhub.core.records import LogLine
from taskhub.domain.audit import seal
from taskhub.domain.audit.reads import verifications
from taskhub.domain.health.doctor import checks
from taskhub.domain.sessions.writes import start_session
from taskhub.lib.lanes import Lanes
from taskhub.store.chores import ChoresFailed
from taskhub.store.models import Event, Session, SignIn, Stream, Task
from taskhub.worker import engine, jobs
from taskhub.worker.chores import Chores
from taskhub.worker.notes import Notes
from tests.domain import kit
from tests.domain.kit import World
from tests.factories import make_context, make_task, make_tenant
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

    async def no_jobs() -> None:
        """For ten minutes after it is due, the nightly verification begins with any worker that starts, and seals."""
        await asyncio.Event().wait()

    monkeypatch.setattr(engine, "_run_jobs", no_jobs)
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


def test_relays_that_cannot_be_swept_keep_no_task_waiting(hall: Hall, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine, "SWEEP_SECONDS", 0.2)
    world = hall.tool(hall.server(enabled=False), "echo")
    task = call(world)
    kit.turn_back(task, "expires_at", 1)
    with superuser() as other:
        other.execute("LOCK TABLE relay IN ACCESS EXCLUSIVE MODE")
        hall.start()
        assert ended(task).message == "Expired before a worker took it"
        other.rollback()
        hall.stop()


# --- the night


def verified() -> list[dict[str, Any]]:
    return [event.after or {} for event in Event.objects.filter(action="audit.verified").order_by("id")]


def sealed_task(world: World) -> int:
    task = kit.create(world)
    wait_until(seal.seal_events, "a seal")
    return int(Event.objects.get(task_id=task.id).pk)


def test_a_worker_reads_the_whole_log_and_that_is_on_record(hall: Hall) -> None:
    sealed_task(hall.tool(hall.server(enabled=False), "echo"))
    hall.start()
    jobs.verify_log.defer(timestamp=0)
    wait_until(verified, "a verification")
    (found,) = verified()
    assert (found["ok"], found["full"], found["problem"]) == (True, True, "")
    (event,) = Event.objects.filter(action="audit.verified")
    assert (event.actor, event.door) == ("nightly verification", "worker")
    assert verifications().in_full_at == event.at


def test_a_log_that_is_found_broken_by_night_fails_the_chore_and_the_doctor_says_so(
    hall: Hall, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(jobs, "_stopping", threading.Event())  # workers of other tests have ended in this process
    event = sealed_task(hall.tool(hall.server(enabled=False), "echo"))
    jobs.verify_log(timestamp=0)
    with kit.superuser_past_the_guards() as raw:
        raw.execute("UPDATE event SET actor = 'somebody else' WHERE id = %s", (event,))
    with pytest.raises(jobs.NotVerified, match=rf"^the audit log: event {event} was changed$"):
        jobs.verify_log(timestamp=0)
    assert [found["ok"] for found in verified()] == [True, False]
    (line,) = [check for check in checks(has_secret=True) if check[0] == "audit log"]
    assert line[1] is False
    assert line[2].endswith(f": event {event} was changed")


def test_a_verification_by_night_rests_without_a_transaction_and_ends_with_its_worker(
    hall: Hall, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So it keeps no vacuum waiting, and no restart."""
    sealed_task(hall.tool(hall.server(enabled=False), "echo"))
    monkeypatch.setattr(jobs, "REST", 1e6)
    hall.start()
    jobs.verify_log.defer(timestamp=0)
    looking = (
        "SELECT count(*), count(backend_xmin), count(*) FILTER (WHERE state <> 'idle') FROM pg_stat_activity"
        " WHERE datname = current_database() AND query LIKE '%event_leaves%' AND pid <> pg_backend_pid()"
    )
    with superuser(autocommit=True) as other:
        wait_until(lambda: other.execute(looking).fetchone() == (1, 0, 0), "a rest")
        hall.stop()
    assert verified() == []


async def test_a_chore_that_fails_each_time_is_on_the_log_once_in_a_while(caplog: pytest.LogCaptureFixture) -> None:
    tries = 0
    enough = asyncio.Event()

    async def fails() -> None:
        nonlocal tries
        tries += 1
        if tries == 5:
            enough.set()
        raise ValueError("no such table")

    mine = Chores(lambda what, error: None)
    mine.every("a chore of this test", 0.01, fails)
    async with asyncio.timeout(10):
        await enough.wait()
    await mine.end()
    assert [record.getMessage() for record in caplog.records] == ["a chore of this test failed"]


async def test_lines_that_cannot_be_stored_are_said_to_be_lost(caplog: pytest.LogCaptureFixture) -> None:
    """Whatever the reason is: a task of the loop that nobody awaits would tell of it when it is collected."""
    broken = Lanes(1, explain=lambda error: LookupError("no such table"))
    claim: Any = SimpleNamespace(public_id="tsk_x")  # which no task has: storing fails, and is explained as above
    notes = Notes(claim, broken)
    notes.add(LogLine(level="info", text="hello"))
    await notes.flush()
    broken.close()
    assert [record.getMessage() for record in caplog.records] == ["task tsk_x: 1 lines lost, perhaps of others too"]


async def test_a_chore_that_the_database_keeps_waiting_says_so_when_it_begins_and_ends(
    caplog: pytest.LogCaptureFixture,
) -> None:
    tries = 0
    enough = asyncio.Event()

    async def waits() -> None:
        nonlocal tries
        tries += 1
        if tries < 4:
            raise Unavailable("The database is away")
        if tries == 6:
            enough.set()

    mine = Chores(lambda what, error: None)
    mine.every("a patient chore", 0.01, waits)
    async with asyncio.timeout(10):
        await enough.wait()
    await mine.end()
    said = [record.getMessage() for record in caplog.records]
    assert said == ["a patient chore: The database is away", "a patient chore: goes on"]

"""Whether an installation is fit to serve: what /readyz, /metrics and the doctor look at."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

import pytest
from django.conf import LazySettings
from django.db import connection
from django.test import Client
from django.utils import timezone

from taskhub.domain.catalogue.breakers import OPENS_AFTER, store_failure
from taskhub.domain.feed.reading import begin_feed
from taskhub.domain.health import checks as health
from taskhub.domain.health import doctor
from taskhub.domain.notices.outbox import Delivered, end_delivery, take_notices
from taskhub.domain.notices.webhooks import Wanted, add_webhook, send_test
from taskhub.domain.tasks.stats import numbers
from taskhub.domain.workers.reads import SILENT_SECONDS, fleet, live_workers
from taskhub.store.functions import trigger_names
from taskhub.store.models import (
    Membership,
    Notice,
    NoticeAddress,
    NoticeChoices,
    PushBrowser,
    Server,
    Task,
    Tenant,
    Webhook,
    Worker,
)
from tests.domain.cost import make_old
from tests.factories import ROOT, make_context, make_event, make_person, make_server, make_task, make_tenant
from tests.store.flushing import superuser

pytestmark = pytest.mark.django_db


def make_worker(name: str = "w", **columns: Any) -> Worker:
    return Worker.objects.create(**{"name": name, "host": "h", "pid": 1, "version": "1", "slots": 1, **columns})


@contextmanager
def changed(sql: str, back: str) -> Iterator[None]:
    with connection.cursor() as cursor:
        cursor.execute("SET CONSTRAINTS ALL IMMEDIATE")
        cursor.execute(sql)
        yield
        cursor.execute(back)


@contextmanager
def one_migration_missing() -> Iterator[None]:
    row = "(app, name, applied) SELECT app, name, applied FROM"
    # The newest: what others build on counts as there when they are.
    newest = "app = 'store' AND name = (SELECT max(name) FROM django_migrations WHERE app = 'store')"
    with connection.cursor() as cursor:
        cursor.execute(f"CREATE TEMPORARY TABLE kept AS SELECT * FROM django_migrations WHERE {newest}")
        cursor.execute(f"DELETE FROM django_migrations WHERE {newest}")
        yield
        cursor.execute(f"INSERT INTO django_migrations {row} kept")
        cursor.execute("DROP TABLE kept")


# --- ready


def test_a_worker_lives_while_it_is_heard_of_and_has_not_said_goodbye() -> None:
    now, silent = timezone.now(), timedelta(seconds=SILENT_SECONDS)
    make_worker("fresh")
    make_worker("nearly", heartbeat_at=now - silent + timedelta(seconds=5))
    make_worker("silent", heartbeat_at=now - silent - timedelta(seconds=1))
    make_worker("gone", stopped_at=now)
    make_worker("elsewhere", host="another")
    assert (live_workers(), live_workers("h")) == (3, 2)
    assert numbers(make_tenant().id).live_workers == len(fleet(make_tenant("b").id).alive) == 3


def test_what_is_missing_is_said_in_words_and_no_other_process_makes_this_one_unready() -> None:
    assert health.ready() == []
    assert health.all_ready() == ["no worker is alive: run manage.py worker"]
    make_worker()
    tenant = make_tenant()
    for name, columns in (("a", {"enabled": True}), ("b", {"enabled": False})):
        Server.objects.create(tenant=tenant, name=name, transport="stdio", target="x", **columns)
    (problem,) = health.all_ready()
    assert problem.startswith("1 server has not been contacted yet")
    assert health.ready() == []
    Server.objects.filter(name="a").update(state="unreachable")
    assert health.all_ready() == []


def test_a_schema_that_is_behind_is_the_only_thing_said_and_looked_at_until_it_is_not(
    monkeypatch: pytest.MonkeyPatch, django_assert_max_num_queries: Any
) -> None:
    monkeypatch.setattr(health, "_migrated", False)
    make_worker()
    with one_migration_missing():
        for _ in range(2):
            assert health.all_ready() == health.ready() == ["migrations are pending: run manage.py migrate"]
    assert health.ready() == []
    with django_assert_max_num_queries(1):  # it was up to date once: that does not change back
        assert health.ready() == []


def gauges() -> dict[str, dict[str, float]]:
    return {
        name: {next(iter(labels.values()), ""): value for labels, value in rows} for name, _, rows in health.backlog()
    }


def test_the_gauges_count_live_tasks_workers_and_servers() -> None:
    context = make_context(make_tenant())
    for state, count in {"queued": 2, "working": 1, "input_required": 3, "finished": 1, "cancelled": 1}.items():
        for _ in range(count):
            make_task(context, state=state)
    Server.objects.all().update(state="unreachable")
    make_server(context.tenant)
    make_worker()
    found = gauges()
    assert found["taskhub_tasks_live"] == {"queued": 2, "working": 1, "input_required": 3}
    assert found["taskhub_servers"] == {"unreachable": 8, "ready": 1}
    assert found["taskhub_workers_alive"] == {"": 1}
    assert 0 <= found["taskhub_oldest_queued_seconds"][""] < 60


def test_the_open_breakers_of_enabled_servers_are_counted() -> None:
    tenant = make_tenant()
    gone, disabled, _ = make_server(tenant), make_server(tenant), make_server(tenant)
    for server in (gone, disabled):
        for _ in range(OPENS_AFTER):
            store_failure(server.pk, "gone", probing=False)
    Server.objects.filter(pk=disabled.pk).update(enabled=False)
    assert gauges()["taskhub_breakers_open"] == {"": 1}


def test_the_age_of_the_queue_is_how_long_its_oldest_could_run_and_zero_when_it_is_empty() -> None:
    assert gauges()["taskhub_oldest_queued_seconds"] == {"": 0.0}
    context = make_context(make_tenant())
    old, _, done = make_task(context), make_task(context), make_task(context, state="cancelled")
    make_old({old.id: timedelta(hours=3), done.id: timedelta(hours=7)})
    Task.objects.filter(pk=old.id).update(runnable_at=timezone.now() - timedelta(minutes=7))
    assert 420 <= gauges()["taskhub_oldest_queued_seconds"][""] < 480


# --- doctor


def found(has_secret: bool = True) -> dict[str, tuple[bool, str]]:
    rows = doctor.checks(has_secret)
    assert len({what for what, _, _ in rows}) == len(rows)
    return {what: (good, detail) for what, good, detail in rows}


def test_the_doctor_looks_at_everything_in_the_order_an_operator_would() -> None:
    tenant = make_tenant()
    for name in ("b", "a"):
        make_server(tenant, name)
    assert [what for what, _, _ in doctor.checks(True)] == [
        "Postgres version", "session settings", "jit", "sessions", "fsync", "synchronous_commit", "full_page_writes",
        "guards", "database role", "disk", "writes", "migrations", "functions", "secret key", "workers", "chores",
        "audit seals", "audit log", "notifications", "web push", "apprise", "server a", "server b",
    ]  # fmt: skip


def test_the_doctor_is_content_with_what_is_in_order() -> None:
    make_server(make_tenant(), "a")
    make_worker()
    rows = found()
    assert rows["Postgres version"][0]
    assert rows["session settings"] == (True, "as wanted")
    assert rows["jit"] == (True, "off in our sessions")
    assert rows["sessions"] == (True, "each connection has one of its own")
    assert rows["guards"] == (True, "all in place")
    assert rows["database role"] == (True, "an ordinary user")
    assert rows["migrations"] == (True, "up to date")
    assert rows["secret key"] == (True, "set")
    assert rows["workers"] == (True, "1 alive")
    assert rows["chores"] == (True, "none failed")
    assert rows["server a"] == (True, "ready")


def test_the_doctor_names_settings_of_the_session_that_are_not_as_wanted() -> None:
    with connection.cursor() as cursor:
        cursor.execute("SET LOCAL lock_timeout = 0")
        cursor.execute("SET LOCAL th.hints = ''")
        cursor.execute("SET LOCAL jit = on")
    rows = found()
    assert rows["session settings"] == (
        False,
        "lock_timeout is 0, wanted 2s; jit is on, wanted off; th.hints is not set, wanted app",
    )
    assert rows["jit"][0] is False


def test_the_doctor_names_settings_that_would_lose_acknowledged_tasks() -> None:
    with connection.cursor() as cursor:
        cursor.execute("SELECT current_setting('fsync')")
        (fsync,) = cursor.fetchone()
        assert found()["fsync"][0] is (fsync == "on")
        for value, good in (("on", True), ("off", False), ("local", False)):
            cursor.execute("SELECT set_config('synchronous_commit', %s, true)", [value])
            assert found()["synchronous_commit"][0] is good
            assert found()["synchronous_commit"][1].startswith(value)


def test_a_chore_counts_as_failed_until_it_runs_well_again() -> None:
    def ran(name: str, at: int, status: str) -> None:
        """As procrastinate has it, by its own function."""
        with connection.cursor() as cursor:
            defer = "SELECT procrastinate_defer_periodic_job_v2('taskhub', NULL, %s, %s, 0, '', %s, '{}')"
            cursor.execute(defer, [name, f"taskhub.{name}", at])
            (job,) = cursor.fetchone()
            for step in ("doing", status):
                cursor.execute("UPDATE procrastinate_jobs SET status = %s WHERE id = %s", [step, job])

    ran("purge", 1, "failed")
    ran("sweep_sign_ins", 1, "succeeded")
    assert found()["chores"] == (False, "failed, see the worker's log: taskhub.purge")
    assert gauges()["taskhub_chores_failed"] == {"": 1}
    ran("purge", 2, "succeeded")
    assert found()["chores"] == (True, "none failed")
    assert gauges()["taskhub_chores_failed"] == {"": 0}


def test_every_trigger_there_is_is_looked_for_by_the_doctor() -> None:
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT tgname FROM pg_trigger t JOIN pg_class c ON c.oid = t.tgrelid"
            " WHERE NOT tgisinternal AND c.relname NOT LIKE 'procrastinate%'"
        )
        assert {name for (name,) in cursor.fetchall()} == trigger_names()


@pytest.mark.parametrize(
    ("sql", "back"),
    [
        ("ALTER TABLE event DISABLE TRIGGER event_append_only", "ALTER TABLE event ENABLE TRIGGER event_append_only"),
        (
            "ALTER TRIGGER event_append_only ON event RENAME TO something",
            "ALTER TRIGGER something ON event RENAME TO event_append_only",
        ),
    ],
)
def test_a_guard_that_is_off_or_gone_is_named(sql: str, back: str) -> None:
    with changed(sql, back):
        assert found()["guards"] == (False, "missing: event_append_only")
    assert found()["guards"][0]


def test_a_migration_that_is_missing_is_counted() -> None:
    with one_migration_missing():
        assert found()["migrations"] == (False, "1 pending")


def test_the_doctor_misses_a_secret_and_a_worker() -> None:
    rows = found(has_secret=False)
    assert rows["secret key"] == (False, "SECRET_KEY is not set")
    assert rows["workers"] == (False, "0 alive")


@pytest.mark.parametrize(
    ("state", "problem", "good", "detail"),
    [
        ("ready", "", True, "ready"),
        ("unknown", "", False, "unknown"),
        ("unreachable", "connection refused", False, "connection refused"),
    ],
)
def test_a_server_is_well_when_it_is_ready_and_its_problem_is_told(
    state: str, problem: str, good: bool, detail: str
) -> None:
    tenant = make_tenant()
    Server.objects.create(tenant=tenant, name="a", transport="stdio", target="x", state=state, problem=problem)
    Server.objects.create(tenant=tenant, name="off", transport="stdio", target="x", enabled=False)
    rows = found()
    assert rows["server a"] == (good, detail)
    assert "server off" not in rows


def test_a_superuser_is_warned_that_no_guard_holds_it(transactional_db: None) -> None:
    role = connection.settings_dict["USER"]
    with superuser(autocommit=True) as raw:
        raw.execute(f'ALTER ROLE "{role}" SUPERUSER')
        try:
            assert found()["database role"] == (False, "a superuser, which no guard holds")
        finally:
            raw.execute(f'ALTER ROLE "{role}" NOSUPERUSER')


# --- a table is missing


@pytest.mark.parametrize("path", ["/readyz", "/readyz?full", "/metrics"])
def test_a_missing_table_is_told_to_probes_and_scrapers(client: Client, path: str) -> None:
    health.ready()  # so that it is known that all was migrated
    with connection.cursor() as cursor:
        cursor.execute("SET CONSTRAINTS ALL IMMEDIATE")
        cursor.execute(f"ALTER TABLE {'tenant' if path == '/readyz' else 'worker'} RENAME TO gone")
    answer = client.get(path)
    assert (answer.status_code, answer["retry-after"]) == (503, "2")
    assert "a table, column or function of this release is missing" in answer.content.decode()
    assert "Traceback" not in answer.content.decode()


def test_the_doctor_names_events_that_nobody_read_and_webhooks_that_do_not_answer() -> None:
    tenant = make_tenant()
    assert found()["notifications"] == (True, "nothing waits")
    wanted = Wanted("ours", "https://receiver.example/", ["task.failed"])
    webhook_id, _ = add_webhook(tenant_id=tenant.pk, wanted=wanted, actor=ROOT)
    send_test(tenant_id=tenant.pk, webhook_id=webhook_id, actor=ROOT, public_id="msg_1")
    assert found()["notifications"] == (True, "1 message waits")
    (taken,) = take_notices(1)
    end_delivery(taken, Delivered(ok=False, problem="Cannot connect"))
    assert found()["notifications"] == (
        False,
        "webhooks that do not answer: ours (Cannot connect); 1 message waits",
    )
    Webhook.objects.bulk_create(
        Webhook(
            tenant=make_tenant(),
            name=f"w{number}\u202e",
            sealed_url=b"x",
            origin="https://x.example",
            kinds=["task.failed"],
            sealed_secret=b"x",
            failing_since=timezone.now(),
        )
        for number in range(6)
    )
    _, said = found()["notifications"]
    assert "ours (Cannot connect), w0[U+202E], w1" in said
    assert "w3[U+202E], and 2 more; 1 message waits" in said


def test_the_doctor_and_the_figures_tell_of_messages_to_people_that_are_not_taken(settings: LazySettings) -> None:
    assert "messages by mail" not in found()
    settings.EMAIL_HOST = "mail.example.com"
    assert found()["messages by mail"] == (True, "nothing waits")
    person = make_person("approver")
    tenant = Tenant.objects.get(pk=person.tenant_id)
    given = {"tenant": tenant, "user_id": person.user_id, "kind": "approval.asked", "channel": "mail", "body": "{}"}
    later, before = timezone.now() + timedelta(hours=1), timezone.now() - timedelta(minutes=10)
    Notice.objects.create(**given, public_id="a", event_id=1, due_at=later, queued_at=before)
    assert found()["messages by mail"] == (True, "1 message waits"), "its person has quiet hours"
    tried = {"attempts": 2, "problem": "Cannot connect: \x07", "due_at": later}
    Notice.objects.create(**given, public_id="b", event_id=2, queued_at=before, **tried)
    good, said = found()["messages by mail"]
    assert not good
    assert "2 messages wait, 1 tried in vain, the oldest for 10 min; the latest: Cannot connect: [U+0007]" in said
    figures = {name: rows for name, _, rows in health.backlog() if name.startswith("taskhub_people")}
    assert figures["taskhub_people_messages_due"] == [({"channel": "mail"}, 2)]
    assert figures["taskhub_people_messages_failing"] == [({"channel": "mail"}, 1)]
    ((_, age),) = figures["taskhub_people_messages_oldest_seconds"]
    assert age >= 600


def test_the_doctor_names_events_that_nobody_reads() -> None:
    begin_feed("it")
    make_event(make_tenant(), at=timezone.now() - timedelta(minutes=10))
    good, said = found()["notifications"]
    assert (good, said.startswith("events of 10 min ago are not read yet")) == (False, True)


def test_the_doctor_says_why_browsers_are_not_notified(settings: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    assert found()["web push"] == (True, "off: PUBLIC_URL is not set")
    settings.PUBLIC_URL = "https://hub.example"
    assert found()["web push"] == (True, "on")
    monkeypatch.setattr("taskhub.domain.notices.channels.has_push", lambda: False)
    monkeypatch.setattr("taskhub.domain.health.doctor.has_push", lambda: False)
    lacks = "off: the extra push is not installed (uv sync --extra push)"
    assert found()["web push"] == (True, lacks)
    person = make_person("approver", make_tenant())
    choices = NoticeChoices.objects.create(membership=Membership.objects.get(user_id=person.user_id))
    PushBrowser.objects.create(choices=choices, digest=b"d", sealed=b"s", session="a" * 64, label="x", host="y")
    assert found()["web push"] == (False, lacks)


def test_the_doctor_says_what_apprise_lacks(settings: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    off = "off: TASKHUB_APPRISE_URLS is not set"
    assert found()["apprise"] == (True, off)
    person = make_person("approver", make_tenant())
    choices = NoticeChoices.objects.create(membership=Membership.objects.get(user_id=person.user_id))
    NoticeAddress.objects.create(choices=choices, channel="apprise", address="phone:x")
    assert found()["apprise"] == (False, off)
    settings.TASKHUB_APPRISE_URLS = {"phone": "ntfys://ntfy.example/{to}"}
    assert found()["apprise"] == (True, "on: phone")
    settings.TASKHUB_APPRISE_URLS = {"phone": "ntfys://{to}", "old": "nosuch://secret/{to}"}
    good, said = found()["apprise"]
    assert not good
    assert said == (
        "phone: {to} is where the host is, so people would say where requests go; old: Apprise knows no nosuch:// here"
    )
    monkeypatch.setattr("taskhub.domain.health.doctor.has_apprise", lambda: False)
    lacks = "off: the extra apprise is not installed (uv sync --extra apprise)"
    assert found()["apprise"] == (False, lacks)

"""`manage.py doctor`, `seed` and `audit verify`: what an operator reads, and the exit code a script gets."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from django.core.management.base import CommandError
from django.db import connection
from pytest_django import Settings

from taskhub.cli import seed as seeding
from taskhub.cli.firstrun import ACTOR, add_demo
from taskhub.identity.principals import default_tenant
from taskhub.lifecycle.catalogue import Listed, connect_server, store_problem, store_snapshot
from taskhub.lifecycle.seal import seal_events
from taskhub.lifecycle.workers import goodbye, heartbeat
from taskhub.store.models import Event, Question, Seal, Server, Task
from tests.cli.shell import run
from tests.lifecycle import kit
from tests.store.flushing import superuser
from tests.support.hub import wait_until

# --- doctor


def setting(name: str) -> str:
    with connection.cursor() as cursor:
        cursor.execute("SELECT current_setting(%s)", [name])
        return str(cursor.fetchone()[0])


@pytest.fixture
def durable(db: None) -> Iterator[None]:
    """The tests' Postgres as an operator's must be: it waits for the disk."""
    with superuser(autocommit=True) as postgres:
        postgres.execute("ALTER SYSTEM SET fsync = on")
        try:
            postgres.execute("SELECT pg_reload_conf()")
            wait_until(lambda: setting("fsync") == "on", "fsync")
            yield
        finally:
            postgres.execute("ALTER SYSTEM RESET fsync")
            postgres.execute("SELECT pg_reload_conf()")


@pytest.fixture
def fit(durable: None) -> int:
    """An installation without a fault: a worker lives and its one server (whose id this is) answers."""
    heartbeat("worker-1", slots=4, busy=0)
    server = connect_server(tenant_id=default_tenant().pk, name="files", transport="stdio", target="files", actor=ACTOR)
    store_snapshot(server, protocol="2026-07-28", info={}, tools=[])
    return server


def failures(out: str) -> list[str]:
    """The checks that failed, by line; every other line says that it is well."""
    place, *lines = out.splitlines()
    assert place.startswith(f"database: {connection.settings_dict['NAME']} at ")
    assert [line for line in lines if not line.startswith(("ok   ", "FAIL "))] == []
    return [line for line in lines if line.startswith("FAIL ")]


def test_the_doctor_finds_nothing_wrong_where_nothing_is(fit: int) -> None:
    code, out, err = run("doctor")
    assert (code, failures(out), err) == (0, [], "")
    for check in ("fsync: on", "guards: all in place", "migrations: up to date", "workers: 1 alive", "server files: "):
        assert f"ok   {check}" in out


def test_a_server_that_does_not_answer_is_the_doctors_one_complaint(fit: int) -> None:
    store_problem(fit, "connection refused")
    code, out, _ = run("doctor")
    assert (code, failures(out)) == (1, ["FAIL server files: connection refused"])


def test_everything_that_is_wrong_is_listed(fit: int, settings: Settings) -> None:
    goodbye("worker-1")
    settings.SECRET_KEY = ""
    with connection.cursor() as cursor:
        cursor.execute("SET LOCAL synchronous_commit = off")
        cursor.execute("ALTER TABLE event DISABLE TRIGGER event_append_only")
    code, out, _ = run("doctor")
    assert code == 1
    assert [line.partition(":")[0] for line in failures(out)] == [
        "FAIL synchronous_commit",
        "FAIL guards",
        "FAIL secret key",
        "FAIL workers",
    ]
    assert "FAIL guards: missing: event_append_only" in out


@pytest.mark.parametrize("words", [("doctor",), ("audit", "verify"), ("token", "create", "agent")])
def test_a_data_directory_without_a_database_is_said_to_be_one(
    words: tuple[str, ...], settings: Settings, tmp_path: Path
) -> None:
    settings.EMBEDDED_DATABASE, settings.DATA_DIR = True, tmp_path
    with pytest.raises(CommandError, match=f"^There is no database in {tmp_path} yet: run `manage.py up` once"):
        run(*words)
    assert list(tmp_path.iterdir()) == []


@contextmanager
def database(**place: str) -> Iterator[None]:
    """Another database than the test's, for a while."""
    connection.close()
    with pytest.MonkeyPatch.context() as patch:
        for name, value in place.items():
            patch.setitem(connection.settings_dict, name, value)
        yield
        connection.close()


def test_a_database_that_was_never_migrated_is_said_to_be_one(transactional_db: None) -> None:
    where_test_databases_are_made = urlsplit(os.environ["DATABASE_URL"]).path.lstrip("/")
    with (
        database(NAME=where_test_databases_are_made),
        pytest.raises(CommandError, match=r"^The database is not migrated: run `manage.py migrate`\.$"),
    ):
        run("audit", "verify")


def test_a_database_that_is_away_is_said_to_be(transactional_db: None, silent_port: int) -> None:
    with (
        database(HOST="127.0.0.1", PORT=str(silent_port)),
        pytest.raises(CommandError, match=r"^The database is away: .+ failed: Connection refused$"),
    ):
        run("doctor")


# --- seed


@pytest.fixture
def demo(db: None) -> Server:
    """The demo server, listed, as a worker leaves it."""
    add_demo()
    server = Server.objects.get(name="demo")
    names = sorted({tool for _, tool, _ in seeding.STORY})
    store_snapshot(
        server.pk,
        protocol="2026-07-28",
        info={},
        tools=[
            Listed(
                name=name,
                definition={"name": name, "inputSchema": {"type": "object"}},
                digest=f"{place:064x}",
                rejected="",
                hint_mode=None,
                read_only=False,
                idempotent=False,
            )
            for place, name in enumerate(names)
        ],
    )
    return server


def test_the_demo_tells_its_story(demo: Server) -> None:
    assert run("seed") == (0, f"{len(seeding.STORY)} demo tasks are there\n", "")
    tasks = Task.objects.order_by("id")
    story = [(name, tool, arguments) for name, tool, arguments in seeding.STORY]
    assert list(tasks.values_list("context__name", "tool_name", "arguments")) == story
    # The two deployments to production wait for ops, the one to staging does not; the last is cancelled.
    asked = Question.objects.filter(kind="approval", group="ops").values_list("task__arguments__version", flat=True)
    assert sorted(asked) == ["0.9.0", "1.4.2"]
    assert [task.pk for task in tasks if task.state == "cancelled"] == [tasks.reverse()[0].pk]


def test_the_demo_told_again_changes_nothing(demo: Server) -> None:
    run("seed")
    before = (list(Task.objects.order_by("id").values()), Event.objects.count())
    assert run("seed") == (0, f"{len(seeding.STORY)} demo tasks are there\n", "")
    assert (list(Task.objects.order_by("id").values()), Event.objects.count()) == before


@pytest.mark.django_db
def test_without_a_worker_the_demo_says_what_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(seeding, "WAIT_SECONDS", 0.0)
    with pytest.raises(CommandError, match=r"^The demo server's tools are not listed: is a worker running"):
        run("seed")
    assert not Task.objects.exists()
    assert Server.objects.filter(name="demo").exists(), "a worker that comes later should find it"


# --- audit verify


def test_an_audit_log_that_nobody_touched_is_intact_and_the_check_is_on_record(transactional_db: None) -> None:
    world = kit.make_world()
    kit.create(world)
    kit.finish(kit.claim_one())
    events = Event.objects.count()

    def verified() -> re.Match[str] | None:
        code, out, err = run("audit", "verify")
        assert (code, err) == (0, "")
        return re.fullmatch(r"Intact: ([1-9]\d*) events in ([1-9]\d*) seals; (\d+) events are not sealed yet\.\n", out)

    # Another database's open transactions keep the newest events from being sealed for a moment.
    found = wait_until(verified, "a seal")
    checks = Event.objects.filter(action="audit.verified").order_by("id")
    # Each check is an event itself, of which the next one knows.
    assert int(found[1]) + int(found[3]) == events + checks.count() - 1
    last = checks.latest("id")
    assert (last.actor, last.door) == ("manage.py", "cli")
    assert last.after == {"ok": True, "events": int(found[1]), "seals": int(found[2]), "problem": ""}


def test_a_changed_event_is_named_and_exits_1(transactional_db: None) -> None:
    task = kit.create(kit.make_world())
    wait_until(seal_events, "a seal")
    event = Event.objects.filter(task_id=task.id).latest("id")
    with kit.superuser_past_the_guards() as raw:
        raw.execute("UPDATE event SET actor = 'somebody else' WHERE id = %s", (event.pk,))
    code, out, err = run("audit", "verify")
    assert (code, out) == (1, "")
    assert err.splitlines()[0] == f"AUDIT BROKEN: event {event.pk} was changed"
    assert err.splitlines()[1] == "0 events in 0 seals before it are intact."
    last = Event.objects.get(action="audit.verified")
    assert (last.after or {})["ok"] is False
    assert Seal.objects.exists()

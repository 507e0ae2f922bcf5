"""`manage.py doctor`, `seed` and `audit verify`: what an operator reads, and the exit code a script gets."""

from __future__ import annotations

import io
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from django.core.management import call_command
from django.core.management.base import CommandError
from django.db import connection
from pytest_django import Settings

from taskhub.cli import seed as seeding
from taskhub.cli.firstrun import add_demo
from taskhub.cli.management.commands import audit
from taskhub.control.caller import of_shell
from taskhub.control.servers import set_server
from taskhub.domain.audit.record import record_verification
from taskhub.domain.audit.seal import seal_events
from taskhub.domain.catalogue.spec import ServerSpec
from taskhub.domain.catalogue.sync import Listed, store_problem, store_snapshot
from taskhub.domain.workers.writes import goodbye, heartbeat
from taskhub.lib.signing import Vault
from taskhub.store.models import Event, Question, Seal, Server, Task
from tests.cli.shell import run
from tests.domain import kit
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
    server = set_server(of_shell(), ServerSpec("files", "stdio", "files", named=True))
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


def test_a_token_that_was_encrypted_with_another_key_is_a_complaint(fit: int) -> None:
    """Also where nobody has tried the server since."""
    Server.objects.filter(pk=fit).update(transport="http", credentials=Vault(b"another key").encrypt("token"))
    code, out, _ = run("doctor")
    told = "Its token was encrypted with another SECRET_KEY and cannot be read: set it again on the server's page."
    assert (code, failures(out)) == (1, [f"FAIL server files: {told}"])


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
    asked = Question.objects.filter(kind="approval", group="ops").values_list("task__arguments", flat=True)
    assert sorted(arguments["version"] for arguments in asked) == ["0.9.0", "1.4.2"]
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


TIME = r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d UTC"
READ = r"read in \d+\.\d s"
UNSEALED = "(?:events are|event is) not sealed yet"


def test_an_audit_log_that_nobody_touched_is_intact_and_the_check_is_on_record(transactional_db: None) -> None:
    world = kit.make_world()
    kit.create(world)
    kit.finish(kit.claim_one())
    events = Event.objects.count()

    def verified() -> re.Match[str] | None:
        code, out, err = run("audit", "verify", "--full")
        assert (code, err) == (0, "")
        return re.fullmatch(rf"Intact: ([1-9]\d*) events in ([1-9]\d*) seals, {READ}; (\d+) {UNSEALED}\.\n", out)

    # Another database's open transactions keep the newest events from being sealed for a moment.
    found = wait_until(verified, "a seal")
    checks = Event.objects.filter(action="audit.verified").order_by("id")
    # Each check is an event itself, of which the next one knows.
    assert int(found[1]) + int(found[3]) == events + checks.count() - 1
    last = checks.latest("id")
    assert (last.actor, last.door) == ("manage.py", "cli")
    after = last.after or {}
    mark = after.pop("mark")
    assert 0 < after.pop("seconds") < 60
    assert after == {"ok": True, "events": int(found[1]), "seals": int(found[2]), "problem": "", "full": True}
    assert (mark["events"], mark["seals"], mark["at"]) == (int(found[1]), int(found[2]), mark["full_at"])


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


def sealed_task() -> int:
    """A new task whose creation is sealed: its event."""
    task = kit.create(kit.make_world())
    event = int(Event.objects.filter(task_id=task.id).latest("id").pk)

    def sealed() -> bool:
        seal_events()
        return Seal.objects.filter(event_ids__contains=[event]).exists()

    wait_until(sealed, "its seal")
    return event


def test_the_short_form_says_what_it_read_and_what_it_took_from_before(transactional_db: None) -> None:
    sealed_task()
    code, first, _ = run("audit", "verify", "--since-mark")
    assert code == 0
    assert re.fullmatch(rf"Intact: 1 event in 1 seal, {READ}; 0 {UNSEALED}\.\n", first)  # without a mark, all
    mark = Event.objects.get(action="audit.verified").pk
    sealed_task()
    code, out, err = run("audit", "verify", "--since-mark")
    assert (code, err) == (0, "")
    now, before = out.splitlines()
    assert re.fullmatch(
        rf"Unchanged since entry {mark}, verified {TIME}: 2 events in \d seals?, {READ}; \d {UNSEALED}\.", now
    )
    assert re.fullmatch(
        rf"Below it 1 event in 1 seal was not read again, last verified in full {TIME} \(--full reads them\)\.",
        before,
    )
    assert (Event.objects.filter(action="audit.verified").latest("id").after or {})["full"] is False
    assert run("audit", "verify")[1].startswith("Intact: ")


TAMPERING = {
    "was changed": "UPDATE event SET actor = 'somebody else' WHERE id = {0}",
    "was changed: dated back": "UPDATE event SET at = at - interval '1 day' WHERE id = {0}",
    "was deleted": "DELETE FROM event WHERE id = {0}",
    "was added after its time was sealed": (
        "INSERT INTO event (id, action, actor, door, xid, at)"
        " SELECT 4000000, action, 'me', 'sql', xid, at FROM event WHERE id = {0}"
    ),
    "was changed: in another's place": (
        "UPDATE event SET task_id = other.task_id FROM event AS other WHERE event.id = {0} AND other.id = {1}"
    ),
}


@pytest.mark.parametrize("what", TAMPERING)
def test_what_was_done_below_the_mark_is_found_without_asking_for_more(transactional_db: None, what: str) -> None:
    victim, other = sealed_task(), sealed_task()
    assert run("audit", "verify")[0] == 0
    with kit.superuser_past_the_guards() as raw:
        raw.execute(TAMPERING[what].format(victim, other))
    # The short form says what it did not look at, and nothing of it.
    code, out, _ = run("audit", "verify", "--since-mark")
    assert (code, "Intact" in out) == (0, False)
    assert "were not read again, last verified in full" in out
    code, out, err = run("audit", "verify")
    assert (code, out) == (1, "")
    named = 4000000 if "added" in what else victim
    assert err.splitlines()[0] == f"AUDIT BROKEN: event {named} {what.split(':')[0]}"


def test_a_log_that_takes_too_long_is_not_called_intact_by_what_reads_less(transactional_db: None) -> None:
    """As long as the last full verification took, which is on record."""
    sealed_task()
    assert run("audit", "verify")[0] == 0
    found = {"events": 1, "seals": 1, "problem": "", "actor": of_shell().actor}
    record_verification(ok=True, seconds=86_400, **found)
    sealed_task()
    code, out, err = run("audit", "verify")
    assert (code, err) == (3, "")
    unchanged, below, not_read = out.splitlines()
    assert unchanged.startswith("Unchanged since entry ")
    assert below.startswith("Below it 1 event in 1 seal was not read again")
    assert re.fullmatch(
        r"Not everything was read: \d events in \d seals? take about [\d,]+ min\."
        r" `manage.py audit verify --full` reads them, and a worker does so every night\.",
        not_read,
    )
    assert run("audit", "verify", "--since-mark")[0] == 0
    code, out, _ = run("audit", "verify", "--full")
    assert code == 0
    expected, intact = out.splitlines()
    assert re.fullmatch(r"Reading \d events in \d seals?: about [\d,]+ min\.", expected)
    assert intact.startswith("Intact: ")
    # It took less now, and that is on record as well.
    assert run("audit", "verify")[1].startswith("Intact: ")


def test_both_forms_are_named_when_an_event_is_found_that_was_changed(transactional_db: None) -> None:
    old = sealed_task()
    assert run("audit", "verify")[0] == 0
    new = sealed_task()
    for event in (old, new):
        with kit.superuser_past_the_guards() as raw:
            raw.execute("UPDATE event SET actor = 'somebody else' WHERE id = %s", (event,))
    code, out, err = run("audit", "verify", "--since-mark")
    assert (code, out) == (1, "")
    problem, intact, taken = err.splitlines()
    assert problem == f"AUDIT BROKEN: event {new} was changed"
    assert re.fullmatch(rf"\d events in \d seals? before it since {TIME} are intact\.", intact)
    assert taken.startswith("Below it 1 event in 1 seal was not read again, last verified in full ")
    code, out, err = run("audit", "verify", "--since-mark")  # after a failure all is read
    assert (code, out) == (1, "")
    assert err.splitlines()[0] == f"AUDIT BROKEN: event {old} was changed"


def aged(event: int) -> None:
    """It was written two minutes ago."""
    with kit.superuser_past_the_guards() as raw:
        raw.execute("UPDATE event SET at = at - interval '2 minutes' WHERE id = %s", (event,))


def test_events_that_nobody_sealed_for_long_are_not_proven(transactional_db: None) -> None:
    sealed_task()
    task = kit.create(kit.make_world())
    aged(Event.objects.get(task_id=task.id).pk)
    code, out, err = run("audit", "verify")
    assert (code, out) == (1, "")
    words, read = err.splitlines()
    assert re.fullmatch(
        rf"AUDIT NOT PROVEN: no worker has sealed since {TIME}, and none is alive; the oldest event that no seal held"
        rf" is from {TIME}\. Start one: `manage.py worker`\.",
        words,
    )
    assert read.endswith(" seals were read, and fit their seals.")
    # By now they are sealed, and what that is worth is on record.
    assert run("audit", "verify")[1].startswith("Intact: ")
    first, _ = Event.objects.filter(action="audit.verified").order_by("id")
    assert (first.after or {})["problem"].startswith("no worker has sealed since ")
    assert (first.after or {})["ok"] is False


def test_a_transaction_that_keeps_events_from_their_seal_is_named(transactional_db: None) -> None:
    with superuser() as other:
        number = other.execute("SELECT pg_current_xact_id()::text").fetchone()
        assert number is not None
        task = kit.create(kit.make_world())
        aged(Event.objects.get(task_id=task.id).pk)
        code, out, err = run("audit", "verify")
        assert (code, out) == (1, "")
        # The oldest one of the whole server; other tests have databases of their own here.
        assert re.match(r"AUDIT NOT PROVEN: nothing could be sealed ever: transaction \d+ is open for as long; ", err)
        assert len(err.splitlines()) == 1, "nothing was read, of which there would be something to say"
        other.rollback()


def test_an_event_beyond_what_the_cluster_counted_is_not_passed_over(transactional_db: None) -> None:
    event = sealed_task()
    with kit.superuser_past_the_guards() as raw:
        raw.execute(
            "INSERT INTO event (id, action, actor, door, xid)"
            " SELECT 4000000, action, 'me', 'sql', xid + 1000000000 FROM event WHERE id = %s",
            (event,),
        )
    for form in ((), ("--since-mark",), ("--full",)):
        code, out, err = run("audit", "verify", *form)
        assert (code, out) == (1, "")
        assert err.startswith("AUDIT NOT PROVEN: event 4000000 has the transaction id ")


def test_a_provider_that_does_not_tell_its_cluster_is_no_reason_to_fail(transactional_db: None) -> None:
    sealed_task()
    assert run("audit", "verify")[0] == 0
    with superuser(autocommit=True) as raw:
        raw.execute("REVOKE EXECUTE ON FUNCTION pg_control_system() FROM PUBLIC")
        try:
            code, out, err = run("audit", "verify")
        finally:
            raw.execute("GRANT EXECUTE ON FUNCTION pg_control_system() TO PUBLIC")
    assert (code, out.startswith("Intact: "), err) == (0, True, "")


class Screen(io.StringIO):
    """What somebody sees who sits in front of it."""

    def isatty(self) -> bool:
        return True


def test_at_a_terminal_it_says_how_far_it_is_and_leaves_nothing_of_it(
    transactional_db: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    sealed_task()
    monkeypatch.setattr(audit, "REPORT_SECONDS", 0.0)
    out, screen = io.StringIO(), Screen()
    call_command("audit", "verify", stdout=out, stderr=screen)
    assert re.fullmatch(r"\r\x1b\[K100%: 1 event in 1 seal, \d s\r\x1b\[K", screen.getvalue())
    assert out.getvalue().startswith("Intact: 1 event in 1 seal, read in ")


def test_the_doctor_tells_when_the_log_was_verified_and_complains_if_it_was_broken(fit: int) -> None:
    nightly = "a worker reads all of it every night at 02:23 UTC; now, `manage.py audit verify --full` does"
    assert f"ok   audit log: never verified: {nightly}\n" in run("doctor")[1]
    found = {"events": 3, "seals": 1, "actor": of_shell().actor}
    with connection.cursor() as cursor:
        cursor.execute(
            "INSERT INTO event (action, actor, door, at, after)"
            " VALUES ('audit.verified', 'root', 'cli', now() - interval '100 hours', '{\"ok\": true}')"
        )
    assert f" UTC, 4 days ago: {nightly}\n" in run("doctor")[1]
    record_verification(ok=True, problem="", **found)
    record_verification(ok=True, problem="", full=False, **found)
    _, full, last = Event.objects.filter(action="audit.verified").order_by("id")
    line = f"ok   audit log: verified {last.at:%Y-%m-%d %H:%M} UTC, in full {full.at:%Y-%m-%d %H:%M} UTC\n"
    assert line in run("doctor")[1]
    record_verification(ok=False, problem="event 3 was changed", **found)
    code, out, _ = run("doctor")
    last = Event.objects.latest("id")
    assert (code, failures(out)) == (
        1,
        [f"FAIL audit log: verification failed {last.at:%Y-%m-%d %H:%M} UTC: event 3 was changed"],
    )

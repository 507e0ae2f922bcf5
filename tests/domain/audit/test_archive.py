"""The log in parts, and its oldest part in a file: what is gone from the database is in the file, both prove
themselves, and neither can be changed without that being found."""

from __future__ import annotations

import gzip
import json
import threading
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import psycopg
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from django.db import connection

from taskhub.core.records import Actor
from taskhub.core.states import Door
from taskhub.domain.audit import verify as verification
from taskhub.domain.audit.archive import (
    Archived,
    Broken,
    Contents,
    NotArchived,
    archive_part,
    due_parts,
    newest_archived,
    read_archive,
)
from taskhub.domain.audit.partitions import turn_part
from taskhub.domain.audit.reads import EventFilter, archived_log, event_page
from taskhub.domain.audit.seal import signing_key
from taskhub.domain.audit.verify import verify_audit
from taskhub.store.models import Event, Seal
from tests.domain import kit
from tests.domain.audit.test_seal import seal_all, tamper
from tests.domain.audit.test_verify import verify
from tests.domain.kit import World
from tests.store import raw as sql
from tests.support.hub import wait_until

ROOT = Actor(name="root", door=Door.CLI)
SIZE = 1_000
BEGINS = 100_000_000
"""The first id of the second part."""


def now() -> datetime:
    return datetime.now(UTC)


def last_month() -> datetime:
    return now().replace(day=1) - timedelta(days=3)


def ago(days: int) -> datetime:
    return now() - timedelta(days=days)


def parts() -> list[str]:
    with connection.cursor() as cursor:
        cursor.execute("SELECT name FROM event_parts()")
        return [name for (name,) in cursor.fetchall()]


def where(event: int) -> str:
    """The part that it is in."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT tableoid::regclass::text FROM event WHERE id = %s", [event])
        return str(cursor.fetchone()[0])


def turn() -> str | None:
    return turn_part(size=SIZE, fewest=1)


def live(world: World) -> None:
    """A task from beginning to end."""
    kit.create(world)
    kit.finish(kit.claim_one())


def archive(directory: Path, before: datetime | None = None) -> Archived:
    record = archive_part(directory, before=before or now(), actor=ROOT)
    assert record is not None
    return record


def read(path: Path) -> Contents:
    with path.open("rb") as file:
        return read_archive(file, signing_key().public_key())


def sealed_all() -> None:
    """Everything there is, which other databases' transactions hold up for a moment."""
    events = Event.objects.count()
    wait_until(lambda: seal_all() >= 0 and verify_audit().unsealed == 0 and Event.objects.count() == events, "its seal")


@pytest.fixture
def log(transactional_db: None) -> Iterator[World]:
    """A log whose parts are as in a new hub, also when the test is over."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT setval('event_id_seq', 1, false)")
    yield kit.make_world()
    with kit.superuser_past_the_guards() as raw:
        for name in parts():
            raw.execute(f'DROP TABLE "{name}"'.encode())
        raw.execute("CREATE TABLE event_1 (LIKE event INCLUDING DEFAULTS)")
        raw.execute(f"ALTER TABLE event_1 OWNER TO {connection.settings_dict['USER']}".encode())
        raw.execute("SELECT event_part_guard('event_1')")
        raw.execute("ALTER TABLE event ATTACH PARTITION event_1 FOR VALUES FROM (MINVALUE) TO (100000000)")
        raw.execute("SELECT setval('event_id_seq', 1, false)")


@pytest.fixture
def old(log: World) -> World:
    """A task's life last month, sealed, and another one's this month, in the next part."""
    live(log)
    tamper("UPDATE event SET at = at - interval '40 days'")
    assert turn() == "event_2"
    live(log)
    sealed_all()
    return log


def test_what_is_archived_while_the_log_is_read_is_not_missing(
    log: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A nightly verification may take hours."""
    for days in (80, 40):
        live(log)
        tamper("UPDATE event SET at = %s WHERE xid >= (SELECT coalesce(max(to_xid), 0) FROM seal)", ago(days))
        assert turn() is not None
        sealed_all()
    live(log)
    sealed_all()
    monkeypatch.setattr(verification, "SEALS", 1)
    archives: list[Archived] = []

    def report(events: int, seals: int, part: float) -> None:
        while len(archives) < 2:
            archives.append(archive(tmp_path, ago(20)))

    verdict = verify_audit(full=True, report=report)
    assert (verdict.problem, verdict.archived) == ("", archives[1])


# --- parts


def test_there_are_always_two_parts_above_the_one_that_is_written_to(log: World) -> None:
    assert parts() == ["event_1"]
    kit.create(log)
    assert turn() is None
    assert parts() == ["event_1", "event_2", "event_3"]
    assert turn() is None
    assert parts() == ["event_1", "event_2", "event_3"]


def test_a_new_month_begins_with_a_part_of_its_own(log: World) -> None:
    kit.create(log)
    tamper("UPDATE event SET at = %s", last_month())
    assert turn() == "event_2"
    kit.create(log)
    first, second = Event.objects.order_by("id").values_list("id", flat=True)
    assert (where(first), second, where(second)) == ("event_1", BEGINS, "event_2")
    assert turn() is None  # the month has one
    assert parts() == ["event_1", "event_2", "event_3", "event_4"]


def test_a_small_month_goes_on_in_the_part_before(log: World) -> None:
    for _ in range(3):
        kit.create(log)
    tamper("UPDATE event SET at = %s", last_month())
    assert turn_part(size=SIZE, fewest=4) is None
    assert turn_part(size=SIZE, fewest=3) == "event_2"


def test_who_has_written_an_event_and_not_committed_holds_nobody_up(log: World) -> None:
    with sql.connect() as slow, slow.transaction():
        sql.event(slow, action="audit.exported")
        assert turn() is None
        kit.create(log)
        assert len(parts()) == 3


def test_of_many_that_turn_at_once_each_finds_it_done(log: World) -> None:
    kit.create(log)
    tamper("UPDATE event SET at = %s", last_month())
    together, found = threading.Barrier(4), []

    def one() -> None:
        together.wait(30)
        try:
            found.append(turn())
            kit.create(log)
        finally:
            connection.close()

    threads = [threading.Thread(target=one) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert sorted(map(str, found)) == ["None", "None", "None", "event_2"]
    assert Event.objects.count() == 5
    assert set(Event.objects.filter(id__gte=BEGINS).values_list("id", flat=True)) == {BEGINS + n for n in range(4)}


@pytest.mark.parametrize("part", ["event_1", "event_2"])
@pytest.mark.parametrize("change", ["UPDATE {} SET actor = 'x'", "DELETE FROM {}", "TRUNCATE {}"])
def test_a_part_can_no_more_be_changed_than_the_whole(log: World, part: str, change: str) -> None:
    kit.create(log)
    tamper("UPDATE event SET at = %s", last_month())
    turn()
    kit.create(log)
    with sql.connect() as raw, pytest.raises(psycopg.Error, match="is append-only") as refused:
        raw.execute(change.format(part).encode())
    assert refused.value.sqlstate == "TH008"


def test_pages_and_moments_go_over_the_edge_of_a_part(old: World) -> None:
    page = event_page(old.context.tenant_id, EventFilter())
    assert [row.action for row in page.rows] == ["task.finished", "task.claimed", "task.created"] * 2
    recent = event_page(old.context.tenant_id, EventFilter(since=now() - timedelta(days=1)))
    assert {where(row.id) for row in recent.rows} == {"event_2"}
    before = event_page(old.context.tenant_id, EventFilter(until=now() - timedelta(days=1)))
    assert {where(row.id) for row in before.rows} == {"event_1"}


# --- an archive


def test_the_oldest_part_goes_into_a_file_and_both_are_intact(old: World, tmp_path: Path) -> None:
    assert list(due_parts(now())) == [f"event_1: up to {Event.objects.order_by('id')[2].at:%Y-%m-%d %H:%M:%S %Z}"]
    record = archive(tmp_path)
    path = tmp_path / record.file
    assert [path.name for path in tmp_path.iterdir()] == [record.file]
    assert path.stat().st_mode & 0o777 == 0o600
    assert parts()[0] == "event_2"
    contents = read(path)
    assert (contents.from_xid, contents.to_xid, contents.link) == (0, record.to_xid, record.link)
    assert contents.events == record.events >= 3
    verdict = verify_audit(full=True)
    assert (verdict.problem, verdict.archived) == ("", record)
    assert verdict.events + record.events == 6 + (Event.objects.filter(action="audit.archived").count() - 1)
    log = archived_log()
    assert log is not None
    assert (log.events, log.until) == (record.events, record.until)
    assert list(due_parts(now())) == []
    assert archive_part(tmp_path, before=now(), actor=ROOT) is None


def test_each_event_is_in_the_file_as_it_was(old: World, tmp_path: Path) -> None:
    with connection.cursor() as cursor:
        cursor.execute("SELECT event_line(e) FROM event e WHERE e.id < %s ORDER BY e.xid, e.id", [BEGINS])
        expected = [line for (line,) in cursor.fetchall()]
    lines = gzip.decompress((tmp_path / archive(tmp_path).file).read_bytes()).decode().splitlines()
    assert [line for line in lines if line.startswith("[")][: len(expected)] == expected
    assert json.loads(expected[0])[4] == "task.created"


def test_what_is_too_young_or_written_to_stays(old: World, tmp_path: Path) -> None:
    assert archive_part(tmp_path, before=now() - timedelta(days=50), actor=ROOT) is None
    archive(tmp_path)
    tamper("UPDATE event SET at = at - interval '40 days'")
    assert archive_part(tmp_path, before=now(), actor=ROOT) is None


def test_a_part_that_is_not_sealed_to_its_end_stays(log: World, tmp_path: Path) -> None:
    kit.create(log)
    tamper("UPDATE event SET at = %s", last_month())
    turn()
    with pytest.raises(NotArchived, match="event_1 has events that are not sealed yet"):
        archive(tmp_path)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "change",
    [
        "UPDATE event SET reason = 'x' WHERE id = 1",
        "DELETE FROM event WHERE id = 1",
        "INSERT INTO event (id, action, actor, door, xid) SELECT 77, 'x', 'x', 'x', xid FROM event WHERE id = 1",
        "UPDATE seal SET root = sha256('x')",
        "UPDATE seal SET previous = sha256('x')",
    ],
)
def test_a_log_that_does_not_fit_is_not_archived_and_nothing_is_dropped(
    old: World, tmp_path: Path, change: str
) -> None:
    tamper(change)
    seals = Seal.objects.count()
    with pytest.raises(Broken):
        archive(tmp_path)
    assert list(tmp_path.iterdir()) == []
    assert parts()[0] == "event_1"
    assert Seal.objects.count() == seals
    assert not Event.objects.filter(action="audit.archived").exists()


def test_a_file_that_cannot_be_written_drops_nothing(old: World, tmp_path: Path) -> None:
    with pytest.raises(OSError, match="gone"):
        archive(tmp_path / "gone")
    assert parts()[0] == "event_1"


def test_what_another_run_left_half_done_is_no_hindrance(old: World, tmp_path: Path) -> None:
    cut = Seal.objects.latest("to_xid").to_xid
    name = f"taskhub-audit-{Event.objects.get(id=3).at:%Y%m%d}-{cut}.jsonl.gz"
    (tmp_path / f".{name}.partial").write_bytes(b"half")
    (tmp_path / name).write_bytes(b"whole, but its part was not dropped")
    record = archive(tmp_path)
    assert read(tmp_path / record.file).link == record.link


def test_a_later_archive_goes_on_where_the_one_before_ended(log: World, tmp_path: Path) -> None:
    for _ in range(2):
        with_old_events(log)
    verify()
    first, second = archive(tmp_path), archive(tmp_path)
    one, two = read(tmp_path / first.file), read(tmp_path / second.file)
    assert (two.from_xid, two.previous) == (one.to_xid, one.link)
    assert second.events == one.events + two.events
    assert parts()[0] == "event_3"
    kit.create(log)
    sealed_all()
    verdict = verify()
    assert (verdict.problem, verdict.archived) == ("", second)
    assert verify(full=True).problem == ""


def with_old_events(world: World) -> None:
    """A month that is over, sealed."""
    edge = Event.objects.order_by("-id").values_list("id", flat=True).first() or 0
    live(world)
    tamper("UPDATE event SET at = at - interval '40 days' WHERE id > %s AND id > 0", edge)
    assert turn() is not None
    sealed_all()


def test_verification_goes_on_from_a_mark_whose_seal_is_archived(old: World, tmp_path: Path) -> None:
    assert verify().problem == ""
    record = archive(tmp_path)
    kit.create(old)
    sealed_all()
    verdict = verify()
    assert (verdict.problem, verdict.archived) == ("", record)
    assert verdict.earlier is not None
    assert verify().problem == ""


# --- events of a transaction that was open when the part ended


@pytest.fixture
def straddling(log: World, tmp_path: Path) -> Archived:
    """A seal over both sides of the edge: its first event is of a transaction that wrote late, into the next part."""
    with sql.connect() as slow, slow.transaction():
        slow.execute("SELECT pg_current_xact_id()")
        live(log)
        tamper("UPDATE event SET at = %s", last_month())
        assert turn() == "event_2"
        sql.event(slow, action="audit.exported")
    sealed_all()
    kit.create(log)
    sealed_all()
    return archive(tmp_path)


def test_an_archive_has_whole_seals_and_what_is_ahead_stays_too(straddling: Archived, tmp_path: Path) -> None:
    assert straddling.ahead == 1
    assert straddling.events == 4
    assert Event.objects.order_by("id").values_list("action", flat=True).first() == "audit.exported"
    sealed_all()
    assert verify_audit(full=True).problem == ""


@pytest.mark.parametrize(
    "change",
    [
        "UPDATE event SET reason = 'x' WHERE action = 'audit.exported'",
        "DELETE FROM event WHERE action = 'audit.exported'",
        "INSERT INTO event (action, actor, door, xid) SELECT 'x', 'x', 'x', min(xid) FROM event",
    ],
)
def test_what_is_ahead_cannot_be_changed(straddling: Archived, change: str) -> None:
    tamper(change)
    assert "of the archived events 1 are here too" in verify_audit().problem


def test_what_is_ahead_goes_with_its_own_part(straddling: Archived, log: World, tmp_path: Path) -> None:
    sealed_all()
    with connection.cursor() as cursor:
        cursor.execute("SELECT setval('event_id_seq', (SELECT to_id FROM event_parts() WHERE name = 'event_2'))")
    kit.create(log)
    turn()
    sealed_all()
    second = archive(tmp_path)
    assert parts()[0] == "event_3"
    one, two = read(tmp_path / straddling.file), read(tmp_path / second.file)
    assert (two.from_xid, two.previous) == (one.to_xid, one.link)
    assert verify_audit(full=True).problem == ""


# --- who tries to get round it


def test_seals_go_with_an_archive_only(old: World, tmp_path: Path) -> None:
    with sql.connect() as raw, pytest.raises(psycopg.Error, match="seal is append-only: DELETE refused"):
        raw.execute("DELETE FROM seal")
    archive(tmp_path)
    with sql.connect() as raw, pytest.raises(psycopg.Error, match="seal is append-only: DELETE refused"):
        raw.execute("DELETE FROM seal")
    assert Seal.objects.count() >= 1


@pytest.mark.parametrize("part", ["event_2", "event_3", "task", "nothing"])
def test_only_the_oldest_part_can_be_dropped_and_not_while_it_is_written_to(old: World, part: str) -> None:
    with sql.connect() as raw, pytest.raises(psycopg.Error, match="is not the oldest part"):
        raw.execute("SELECT event_part_drop(%s, 0)", (part,))


def test_the_record_of_an_archive_cannot_be_changed_or_left_out(old: World, tmp_path: Path) -> None:
    archive(tmp_path)
    found = Event.objects.get(action="audit.archived")
    tamper("UPDATE event SET after = jsonb_set(after, '{events}', '1') WHERE id = %s", found.id)
    assert verify_audit().problem.startswith(f"event {found.id}, which tells what is archived, was not signed")
    with pytest.raises(Broken, match="was not signed by this key"):
        newest_archived(signing_key().public_key())
    tamper("DELETE FROM event WHERE id = %s", found.id)
    assert verify_audit().problem == "event 1 was deleted"


# --- who tries to change the file


def rewrite(path: Path, lines: list[bytes]) -> None:
    path.write_bytes(gzip.compress(b"\n".join(lines)))


@pytest.fixture
def file(old: World, tmp_path: Path) -> Path:
    return tmp_path / archive(tmp_path).file


def test_a_file_with_another_line_is_found_out(file: Path) -> None:
    whole = gzip.decompress(file.read_bytes()).split(b"\n")
    assert len(whole) > 5
    for place, line in enumerate(whole):
        if not line:
            continue
        for other in ([], [line, line], [line.replace(b"1", b"2", 1)], [line[:-1]], [b"null"]):
            rewrite(file, whole[:place] + other + whole[place + 1 :])
            with pytest.raises(Broken):
                read(file)
    rewrite(file, whole)
    assert read(file).events >= 3


def test_a_file_that_is_cut_off_is_found_out(file: Path) -> None:
    whole = file.read_bytes()
    for end in range(0, len(whole), 7):
        file.write_bytes(whole[:end])
        with pytest.raises(Broken, match=r"^line \d+: "):
            read(file)


def test_a_file_of_another_installation_is_not_ours(file: Path) -> None:
    other = Ed25519PrivateKey.generate().public_key()
    with file.open("rb") as raw, pytest.raises(Broken, match="sealed with another key"):
        read_archive(raw, other)

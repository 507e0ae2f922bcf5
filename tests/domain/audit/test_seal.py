"""The audit's seals: what holds verifies; what a superuser changed past every guard is named."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import pytest
from django.db import connection

from taskhub.domain.audit import seal as sealing
from taskhub.domain.audit.seal import merkle_root, seal_events
from taskhub.domain.audit.verify import Verdict, verify_audit
from taskhub.store.models import Event, Seal
from tests.domain import kit
from tests.domain.kit import Crew, World
from tests.store import raw as sql
from tests.support.hub import wait_until


def history(world: World, tasks: int = 2) -> None:
    """Some tasks from beginning to end, then a seal over them."""
    for _ in range(tasks):
        kit.create(world)
        kit.finish(kit.claim_one())
    # No seal takes what came after a transaction that is still open, such as one of a hub that starts beside this.
    wait_until(seal_all, "a seal over them")


def seal_all() -> int:
    sealed = 0
    while count := seal_events():
        sealed += count
    return sealed


@pytest.fixture
def sealed(world: World) -> World:
    """Three seals: the first over two tasks, the others over one each."""
    history(world)
    history(world, 1)
    history(world, 1)
    return world


def tamper(statement: str, *params: Any) -> None:
    with kit.superuser_past_the_guards() as raw:
        raw.execute(statement, params)  # type: ignore[call-overload]  # our own SQL text


def ids() -> list[int]:
    return list(Event.objects.order_by("xid", "id").values_list("pk", flat=True))


def test_what_nobody_touched_verifies(sealed: World) -> None:
    assert verify_audit() == Verdict(events=12, seals=3, unsealed=0)
    assert sorted(ids()) == sorted(event for seal in Seal.objects.all() for event in seal.event_ids)


def test_an_empty_log_verifies(transactional_db: None) -> None:
    assert seal_events() == 0
    assert verify_audit() == Verdict(events=0, seals=0, unsealed=0)


def test_later_events_are_counted_as_unsealed_until_they_are_sealed(sealed: World) -> None:
    kit.create(sealed)
    assert verify_audit().unsealed == 1
    assert seal_events() == 1
    assert verify_audit() == Verdict(events=13, seals=4, unsealed=0)
    assert seal_events() == 0


def test_events_without_a_task_are_sealed_too(sealed: World) -> None:
    with sql.connect() as raw:
        sql.event(raw, action="audit.exported", after='{"ü": [1.50, null]}')
    assert seal_events() == 1
    assert verify_audit().problem == ""


@pytest.mark.parametrize(
    "change",
    [
        "actor = 'somebody else'",
        "action = 'task.faulted'",
        "door = 'web'",
        "address = '203.0.113.1'",
        "reason = 'other'",
        "target = 'other'",
        "at = at + interval '1 microsecond'",
        "tenant_id = tenant_id + 1",
        "task_id = task_id + 1",
        "task_version = task_version + 1",
        "context_id = NULL",
        "user_id = 1",
        'before = \'{"state": "queued", "x": 1}\'',
        "after = '{}'",
    ],
)
def test_an_edited_event_is_named(sealed: World, change: str) -> None:
    victim = ids()[4]
    tamper(f"UPDATE event SET {change} WHERE id = %s", victim)
    verdict = verify_audit()
    assert (verdict.event_id, verdict.problem) == (victim, f"event {victim} was changed")
    assert (verdict.events, verdict.seals) == (0, 0)


def test_the_first_of_several_edited_events_is_named_and_what_is_before_it_holds(sealed: World) -> None:
    first, second = ids()[7], ids()[10]
    for victim in (second, first):
        tamper("UPDATE event SET reason = 'x' WHERE id = %s", victim)
    verdict = verify_audit()
    assert verdict.event_id == first
    assert (verdict.events, verdict.seals) == (6, 1)


def test_a_deleted_event_is_named(sealed: World) -> None:
    victim = ids()[8]
    tamper("DELETE FROM event WHERE id = %s", victim)
    assert (verify_audit().event_id, verify_audit().problem) == (victim, f"event {victim} was deleted")


def test_two_events_that_changed_places_are_found(sealed: World) -> None:
    one, two = ids()[1], ids()[2]
    tamper("UPDATE event SET id = -1 WHERE id = %s", one)
    tamper("UPDATE event SET id = %s WHERE id = %s", one, two)
    tamper("UPDATE event SET id = %s WHERE id = -1", two)
    assert verify_audit().event_id == one


@pytest.mark.parametrize("of", [0, 5, 11])
def test_a_back_dated_event_is_named(sealed: World, of: int) -> None:
    with kit.superuser_past_the_guards() as raw:
        raw.execute(
            "INSERT INTO event (action, actor, door, xid, at) SELECT 'task.created', 'me', 'sql', xid, at FROM event"
            " WHERE id = %s",
            (ids()[of],),
        )
    forged = max(ids())
    verdict = verify_audit()
    assert (verdict.event_id, verdict.problem) == (forged, f"event {forged} was added after its time was sealed")


def test_an_event_from_before_all_time_is_named(sealed: World) -> None:
    """No seal would ever cover it, and the log would show it."""
    with sql.connect() as raw:
        forged = sql.event(raw, xid=-1)
    assert verify_audit().event_id == forged


def test_an_event_that_is_moved_out_of_its_seal_is_missed_there(sealed: World) -> None:
    victim = ids()[3]
    tamper("UPDATE event SET xid = xid + 1000000 WHERE id = %s", victim)
    assert verify_audit().event_id == victim


@pytest.mark.parametrize("place", [0, 1])
def test_a_missing_seal_is_noticed(sealed: World, place: int) -> None:
    first, second, third = Seal.objects.order_by("to_xid")
    tamper("DELETE FROM seal WHERE id = %s", [first, second][place].pk)
    follower = [second, third][place]
    verdict = verify_audit()
    assert verdict.problem == f"seal {follower.pk} does not follow the one before: a seal is missing"
    assert verdict.seals == place


def test_events_hidden_with_their_seal_and_a_stretched_neighbour_are_noticed(sealed: World) -> None:
    first, second, third = Seal.objects.order_by("to_xid")
    tamper("DELETE FROM event WHERE xid >= %s AND xid < %s", second.from_xid, second.to_xid)
    tamper("DELETE FROM seal WHERE id = %s", second.pk)
    tamper("UPDATE seal SET from_xid = %s, previous = %s WHERE id = %s", first.to_xid, bytes(second.previous), third.pk)
    verdict = verify_audit()
    assert verdict.problem == f"seal {third.pk} is not signed by this installation's key, or was changed"


@pytest.mark.parametrize(
    "change",
    [
        "signature = set_byte(signature, 0, get_byte(signature, 0) # 1)",
        "leaves = set_byte(leaves, 40, get_byte(leaves, 40) # 1)",
        "leaves = ''",
        "count = count - 1",
        "count = 0, leaves = '', event_ids = '{}'",
        "event_ids = event_ids[2:]",
        "event_ids = event_ids || event_ids[1]",
        "event_ids = event_ids || 999999999::bigint",
        "event_ids[2] = 999999999",
    ],
)
def test_a_changed_seal_is_noticed(sealed: World, change: str) -> None:
    second = Seal.objects.order_by("to_xid")[1]
    tamper(f"UPDATE seal SET {change} WHERE id = %s", second.pk)
    verdict = verify_audit()
    assert verdict.problem != ""
    assert verdict.seals == 1


def test_an_event_and_its_leaf_replaced_together_lack_the_signature(sealed: World) -> None:
    second = Seal.objects.order_by("to_xid")[1]
    victim = second.event_ids[0]
    tamper("UPDATE event SET actor = 'somebody else' WHERE id = %s", victim)
    tamper(
        "UPDATE seal SET leaves = (SELECT event_digest(e) FROM event e WHERE e.id = %s)"
        " || substr(leaves, 33) WHERE id = %s",
        victim,
        second.pk,
    )
    assert "not signed" in verify_audit().problem


def test_another_installations_key_does_not_verify(sealed: World, settings: Any) -> None:
    settings.SECRET_KEY = "another-installation"
    assert "not signed by this installation's key" in verify_audit().problem


def test_nothing_new_is_no_seal(sealed: World) -> None:
    kit.count_rows("SELECT count(*) FROM task")
    assert seal_events() == 0
    assert Seal.objects.count() == 3


def test_seals_are_cut_at_the_edge_of_a_transaction(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sealing, "BATCH", 4)
    with sql.connect() as raw:
        for _ in range(3):
            sql.event(raw)
        raw.commit()
        for _ in range(3):
            sql.event(raw)
        raw.commit()
        for _ in range(7):  # larger than a batch: taken whole
            sql.event(raw)
        raw.commit()
        sql.event(raw)
    assert [seal_events() for _ in range(5)] == [3, 3, 7, 1, 0]
    assert verify_audit() == Verdict(events=14, seals=4, unsealed=0)


# --- what is not final yet


@pytest.fixture
def other(world: World) -> Iterator[sql.Raw]:
    with sql.connect() as raw:
        yield raw
        raw.rollback()


def test_an_open_transaction_with_a_lower_id_is_waited_for_not_skipped(world: World, other: sql.Raw) -> None:
    slow = sql.event(other, actor="slow")
    kit.create(world)  # later, and committed
    sealed = seal_events()
    assert sealed == 0
    assert not any(slow in seal.event_ids for seal in Seal.objects.all())
    other.commit()
    assert seal_all() == 2
    assert slow in Seal.objects.get().event_ids
    assert verify_audit() == Verdict(events=2, seals=1, unsealed=0)


def test_what_committed_before_the_open_transaction_is_sealed_at_once(world: World, other: sql.Raw) -> None:
    kit.create(world)
    slow = sql.event(other, actor="slow")
    kit.create(world)
    assert seal_events() == 1
    other.commit()
    assert seal_all() == 2
    assert slow in Seal.objects.latest("to_xid").event_ids
    assert verify_audit() == Verdict(events=3, seals=2, unsealed=0)


def test_a_transaction_that_rolled_back_leaves_no_gap(world: World, other: sql.Raw) -> None:
    sql.event(other, actor="never")
    kit.create(world)
    other.rollback()
    assert seal_all() == 1
    assert verify_audit() == Verdict(events=1, seals=1, unsealed=0)


def test_one_sealer_works_at_a_time(world: World, other: sql.Raw) -> None:
    kit.create(world)
    other.execute("SELECT pg_advisory_xact_lock(%s)", (sealing._LOCK,))
    assert seal_events() == 0
    other.rollback()
    assert seal_events() == 1


def test_writers_and_sealers_at_once_leave_no_event_out(world: World) -> None:
    """Every event is in exactly one seal, however the two interleave."""
    crew = Crew(4)
    stop = threading.Event()

    def write() -> None:
        try:
            for _ in range(25):
                kit.create(world)
        finally:
            connection.close()

    def seal() -> None:
        while not stop.is_set():
            seal_events()

    def write_then_stop() -> None:
        try:
            write()
        finally:
            stop.set()

    try:
        assert crew.race(write, write_then_stop, seal, seal) == [None] * 4
    finally:
        stop.set()
        crew.close()
    seal_all()
    assert verify_audit().problem == ""
    covered = [event for seal_ in Seal.objects.all() for event in seal_.event_ids]
    assert sorted(covered) == sorted(ids())
    assert len(ids()) == 50


# --- the tree


def test_the_merkle_root_is_that_of_rfc_6962() -> None:
    leaves = [bytes.fromhex(text) for text in ("", "00", "10", "2021", "3031", "40414243", "5051525354555657")]
    expected = {
        0: "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
        1: "6e340b9cffb37a989ca544e6bb780a2c78901d3fb33738768511a30617afa01d",
        2: "fac54203e7cc696cf0dfcb42c92a1d9dbaf70ad9e621f4bd8d98662f00e3c125",
        3: "aeb6bcfe274b70a14fb067a5e5578264db0fa9b51af5e0ba159158f329e06e77",
        4: "d37ee418976dd95753c1c73862b9398fa2a2cf9b4ff0fdfe8b30cd95209614b7",
        7: "ddb89be403809e325750d3d263cd78929c2942b7942a34b77e122c9594a74c8c",
    }
    for count, root in expected.items():
        assert merkle_root(leaves[:count]).hex() == root

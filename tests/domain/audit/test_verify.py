"""Verification that goes on from a mark: what it finds at once, what only a full one finds, and that nobody without
the key moves the mark."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from taskhub.core.records import Actor
from taskhub.core.states import Door
from taskhub.domain.audit import verify as verification
from taskhub.domain.audit.record import record_verification
from taskhub.domain.audit.seal import merkle_root, seal_events, signing_key, statement
from taskhub.domain.audit.verify import Mark, Verdict, verify_audit
from taskhub.store.models import Event, Seal
from tests.domain import kit
from tests.domain.audit.test_seal import history, ids, seal_all, tamper
from tests.domain.kit import World
from tests.store import raw as sql
from tests.support.hub import wait_until

ROOT = Actor(name="root", door=Door.CLI)


def verify(*, full: bool = False) -> Verdict:
    """As the command does it: what was found is on record."""
    verdict = verify_audit(full=full)
    record_verification(
        ok=not verdict.problem,
        events=verdict.events,
        seals=verdict.seals,
        problem=verdict.problem,
        full=verdict.earlier is None,
        mark=verdict.mark,
        actor=ROOT,
    )
    return verdict


def marks(*, since: int = 0) -> list[Mark]:
    """All that were set after that event, oldest first; each is signed."""
    events = Event.objects.filter(action="audit.verified", after__has_key="mark", id__gt=since).order_by("id")
    found = [Mark.read((event.after or {})["mark"], signing_key().public_key()) for event in events]
    assert None not in found
    return [mark for mark in found if mark is not None]


def before_and_after() -> tuple[list[int], list[int]]:
    """The ids of sealed events: those that the mark stands for, and the others."""
    seals = list(Seal.objects.order_by("to_xid"))
    to_xid = marks()[-1].to_xid
    old, new = ([s for s in seals if s.to_xid <= to_xid], [s for s in seals if s.to_xid > to_xid])
    return [event for s in old for event in s.event_ids], [event for s in new for event in s.event_ids]


@pytest.fixture
def verified(world: World) -> World:
    """Three seals that were verified in full, and two that came later."""
    history(world)
    history(world, 1)
    history(world, 1)
    assert verify().events == 12
    history(world, 1)
    history(world, 1)
    return world


@pytest.fixture(params=[None, 1, 2], ids=["as it is", "one at a time", "two at a time"])
def pages(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever is read at once."""
    if request.param:
        monkeypatch.setattr(verification, "HEADS", request.param)
        monkeypatch.setattr(verification, "SEALS", request.param)
        monkeypatch.setattr(verification, "EVENTS", 3 * request.param)


def test_it_goes_on_after_the_last_that_found_nothing_wrong(verified: World, pages: None) -> None:
    (first,) = marks()
    assert (first.events, first.seals) == (12, 3)
    second = verify()
    assert second == Verdict(events=7, seals=2, unsealed=0, earlier=first)  # one is the first verification's own
    assert [(mark.events, mark.seals) for mark in marks()] == [(12, 3), (19, 5)]
    assert first.full_at == first.at == marks()[1].full_at < marks()[1].at
    seal_all()
    assert verify().events == 1


def test_a_full_one_reads_everything_and_moves_the_mark(verified: World, pages: None) -> None:
    assert verify(full=True) == Verdict(events=19, seals=5, unsealed=0)
    first, second = marks()
    assert (second.events, second.seals) == (19, 5)
    assert first.at < second.full_at == second.at
    assert verify().earlier == second


def test_one_that_finds_nothing_new_moves_the_mark_nowhere(verified: World) -> None:
    verify()
    again = verify()
    assert (again.events, again.seals, again.unsealed) == (0, 0, 1)
    assert [(mark.to_xid, mark.events) for mark in marks()[1:]] == [(marks()[-1].to_xid, 19)] * 2


def test_an_empty_log_is_a_beginning(transactional_db: None) -> None:
    empty = verify()
    assert (empty.events, empty.seals, empty.problem) == (0, 0, "")
    wait_until(seal_events, "a seal")
    next_ = verify()
    assert next_.earlier is not None
    assert (next_.events, next_.earlier.seals, next_.problem) == (1, 0, "")


def test_all_is_told_that_was_read_by_then(verified: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(verification, "SEALS", 2)
    heard: list[tuple[int, int, float]] = []
    verify_audit(full=True, report=lambda *done: heard.append(done))
    assert [done[:2] for done in heard] == [(9, 2), (16, 4), (19, 5)]
    parts = [part for _, _, part in heard]
    assert parts == sorted(parts)
    assert parts[-1] == 1


# --- events that are others than they were


CHANGES = {
    "was changed": "UPDATE event SET actor = 'somebody else' WHERE id = %s",
    "was deleted": "DELETE FROM event WHERE id = %s",
    "was added after its time was sealed": (
        "INSERT INTO event (action, actor, door, xid, at) SELECT action, 'me', 'sql', xid, at FROM event WHERE id = %s"
    ),
}


@pytest.mark.parametrize("what", CHANGES)
def test_what_was_done_to_an_event_after_the_mark_is_found(verified: World, what: str, pages: None) -> None:
    victim = before_and_after()[1][-1]
    tamper(CHANGES[what], victim)
    named = max(ids()) if "added" in what else victim
    verdict = verify()
    assert (verdict.problem, verdict.event_id) == (f"event {named} {what}", named)
    assert (verdict.events, verdict.seals) == (4, 1)
    assert verdict.earlier is not None
    assert len(marks()) == 1


@pytest.mark.parametrize("what", CHANGES)
def test_what_was_done_to_an_event_before_the_mark_is_found_by_a_full_one(
    verified: World, what: str, pages: None
) -> None:
    victim = before_and_after()[0][8]
    tamper(CHANGES[what], victim)
    named = max(ids()) if "added" in what else victim
    assert verify().problem == ""
    verdict = verify(full=True)
    assert (verdict.problem, verdict.event_id) == (f"event {named} {what}", named)
    assert (verdict.events, verdict.seals, verdict.mark) == (6, 1, None)


def test_of_an_event_and_a_later_seal_the_event_is_named(verified: World) -> None:
    _, second, third, *_ = Seal.objects.order_by("to_xid")
    tamper("UPDATE seal SET signature = sha512('') WHERE id = %s", third.pk)
    tamper(CHANGES["was changed"], second.event_ids[1])
    verdict = verify(full=True)
    assert (verdict.event_id, verdict.events, verdict.seals) == (second.event_ids[1], 6, 1)


# --- after a failure


def test_after_a_failure_all_is_read_until_all_fits(verified: World) -> None:
    """Else the next one would go on from before the failure, and call the log intact."""
    victim = before_and_after()[0][0]
    tamper("UPDATE event SET reason = 'x' WHERE id = %s", victim)
    assert verify(full=True).event_id == victim
    for _ in range(2):
        again = verify()
        assert (again.event_id, again.earlier) == (victim, None)
    assert len(marks()) == 1
    tamper("UPDATE event SET reason = '' WHERE id = %s", victim)
    seal_all()
    healed = verify()
    assert (healed.problem, healed.earlier) == ("", None)
    assert verify().earlier == marks()[1]


@pytest.mark.parametrize("hidden", ["by an older mark", "by an older failure", "by both"])
def test_a_failure_is_not_hidden_by_what_is_written_after_it(verified: World, hidden: str) -> None:
    victim = before_and_after()[0][0]
    tamper("UPDATE event SET reason = 'x' WHERE id = %s", victim)
    assert verify(full=True).event_id == victim
    copy = "INSERT INTO event (action, actor, door, at, after) SELECT action, actor, door, at"
    with sql.connect() as raw:
        if hidden != "by an older mark":
            raw.execute(
                "INSERT INTO event (action, actor, door, at, after)"
                " VALUES ('audit.verified', 'root', 'cli', 'epoch', '{\"ok\": false}')"
            )
        if hidden != "by an older failure":
            raw.execute(f"{copy}, after FROM event WHERE action = 'audit.verified' AND after ? 'mark'")
    assert verify().event_id == victim


def test_what_a_release_without_marks_has_on_record_is_no_mark(world: World) -> None:
    history(world)
    with sql.connect() as raw:
        sql.event(raw, action="audit.verified", after='{"ok": true, "events": 6, "seals": 1, "problem": ""}')
    verdict = verify()
    assert verdict.earlier is None
    assert verdict.events >= 6


# --- the mark


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("to_xid", 10**9),
        ("to_xid", "7"),
        ("to_xid", None),
        ("seals", 5),
        ("events", 13),
        ("link", "00" * 32),
        ("link", 7),
        ("at", "2099-01-01T00:00:00+00:00"),
        ("at", "soon"),
        ("full_at", "2099-01-01T00:00:00+00:00"),
        ("full_at", 0),
        ("signature", "00" * 64),
        ("signature", "no"),
        (None, {}),
        (None, None),
        (None, []),
        (None, "mark"),
    ],
)
def test_a_changed_mark_is_noticed_and_a_full_one_sets_another(verified: World, field: str | None, value: Any) -> None:
    event = Event.objects.get(action="audit.verified")
    kept = (event.after or {})["mark"]
    tamper(
        "UPDATE event SET after = jsonb_set(after, '{mark}', %s) WHERE id = %s",
        json.dumps(value if field is None else {**kept, field: value}),
        event.pk,
    )
    seal = Seal.objects.get(event_ids__contains=[event.pk])
    tamper("DELETE FROM seal WHERE to_xid >= %s", seal.to_xid)  # and sealed anew, as it now is
    seal_all()
    verdict = verify()
    assert verdict == Verdict(
        0, 0, 0, f"the mark in event {event.pk} is not signed by this installation's key, or was changed"
    )
    assert verify().problem == verdict.problem
    assert verify(full=True).problem == ""
    assert verify().earlier == marks(since=event.pk)[0]


def test_a_mark_by_another_key_covers_nothing_up(verified: World) -> None:
    """Whoever may write to the database, but lacks the key, would put it beyond what they changed."""
    tamper("UPDATE event SET reason = 'x' WHERE id = %s", before_and_after()[1][0])
    last = Seal.objects.latest("to_xid")
    mark = replace(marks()[0], to_xid=last.to_xid, seals=5, events=19)
    with sql.connect() as raw:
        after = {"ok": True, "mark": mark.signed(Ed25519PrivateKey.generate())}
        sql.event(raw, action="audit.verified", after=json.dumps(after))
    assert "not signed by this installation's key" in verify().problem


def test_an_older_mark_only_means_that_more_is_read(verified: World) -> None:
    verify()
    newest = Event.objects.filter(action="audit.verified").latest("id")
    tamper("DELETE FROM event WHERE id = %s", newest.pk)
    assert (verify().problem, verify_audit().earlier) == ("", marks()[-1])
    tamper("DELETE FROM event WHERE action = 'audit.verified' AND xid >= %s", Seal.objects.latest("to_xid").to_xid)
    assert (verify_audit().earlier, verify_audit().events) == (marks()[0], 7)


def test_another_installations_key_verifies_neither_mark_nor_seals(verified: World, settings: Any) -> None:
    settings.SECRET_KEY = "another-installation"
    assert verify_audit().problem.startswith("the mark in event ")
    assert verify_audit(full=True).problem.startswith("seal ")
    assert "not signed by this installation's key" in verify_audit(full=True).problem


# --- seals before the mark


@pytest.mark.parametrize("full", [False, True], ids=["incremental", "full"])
@pytest.mark.parametrize("place", [0, 1, 2])
def test_a_seal_that_is_missing_before_the_mark_is_noticed(
    verified: World, place: int, full: bool, pages: None
) -> None:
    seals = list(Seal.objects.order_by("to_xid"))
    tamper("DELETE FROM seal WHERE id = %s", seals[place].pk)
    assert verify_audit(full=full).problem == (
        f"seal {seals[place + 1].pk} does not follow the one before: a seal is missing"
    )


@pytest.mark.parametrize(
    "change",
    [
        "signature = set_byte(signature, 0, get_byte(signature, 0) # 1)",
        "root = set_byte(root, 0, get_byte(root, 0) # 1)",
        "count = count - 1",
    ],
)
@pytest.mark.parametrize("place", [0, 1, 2])
@pytest.mark.parametrize("full", [False, True], ids=["incremental", "full"])
def test_a_seal_that_was_changed_before_the_mark_is_named(
    verified: World, change: str, place: int, full: bool, pages: None
) -> None:
    seal = Seal.objects.order_by("to_xid")[place]
    tamper(f"UPDATE seal SET {change} WHERE id = %s", seal.pk)
    assert verify_audit(full=full).problem == (
        f"seal {seal.pk} is not signed by this installation's key, or was changed"
    )


@pytest.mark.parametrize("full", [False, True], ids=["incremental", "full"])
def test_the_seal_that_the_mark_names_is_known_without_one_that_follows_it(world: World, full: bool) -> None:
    history(world)
    history(world, 1)
    verify()
    last = Seal.objects.latest("to_xid")
    tamper("UPDATE seal SET signature = sha512('') WHERE id = %s", last.pk)
    assert verify_audit(full=full).problem == f"seal {last.pk} is not signed by this installation's key, or was changed"
    # Signed again as it is, over something else: by somebody who had the key.
    other = statement(last.from_xid, last.to_xid, 0, merkle_root([]), bytes(last.previous))
    tamper(
        "UPDATE seal SET count = 0, event_ids = '{}', leaves = '', root = %s, signature = %s WHERE id = %s",
        merkle_root([]),
        signing_key().sign(other),
        last.pk,
    )
    assert verify_audit(full=full).problem.startswith(
        "the seal is missing up to which 9 events in 2 seals were verified"
    )


def test_an_event_that_two_seals_name_the_other_way_round_is_noticed(verified: World) -> None:
    first, second, *_ = Seal.objects.order_by("to_xid")
    moved = second.event_ids[0]
    tamper("UPDATE seal SET event_ids = event_ids || %s WHERE id = %s", [moved], first.pk)
    tamper("UPDATE seal SET event_ids = event_ids[2:] WHERE id = %s", second.pk)
    assert verify_audit(full=True).problem == f"seal {first.pk} names 7 events, not 6"


@pytest.mark.parametrize("change", ["leaves = sha256('')", "event_ids = event_ids[2:]"])
def test_what_a_seal_before_the_mark_says_of_each_event_is_read_by_a_full_one(verified: World, change: str) -> None:
    tamper(f"UPDATE seal SET {change} WHERE id = %s", Seal.objects.order_by("to_xid")[1].pk)
    assert verify_audit().problem == ""
    assert verify_audit(full=True).problem != ""


def test_the_root_of_the_newest_seal_is_that_of_its_events(verified: World) -> None:
    last = Seal.objects.latest("to_xid")
    tamper("UPDATE seal SET root = sha256('') WHERE id = %s", last.pk)
    assert verify_audit().problem == f"seal {last.pk} is not signed by this installation's key, or was changed"


@pytest.mark.parametrize("full", [False, True], ids=["incremental", "full"])
def test_an_end_that_was_cut_off_before_the_mark_is_noticed(verified: World, full: bool, pages: None) -> None:
    """Seals and their events: what is left is a valid log, but for the mark that remembers more."""
    _, second, *_ = Seal.objects.order_by("to_xid")
    tamper("DELETE FROM event WHERE xid >= %s AND action <> 'audit.verified'", second.to_xid)
    tamper("DELETE FROM seal WHERE to_xid > %s", second.to_xid)
    assert verify_audit(full=full).problem == (
        f"the seal is missing up to which 12 events in 3 seals were verified at {marks()[0].at:%Y-%m-%d %H:%M:%S} UTC"
    )


@pytest.mark.parametrize("full", [False, True], ids=["incremental", "full"])
def test_seals_that_were_made_anew_are_not_those_that_were_verified(verified: World, full: bool) -> None:
    """The service itself seals what it finds unsealed."""
    _, second, *_ = Seal.objects.order_by("to_xid")
    tamper("DELETE FROM seal WHERE to_xid > %s", second.to_xid)
    tamper("UPDATE event SET actor = 'somebody else' WHERE id = %s", ids()[10])
    seal_all()
    assert verify_audit(full=full).problem.startswith("the seal is missing up to which 12 events")


def test_what_is_cut_off_together_with_its_marks_leaves_a_valid_log(verified: World) -> None:
    """No database can tell that about itself: the threat model says so."""
    _, second, *_ = Seal.objects.order_by("to_xid")
    tamper("DELETE FROM event WHERE xid >= %s", second.to_xid)
    tamper("DELETE FROM seal WHERE to_xid > %s", second.to_xid)
    assert verify_audit() == Verdict(events=9, seals=2, unsealed=0)


def test_seals_are_verified_while_others_are_made(verified: World) -> None:
    verify()
    kit.create(verified)
    wait_until(seal_events, "a seal")
    assert verify().problem == ""

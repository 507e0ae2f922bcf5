"""Verifies the audit log: compares the events with their seals.

A full verification reads every event. An incremental one reads only events that were sealed after the last verification
that found no fault, whose mark says how far it came. The mark is signed with the key of the seals and has the link of
the last seal, a hash that covers all seals before it. So of these seals only the links are checked, and their events
are not read again.

Both consist of many short reads, each with its own snapshot, so they do not hold up a vacuum, however long they take.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any, Final

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from taskhub.core.errors import Refused
from taskhub.core.records import Actor
from taskhub.domain.audit.archive import EVENTS, READ_SEALS, SEALS, Archived, Broken, StoredSeal
from taskhub.domain.audit.moved import Moved, move_log
from taskhub.domain.audit.record import record_verification
from taskhub.domain.audit.seal import BEGINNING, END, LEAVES, merkle_root, signing_key
from taskhub.domain.audit.seal_reads import SealState, misplaced, seal_state, unsealed
from taskhub.store import statements
from taskhub.store.models import Event, Seal

HEADS: Final = 10_000
"""The most seals in one read where only their links are checked."""

FULL_SECONDS: Final = 90.0
"""The most seconds of a full verification that nobody asked for. If it would take longer, an incremental one is made.
Every night, a full one is asked for."""

READ_EVENT_SECONDS: Final = 5.1e-6
READ_SEAL_SECONDS: Final = 58e-6
"""Seconds for reading one event or one seal, for the estimate of a duration. The estimate is corrected by the time of
the last full verification on this hub. Measurements: docs/run/operate.md."""

Report = Callable[[int, int, float], None]
"""Called from time to time with the number of events and of seals read so far, and the fraction of the log that is done
(0 to 1)."""


@dataclass(frozen=True, slots=True)
class Mark:
    """How far a verification came that found no fault: up to the seal that ends at `to_xid` and whose link is `link`.
    From the beginning of the log up to there, there are `seals` seals with `events` events. `at`: when the verification
    began; `cluster`: the cluster of the log. `full_at`: when the last full verification began; each of these events has
    been read since.
    """

    to_xid: int
    seals: int
    events: int
    link: bytes
    at: datetime
    full_at: datetime
    cluster: str

    def signed(self, key: Ed25519PrivateKey) -> dict[str, Any]:
        """The mark as signed JSON, for the event `audit.verified`."""
        return {
            "to_xid": self.to_xid,
            "seals": self.seals,
            "events": self.events,
            "link": self.link.hex(),
            "at": self.at.isoformat(),
            "full_at": self.full_at.isoformat(),
            "cluster": self.cluster,
            "signature": key.sign(self._statement()).hex(),
        }

    @classmethod
    def read(cls, kept: Any, key: Ed25519PublicKey) -> Mark | None:
        """The mark from an event's JSON; `None` unless it has a valid signature of this key."""
        try:
            mark = cls(
                to_xid=kept["to_xid"],
                seals=kept["seals"],
                events=kept["events"],
                link=bytes.fromhex(kept["link"]),
                at=datetime.fromisoformat(kept["at"]),
                full_at=datetime.fromisoformat(kept["full_at"]),
                cluster=kept["cluster"],
            )
            key.verify(bytes.fromhex(kept["signature"]), mark._statement())
        except (InvalidSignature, KeyError, TypeError, ValueError):
            return None
        return mark

    def _statement(self) -> bytes:
        """The bytes that are signed."""
        return (
            b"taskhub.verified.v2\n%d\n%d\n%d\n" % (self.to_xid, self.seals, self.events)
            + f"{self.at.isoformat()}\n{self.full_at.isoformat()}\n{self.cluster}\n".encode()
            + self.link
        )


@dataclass(frozen=True, slots=True)
class Verdict:
    """The result of a verification.

    `events`, `seals`: how many events were read and are intact, and how many seals have them.
    `unsealed`: how many events have no seal yet.
    `problem`, `event_id`: the first fault, and the id of the event that has it, if it is one event's.
    `unproven`: why events have no seal although they should have one.
    `mark`: the new mark; `None` unless `problem` and `unproven` are empty.
    `earlier`, `since`: for an incremental verification, the mark from which it went on, and the id of the event with
    that mark. Events up to that mark are not in `events`.
    `archived`: what is archived, and was not read.
    `notice`: a warning for people, although the log is intact.
    `seconds`: how long reading took."""

    events: int
    seals: int
    unsealed: int
    problem: str = ""
    event_id: int | None = None
    earlier: Mark | None = None
    archived: Archived | None = None
    unproven: str = ""
    since: int | None = field(default=None, compare=False)
    notice: str = field(default="", compare=False)
    seconds: float = field(default=0.0, compare=False)
    mark: dict[str, Any] | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class Plan:
    """What kind of verification comes next. `full`: whether it is a full one. `events`, `seals`, `seconds`: how many
    events and seals a full one reads, and in about how many seconds."""

    full: bool
    events: int
    seals: int
    seconds: float


@dataclass(frozen=True, slots=True)
class _Before:
    """What the log itself says of earlier work: the newest mark, archiving and move, each with the id of the event that
    has it; when a verification last failed (`failed_at`); how much the last full verification read, and in how many
    seconds (`timed_…`)."""

    now: datetime
    event_id: int | None
    mark: Any
    archived_in: int | None
    archived: Any
    moved_in: int | None
    moved: Any
    failed_at: datetime | None
    timed_events: int
    timed_seals: int
    timed_seconds: float


@dataclass(frozen=True, slots=True)
class _Known:
    """`_Before`, with the signatures of mark, archiving and move checked. `read` raises `Broken` if an archiving or a
    move has no valid signature. If a mark has none, `mark` is `None`."""

    before: _Before
    mark: Mark | None
    archived: Archived | None
    moved: Moved | None

    @classmethod
    def read(cls, key: Ed25519PublicKey) -> _Known:
        before = _BEFORE()
        archived, moved = Archived.read(before.archived, key), Moved.read(before.moved, key)
        for missing, event, told in (
            (archived is None, before.archived_in, "what is archived"),
            (moved is None, before.moved_in, "that the log was moved"),
        ):
            if missing and event is not None:
                raise Broken(f"event {event}, which tells {told}, was not signed by this key, or changed")
        return cls(before, Mark.read(before.mark, key), archived, moved)

    @property
    def failed_since(self) -> bool:
        """Whether a verification found something wrong after the mark was made."""
        return self.mark is not None and self.before.failed_at is not None and self.before.failed_at >= self.mark.at

    @property
    def cluster(self) -> str:
        """The cluster of the log according to the newest signed record; empty if unknown."""
        if self.moved is not None and (self.mark is None or (self.before.moved_in or 0) > (self.before.event_id or 0)):
            return self.moved.cluster
        return self.mark.cluster if self.mark is not None else ""

    @property
    def spoiled(self) -> str:
        """Text that says what is wrong with the newest mark; empty if it is valid, or if there is none."""
        if self.mark is not None or self.before.event_id is None:
            return ""
        return f"the mark in event {self.before.event_id} is not signed by this installation's key, or was changed"


class _Stopwatch:
    """Measures how long reading takes, without the time that `report` takes."""

    def __init__(self, report: Report) -> None:
        self.seconds = 0.0
        self._report, self._since = report, time.monotonic()

    def report(self, events: int, seals: int, part: float) -> None:
        self.stop()
        self._report(events, seals, part)
        self._since = time.monotonic()

    def stop(self) -> float:
        self.seconds += time.monotonic() - self._since
        return self.seconds


_BEFORE = statements.one(
    "verified_before",
    _Before,
    convert={"mark": statements.from_json, "archived": statements.from_json, "moved": statements.from_json},
)
_ABOVE = statements.one("sealed_above", tuple[int, int])
_TOP = statements.maybe("top_sealed", int)
_HEADS = statements.many("seal_heads", StoredSeal, without=("event_ids", "leaves"))
_DIGESTS = statements.many("event_digests", tuple[int, bytes])


def plan_verification(*, full: bool = False, since_mark: bool = False) -> Plan:
    """Decide whether the next verification is full: if `full` is set; if there is no mark, or a verification has failed
    since the mark; and, unless `since_mark` is set, if a full one will probably take no longer than `FULL_SECONDS`."""
    try:
        known = _Known.read(signing_key().public_key())
    except Broken:
        return Plan(full, 0, 0, 0.0)  # verify_audit() reports the problem
    mark = _beyond(known.archived, known.mark)
    reached = max((one.to_xid for one in (known.archived, known.mark) if one is not None), default=BEGINNING)
    events, seals = _ABOVE(above=reached)
    if mark is not None:
        events, seals = events + mark.events, seals + mark.seals
    before = known.before
    seconds = _expected(events, seals)
    if before.timed_seconds >= 1.0:  # a shorter measurement is too inexact
        seconds *= before.timed_seconds / max(_expected(before.timed_events, before.timed_seals), 1e-6)
    must = (known.mark is None and not known.spoiled) or known.failed_since
    return Plan(full or must or (not since_mark and seconds <= FULL_SECONDS), events, seals, seconds)


def _expected(events: int, seals: int) -> float:
    return events * READ_EVENT_SECONDS + seals * READ_SEAL_SECONDS


def verify_audit(
    *,
    full: bool = False,
    report: Report = lambda events, seals, part: None,
    state: SealState | None = None,
) -> Verdict:
    """Check the chain of seals and compare the events with their seals, oldest first, up to the first fault. The
    verification is full if `full` is set, if there is no mark, or if a verification has failed since the mark. `state`:
    the state of sealing before the caller sealed events; if events had waited for too long then, the verdict has a text
    in `unproven`.
    """
    stopwatch = _Stopwatch(report)
    while True:
        archived_in = _BEFORE().archived_in
        verdict = _verify(full, stopwatch.report, state)
        # If a part was archived meanwhile, that may be the only reason for the problem: verify again.
        if not verdict.problem or _BEFORE().archived_in == archived_in:
            return replace(verdict, seconds=stopwatch.stop())


def _verify(full: bool, report: Report, state: SealState | None) -> Verdict:
    key = signing_key()
    try:
        known = _Known.read(key.public_key())
    except Broken as found:
        return Verdict(0, 0, 0, found.problem)
    if known.spoiled and not full:
        return Verdict(0, 0, 0, known.spoiled)
    now = seal_state()
    if moved := misplaced(now, known.cluster):
        return Verdict(0, 0, 0, unproven=moved)
    archived, mark = known.archived, known.mark
    earlier = None if full or known.failed_since else mark
    walk = _Walk(key.public_key(), mark, archived, report)
    try:
        walk.see_ahead()
        if earlier is not None:
            walk.follow(earlier.to_xid)
        walk.read()
    except Broken as found:
        return Verdict(walk.events, walk.seals, 0, found.problem, found.event_id, _beyond(archived, earlier), archived)
    since = max((one for one in (earlier, archived) if one is not None), key=lambda one: one.to_xid, default=None)
    reached = Mark(
        to_xid=walk.end,
        seals=walk.seals + (since.seals if since else 0),
        events=walk.events + (since.events if since else 0),
        link=walk.link,
        at=known.before.now,
        full_at=earlier.full_at if earlier else known.before.now,
        cluster=now.cluster or known.cluster,
    )
    unproven = unsealed(now) or (unsealed(state) if state is not None else "")
    return Verdict(
        walk.events,
        walk.seals,
        Event.objects.filter(xid__gte=walk.end).count(),
        earlier=_beyond(archived, earlier),
        archived=archived,
        unproven=unproven,
        since=known.before.event_id if earlier else None,
        notice=known.spoiled,
        mark=None if unproven else reached.signed(key),
    )


def record_verdict(verdict: Verdict, *, actor: Actor) -> int:
    """Record the verdict in the audit log; returns the event's id."""
    return record_verification(
        ok=not verdict.problem and not verdict.unproven,
        events=verdict.events,
        seals=verdict.seals,
        problem=verdict.problem or verdict.unproven,
        full=verdict.earlier is None,
        seconds=verdict.seconds,
        mark=verdict.mark,
        actor=actor,
    )


def move_audit(*, actor: Actor, report: Report = lambda events, seals, part: None) -> tuple[Verdict, Moved | None]:
    """Verify everything that was moved into this cluster, then continue the log in it and record the move. Returns the
    verdict and the move. If there was a fault, nothing is changed, and the move is `None`.

    Raises `Refused` if the log was not moved."""
    key = signing_key().public_key()
    try:
        known = _Known.read(key)
        state = seal_state()
        if not misplaced(state, known.cluster):
            raise Refused(
                "The log is in the cluster where it was last verified, which counts on from there: nothing has moved."
            )
        top = _TOP(most=SEALS) or 0
        walk = _Walk(key, known.mark, known.archived, report, top=top)
        walk.see_ahead()
        walk.read()
    except Broken as found:
        return Verdict(0, 0, 0, found.problem, found.event_id), None
    moved = move_log(cluster=state.cluster, before=known.cluster, sealed_to=walk.end, top=top, actor=actor)
    return Verdict(walk.events, walk.seals, 0), moved


def _beyond(archived: Archived | None, earlier: Mark | None) -> Mark | None:
    """The mark, with counts of only those events and seals that are still in the database."""
    if archived is None or earlier is None:
        return earlier
    events, seals = max(0, earlier.events - archived.events), max(0, earlier.seals - archived.seals)
    return replace(earlier, events=events, seals=seals)


class _Walk:
    """A walk from seal to seal, oldest first, from where the archives end. Ignores events with ids above `top`. The
    methods raise `Broken` at the first fault."""

    def __init__(
        self, key: Ed25519PublicKey, mark: Mark | None, archived: Archived | None, report: Report, *, top: int = END
    ) -> None:
        self.events = self.seals = 0
        self.end, self.link = (archived.to_xid, archived.link) if archived else (0, bytes(32))
        self._key, self._archived, self._report, self._top = key, archived, report, top
        # A mark from before the last archiving is not looked for, since its seal is in the archive.
        self._due = mark if mark is not None and mark.seals and mark.to_xid > self.end else None
        self._last: StoredSeal | None = None

    def see_ahead(self) -> None:
        """Check the archived events that the database still has: exactly those that were `ahead` when they were
        archived."""
        if self._archived is None:
            return
        found = LEAVES(from_xid=BEGINNING, to_xid=self._archived.to_xid, from_id=BEGINNING, to_id=self._top)
        if (found.count, hashlib.sha256(found.digests or b"").digest()) != (
            self._archived.ahead,
            self._archived.ahead_digest,
        ):
            raise Broken(
                f"of the archived events {self._archived.ahead} are here too, and one was changed, deleted or added"
            )

    def follow(self, up_to: int) -> None:
        """Check only the links of the seals up to the position `up_to`, which is that of the mark. The events of these
        seals are not read."""
        while page := _HEADS(above=self._above, up_to=up_to, most=HEADS):
            for seal in page:
                self._step(seal)

    def read(self) -> None:
        """Check the links, signatures and events of all seals that are left, and that the seal which the mark names is
        among those that were read."""
        newest = Seal.objects.order_by("-to_xid").values_list("to_xid", flat=True).first() or 0
        while page := READ_SEALS(above=self._above, most=SEALS, events=EVENTS):
            low, fitting, broken = self._above, 0, None
            for seal in page:
                try:
                    self._step(seal, signature=True)
                except Broken as found:
                    broken = found
                    break
                fitting += 1
            self._read(page[:fitting], low)
            if broken is not None:  # raised only now: a fault in an event of an earlier seal comes first
                raise broken
            self._report(self.events, self.seals, self.end / max(newest, self.end))
        self._meet()

    @property
    def _above(self) -> int:
        if self._last is not None:
            return self._last.to_xid
        return BEGINNING if self._archived is None else self._archived.to_xid

    def _step(self, seal: StoredSeal, *, signature: bool = False) -> None:
        if seal.from_xid != self.end or seal.previous != self.link:
            if self._last is not None:
                self._last.check(self._key, f"seal {self._last.id}")
            raise Broken(f"seal {seal.id} does not follow the one before: a seal is missing")
        if signature:
            seal.check(self._key, f"seal {seal.id}")
        reached = seal.link
        if self._due is not None and seal.to_xid >= self._due.to_xid:
            if (seal.to_xid, reached) != (self._due.to_xid, self._due.link):
                seal.check(self._key, f"seal {seal.id}")
                self._meet()
            self._due = None
        self.end, self.link, self._last = seal.to_xid, reached, seal

    def _meet(self) -> None:
        if self._due is not None:
            raise Broken(
                f"the seal is missing up to which {self._due.events} events in {self._due.seals} seals were verified"
                f" at {self._due.at:%Y-%m-%d %H:%M:%S %Z}"
            )

    def _read(self, seals: Sequence[StoredSeal], low: int) -> None:
        """Compare the events of consecutive seals: all at once and, if something differs, seal by seal to find the
        first fault."""
        if not seals:
            return
        found = LEAVES(from_xid=low, to_xid=seals[-1].to_xid, from_id=BEGINNING, to_id=self._top)
        ids = ",".join(str(event) for seal in seals for event in seal.event_ids)
        if (
            all(_consistent(seal) for seal in seals)
            and (found.event_ids or "{}") == f"{{{ids}}}"
            and (found.digests or b"") == b"".join(seal.leaves for seal in seals)
        ):
            self.events += sum(seal.count for seal in seals)
            self.seals += len(seals)
            return
        for seal in seals:
            _read_one(seal, low, self._top)
            self.events, self.seals, low = self.events + seal.count, self.seals + 1, seal.to_xid


def _leaves(seal: StoredSeal) -> list[bytes]:
    return [seal.leaves[place * 32 : place * 32 + 32] for place in range(seal.count)]


def _consistent(seal: StoredSeal) -> bool:
    """Whether the seal's leaves have the seal's Merkle root, and there are as many leaves as event ids."""
    return len(seal.event_ids) == seal.count and merkle_root(_leaves(seal)) == seal.root


def _read_one(seal: StoredSeal, low: int, top: int) -> None:
    leaves = _leaves(seal)
    if merkle_root(leaves) != seal.root:
        raise Broken(f"seal {seal.id} is not signed by this installation's key, or was changed")
    if len(seal.event_ids) != seal.count:
        raise Broken(f"seal {seal.id} names {len(seal.event_ids)} events, not {seal.count}")
    found = dict(_DIGESTS(from_xid=low, to_xid=seal.to_xid, to_id=top))
    for event_id, leaf in zip(seal.event_ids, leaves, strict=True):
        digest = found.pop(event_id, None)
        if digest is None:
            raise Broken(f"event {event_id} was deleted", event_id)
        if digest != leaf:
            raise Broken(f"event {event_id} was changed", event_id)
    if found:
        extra = min(found)
        raise Broken(f"event {extra} was added after its time was sealed", extra)

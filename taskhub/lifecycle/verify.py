"""Are the events still those that were sealed?

A full verification reads every event. An incremental one reads what was sealed after the last one that found nothing
wrong, whose mark says how far it came. The mark is signed with the key of the seals, and names the last seal by a hash
that stands for all seals before it: so these are only followed link by link, and their events taken as they were found.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any, Final

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from taskhub.lifecycle.archive import EVENTS, READ_SEALS, SEALS, Archived, Broken, StoredSeal
from taskhub.lifecycle.seal import BEGINNING, LEAVES, merkle_root, signing_key
from taskhub.store import statements
from taskhub.store.models import Event, Seal

HEADS: Final = 10_000
"""Seals in one read of those that are only followed."""

Report = Callable[[int, int, float], None]
"""Hears now and then how many events in how many seals were read, and which part of the log is done."""


@dataclass(frozen=True, slots=True)
class Mark:
    """How far a verification came that found nothing wrong: `seals` with `events` up to `to_xid`, the last of which is
    known by its `link`. It began `at`; by then or later, each event had been read since `full_at`."""

    to_xid: int
    seals: int
    events: int
    link: bytes
    at: datetime
    full_at: datetime

    def signed(self, key: Ed25519PrivateKey) -> dict[str, Any]:
        """As the event of the verification keeps it."""
        return {
            "to_xid": self.to_xid,
            "seals": self.seals,
            "events": self.events,
            "link": self.link.hex(),
            "at": self.at.isoformat(),
            "full_at": self.full_at.isoformat(),
            "signature": key.sign(self._statement()).hex(),
        }

    @classmethod
    def read(cls, kept: Any, key: Ed25519PublicKey) -> Mark | None:
        """The mark that an event keeps; `None` for one that this key did not sign just so."""
        try:
            mark = cls(
                to_xid=kept["to_xid"],
                seals=kept["seals"],
                events=kept["events"],
                link=bytes.fromhex(kept["link"]),
                at=datetime.fromisoformat(kept["at"]),
                full_at=datetime.fromisoformat(kept["full_at"]),
            )
            key.verify(bytes.fromhex(kept["signature"]), mark._statement())
        except (InvalidSignature, KeyError, TypeError, ValueError):
            return None
        return mark

    def _statement(self) -> bytes:
        """The bytes that are signed."""
        return (
            b"taskhub.verified.v1\n%d\n%d\n%d\n" % (self.to_xid, self.seals, self.events)
            + f"{self.at.isoformat()}\n{self.full_at.isoformat()}\n".encode()
            + self.link
        )


@dataclass(frozen=True, slots=True)
class Verdict:
    """What a verification found. `events` in `seals` were read and are intact; those that an `earlier` one had read,
    if this one went on from its mark, are not among them. `problem` is empty when everything holds, and there is a new
    `mark` then; `event_id` names the first bad event, where one can be named."""

    events: int
    seals: int
    unsealed: int
    problem: str = ""
    event_id: int | None = None
    earlier: Mark | None = None
    archived: Archived | None = None
    mark: dict[str, Any] | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class _Before:
    """What is on record: the newest mark and the newest archive, of which events, and when a verification failed
    last."""

    now: datetime
    event_id: int | None
    mark: Any
    archived_in: int | None
    archived: Any
    failed_at: datetime | None


_BEFORE = statements.one(
    "verified_before", _Before, convert={"mark": statements.from_json, "archived": statements.from_json}
)
_HEADS = statements.many("seal_heads", StoredSeal, without=("event_ids", "leaves"))
_DIGESTS = statements.many("event_digests", tuple[int, bytes])


def verify_audit(*, full: bool = False, report: Report = lambda events, seals, part: None) -> Verdict:
    """Compare the seals with each other and the events with their seals, oldest first, up to the first that does not
    fit. Where the last verification failed, or there is no mark, it is a `full` one whether or not that was asked for.
    """
    key = signing_key()
    before = _BEFORE()
    archived = Archived.read(before.archived, key.public_key())
    if archived is None and before.archived_in is not None:
        return Verdict(
            0, 0, 0, f"event {before.archived_in}, which tells what is archived, was not signed by this key, or changed"
        )
    mark = Mark.read(before.mark, key.public_key())
    if mark is None and before.event_id is not None and not full:
        return Verdict(
            0, 0, 0, f"the mark in event {before.event_id} is not signed by this installation's key, or was changed"
        )
    failed_since = mark is not None and before.failed_at is not None and before.failed_at >= mark.at
    earlier = None if full or failed_since else mark
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
        at=before.now,
        full_at=earlier.full_at if earlier else before.now,
    )
    unsealed = Event.objects.filter(xid__gte=walk.end).count()
    return Verdict(
        walk.events,
        walk.seals,
        unsealed,
        earlier=_beyond(archived, earlier),
        archived=archived,
        mark=reached.signed(key),
    )


def _beyond(archived: Archived | None, earlier: Mark | None) -> Mark | None:
    """The mark, with what was read until then and is still in the database."""
    if archived is None or earlier is None:
        return earlier
    events, seals = max(0, earlier.events - archived.events), max(0, earlier.seals - archived.seals)
    return replace(earlier, events=events, seals=seals)


class _Walk:
    """From seal to seal, oldest first, from where the archives end. Raises `Broken`."""

    def __init__(self, key: Ed25519PublicKey, mark: Mark | None, archived: Archived | None, report: Report) -> None:
        self.events = self.seals = 0
        self.end, self.link = (archived.to_xid, archived.link) if archived else (0, bytes(32))
        self._key, self._archived, self._report = key, archived, report
        # The mark of before the archive has its seal in there.
        self._due = mark if mark is not None and mark.seals and mark.to_xid > self.end else None
        self._last: StoredSeal | None = None

    def see_ahead(self) -> None:
        """See that of what is archived just those events are here as well that were when it was."""
        if self._archived is None:
            return
        found = LEAVES(from_xid=BEGINNING, to_xid=self._archived.to_xid, from_id=BEGINNING)
        if (found.count, hashlib.sha256(found.digests or b"").digest()) != (
            self._archived.ahead,
            self._archived.ahead_digest,
        ):
            raise Broken(
                f"of the archived events {self._archived.ahead} are here too, and one was changed, deleted or added"
            )

    def follow(self, up_to: int) -> None:
        """Only see that the seals up to there are those that the mark stands for."""
        while page := _HEADS(above=self._above, up_to=up_to, most=HEADS):
            for seal in page:
                self._step(seal)

    def read(self) -> None:
        """Check the signatures of all further seals, and their events; and that the mark's seal was among all."""
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
            if broken is not None:  # only now: an event of a seal before it is the first that does not fit
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
        """The events of seals that follow each other: at once, and one by one where something does not fit."""
        if not seals:
            return
        found = LEAVES(from_xid=low, to_xid=seals[-1].to_xid, from_id=BEGINNING)
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
            _read_one(seal, low)
            self.events, self.seals, low = self.events + seal.count, self.seals + 1, seal.to_xid


def _leaves(seal: StoredSeal) -> list[bytes]:
    return [seal.leaves[place * 32 : place * 32 + 32] for place in range(seal.count)]


def _consistent(seal: StoredSeal) -> bool:
    """Whether it says of each event what its root says of all."""
    return len(seal.event_ids) == seal.count and merkle_root(_leaves(seal)) == seal.root


def _read_one(seal: StoredSeal, low: int) -> None:
    leaves = _leaves(seal)
    if merkle_root(leaves) != seal.root:
        raise Broken(f"seal {seal.id} is not signed by this installation's key, or was changed")
    if len(seal.event_ids) != seal.count:
        raise Broken(f"seal {seal.id} names {len(seal.event_ids)} events, not {seal.count}")
    found = dict(_DIGESTS(from_xid=low, to_xid=seal.to_xid))
    for event_id, leaf in zip(seal.event_ids, leaves, strict=True):
        digest = found.pop(event_id, None)
        if digest is None:
            raise Broken(f"event {event_id} was deleted", event_id)
        if digest != leaf:
            raise Broken(f"event {event_id} was changed", event_id)
    if found:
        extra = min(found)
        raise Broken(f"event {extra} was added after its time was sealed", extra)

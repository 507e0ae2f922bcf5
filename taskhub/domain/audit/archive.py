"""Moves the oldest part of the audit log out of the database, into a file with its own proof.

An archive is gzipped text. The first line says where it begins and which key sealed it. Then comes a line for each
seal, `{"seal": [from_xid, to_xid, count, root, previous, signature]}`, followed by its events, each as the exact line
whose bytes the seal covers. The last line says where the archive ends. Seals are archived whole, so some events of the
last seal may belong to the next part of the log. These (`ahead`) stay in the database until that part is archived.
"""

from __future__ import annotations

import gzip
import hashlib
import json
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import IO, Any, Final

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from django.db import connection, transaction

from taskhub.core.errors import Refused
from taskhub.core.records import Actor
from taskhub.domain.audit.record import record_event
from taskhub.domain.audit.seal import BEGINNING, END, LEAVES, link, merkle_root, signing_key, statement
from taskhub.store import statements
from taskhub.store.backend.base import unhurried

SEALS: Final = 500
EVENTS: Final = 5_000
"""The most seals in one read, and about the most events of these seals. One read, or one larger seal, is in memory at
once."""

LONGEST_LINE: Final = 64 * 1024 * 1024
"""The most bytes of one line of an archive. No event is longer, but the file may come from anybody."""

FORMAT: Final = 1


class Broken(Exception):
    """The log or an archive differs from its seals. `problem` describes the first fault; `event_id` is the id of the
    event that has it, if the fault is one event's."""

    def __init__(self, problem: str, event_id: int | None = None) -> None:
        super().__init__(problem)
        self.problem, self.event_id = problem, event_id


class NotArchived(Refused):
    """Nothing was archived, and the log is unchanged; the message says why."""


@dataclass(frozen=True, slots=True)
class StoredSeal:
    """A seal as it is stored. `event_ids` and `leaves` are empty if only the chain of seals is to be checked."""

    id: int
    from_xid: int
    to_xid: int
    count: int
    root: bytes
    previous: bytes
    signature: bytes
    event_ids: list[int] = field(default_factory=list)
    leaves: bytes = b""

    @property
    def signed(self) -> bytes:
        """The bytes that the signature covers."""
        return statement(self.from_xid, self.to_xid, self.count, self.root, self.previous)

    @property
    def link(self) -> bytes:
        """The hash by which the next seal refers to this one."""
        return link(self.signed, self.signature)

    def check(self, key: Ed25519PublicKey, name: str) -> None:
        """Raises `Broken` unless this key signed exactly this seal. `name`: what the error calls the seal."""
        try:
            key.verify(self.signature, self.signed)
        except InvalidSignature:
            raise Broken(f"{name} is not signed by this installation's key, or was changed") from None


@dataclass(frozen=True, slots=True)
class Archived:
    """The archived beginning of the log, as of one archiving: everything up to the seal that ends at `to_xid` and whose
    link is `link`. `events` and `seals` count what all archives hold; `until` is the time of the newest event of the
    last archived part. `file` is the name of the last archive, `sha256` the file's digest. `ahead` counts the archived
    events that are still in the database too, `ahead_digest` is the digest of these."""

    to_xid: int
    link: bytes
    events: int
    seals: int
    until: datetime
    file: str
    sha256: str
    ahead: int
    ahead_digest: bytes

    def signed(self, key: Ed25519PrivateKey) -> dict[str, Any]:
        """The record as signed JSON, for the event `audit.archived`."""
        return {
            "to_xid": self.to_xid,
            "link": self.link.hex(),
            "events": self.events,
            "seals": self.seals,
            "until": self.until.isoformat(),
            "file": self.file,
            "sha256": self.sha256,
            "ahead": self.ahead,
            "ahead_digest": self.ahead_digest.hex(),
            "signature": key.sign(self._statement()).hex(),
        }

    @classmethod
    def read(cls, kept: Any, key: Ed25519PublicKey) -> Archived | None:
        """The record from an event's JSON; `None` unless it has a valid signature of this key."""
        try:
            found = cls(
                to_xid=kept["to_xid"],
                link=bytes.fromhex(kept["link"]),
                events=kept["events"],
                seals=kept["seals"],
                until=datetime.fromisoformat(kept["until"]),
                file=kept["file"],
                sha256=kept["sha256"],
                ahead=kept["ahead"],
                ahead_digest=bytes.fromhex(kept["ahead_digest"]),
            )
            key.verify(bytes.fromhex(kept["signature"]), found._statement())
        except (InvalidSignature, KeyError, TypeError, ValueError):
            return None
        return found

    def _statement(self) -> bytes:
        parts = (self.to_xid, self.events, self.seals, self.ahead, self.until.isoformat(), self.file, self.sha256)
        return ("taskhub.archived.v1\n" + json.dumps(parts) + "\n").encode() + self.link + self.ahead_digest


@dataclass(frozen=True, slots=True)
class Contents:
    """The contents of a valid archive. `events`, `seals`: how many there are. `from_xid`, `to_xid`: the positions of
    its events, without the second one. `previous`: the link of the last seal in the archive before. `link`: the link of
    its own last seal."""

    from_xid: int
    previous: bytes
    to_xid: int
    link: bytes
    events: int
    seals: int


@dataclass(frozen=True, slots=True)
class _Part:
    name: str
    from_id: int
    to_id: int
    closed: bool
    until: datetime | None

    def due(self, before: datetime) -> bool:
        """Whether no more events are written to the part, and its newest event is older than `before`."""
        return self.closed and self.until is not None and self.until < before


@dataclass(frozen=True, slots=True)
class _Newest:
    archived_in: int | None
    archived: Any


READ_SEALS = statements.many("seals_with_leaves", StoredSeal)
_PARTS = statements.many("event_parts", _Part)
_CUT = statements.maybe("archive_cut", int)
_WITHIN = statements.one("events_in_part", tuple[int, int])
_LINES = statements.many("event_lines", tuple[int, str])
TAKE_TIME = statements.none("take_time")
_DROP = statements.none("drop_event_part")
_NEWEST = statements.one("newest_archived", _Newest, convert={"archived": statements.from_json})


def due_parts(before: datetime) -> Iterator[str]:
    """A line of text for each part that can be archived: a part to which no more events are written, and which has no
    event from `before` or later."""
    for part in _PARTS():
        if not part.due(before):
            return
        yield f"{part.name}: up to {part.until:%Y-%m-%d %H:%M:%S %Z}"


def archive_part(directory: Path, *, before: datetime, actor: Actor) -> Archived | None:
    """Write the oldest part of the log to a file in `directory`, verify the file, and drop the part. Returns `None` if
    events are still written to the part, or if it has events from `before` or later. Raises `NotArchived` if some of
    its events have no seal, `Broken` if its events differ from their seals, `OSError` if the file cannot be written;
    the part is then kept."""
    part = _PARTS()[0]
    if not part.due(before) or part.until is None:
        return None
    key = signing_key()
    earlier = newest_archived(key.public_key())
    cut = _CUT(from_id=part.from_id, to_id=part.to_id)
    if cut is None:
        raise NotArchived(f"{part.name} has events that are not sealed yet: is a worker running?")
    target = directory / f"taskhub-audit-{part.until:%Y%m%d}-{cut}.jsonl.gz"
    partial = target.with_name(f".{target.name}.partial")
    try:
        written = _write(partial, key.public_key(), earlier, cut, part)
        with partial.open("rb") as file:
            if read_archive(file, key.public_key()) != written.contents:
                raise Broken(f"{partial} does not hold what was written to it")
            file.seek(0)
            digest = hashlib.file_digest(file, "sha256").hexdigest()
        partial.rename(target)
        _sync(directory)
    finally:
        partial.unlink(missing_ok=True)
    ahead = LEAVES(from_xid=BEGINNING, to_xid=cut, from_id=part.to_id, to_id=END)
    record = Archived(
        to_xid=cut,
        link=written.contents.link,
        events=written.contents.events + (earlier.events if earlier else 0),
        seals=written.contents.seals + (earlier.seals if earlier else 0),
        until=part.until,
        file=target.name,
        sha256=digest,
        ahead=ahead.count,
        ahead_digest=hashlib.sha256(ahead.digests or b"").digest(),
    )
    with unhurried(connection), transaction.atomic():
        TAKE_TIME()
        within, had = _WITHIN(from_id=part.from_id, to_id=part.to_id, below=earlier.to_xid if earlier else BEGINNING)
        if within != written.within + had:
            raise NotArchived(f"{part.name} has {within} events, and {written.within + had} of them are archived")
        record_event("audit.archived", tenant_id=None, target=target.name, actor=actor, after=record.signed(key))
        _DROP(part=part.name, sealed_below=cut)
    return record


def newest_archived(key: Ed25519PublicKey) -> Archived | None:
    """The log's record of the newest archiving, if any. Raises `Broken` if this key did not sign it."""
    found = _NEWEST()
    if found.archived_in is None:
        return None
    record = Archived.read(found.archived, key)
    if record is None:
        raise Broken(f"event {found.archived_in}, which tells what is archived, was not signed by this key")
    return record


@dataclass(frozen=True, slots=True)
class _Written:
    contents: Contents
    within: int


def _write(path: Path, key: Ed25519PublicKey, earlier: Archived | None, cut: int, part: _Part) -> _Written:
    start, end = (earlier.to_xid, earlier.link) if earlier else (0, bytes(32))
    first = {
        "taskhub_archive": FORMAT,
        "from_xid": start,
        "previous": end.hex(),
        "key": key.public_bytes(Encoding.Raw, PublicFormat.Raw).hex(),
    }
    events = seals = within = 0
    above, reached = start, end
    # A new file that only its owner can read, since it holds events that only auditors may see.
    path.unlink(missing_ok=True)
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as raw:
        with gzip.GzipFile(filename="", fileobj=raw, mode="wb", compresslevel=6) as out:
            _line(out, json.dumps(first))
            while above < cut:
                page = [seal for seal in READ_SEALS(above=above, most=SEALS, events=EVENTS) if seal.to_xid <= cut]
                if not page:
                    raise Broken(f"seals up to transaction {cut} are missing")
                lines = iter(_LINES(from_xid=above, to_xid=page[-1].to_xid))
                for seal in page:
                    if seal.from_xid != above or seal.previous != reached:
                        raise Broken(f"seal {seal.id} does not follow the one before: a seal is missing")
                    seal.check(key, f"seal {seal.id}")
                    _line(out, json.dumps({"seal": _told(seal)}))
                    leaves = []
                    for event_id, line in _next(lines, seal):
                        leaves.append(hashlib.sha256(line.encode()).digest())
                        within += event_id < part.to_id
                        _line(out, line)
                    if merkle_root(leaves) != seal.root:
                        raise Broken(f"the events of seal {seal.id} are not those that were sealed")
                    above, reached = seal.to_xid, seal.link
                    events, seals = events + seal.count, seals + 1
                if (more := next(lines, None)) is not None:
                    raise Broken(f"event {more[0]} was added after its time was sealed", more[0])
            _line(out, json.dumps({"end": [above, events, seals, reached.hex()]}))
        raw.flush()
        os.fsync(raw.fileno())
    return _Written(Contents(start, end, above, reached, events, seals), within)


def _next(lines: Iterator[tuple[int, str]], seal: StoredSeal) -> Iterator[tuple[int, str]]:
    for expected in seal.event_ids:
        found = next(lines, None)
        if found is None or found[0] != expected:
            raise Broken(f"event {expected} was deleted, or one was added before it", expected)
        yield found


def _told(seal: StoredSeal) -> list[Any]:
    return [
        seal.from_xid,
        seal.to_xid,
        seal.count,
        seal.root.hex(),
        seal.previous.hex(),
        seal.signature.hex(),
    ]


def _line(out: gzip.GzipFile, text: str) -> None:
    out.write(text.encode() + b"\n")


def _sync(directory: Path) -> None:
    """Sync the directory, so that the renaming of the file survives a crash."""
    descriptor = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def read_archive(
    raw: IO[bytes], key: Ed25519PublicKey, report: Callable[[int, int], None] = lambda events, seals: None
) -> Contents:
    """Read an archive from beginning to end and compare its events with its seals; needs no database. `report` is
    called with the number of events and of seals that were checked so far. Raises `Broken`, with the number of the
    line, for an archive whose events differ from their seals, that is cut off, or that another key sealed."""
    with gzip.GzipFile(fileobj=raw, mode="rb") as file:
        return _Reading(file, key, report).read()


class _Reading:
    def __init__(self, file: gzip.GzipFile, key: Ed25519PublicKey, report: Callable[[int, int], None]) -> None:
        self._file, self._key, self._report = file, key, report
        self._number = 0

    def read(self) -> Contents:
        try:
            return self._read()
        except (KeyError, TypeError, ValueError, EOFError, OSError, OverflowError) as error:
            raise Broken(f"line {self._number}: this is no archive of TaskHub, or it is damaged: {error}") from None

    def _read(self) -> Contents:
        first = json.loads(self._next())
        if first["taskhub_archive"] != FORMAT:
            raise Broken(f"an archive of form {first['taskhub_archive']}, where this version reads form {FORMAT}")
        if bytes.fromhex(first["key"]) != self._key.public_bytes(Encoding.Raw, PublicFormat.Raw):
            raise Broken(f"sealed with another key, {first['key']}")
        above, reached = first["from_xid"], bytes.fromhex(first["previous"])
        start, begun = above, reached
        events = seals = 0
        while "end" not in (told := json.loads(self._next())):
            from_xid, to_xid, count, *rest = told["seal"]
            root, previous, signature = map(bytes.fromhex, rest)
            seal = StoredSeal(self._number, from_xid, to_xid, count, root, previous, signature)
            if seal.from_xid != above or seal.previous != reached:
                raise Broken(f"line {self._number}: the seal does not follow the one before: a seal is missing")
            seal.check(self._key, f"line {self._number}: the seal")
            if merkle_root([hashlib.sha256(self._next()).digest() for _ in range(count)]) != root:
                raise Broken(f"line {seal.id}: an event below this seal is not the one that was sealed")
            above, reached = to_xid, seal.link
            events, seals = events + count, seals + 1
            self._report(events, seals)
        if told["end"] != [above, events, seals, reached.hex()]:
            raise Broken(f"line {self._number}: it does not end where it says")
        if self._file.read(1):
            raise Broken(f"line {self._number}: there is more after the end")
        return Contents(start, begun, above, reached, events, seals)

    def _next(self) -> bytes:
        line = self._file.readline(LONGEST_LINE)
        self._number += 1
        if not line.endswith(b"\n"):
            raise Broken(f"line {self._number}: cut off")
        return line[:-1]

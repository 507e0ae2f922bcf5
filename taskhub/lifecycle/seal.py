"""The sealer: turns committed events into signed, linked statements, off the hot path.

A seal covers whole transactions: all events whose transaction id lies in `[from_xid, to_xid)`.
Nothing below `pg_snapshot_xmin` can still appear, so a seal is complete when it is made.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from django.conf import settings
from django.db import transaction

from taskhub.store import statements
from taskhub.store.models import Event, Seal

BATCH = 5_000
_LOCK = 0x7468_7365  # "thse": one sealer at a time


@dataclass(frozen=True, slots=True)
class _Leaves:
    """What is to be sealed: the ids as the text of an array, the digests in one; `None` for no events."""

    count: int
    event_ids: str | None
    digests: bytes | None


_TRY = statements.one("lock_sealing", bool)
_SEALABLE = statements.one("sealable", tuple[int, int])
_BEYOND = statements.maybe("transaction_beyond", int)
_FIRST = statements.maybe("first_transaction", int)
_LEAVES = statements.one("event_leaves", _Leaves)
_STORE = statements.none("store_seal")
_DIGESTS = statements.many("event_digests", tuple[int, bytes])


def signing_key() -> Ed25519PrivateKey:
    """The installation's Ed25519 key, derived from `SECRET_KEY`."""
    return Ed25519PrivateKey.from_private_bytes(
        hashlib.sha256(b"taskhub.audit.seal.v1" + settings.SECRET_KEY.encode()).digest()
    )


def key_id(key: Ed25519PublicKey) -> str:
    """Short name of a public key."""
    raw = key.public_bytes(Encoding.Raw, PublicFormat.Raw)
    return base64.urlsafe_b64encode(hashlib.sha256(raw).digest())[:16].decode()


def merkle_root(leaves: Sequence[bytes]) -> bytes:
    """RFC 6962's tree hash: leaves and nodes are hashed with different prefixes."""
    if not leaves:
        return hashlib.sha256(b"").digest()
    level = [hashlib.sha256(b"\0" + leaf).digest() for leaf in leaves]
    while len(level) > 1:
        pairs = [hashlib.sha256(b"\1" + a + b).digest() for a, b in zip(level[::2], level[1::2], strict=False)]
        level = pairs + ([level[-1]] if len(level) % 2 else [])
    return level[0]


def statement(from_xid: int, to_xid: int, count: int, root: bytes, previous: bytes) -> bytes:
    """The bytes that are signed."""
    return b"taskhub.seal.v1\n%d\n%d\n%d\n" % (from_xid, to_xid, count) + root + previous


def seal_events() -> int:
    """Seal what has committed since the last seal; returns how many events. Nothing new, or
    another sealer at work: 0."""
    with transaction.atomic():
        if not _TRY(lock=_LOCK):
            return 0
        start, safe = _SEALABLE()
        end = safe
        beyond = _BEYOND(from_xid=start, to_xid=safe, most=BATCH)
        if beyond is not None:
            # Cut at a transaction's edge, never inside one; a single larger one is taken whole.
            end = beyond + 1 if _FIRST(from_xid=start) == beyond else beyond
        found = _LEAVES(from_xid=start, to_xid=end)
        if found.digests is None:
            return 0
        previous = Seal.objects.defer("event_ids", "leaves").order_by("-to_xid").first()
        before = _link(previous) if previous is not None else bytes(32)
        root = merkle_root([found.digests[place : place + 32] for place in range(0, len(found.digests), 32)])
        key = signing_key()
        _STORE(
            from_xid=start,
            to_xid=end,
            count=found.count,
            event_ids=found.event_ids,
            leaves=found.digests,
            root=root,
            previous=before,
            signature=key.sign(statement(start, end, found.count, root, before)),
            key_id=key_id(key.public_key()),
        )
        return found.count


def _link(seal: Seal) -> bytes:
    return hashlib.sha256(
        statement(seal.from_xid, seal.to_xid, seal.count, bytes(seal.root), bytes(seal.previous))
        + bytes(seal.signature)
    ).digest()


@dataclass(frozen=True, slots=True)
class Verdict:
    """What verification found. `problem` is empty when everything holds; `event_id` names the
    first bad event, where one can be named."""

    events: int
    seals: int
    unsealed: int
    problem: str = ""
    event_id: int | None = None


def verify_audit() -> Verdict:
    """Recompute every seal from the events as they are now, oldest first, and stop at the first
    thing that does not fit."""
    key = signing_key().public_key()
    events = seals = 0
    end, before = 0, bytes(32)
    for seal in _seals():
        if seal.from_xid != end or bytes(seal.previous) != before:
            return Verdict(events, seals, 0, f"seal {seal.pk} does not follow the one before: a seal is missing")
        leaves = [bytes(seal.leaves)[i * 32 : i * 32 + 32] for i in range(seal.count)]
        try:
            key.verify(
                bytes(seal.signature),
                statement(seal.from_xid, seal.to_xid, seal.count, merkle_root(leaves), bytes(seal.previous)),
            )
        except InvalidSignature:
            return Verdict(events, seals, 0, f"seal {seal.pk} is not signed by this installation's key, or was changed")
        if len(seal.event_ids) != seal.count:
            return Verdict(events, seals, 0, f"seal {seal.pk} names {len(seal.event_ids)} events, not {seal.count}")
        # Before the first seal there is nothing: a smaller transaction id is a forgery.
        found = dict(_DIGESTS(from_xid=seal.from_xid if seals else -(2**63), to_xid=seal.to_xid))
        for place, event_id in enumerate(seal.event_ids):
            digest = found.pop(event_id, None)
            if digest is None:
                return Verdict(events, seals, 0, f"event {event_id} was deleted", event_id)
            if digest != leaves[place]:
                return Verdict(events, seals, 0, f"event {event_id} was changed", event_id)
        if found:
            extra = min(found)
            return Verdict(events, seals, 0, f"event {extra} was added after its time was sealed", extra)
        events, seals, end, before = events + seal.count, seals + 1, seal.to_xid, _link(seal)
    return Verdict(events, seals, Event.objects.filter(xid__gte=end).count())


def _seals() -> Iterable[Seal]:
    return Seal.objects.order_by("to_xid").iterator(chunk_size=50)

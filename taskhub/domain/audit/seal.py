"""The sealer: seals committed events in the background. A seal is a signed statement, linked to the seal before.

A seal covers whole transactions: all events with a position (`event.xid`) in `[from_xid, to_xid)`. The position is the
id of the transaction, shifted after a move into another cluster (see `moved.py`). No event can still appear below
`pg_snapshot_xmin`, so a seal is complete when it is made.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Sequence
from dataclasses import dataclass

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from django.conf import settings
from django.db import transaction

from taskhub.store import statements
from taskhub.store.models import Seal

BATCH = 5_000
BEGINNING, END = -(2**63), 2**63 - 1
_LOCK = 0x7468_7365  # the key of the advisory lock, "thse" in ASCII: one sealer at a time


@dataclass(frozen=True, slots=True)
class Leaves:
    """Events as a seal covers them. `event_ids` is the text of a Postgres array, `digests` the concatenated SHA-256
    digests; both are `None` if there are no events."""

    count: int
    event_ids: str | None
    digests: bytes | None


_TRY = statements.one("lock_sealing", bool)
_SEALABLE = statements.one("sealable", tuple[int, int])
_BEYOND = statements.maybe("transaction_beyond", int)
_FIRST = statements.maybe("first_transaction", int)
LEAVES = statements.one("event_leaves", Leaves)
_STORE = statements.none("store_seal")


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
    """The bytes of a seal that are signed."""
    return b"taskhub.seal.v1\n%d\n%d\n%d\n" % (from_xid, to_xid, count) + root + previous


def lock_sealing() -> bool:
    """Take the lock for sealing until this transaction ends. Returns `False` if another process has it."""
    return _TRY(lock=_LOCK)


def seal_events() -> int:
    """Make one seal over events that were committed since the last seal, about `BATCH` at most. Returns the number of
    its events: 0 if there is nothing to seal, or another process is sealing."""
    with transaction.atomic():
        if not lock_sealing():
            return 0
        start, safe = _SEALABLE()
        end = safe
        beyond = _BEYOND(from_xid=start, to_xid=safe, most=BATCH)
        if beyond is not None:
            # More than BATCH events wait, and `beyond` is the transaction of the first event after BATCH: the seal ends
            # before that transaction. If it is the first of all, it is sealed whole, however many events it has.
            end = beyond + 1 if _FIRST(from_xid=start) == beyond else beyond
        found = LEAVES(from_xid=start, to_xid=end, from_id=BEGINNING, to_id=END)
        if found.digests is None:
            return 0
        previous = Seal.objects.defer("event_ids", "leaves").order_by("-to_xid").first()
        before = bytes(32)
        if previous is not None:
            signed = statement(
                previous.from_xid, previous.to_xid, previous.count, bytes(previous.root), bytes(previous.previous)
            )
            before = link(signed, bytes(previous.signature))
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


def link(signed: bytes, signature: bytes) -> bytes:
    """The hash by which the next seal refers to this one. It covers all earlier seals too, by the link in `signed`."""
    return hashlib.sha256(signed + signature).digest()

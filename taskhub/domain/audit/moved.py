"""Continues the audit log in another Postgres cluster, after a restore from a dump or an upgrade with a new cluster.

A seal covers a range of transaction ids, and a new cluster counts them from the beginning. So an event that is written
after the move gets a shifted position: its transaction id in the new cluster plus a number, which the default of
`event.xid` adds. An event with a signature records the move.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import Any

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from django.db import connection, transaction

from taskhub.core.errors import Refused
from taskhub.core.records import Actor
from taskhub.domain.audit.archive import TAKE_TIME
from taskhub.domain.audit.record import record_event
from taskhub.domain.audit.seal import lock_sealing, signing_key
from taskhub.store import statements
from taskhub.store.backend.base import unhurried


@dataclass(frozen=True, slots=True)
class Moved:
    """A move of the log into `cluster`, from the cluster `before` (empty if unknown). At the move, all positions below
    `sealed_to` were sealed. An event after the move has its transaction id plus `shift` as its position. `late` counts
    events that had been written in the new cluster before the move was recorded, at positions that were sealed already.
    These events have ids from `first` to `last`, and got new positions."""

    cluster: str
    before: str
    sealed_to: int
    shift: int
    late: int
    first: int | None
    last: int | None

    def signed(self, key: Ed25519PrivateKey) -> dict[str, Any]:
        """The record as signed JSON, for the event `audit.moved`."""
        return {**asdict(self), "signature": key.sign(self._statement()).hex()}

    @classmethod
    def read(cls, kept: Any, key: Ed25519PublicKey) -> Moved | None:
        """The record from an event's JSON; `None` unless it has a valid signature of this key."""
        try:
            found = cls(**{name: value for name, value in kept.items() if name != "signature"})
            key.verify(bytes.fromhex(kept["signature"]), found._statement())
        except (AttributeError, InvalidSignature, KeyError, TypeError, ValueError):
            return None
        return found

    def _statement(self) -> bytes:
        return ("taskhub.moved.v1\n" + json.dumps(asdict(self), sort_keys=True) + "\n").encode()


@dataclass(frozen=True, slots=True)
class _Shifted:
    shift: int
    late: int
    first: int | None
    last: int | None


_MOVE = statements.one("move_events", _Shifted)


def move_log(*, cluster: str, before: str, sealed_to: int, top: int, actor: Actor) -> Moved:
    """Continue the log in this `cluster`, at positions behind all seals, and record the move, in one transaction.
    `sealed_to` is the end of the last seal, `top` the newest event id in a seal; both come from a verification that has
    just found the log intact.

    Raises `Refused` while a worker is sealing."""
    key = signing_key()
    with unhurried(connection), transaction.atomic():
        TAKE_TIME()
        if not lock_sealing():
            raise Refused("A worker is sealing: try again.")
        done = _MOVE(sealed_to=sealed_to, top=top)
        record = Moved(cluster, before, sealed_to, done.shift, done.late, done.first, done.last)
        record_event("audit.moved", tenant_id=None, target="audit log", actor=actor, after=record.signed(key))
    return record

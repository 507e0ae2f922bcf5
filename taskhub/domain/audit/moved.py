"""The log goes on in another cluster: after a restore from a dump, or an upgrade that made a new one.

A seal covers a range of transaction ids, and a new cluster counts them from the beginning. So events that are written
after the move get places that are shifted: the id in the new cluster, plus a number. The move is recorded by an event,
signed like a mark; the default of `event.xid` adds the number.
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
    """A move of the log into `cluster`, from `before` if that is known. Everything below `sealed_to` was sealed then.
    From then on an event's place is its transaction's id plus `shift`. `late` events, with ids from `first` to `last`,
    had been written in the new cluster before the move, with places that were sealed already, and got new ones."""

    cluster: str
    before: str
    sealed_to: int
    shift: int
    late: int
    first: int | None
    last: int | None

    def signed(self, key: Ed25519PrivateKey) -> dict[str, Any]:
        """The record for the event of the move."""
        return {**asdict(self), "signature": key.sign(self._statement()).hex()}

    @classmethod
    def read(cls, kept: Any, key: Ed25519PublicKey) -> Moved | None:
        """The record that an event keeps; `None` unless this key signed exactly this."""
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
    """Let the log go on in this `cluster`, behind all that is sealed, and record that, in one transaction. `sealed_to`
    and `top`, the newest id in a seal, are from a verification that has just found the log intact.

    Raises `Refused` while something is being sealed."""
    key = signing_key()
    with unhurried(connection), transaction.atomic():
        TAKE_TIME()
        if not lock_sealing():
            raise Refused("A worker is sealing: try again.")
        done = _MOVE(sealed_to=sealed_to, top=top)
        record = Moved(cluster, before, sealed_to, done.shift, done.late, done.first, done.last)
        record_event("audit.moved", tenant_id=None, target="audit log", actor=actor, after=record.signed(key))
    return record

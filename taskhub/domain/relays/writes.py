"""Relays: requests that workers make to servers for waiting callers, to read a resource, get a prompt or complete an
argument. Unlike tasks they are not kept, and a crash may lose them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import NamedTuple

from taskhub.core.errors import LimitReached, Unavailable
from taskhub.core.hints import RelayDropped, encode
from taskhub.core.names import HINT_CHANNEL
from taskhub.domain.relays.outcomes import NewRelay, RelayClaim, RelayOutcome, decoded, encoded
from taskhub.lib import jsonx
from taskhub.store import statements

RELAY_SECONDS = 30.0
"""Seconds for which a caller waits for a server."""

CONTEXT_RELAYS = 32
"""The most requests of one client under way at once."""


class _Taken(NamedTuple):
    """Whether a request still exists, and its outcome as JSON text, if it has one."""

    known: bool
    outcome: str | None


_ADD = statements.maybe("add_relay", str)
_TAKE = statements.one("take_outcome", _Taken)
_DROP = statements.none("drop_relay")
_CLAIM = statements.many("claim_relays", RelayClaim)
_FINISH = statements.one("finish_relay", bool)
_SWEEP = statements.rowcount("sweep_relays")
_SWEEP_INTERESTS = statements.rowcount("sweep_interests")


def add_relay(new: NewRelay, *, seconds: float = RELAY_SECONDS) -> None:
    """Hand a request to the workers. Raises `Unavailable` if no worker is alive, `LimitReached` if the client has
    `CONTEXT_RELAYS` requests under way."""
    params = jsonx.encode(jsonx.repaired(new.params)).decode()
    capabilities = jsonx.encode(jsonx.repaired(new.capabilities)).decode()
    refusal = _ADD(
        relay=new.id,
        context=new.context_id,
        server=new.server_id,
        method=new.method,
        params=params,
        capabilities=capabilities,
        seconds=seconds,
        most=CONTEXT_RELAYS,
    )
    if refusal == "no worker":
        raise Unavailable("No worker is running: nobody can ask the server now.")
    if refusal:
        raise LimitReached(f"This client has {CONTEXT_RELAYS} requests under way, the most allowed.", retry_after=1)


def take_outcome(relay_id: int) -> tuple[bool, RelayOutcome | None]:
    """Whether the request still exists, and its outcome; `None` while it has none. A request that has an outcome is
    deleted."""
    taken = _TAKE(relay=relay_id)
    return taken.known, None if taken.outcome is None else decoded(json.loads(taken.outcome))


def drop_relay(relay_id: int) -> None:
    """Delete the request because its caller has left, and notify the request's worker, which may stop."""
    _DROP(relay=relay_id, channel=HINT_CHANNEL, hint=encode(RelayDropped(relay_id)))


def claim_relays(*, worker: str, free: Mapping[int, int]) -> list[RelayClaim]:
    """Claim waiting requests for the worker, oldest first. `free`: by server id, how many requests to claim at most."""
    return _CLAIM(worker=worker, servers=list(free.keys()), free=list(free.values()))


def finish_relay(relay_id: int, outcome: RelayOutcome, *, worker: str) -> bool:
    """Store the outcome and wake the waiting caller. Returns `False` if the caller has left."""
    text = jsonx.encode(jsonx.repaired(encoded(outcome))).decode()
    return _FINISH(relay=relay_id, worker=worker, outcome=text)


def sweep_relays() -> int:
    """Delete requests that are long past their deadline, and interests that have expired. Returns how many rows were
    deleted."""
    return _SWEEP() + _SWEEP_INTERESTS()

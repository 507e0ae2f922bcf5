"""Requests that workers make at servers for callers who wait: reading a resource, getting a prompt,
completing an argument. Nothing of them is kept: they are not tasks, and a crash may lose them."""

from __future__ import annotations

import json
from collections.abc import Mapping

from taskhub.core.errors import LimitReached, Unavailable
from taskhub.core.relays import NewRelay, RelayClaim, RelayOutcome, decoded, encoded
from taskhub.lib import jsonx
from taskhub.store import call

RELAY_SECONDS = 30.0
"""How long a caller waits for a server."""

CONTEXT_RELAYS = 32
"""Requests of one client under way at once."""


def add_relay(new: NewRelay, *, seconds: float = RELAY_SECONDS) -> None:
    """Hand a request to the workers. Raises `Unavailable` when no worker lives, `LimitReached` when
    the client has `CONTEXT_RELAYS` under way."""
    params = jsonx.encode(jsonx.repaired(new.params)).decode()
    capabilities = jsonx.encode(jsonx.repaired(new.capabilities)).decode()
    ((refusal,),) = call.rows(
        "SELECT add_relay_v1(%s::bigint, %s::bigint, %s::bigint, %s, %s, %s, %s::float8, %s::int)",
        (new.id, new.context_id, new.server_id, new.method, params, capabilities, seconds, CONTEXT_RELAYS),
    )
    if refusal == "no worker":
        raise Unavailable("No worker is running: nobody can ask the server now.")
    if refusal:
        raise LimitReached(f"This client has {CONTEXT_RELAYS} requests under way, the most allowed.", retry_after=1)


def take_outcome(relay_id: int) -> tuple[bool, RelayOutcome | None]:
    """Whether the request is still known, and its outcome once it is there; then it is forgotten."""
    ((known, outcome),) = call.rows(
        "WITH taken AS (DELETE FROM relay WHERE id = %s AND state = 'done' RETURNING outcome::text)"
        " SELECT EXISTS (SELECT 1 FROM relay WHERE id = %s), (SELECT outcome FROM taken)",
        (relay_id, relay_id),
    )
    return known, None if outcome is None else decoded(json.loads(outcome))


def drop_relay(relay_id: int) -> None:
    """The caller has left: whoever works on it may stop."""
    call.rows(
        "WITH gone AS (DELETE FROM relay WHERE id = %s RETURNING id, state)"
        " SELECT set_config('synchronous_commit', 'off', true), pg_notify('taskhub', 'g ' || id)::text"
        " FROM gone WHERE state = 'running'",
        (relay_id,),
    )


def claim_relays(*, worker: str, free: Mapping[int, int]) -> list[RelayClaim]:
    """Take waiting requests, oldest first: for each server (by id) at most as many as stand there."""
    found = call.rows(
        "SELECT id, server_id, server_name, method, params, capabilities, seconds"
        " FROM claim_relays_v1(%s, %s::bigint[], %s::int[])",
        (worker, list(free.keys()), list(free.values())),
    )
    return [
        RelayClaim(id_, server_id, server_name, method, json.loads(params), json.loads(capabilities), seconds)
        for id_, server_id, server_name, method, params, capabilities, seconds in found
    ]


def finish_relay(relay_id: int, outcome: RelayOutcome, *, worker: str) -> bool:
    """Store what came of it and ring the caller; `False` when the caller has left."""
    text = jsonx.encode(jsonx.repaired(encoded(outcome))).decode()
    return bool(call.rows("SELECT finish_relay_v1(%s::bigint, %s, %s)", (relay_id, worker, text))[0][0])


def sweep_relays() -> int:
    """Delete requests whose caller must have gone, and interests that nobody renewed."""
    relays = call.rows("DELETE FROM relay WHERE deadline < clock_timestamp() - interval '30 seconds' RETURNING id")
    interests = call.rows("DELETE FROM interest WHERE expires_at < clock_timestamp() RETURNING id")
    return len(relays) + len(interests)

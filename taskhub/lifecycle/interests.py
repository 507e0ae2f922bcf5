"""Who wants to hear when a resource changes: recorded by streams, followed by workers."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable

from taskhub.core.hints import ResourceChanged, encode, resource_topic
from taskhub.core.names import HINT_CHANNEL
from taskhub.lifecycle.hints import BATCH
from taskhub.store import call

INTEREST_SECONDS = 180.0
"""How long an interest lasts without being renewed."""


def follow(holder: str, wanted: Collection[tuple[int, str]]) -> None:
    """Record, or renew, that the stream `holder` wants to hear of these resources (server id, uri)."""
    servers, uris = [server for server, _ in wanted], [uri for _, uri in wanted]
    call.rows("SELECT follow_v1(%s, %s::bigint[], %s::text[], %s::float8)", (holder, servers, uris, INTEREST_SECONDS))


def unfollow(holder: str) -> None:
    """The stream is over."""
    call.rows(
        "WITH gone AS (DELETE FROM interest WHERE holder = %s RETURNING id)"
        " SELECT set_config('synchronous_commit', 'off', true), pg_notify(%s, 'i')::text FROM gone LIMIT 1",
        (holder, HINT_CHANNEL),
    )


def unconfirmed(holder: str) -> set[tuple[int, str]]:
    """Those of the stream's interests that no worker follows yet."""
    found = call.rows("SELECT server_id, uri FROM interest WHERE holder = %s AND followed_at IS NULL", (holder,))
    return {(server_id, uri) for server_id, uri in found}


def followed_resources() -> dict[int, frozenset[str]]:
    """Server id: the uris that anybody wants to hear of."""
    found: defaultdict[int, set[str]] = defaultdict(set)
    for server_id, uri in call.rows("SELECT DISTINCT server_id, uri FROM interest"):
        found[server_id].add(uri)
    return {server_id: frozenset(uris) for server_id, uris in found.items()}


def mark_followed(server_id: int, uris: Iterable[str]) -> None:
    """A worker hears of these from now on; streams that waited for it are rung."""
    call.rows("SELECT mark_followed_v1(%s::bigint, %s::text[])", (server_id, list(uris)))


def announce_updates(server_id: int, uris: Iterable[str]) -> None:
    """The server says that these have changed: ring whoever follows them. In a transaction of its own
    that waits for no disk."""
    hints = [ResourceChanged(resource_topic(server_id, uri)) for uri in uris]
    for start in range(0, len(hints), BATCH):
        call.rows(
            "SELECT set_config('synchronous_commit', 'off', true), pg_notify(%s, %s)::text",
            (HINT_CHANNEL, encode(*hints[start : start + BATCH])),
        )

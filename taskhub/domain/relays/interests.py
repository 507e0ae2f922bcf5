"""Interests in changes of resources: recorded by streams, followed by workers."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable

from taskhub.core.hints import InterestsChanged, ResourceChanged, encode, resource_topic
from taskhub.core.names import HINT_CHANNEL
from taskhub.domain.hints.announce import BATCH, NOTIFY_SOON
from taskhub.store import statements

INTEREST_SECONDS = 180.0
"""Seconds for which an interest lasts without being renewed."""

_FOLLOW = statements.none("follow")
_UNFOLLOW = statements.none("unfollow")
_UNCONFIRMED = statements.many("unconfirmed", tuple[int, str])
_FOLLOWED = statements.many("followed_resources", tuple[int, str])
_MARK = statements.none("mark_followed")


def follow(holder: str, wanted: Collection[tuple[int, str]]) -> None:
    """Record, or renew, that the stream `holder` wants to be notified of changes of the resources `wanted`, as (server
    id, uri)."""
    servers, uris = [server for server, _ in wanted], [uri for _, uri in wanted]
    _FOLLOW(holder=holder, servers=servers, uris=uris, seconds=INTEREST_SECONDS)


def unfollow(holder: str) -> None:
    """Drop all interests of this stream, and tell the workers."""
    _UNFOLLOW(holder=holder, channel=HINT_CHANNEL, hint=encode(InterestsChanged()))


def unconfirmed(holder: str) -> set[tuple[int, str]]:
    """The stream's interests that no worker follows yet, as (server id, uri)."""
    return set(_UNCONFIRMED(holder=holder))


def followed_resources() -> dict[int, frozenset[str]]:
    """The uris that any stream is interested in, by server id."""
    found: defaultdict[int, set[str]] = defaultdict(set)
    for server_id, uri in _FOLLOWED():
        found[server_id].add(uri)
    return {server_id: frozenset(uris) for server_id, uris in found.items()}


def mark_followed(server_id: int, uris: Iterable[str]) -> None:
    """Record that a worker follows these resources of the server, and wake the streams that waited for that."""
    _MARK(server=server_id, uris=list(uris))


def announce_updates(server_id: int, uris: Iterable[str]) -> None:
    """Wake the streams that follow these resources of the server, which have changed. Sent in a transaction of its own,
    which does not wait for the disk."""
    hints = [ResourceChanged(resource_topic(server_id, uri)) for uri in uris]
    for start in range(0, len(hints), BATCH):
        NOTIFY_SOON(channel=HINT_CHANNEL, hints=encode(*hints[start : start + BATCH]))

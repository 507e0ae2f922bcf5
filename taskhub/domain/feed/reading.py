"""Reads the feed on behalf of a consumer."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from django.db import transaction

from taskhub.store import statements

BATCH: Final = 1_000
"""The most events that a consumer looks at in one transaction."""


@dataclass(frozen=True, slots=True)
class FeedEvent:
    """A committed event of the audit log. `tenant_id` is `None` if it concerns all tenants."""

    id: int
    tenant_id: int | None
    task_id: int | None
    action: str
    actor: str
    user_id: int | None
    reason: str
    after: dict[str, Any] | None
    at: datetime


@dataclass(frozen=True, slots=True)
class _Reach:
    """What a consumer looks at next: `looked_at` events, which follow its place (`after_…`). The position of the last
    of them is `to_…`, which is `None` if there are no events."""

    after_xid: int
    after_id: int
    to_xid: int | None
    to_id: int | None
    looked_at: int


_WAITS = statements.maybe("feed_waits", bool)
_BEGIN = statements.none("begin_feed")
_TAKE = statements.maybe("take_feed", _Reach)
_EVENTS = statements.many("feed_events", FeedEvent)
_MOVE = statements.none("move_in_feed")
_LAG = statements.one("feed_lag", float)


def feed_lag() -> float:
    """The age in seconds of the oldest event at which some consumer still has to look; 0 if there is none."""
    return max(0.0, _LAG())


def begin_feed(consumer: str) -> None:
    """Give a new consumer its place: behind all events that are committed by now. A consumer that has a place keeps
    it."""
    _BEGIN(consumer=consumer)


def read_feed(
    consumer: str,
    actions: Collection[str],
    follow: Callable[[Sequence[FeedEvent]], None],
    *,
    most: int = BATCH,
) -> int:
    """Look at the next events of the consumer, at most `most`, and call `follow` with those whose action is in
    `actions`, in order. It is not called if there are no such events. Returns how many events were looked at: `most` if
    there may be more.

    `follow` runs in the transaction that moves the consumer's place: if it raises, or the process dies, the place stays
    and the same events come again. One process reads at a time; in any other, this returns 0. A new consumer begins
    behind all events that were committed before.
    """
    waits = _WAITS(consumer=consumer)
    if waits is None:
        begin_feed(consumer)
    if not waits:
        return 0
    with transaction.atomic():
        reach = _TAKE(consumer=consumer, most=most)
        if reach is None or reach.to_xid is None:
            return 0
        wanted = _EVENTS(
            after_xid=reach.after_xid,
            after_id=reach.after_id,
            to_xid=reach.to_xid,
            to_id=reach.to_id,
            actions=list(actions),
        )
        if wanted:
            follow(wanted)
        _MOVE(consumer=consumer, xid=reach.to_xid, event=reach.to_id)
        return reach.looked_at

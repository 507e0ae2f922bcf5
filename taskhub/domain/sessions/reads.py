"""Reads of 2025 sessions and of the requests to their clients."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from taskhub.core.records import OpenQuestion, Session
from taskhub.store import statements

IDLE_DAYS = 7
"""A session that was not used for this long is over."""

_LIVE = statements.many("live_sessions", tuple[int, Session])


def live_sessions(wanted: Sequence[tuple[str, int]]) -> list[Session | None]:
    """For each (session id, context id) the session; `None` when it does not exist, has ended, or belongs to another
    context. The caller is not told which (B25-06)."""
    answers: list[Session | None] = [None] * len(wanted)
    for place, session in _LIVE(
        public_ids=[public_id for public_id, _ in wanted],
        contexts=[context_id for _, context_id in wanted],
        idle_days=IDLE_DAYS,
    ):
        answers[place - 1] = session
    return answers


class EarlierWait(NamedTuple):
    """The latest request of a session that waited for a task: `kind` is `call`, or `wait` by the hub's own tool."""

    kind: str
    served: bool
    """Its stream is open still: nobody has said that it waits no longer."""
    answered: bool
    """Its stream ended with an answer, perhaps an interim one."""
    seconds: float
    """Since it was made."""


_EARLIER = statements.maybe("earlier_wait", EarlierWait)


def earlier_wait(session_id: int, task_id: int) -> EarlierWait | None:
    """How the session last waited for the task, if it did."""
    return _EARLIER(session=session_id, task=task_id)


@dataclass(frozen=True, slots=True)
class OutboundRequest:
    """A request that was sent to a client."""

    id: int
    task_id: int
    method: str
    params: dict[str, Any]
    open: bool
    question: OpenQuestion


_ASKED = statements.maybe("asked_of", OutboundRequest)


def asked_of(session_id: int, outbound_id: int) -> OutboundRequest | None:
    """The request with this id, if this session was the last to get it."""
    return _ASKED(outbound=outbound_id, session=session_id)

"""Reads of sessions (of the protocol revisions of 2025) and of the requests to their clients."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from taskhub.core.records import OpenQuestion, Session
from taskhub.store import statements

IDLE_DAYS = 7
"""Days without use after which a session is over."""

_LIVE = statements.many("live_sessions", tuple[int, Session])


def live_sessions(wanted: Sequence[tuple[str, int]]) -> list[Session | None]:
    """For each (session id, context id) the session; `None` when it does not exist, has ended, or belongs to another
    context. The client does not learn which of these it is (B25-06)."""
    answers: list[Session | None] = [None] * len(wanted)
    for place, session in _LIVE(
        public_ids=[public_id for public_id, _ in wanted],
        contexts=[context_id for _, context_id in wanted],
        idle_days=IDLE_DAYS,
    ):
        answers[place - 1] = session
    return answers


class EarlierWait(NamedTuple):
    """The latest request of a session that waited for a task. `kind` is `call` (tool call) or `wait` (hub tool)."""

    kind: str
    served: bool
    """Whether the stream of the request is still open, as far as the hub knows: no process has closed it or stopped
    serving it."""
    answered: bool
    """Whether the stream of the request ended with an answer, which may be an interim result."""
    seconds: float
    """Seconds since the request was made."""


_EARLIER = statements.maybe("earlier_wait", EarlierWait)


def earlier_wait(session_id: int, task_id: int) -> EarlierWait | None:
    """The latest request of the session that waited for the task; `None` if there is none."""
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
    page: bool
    """Whether the request only asks the client to open the page on which people answer the question."""


_ASKED = statements.maybe("asked_of", OutboundRequest)


def asked_of(session_id: int, outbound_id: int) -> OutboundRequest | None:
    """The request with this id; `None` if it is not assigned to a stream of this session."""
    return _ASKED(outbound=outbound_id, session=session_id)

"""Reads of 2025 sessions: who they are, what of theirs is news."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from taskhub.core.records import OpenQuestion, Session, TaskRecord
from taskhub.store import statements

IDLE_DAYS = 7
"""A session nobody used for this long is over."""

LOOKED_AT = 500
"""Newest tasks of a client in which `tasks/list` finds a page; only behind them it asks the other way round."""

_LIVE = statements.many("live_sessions", tuple[int, Session])
_ASKING = statements.many("asking_tasks", TaskRecord)
_KEYED = statements.maybe("keyed_task", TaskRecord)
_CHANGED = statements.many("changed_tasks", tuple[TaskRecord, bool])
_HANDED_OUT = statements.many("handed_out", TaskRecord)
_HANDED_OUT_IN_SESSION = statements.many("handed_out_in_session", TaskRecord)
_NEWEST = 2**63 - 1


def live_sessions(wanted: Sequence[tuple[str, int]]) -> list[Session | None]:
    """For each (session id, context id) the session; `None` when there is none, it has ended, or it
    belongs to somebody else: which of these is told to nobody (B25-06)."""
    answers: list[Session | None] = [None] * len(wanted)
    for place, session in _LIVE(
        public_ids=[public_id for public_id, _ in wanted],
        contexts=[context_id for _, context_id in wanted],
        idle_days=IDLE_DAYS,
    ):
        answers[place - 1] = session
    return answers


def asking_tasks(session_id: int) -> list[TaskRecord]:
    """The session's tasks that wait for an answer. Not a call whose own stream is yet to open: it
    asks there, and would ask a second time."""
    return _ASKING(session=session_id)


def keyed_task(context_id: int, key: str) -> TaskRecord | None:
    """The context's task of this idempotency key, unless the wire has forgotten it."""
    return _KEYED(context=context_id, key=key)


def changed_tasks(session_id: int, since: datetime) -> list[tuple[TaskRecord, bool]]:
    """The session's tasks with a handle that changed after `since`, in that order, and whether a stream
    waits for each; at most 100."""
    return _CHANGED(session=session_id, since=since)


def handed_out(
    context_id: int, revisions: Sequence[str], before: int | None, limit: int, *, session_id: int | None = None
) -> list[tuple[int, TaskRecord]]:
    """The context's tasks of these revisions whose handles were given out and that the wire has not
    forgotten, newest first, from `before` (a task's internal id) on; of one session only if it is named."""
    before, wanted = _NEWEST if before is None else before, list(revisions)
    if session_id is None:
        found = _HANDED_OUT(context=context_id, revisions=wanted, before=before, looked_at=LOOKED_AT, most=limit)
    else:
        found = _HANDED_OUT_IN_SESSION(
            session=session_id, context=context_id, revisions=wanted, before=before, most=limit
        )
    return [(task.id, task) for task in found]


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
    """The request of this id, if it was this session that got it last."""
    return _ASKED(outbound=outbound_id, session=session_id)

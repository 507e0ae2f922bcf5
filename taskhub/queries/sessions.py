"""Reads of 2025 sessions: who they are, what of theirs is news."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from taskhub.core.records import OpenQuestion, QuestionKind, Session, TaskRecord
from taskhub.core.states import Audience
from taskhub.lib import jsonx
from taskhub.store import call, statements

IDLE_DAYS = 7
"""A session nobody used for this long is over."""

LOOKED_AT = 500
"""Newest tasks of a client in which `tasks/list` finds a page; only behind them it asks the other way round."""

_SESSION = (
    "s.id, s.public_id, s.context_id, s.version, s.client_info::text, s.client_capabilities::text,"
    " s.log_level, s.profile, s.resources"
)
_MANY = (
    f"SELECT {_SESSION}, w.place FROM unnest(%s::text[], %s::bigint[])"
    " WITH ORDINALITY AS w(public_id, context_id, place)"
    " CROSS JOIN LATERAL (SELECT * FROM session s WHERE s.public_id = w.public_id AND s.context_id = w.context_id"
    f" AND s.ended_at IS NULL AND s.seen_at > clock_timestamp() - interval '{IDLE_DAYS} days' LIMIT 1) s"
)

_ASKING = statements.many("asking_tasks", TaskRecord)
_KEYED = statements.maybe("keyed_task", TaskRecord)
_CHANGED = statements.many("changed_tasks", tuple[TaskRecord, bool])
_HANDED_OUT = statements.many("handed_out", TaskRecord)
_HANDED_OUT_IN_SESSION = statements.many("handed_out_in_session", TaskRecord)
_NEWEST = 2**63 - 1


def live_sessions(wanted: Sequence[tuple[str, int]]) -> list[Session | None]:
    """For each (session id, context id) the session; `None` when there is none, it has ended, or it
    belongs to somebody else: which of these is told to nobody (B25-06)."""
    found = call.reread(_MANY, ([public_id for public_id, _ in wanted], [context_id for _, context_id in wanted]))
    answers: list[Session | None] = [None] * len(wanted)
    for row in found:
        answers[row[9] - 1] = Session(
            id=row[0],
            public_id=row[1],
            context_id=row[2],
            version=row[3],
            client_info=jsonx.decode(row[4].encode()),
            client_capabilities=jsonx.decode(row[5].encode()),
            log_level=row[6],
            profile=row[7],
            resources=tuple(row[8]),
        )
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
    context_id: int, revision: str, before: int | None, limit: int, *, session_id: int | None = None
) -> list[tuple[int, TaskRecord]]:
    """The context's tasks of one revision whose handles were given out and that the wire has not
    forgotten, newest first, from `before` (a task's internal id) on; of one session only if it is named."""
    before = _NEWEST if before is None else before
    if session_id is None:
        found = _HANDED_OUT(context=context_id, revision=revision, before=before, looked_at=LOOKED_AT, most=limit)
    else:
        found = _HANDED_OUT_IN_SESSION(
            session=session_id, context=context_id, revision=revision, before=before, most=limit
        )
    return [(task.id, task) for task in found]


@dataclass(frozen=True, slots=True)
class Asked:
    """A request that was sent to a client."""

    id: int
    task_id: int
    method: str
    params: dict[str, Any]
    open: bool
    question: OpenQuestion


def asked_of(session_id: int, outbound_id: int) -> Asked | None:
    """The request of this id, if it was this session that got it last."""
    found = call.reread(
        "SELECT o.id, o.task_id, o.method, o.params::text, o.state = 'open' AND q.state = 'open', q.key,"
        ' q.kind, q.params::text, q.audience, q."group", q.quorum, q.id FROM outbound o'
        " JOIN question q ON q.id = o.question_id"
        " JOIN stream s ON s.id = o.stream_id WHERE o.id = %s AND s.session_id = %s",
        (outbound_id, session_id),
    )
    if not found:
        return None
    outbound, task_id, method, params, is_open, key, kind, asked, audience, group, quorum, question_id = found[0]
    question = OpenQuestion(
        key, QuestionKind(kind), json.loads(asked), Audience(audience), group, quorum, 0, question_id
    )
    return Asked(outbound, task_id, method, json.loads(params), is_open, question)

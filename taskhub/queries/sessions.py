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
from taskhub.queries.tasks import COLUMNS, record
from taskhub.store import call

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


# Of what the wire has not forgotten, the newest. Mostly that is among the client's newest tasks. Where these are of
# another revision or forgotten, as after a long pause, nothing tells how far down the next one is: then what is not
# forgotten yet is looked up by that, which leaves all the history out. The clock is that of the statement: one that
# runs on during it is no bound for an index.
_HANDED_OUT = f"""
    WITH newest AS MATERIALIZED (
        SELECT n.id FROM (
            SELECT id, revision, handle, ended_at, expires_at FROM task
            WHERE context_id = %(context)s AND id < %(before)s ORDER BY id DESC LIMIT {LOOKED_AT}) n
        WHERE n.revision = %(revision)s AND n.handle
          AND (n.ended_at IS NULL OR n.expires_at IS NULL OR n.expires_at >= statement_timestamp())
        ORDER BY n.id DESC LIMIT %(limit)s),
    further AS MATERIALIZED (
        SELECT id FROM task WHERE expires_at >= statement_timestamp()
            AND context_id = %(context)s AND revision = %(revision)s AND handle AND id < %(before)s
            AND (SELECT count(*) < %(limit)s FROM newest)
        UNION
        SELECT id FROM task WHERE expires_at IS NULL
            AND context_id = %(context)s AND revision = %(revision)s AND handle AND id < %(before)s
            AND (SELECT count(*) < %(limit)s FROM newest)
        UNION
        SELECT id FROM task WHERE ended_at IS NULL
            AND context_id = %(context)s AND revision = %(revision)s AND handle AND id < %(before)s
            AND (SELECT count(*) < %(limit)s FROM newest))
    SELECT {COLUMNS} FROM task_view WHERE id = ANY (ARRAY(
        SELECT id FROM newest UNION SELECT id FROM further ORDER BY id DESC LIMIT %(limit)s))
    ORDER BY id DESC
"""
_HANDED_OUT_IN_SESSION = f"""
    SELECT {COLUMNS} FROM task_view WHERE id = ANY (ARRAY(
        SELECT id FROM task
        WHERE session_id = %(session)s AND context_id = %(context)s AND revision = %(revision)s AND handle
          AND id < %(before)s AND (ended_at IS NULL OR expires_at IS NULL OR expires_at >= statement_timestamp())))
    ORDER BY id DESC LIMIT %(limit)s
"""
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
    found = call.reread(
        f"SELECT {COLUMNS} FROM task_view WHERE session_id = %s AND state = 'input_required'"
        " AND (handle OR EXISTS (SELECT 1 FROM stream w WHERE w.task_id = task_view.id)) ORDER BY id",
        (session_id,),
    )
    return [record(row) for row in found]


def keyed_task(context_id: int, key: str) -> TaskRecord | None:
    """The context's task of this idempotency key, unless the wire has forgotten it."""
    found = call.reread(
        f"SELECT {COLUMNS} FROM task_view"
        " WHERE id = (SELECT id FROM task WHERE context_id = %s AND idempotency_key = %s)"
        " AND (ended_at IS NULL OR expires_at IS NULL OR expires_at >= clock_timestamp())",
        (context_id, key),
    )
    return record(found[0]) if found else None


def changed_tasks(session_id: int, since: datetime) -> list[tuple[TaskRecord, bool]]:
    """The session's tasks with a handle that changed after `since`, in that order, and whether a stream
    waits for each; at most 100."""
    found = call.reread(
        f"SELECT {COLUMNS}, EXISTS (SELECT 1 FROM stream w WHERE w.task_id = task_view.id AND th_served(w))"
        " FROM task_view WHERE session_id = %s AND updated_at > %s AND handle ORDER BY updated_at LIMIT 100",
        (session_id, since),
    )
    return [(record(row[:-1]), row[-1]) for row in found]


def handed_out(
    context_id: int, revision: str, before: int | None, limit: int, *, session_id: int | None = None
) -> list[tuple[int, TaskRecord]]:
    """The context's tasks of one revision whose handles were given out and that the wire has not
    forgotten, newest first, from `before` (a task's internal id) on; of one session only if it is named."""
    found = call.reread(
        _HANDED_OUT if session_id is None else _HANDED_OUT_IN_SESSION,
        {
            "context": context_id,
            "revision": revision,
            "session": session_id,
            "before": _NEWEST if before is None else before,
            "limit": limit,
        },
    )
    return [(row[0], record(row)) for row in found]


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

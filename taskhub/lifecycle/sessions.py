"""Sessions of the 2025 wires, their streams, and what is asked of clients on them."""

from __future__ import annotations

import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.db import transaction

from taskhub.core.hints import SessionChanged, encode
from taskhub.core.names import HINT_CHANNEL
from taskhub.core.records import Actor, OpenQuestion
from taskhub.core.states import State
from taskhub.lib import jsonx
from taskhub.lifecycle._records import change, who
from taskhub.lifecycle.answer import Outcome, answer_question
from taskhub.lifecycle.events import record_event
from taskhub.lifecycle.hints import announce
from taskhub.store import call, statements

MOST_SESSIONS = 1_000
"""Live sessions of one context; the longest unused end when there are more."""

STREAM_SECONDS = 86_400
"""How long a stream that nobody serves can be taken up again."""

_HAND_OUT = statements.none("hand_out")
_FORGET = statements.maybe("forget_task", str)
_CANCEL_NOW = statements.maybe("cancel_now", State)
_REFUSE = statements.one("refuse", Outcome)


def start_session(
    *, tenant_id: int, context_id: int, version: str, client_info: dict[str, Any], capabilities: dict[str, Any]
) -> str:
    """A new session; returns its id: 256 random bits in visible ASCII (B25-04)."""
    public_id = secrets.token_urlsafe(32)
    call.rows(
        "SELECT start_session_v1(%s, %s, %s, %s, %s::jsonb, %s::jsonb, %s::int)",
        (
            public_id,
            tenant_id,
            context_id,
            version,
            jsonx.encode(jsonx.repaired(client_info)).decode(),
            jsonx.encode(jsonx.repaired(capabilities)).decode(),
            MOST_SESSIONS,
        ),
    )
    return public_id


def end_session(session_id: int, public_id: str) -> None:
    """Nothing goes through it any more; its tasks go on (B25-07)."""
    call.rows(
        "WITH ended AS (UPDATE session SET ended_at = clock_timestamp() WHERE id = %s AND ended_at IS NULL"
        " RETURNING id) SELECT pg_notify(%s, %s)::text FROM ended",
        (session_id, HINT_CHANNEL, encode(SessionChanged(public_id))),
    )


def set_log_level(session_id: int, level: str) -> None:
    """From which level on the session gets log lines (B25-24)."""
    call.rows("UPDATE session SET log_level = %s WHERE id = %s RETURNING id", (level, session_id))


def follow_resource(session_id: int, public_id: str, uri: str, *, most: int) -> bool:
    """The session wants to hear when the resource changes. `False` when it follows `most` already."""
    found = call.rows(
        "WITH changed AS (UPDATE session SET resources = CASE WHEN %s = ANY (resources) THEN resources"
        " ELSE resources || %s::text END"
        " WHERE id = %s AND (%s = ANY (resources) OR cardinality(resources) < %s) RETURNING id)"
        " SELECT pg_notify(%s, %s)::text FROM changed",
        (uri, uri, session_id, uri, most, HINT_CHANNEL, encode(SessionChanged(public_id))),
    )
    return bool(found)


def unfollow_resource(session_id: int, public_id: str, uri: str) -> None:
    """The session has heard enough of it."""
    call.rows(
        "WITH changed AS (UPDATE session SET resources = array_remove(resources, %s::text)"
        " WHERE id = %s AND %s = ANY (resources) RETURNING id) SELECT pg_notify(%s, %s)::text FROM changed",
        (uri, session_id, uri, HINT_CHANNEL, encode(SessionChanged(public_id))),
    )


def mark_profile(session_id: int, profile: str) -> None:
    """The session speaks this profile from now on."""
    call.rows(
        "UPDATE session SET profile = %s WHERE id = %s AND profile <> %s RETURNING id", (profile, session_id, profile)
    )


def store_seen(seen: Mapping[int, float]) -> None:
    """Record when sessions were last used; `seen` maps session ids to Unix times."""
    call.rows(
        "UPDATE session s SET seen_at = greatest(s.seen_at, to_timestamp(p.at))"
        " FROM unnest(%s::bigint[], %s::float8[]) AS p(id, at) WHERE s.id = p.id RETURNING s.id",
        (list(seen), list(seen.values())),
    )


def purge_sessions(*, idle_days: int, limit: int = 1_000) -> int:
    """Delete sessions that are over and have no task left, at most `limit`."""
    found = call.rows(
        "DELETE FROM session WHERE id = ANY (ARRAY(SELECT s.id FROM session s"
        " WHERE s.seen_at < statement_timestamp() - make_interval(days => %s::int)"
        " AND NOT EXISTS (SELECT 1 FROM task t WHERE t.session_id = s.id)"
        " ORDER BY s.seen_at LIMIT %s FOR UPDATE SKIP LOCKED)) RETURNING id",
        (idle_days, limit),
    )
    return len(found)


def purge_streams(*, limit: int = 1_000) -> int:
    """Delete streams that nobody has served for `STREAM_SECONDS`, at most `limit`."""
    found = call.rows(
        "DELETE FROM stream WHERE id = ANY (ARRAY(SELECT id FROM stream"
        " WHERE seen_at < statement_timestamp() - make_interval(secs => %s::float8)"
        " ORDER BY seen_at LIMIT %s FOR UPDATE SKIP LOCKED)) RETURNING id",
        (STREAM_SECONDS, limit),
    )
    return len(found)


@dataclass(frozen=True, slots=True)
class Place:
    """A stream as somebody serves it: `attach` tells this attachment from earlier and later ones,
    `since` is when it was served last, or opened; `told` whether the session's own stream was served
    when it was opened, or another had waited for the task, and has told what there was to tell."""

    id: int
    attach: int
    kind: str
    task_id: int | None
    request_id: str
    progress_token: str | None
    since: datetime
    told: bool = False


_TOLD = (
    "(EXISTS (SELECT 1 FROM stream o WHERE o.session_id = s.session_id AND o.kind = 'listen' AND o.id <> s.id"
    " AND th_served(o)) OR EXISTS (SELECT 1 FROM stream o WHERE o.task_id = s.task_id AND o.id <> s.id))"
)
"""Whether another stream than `s` has told how its task goes."""


def open_stream(
    session_id: int, kind: str, *, task_id: int | None = None, request_id: str = "", progress_token: str | None = None
) -> Place:
    """A stream that can be taken up again. `kind`: `call`, `result` or `listen`."""
    (row,) = call.rows(
        "INSERT INTO stream AS s (session_id, kind, task_id, request_id, progress_token) VALUES (%s, %s, %s, %s, %s)"
        f" RETURNING id, opened_at, {_TOLD}",
        (session_id, kind, task_id, request_id, progress_token),
    )
    return Place(row[0], 1, kind, task_id, request_id, progress_token, row[1], row[2])


def attach_stream(session_id: int, stream_id: int) -> Place | None:
    """Take a stream up again: whoever served it until now sends nothing more (B25-16). `None` for a
    stream that is not this session's, or that its client has cancelled."""
    found = call.rows(
        "WITH old AS (SELECT id, seen_at FROM stream WHERE id = %s AND session_id = %s AND NOT cancelled FOR UPDATE)"
        " UPDATE stream s SET attach = attach + 1, attached = true, seen_at = clock_timestamp(), closed_at = NULL"
        " FROM old WHERE s.id = old.id RETURNING s.id, attach, kind, task_id, request_id, progress_token, old.seen_at,"
        f" {_TOLD}",
        (stream_id, session_id),
    )
    return Place(*found[0]) if found else None


def leave_stream(place: Place, *, closed: bool) -> None:
    """Nobody serves it any more; `closed` when all of it was sent. Otherwise another that waits for the
    same task takes over what was asked here."""
    left = call.rows(
        "UPDATE stream SET attached = false, closed_at = CASE WHEN %s THEN clock_timestamp() END"
        " WHERE id = %s AND attach = %s RETURNING task_id",
        (closed, place.id, place.attach),
    )
    if not closed:
        announce(*(task_id for (task_id,) in left if task_id is not None))


def cancel_stream(session_id: int, request_id: str) -> tuple[str, int | None, bool] | None:
    """The client wants no answer to this request any more (B25-13). Returns the kind of the stream
    and the task it served (`call` also for one that has no stream yet), unless a handle of that was given
    out, so that it goes on (T25-32); and whether the task is under an id of the client. `None` for a
    request that is not known."""
    found = call.rows(
        "UPDATE stream SET cancelled = true WHERE session_id = %s AND request_id = %s AND closed_at IS NULL"
        " RETURNING kind, (SELECT t.id FROM task t WHERE t.id = task_id"
        " AND (NOT t.handle OR t.client_task_id IS NOT NULL)),"
        " (SELECT client_task_id IS NOT NULL FROM task t WHERE t.id = task_id)",
        (session_id, request_id),
    )
    if found:
        return found[0]
    tasks = call.rows(
        "SELECT id, client_task_id IS NOT NULL FROM task WHERE session_id = %s AND request_id = %s AND ended_at IS NULL"
        " AND (NOT handle OR client_task_id IS NOT NULL)",
        (session_id, request_id),
    )
    return ("call", *tasks[0]) if tasks else None


@dataclass(frozen=True, slots=True)
class Sent:
    """A request for a client: the wire id is made of `id`."""

    id: int
    method: str
    params_json: str


def put_questions(task_id: int, asked: Sequence[tuple[int, str, dict[str, Any]]]) -> None:
    """Make requests of open questions: (question id, method, params). Those that have one keep it."""
    call.rows(
        "INSERT INTO outbound (task_id, question_id, method, params)"
        " SELECT %s, q.id, q.method, q.params::json"
        " FROM unnest(%s::bigint[], %s::text[], %s::text[]) AS q(id, method, params)"
        " ON CONFLICT (question_id, step) DO NOTHING RETURNING id",
        (
            task_id,
            [question_id for question_id, _, _ in asked],
            [method for _, method, _ in asked],
            [jsonx.encode(params).decode() for _, _, params in asked],
        ),
    )


@dataclass(frozen=True, slots=True)
class Delivery:
    """What a stream is to send now, and in how many seconds it has to look again, if it knows. A
    session may have several streams of its own: only an `active` one has anything to say."""

    requests: list[Sent]
    active: bool
    seconds: float | None


def deliver(place: Place, *, first: bool, methods: Sequence[str], after: int = 0) -> Delivery | None:
    """What this stream is to send now; `None` when it has ended or is served elsewhere. See deliver_v2."""
    found = call.rows(
        "SELECT r_id, r_method, r_params FROM deliver_v2(%s, %s::int, %s, %s, %s::text[])",
        (place.id, place.attach, first, after, list(methods)),
    )
    if not found:
        return None
    _, word, seconds = found[0]
    return Delivery([Sent(*row) for row in found[1:]], word == "active", None if seconds is None else float(seconds))


def withdraw(place: Place) -> list[tuple[Sent, bool]]:
    """Requests on this stream whose question somebody else has closed, each once, and whether it was
    sent: one that was to be sent later was not."""
    found = call.rows(
        "UPDATE outbound o SET state = 'withdrawn', closed_at = clock_timestamp() FROM question q"
        " WHERE o.stream_id = %s AND o.state = 'open' AND q.id = o.question_id AND q.state <> 'open'"
        " RETURNING o.id, o.method, o.params::text, o.sent_at IS NOT NULL",
        (place.id,),
    )
    return [(Sent(*row[:3]), row[3]) for row in found]


def answer_request(
    outbound_id: int, task_id: int, question: OpenQuestion, response: dict[str, Any], *, actor: Actor
) -> Outcome:
    """`answer_question` with what the client answered to this request. Both are closed at once, or the
    stream would withdraw what was just answered."""
    with transaction.atomic():
        _close_request(outbound_id)
        return answer_question(task_id, question, response, actor=actor)


def refuse_request(
    outbound_id: int, task_id: int, question: OpenQuestion, error: dict[str, Any], *, actor: Actor
) -> Outcome:
    """The client answered this request with an error: the call fails with it, whoever else could have
    answered."""
    clean = jsonx.repaired(error)
    with transaction.atomic():
        _close_request(outbound_id)
        return change(
            _REFUSE,
            task_id,
            task=task_id,
            key=question.key,
            error=jsonx.encode(clean).decode(),
            message=str(clean["message"])[:1024],
            who=who(actor),
        )


def _close_request(outbound_id: int) -> None:
    call.rows(
        "UPDATE outbound SET state = 'answered', closed_at = clock_timestamp() WHERE id = %s AND state = 'open'"
        " RETURNING id",
        (outbound_id,),
    )


def ask_further(outbound_id: int, method: str, params: dict[str, Any], *, seconds: float) -> None:
    """The client's answer was a step on the way: close that request, and make the next one for the
    same question, due in `seconds`. In one statement, so that a hub that stops here goes on there (CH-13)."""
    found = call.rows(
        "WITH answered AS (UPDATE outbound SET state = 'answered', closed_at = clock_timestamp()"
        " WHERE id = %s AND state = 'open' RETURNING task_id, question_id, step, stream_id)"
        " INSERT INTO outbound (task_id, question_id, step, method, params, stream_id, due_at)"
        " SELECT task_id, question_id, step + 1, %s, %s::json, stream_id, clock_timestamp() + make_interval(secs => %s)"
        " FROM answered ON CONFLICT (question_id, step) DO NOTHING RETURNING task_id",
        (outbound_id, method, jsonx.encode(params).decode(), seconds),
    )
    announce(*(task_id for (task_id,) in found))


def hurry(session_id: int, client_task_id: str) -> None:
    """The client says that its own task changed: ask for it now (CH-11)."""
    found = call.rows(
        "UPDATE outbound o SET due_at = clock_timestamp() FROM stream s WHERE s.id = o.stream_id AND s.session_id = %s"
        " AND o.state = 'open' AND o.sent_at IS NULL AND o.method = 'tasks/get' AND o.params ->> 'taskId' = %s"
        " RETURNING o.task_id",
        (session_id, client_task_id),
    )
    announce(*(task_id for (task_id,) in found))


def hand_out(task_id: int) -> None:
    """The caller gets a handle of a task that it had waited for before."""
    _HAND_OUT(task=task_id)


def forget_task(task_id: int, *, tenant_id: int, target: str, actor: Actor) -> bool:
    """The wire forgets an ended task now; the console keeps it as long as any. `False` for one that
    has not ended (T1686-15)."""
    with transaction.atomic():
        public_id = _FORGET(task=task_id)
        if public_id is not None:
            record_event("task.deleted", tenant_id=tenant_id, target=target, actor=actor, after={"task": public_id})
    return public_id is not None


def cancel_now(task_id: int, *, actor: Actor) -> State | None:
    """End the task as cancelled at once, whoever runs it (T25-28). Returns the state it had already
    ended in, `None` when this cancelled it."""
    return change(_CANCEL_NOW, task_id, task=task_id, who=who(actor))

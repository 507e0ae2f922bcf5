"""Sessions of the 2025 wires, their streams, and the requests to their clients."""

from __future__ import annotations

import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, NamedTuple

from django.db import transaction

from taskhub.core.hints import SessionChanged, encode
from taskhub.core.names import HINT_CHANNEL
from taskhub.core.records import Actor, OpenQuestion
from taskhub.domain.hints.announce import announce
from taskhub.domain.questions.answer import AnswerOutcome, answer_question, refuse_question
from taskhub.lib import jsonx
from taskhub.store import statements

MOST_SESSIONS = 1_000
"""Live sessions of one context. Beyond it those that were unused for longest end."""

STREAM_SECONDS = 86_400
"""How long a stream that is not served can be taken up again."""

_START = statements.none("start_session")
_END = statements.many("end_session", int)
_LOG_LEVEL = statements.none("set_log_level")
_FOLLOW = statements.rowcount("follow_resource")
_UNFOLLOW = statements.none("unfollow_resource")
_MARK_PROFILE = statements.none("mark_profile")
_STORE_SEEN = statements.none("store_seen")
_PURGE_SESSIONS = statements.rowcount("purge_sessions")
_PURGE_STREAMS = statements.rowcount("purge_streams")


def start_session(
    *, tenant_id: int, context_id: int, version: str, client_info: dict[str, Any], capabilities: dict[str, Any]
) -> str:
    """A new session; returns its id: 256 random bits in visible ASCII (B25-04)."""
    public_id = secrets.token_urlsafe(32)
    _START(
        public_id=public_id,
        tenant=tenant_id,
        context=context_id,
        version=version,
        client_info=jsonx.encode(jsonx.repaired(client_info)).decode(),
        capabilities=jsonx.encode(jsonx.repaired(capabilities)).decode(),
        most=MOST_SESSIONS,
    )
    return public_id


def end_session(session_id: int, public_id: str) -> None:
    """End the session. Its tasks go on (B25-07), and its open questions are asked elsewhere now."""
    announce(*_END(session=session_id, channel=HINT_CHANNEL, hint=encode(SessionChanged(public_id))))


def set_log_level(session_id: int, level: str) -> None:
    """Set the least level of log lines that the session gets (B25-24)."""
    _LOG_LEVEL(session=session_id, level=level)


def follow_resource(session_id: int, public_id: str, uri: str, *, most: int) -> bool:
    """Let the session hear of changes of the resource. `False` when it follows `most` resources already."""
    hint = encode(SessionChanged(public_id))
    return _FOLLOW(session=session_id, uri=uri, most=most, channel=HINT_CHANNEL, hint=hint) > 0


def unfollow_resource(session_id: int, public_id: str, uri: str) -> None:
    """The session no longer follows the resource."""
    _UNFOLLOW(session=session_id, uri=uri, channel=HINT_CHANNEL, hint=encode(SessionChanged(public_id)))


def mark_profile(session_id: int, profile: str) -> None:
    """The session uses this profile from now on."""
    _MARK_PROFILE(session=session_id, profile=profile)


def store_seen(seen: Mapping[int, float]) -> None:
    """Record when sessions were last used; `seen` maps session ids to Unix times."""
    _STORE_SEEN(sessions=list(seen), seen=list(seen.values()))


def purge_sessions(*, idle_days: int, limit: int = 1_000) -> int:
    """Delete sessions that are over and have no task left, at most `limit`."""
    return _PURGE_SESSIONS(idle_days=idle_days, most=limit)


def purge_streams(*, limit: int = 1_000) -> int:
    """Delete streams that nobody has served for `STREAM_SECONDS`, at most `limit`."""
    return _PURGE_STREAMS(unseen_seconds=STREAM_SECONDS, most=limit)


@dataclass(frozen=True, slots=True)
class Place:
    """A stream in the hands of a process. `attach` tells this attachment from earlier and later ones. `since` is when
    the stream was last served, or opened. `told`: when it was opened, the session's own stream was served, or another
    one had waited for the task, which has reported on the task so far."""

    id: int
    attach: int
    kind: str
    task_id: int | None
    request_id: str
    progress_token: str | None
    since: datetime
    told: bool = False


_OPEN = statements.one("open_stream", Place)
_ATTACH = statements.maybe("attach_stream", Place)
_LEAVE = statements.many("leave_stream", int)


def open_stream(
    session_id: int, kind: str, *, task_id: int | None = None, request_id: str = "", progress_token: str | None = None
) -> Place:
    """Open a stream that can be taken up again. `kind`: `call`, `wait`, `result` or `listen`."""
    return _OPEN(session=session_id, kind=kind, task=task_id, request_id=request_id, progress_token=progress_token)


def attach_stream(session_id: int, stream_id: int) -> Place | None:
    """Take a stream up again: the process that served it until now sends nothing more (B25-16). `None` for a stream
    that is not this session's, or that its client has cancelled."""
    return _ATTACH(stream=stream_id, session=session_id)


def leave_stream(place: Place, *, closed: bool) -> None:
    """Stop serving the stream; `closed` when everything was sent. Otherwise another stream that waits for the same task
    takes over its requests."""
    left = _LEAVE(stream=place.id, attach=place.attach, closed=closed)
    if not closed:
        announce(*filter(None, left))


class _Cancelled(NamedTuple):
    """The request that a client cancelled."""

    kind: str
    task_id: int | None
    own_id: bool
    waited: float
    """Seconds."""


_CANCEL_STREAM = statements.maybe("cancel_stream", _Cancelled)
_TASK_OF_REQUEST = statements.maybe("task_of_request", _Cancelled)


def cancel_stream(session_id: int, request_id: str) -> tuple[str, int | None, bool, float] | None:
    """The client wants no answer to this request any more (B25-13). Returns the kind of the stream (`call` also for a
    request without a stream yet); its task, or `None` if a handle was given out, so that the task goes on (T25-32);
    whether the task has an id chosen by the client; and how many seconds it was waited for. `None` for an unknown
    request."""
    by_stream = _CANCEL_STREAM(session=session_id, request_id=request_id)
    return by_stream or _TASK_OF_REQUEST(session=session_id, request_id=request_id)


@dataclass(frozen=True, slots=True)
class Sent:
    """A request for a client: the wire id is made of `id`."""

    id: int
    method: str
    params_json: str


class _Delivered(NamedTuple):
    """A row of `deliver`: first one about the stream (in `method` and `params`), then one for each request."""

    id: int
    method: str
    params: str | None


_PUT = statements.none("put_questions")
_DELIVER = statements.many("deliver", _Delivered)
_WITHDRAW = statements.many("withdraw", tuple[Sent, bool, int])
_CLOSE = statements.none("close_request")
_ASK_FURTHER = statements.many("ask_further", int)
_HURRY = statements.many("hurry", int)


def put_questions(task_id: int, asked: Sequence[tuple[int, str, dict[str, Any]]]) -> None:
    """Make requests of open questions: (question id, method, params). Questions that have a request keep it."""
    _PUT(
        task=task_id,
        questions=[question_id for question_id, _, _ in asked],
        methods=[method for _, method, _ in asked],
        params=[jsonx.encode(params).decode() for _, _, params in asked],
    )


@dataclass(frozen=True, slots=True)
class Delivery:
    """What a stream is to send now, and in how many seconds to look again, if that is known. A session may have several
    streams of its own: only an `active` one sends anything."""

    requests: list[Sent]
    active: bool
    seconds: float | None


def deliver(place: Place, *, first: bool, methods: Sequence[str], after: int = 0) -> Delivery | None:
    """What this stream is to send now; `None` when it has ended or is served elsewhere. See `deliver` in
    functions.sql."""
    found = _DELIVER(stream=place.id, attach=place.attach, first=first, after=after, methods=list(methods))
    if not found:
        return None
    stream, *requests = found
    return Delivery(
        [Sent(row.id, row.method, row.params or "") for row in requests],
        stream.method == "active",
        None if stream.params is None else float(stream.params),
    )


def withdraw(place: Place) -> list[tuple[Sent, bool, int]]:
    """Requests on this stream whose question was closed by another answer, each returned once, with whether it had been
    sent (not if it was due later), and its task."""
    return _WITHDRAW(stream=place.id)


def answer_request(
    outbound_id: int, task_id: int, question: OpenQuestion, response: dict[str, Any], *, actor: Actor
) -> AnswerOutcome:
    """`answer_question` with the client's answer to this request. Both are closed together, or the stream would
    withdraw the request that was just answered."""
    with transaction.atomic():
        _close_request(outbound_id)
        return answer_question(task_id, question, response, actor=actor)


def refuse_request(
    outbound_id: int, task_id: int, question: OpenQuestion, error: dict[str, Any], *, actor: Actor
) -> AnswerOutcome:
    """The client answered this request with an error: the call fails with it, even if others could have answered."""
    with transaction.atomic():
        _close_request(outbound_id)
        return refuse_question(task_id, question, error, actor=actor)


def _close_request(outbound_id: int) -> None:
    _CLOSE(outbound=outbound_id)


def ask_further(outbound_id: int, method: str, params: dict[str, Any], *, seconds: float) -> None:
    """The client's answer was only a step: close that request, and make the next one for the same question, due in
    `seconds`. In one statement, so that it goes on even if this process stops here (CH-13)."""
    announce(*_ASK_FURTHER(outbound=outbound_id, method=method, params=jsonx.encode(params).decode(), seconds=seconds))


def hurry(session_id: int, client_task_id: str) -> None:
    """The client says that the task it hosts has changed: ask for it now (CH-11)."""
    announce(*_HURRY(session=session_id, client_task_id=client_task_id))

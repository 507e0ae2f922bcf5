"""Sessions of the 2025 wires, their streams, and what is asked of clients on them."""

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
"""Live sessions of one context; the longest unused end when there are more."""

STREAM_SECONDS = 86_400
"""How long a stream that nobody serves can be taken up again."""

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
    """Nothing goes through it any more; its tasks go on (B25-07), and what it was asked is asked elsewhere now."""
    announce(*_END(session=session_id, channel=HINT_CHANNEL, hint=encode(SessionChanged(public_id))))


def set_log_level(session_id: int, level: str) -> None:
    """From which level on the session gets log lines (B25-24)."""
    _LOG_LEVEL(session=session_id, level=level)


def follow_resource(session_id: int, public_id: str, uri: str, *, most: int) -> bool:
    """The session wants to hear when the resource changes. `False` when it follows `most` already."""
    hint = encode(SessionChanged(public_id))
    return _FOLLOW(session=session_id, uri=uri, most=most, channel=HINT_CHANNEL, hint=hint) > 0


def unfollow_resource(session_id: int, public_id: str, uri: str) -> None:
    """The session has heard enough of it."""
    _UNFOLLOW(session=session_id, uri=uri, channel=HINT_CHANNEL, hint=encode(SessionChanged(public_id)))


def mark_profile(session_id: int, profile: str) -> None:
    """The session speaks this profile from now on."""
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


_OPEN = statements.one("open_stream", Place)
_ATTACH = statements.maybe("attach_stream", Place)
_LEAVE = statements.many("leave_stream", int)


def open_stream(
    session_id: int, kind: str, *, task_id: int | None = None, request_id: str = "", progress_token: str | None = None
) -> Place:
    """A stream that can be taken up again. `kind`: `call`, `result` or `listen`."""
    return _OPEN(session=session_id, kind=kind, task=task_id, request_id=request_id, progress_token=progress_token)


def attach_stream(session_id: int, stream_id: int) -> Place | None:
    """Take a stream up again: whoever served it until now sends nothing more (B25-16). `None` for a
    stream that is not this session's, or that its client has cancelled."""
    return _ATTACH(stream=stream_id, session=session_id)


def leave_stream(place: Place, *, closed: bool) -> None:
    """Nobody serves it any more; `closed` when all of it was sent. Otherwise another that waits for the
    same task takes over what was asked here."""
    left = _LEAVE(stream=place.id, attach=place.attach, closed=closed)
    if not closed:
        announce(*filter(None, left))


class _Cancelled(NamedTuple):
    """What a client does not wait for any more."""

    kind: str
    task_id: int | None
    own_id: bool


_CANCEL_STREAM = statements.maybe("cancel_stream", _Cancelled)
_TASK_OF_REQUEST = statements.maybe("task_of_request", _Cancelled)


def cancel_stream(session_id: int, request_id: str) -> tuple[str, int | None, bool] | None:
    """The client wants no answer to this request any more (B25-13). Returns the kind of the stream
    and the task it served (`call` also for one that has no stream yet), unless a handle of that was given
    out, so that it goes on (T25-32); and whether the task is under an id of the client. `None` for a
    request that is not known."""
    by_stream = _CANCEL_STREAM(session=session_id, request_id=request_id)
    return by_stream or _TASK_OF_REQUEST(session=session_id, request_id=request_id)


@dataclass(frozen=True, slots=True)
class Sent:
    """A request for a client: the wire id is made of `id`."""

    id: int
    method: str
    params_json: str


class _Delivered(NamedTuple):
    """What `deliver` says: first of the stream (in `method` and `params`), then a request in each row."""

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
    """Make requests of open questions: (question id, method, params). Those that have one keep it."""
    _PUT(
        task=task_id,
        questions=[question_id for question_id, _, _ in asked],
        methods=[method for _, method, _ in asked],
        params=[jsonx.encode(params).decode() for _, _, params in asked],
    )


@dataclass(frozen=True, slots=True)
class Delivery:
    """What a stream is to send now, and in how many seconds it has to look again, if it knows. A
    session may have several streams of its own: only an `active` one has anything to say."""

    requests: list[Sent]
    active: bool
    seconds: float | None


def deliver(place: Place, *, first: bool, methods: Sequence[str], after: int = 0) -> Delivery | None:
    """What this stream is to send now; `None` when it has ended or is served elsewhere. See deliver."""
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
    """Requests on this stream whose question somebody else has closed, each once, and whether it was
    sent (one that was to be sent later was not), and its task."""
    return _WITHDRAW(stream=place.id)


def answer_request(
    outbound_id: int, task_id: int, question: OpenQuestion, response: dict[str, Any], *, actor: Actor
) -> AnswerOutcome:
    """`answer_question` with what the client answered to this request. Both are closed at once, or the
    stream would withdraw what was just answered."""
    with transaction.atomic():
        _close_request(outbound_id)
        return answer_question(task_id, question, response, actor=actor)


def refuse_request(
    outbound_id: int, task_id: int, question: OpenQuestion, error: dict[str, Any], *, actor: Actor
) -> AnswerOutcome:
    """The client answered this request with an error: the call fails with it, whoever else could have
    answered."""
    with transaction.atomic():
        _close_request(outbound_id)
        return refuse_question(task_id, question, error, actor=actor)


def _close_request(outbound_id: int) -> None:
    _CLOSE(outbound=outbound_id)


def ask_further(outbound_id: int, method: str, params: dict[str, Any], *, seconds: float) -> None:
    """The client's answer was a step on the way: close that request, and make the next one for the
    same question, due in `seconds`. In one statement, so that a hub that stops here goes on there (CH-13)."""
    announce(*_ASK_FURTHER(outbound=outbound_id, method=method, params=jsonx.encode(params).decode(), seconds=seconds))


def hurry(session_id: int, client_task_id: str) -> None:
    """The client says that its own task changed: ask for it now (CH-11)."""
    announce(*_HURRY(session=session_id, client_task_id=client_task_id))

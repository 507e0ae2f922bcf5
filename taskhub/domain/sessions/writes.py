"""Sessions of the protocol revisions of 2025, their streams, and the requests to their clients."""

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
from taskhub.domain.changes import change, who
from taskhub.domain.hints.announce import announce
from taskhub.domain.questions.answer import AnswerOutcome, answer_question, refuse_question
from taskhub.lib import jsonx
from taskhub.store import statements

MOST_SESSIONS = 1_000
"""The most live sessions of one context. If a further session begins, the one that was unused for longest ends."""

STREAM_SECONDS = 86_400
"""Seconds for which a stream that no process serves can be resumed."""

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
    """End the session. Its tasks go on (B25-07); other streams of these tasks get its open requests."""
    announce(*_END(session=session_id, channel=HINT_CHANNEL, hint=encode(SessionChanged(public_id))))


def set_log_level(session_id: int, level: str) -> None:
    """Set the least level of log lines that the session gets (B25-24)."""
    _LOG_LEVEL(session=session_id, level=level)


def follow_resource(session_id: int, public_id: str, uri: str, *, most: int) -> bool:
    """Notify the session of changes of the resource. Returns `False` if it follows `most` resources already."""
    hint = encode(SessionChanged(public_id))
    return _FOLLOW(session=session_id, uri=uri, most=most, channel=HINT_CHANNEL, hint=hint) > 0


def unfollow_resource(session_id: int, public_id: str, uri: str) -> None:
    """Do not notify the session of changes of the resource any more."""
    _UNFOLLOW(session=session_id, uri=uri, channel=HINT_CHANNEL, hint=encode(SessionChanged(public_id)))


def mark_profile(session_id: int, profile: str) -> None:
    """Record that the session uses the profile `profile`."""
    _MARK_PROFILE(session=session_id, profile=profile)


def store_seen(seen: Mapping[int, float]) -> None:
    """Record when sessions were last used; `seen` maps session ids to Unix times."""
    _STORE_SEEN(sessions=list(seen), seen=list(seen.values()))


def purge_sessions(*, idle_days: int, limit: int = 1_000) -> int:
    """Delete sessions without use for `idle_days` and without tasks, at most `limit`. Returns how many."""
    return _PURGE_SESSIONS(idle_days=idle_days, most=limit)


def purge_streams(*, limit: int = 1_000) -> int:
    """Delete streams that no process has served for `STREAM_SECONDS`, at most `limit`. Returns how many."""
    return _PURGE_STREAMS(unseen_seconds=STREAM_SECONDS, most=limit)


@dataclass(frozen=True, slots=True)
class Place:
    """A stream that this process serves. `attach` is the number of this attachment: each later one has a higher number.
    `since`: when the stream was last served, or opened if it never was. `told`: whether another stream has reported on
    the task so far: the session's own stream, or a stream that waited for the task."""

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
    """Open a stream that can be resumed. `kind`: `call`, `wait`, `result` or `listen`."""
    return _OPEN(session=session_id, kind=kind, task=task_id, request_id=request_id, progress_token=progress_token)


def attach_stream(session_id: int, stream_id: int) -> Place | None:
    """Resume a stream in this process; the process that served it until now does not send on it any more (B25-16).
    Returns `None` for a stream of another session, or if the client has cancelled the stream's request."""
    return _ATTACH(stream=stream_id, session=session_id)


def leave_stream(place: Place, *, closed: bool) -> None:
    """Stop serving the stream. `closed`: whether everything was sent on it. If not, another stream of the task takes
    over its requests."""
    left = _LEAVE(stream=place.id, attach=place.attach, closed=closed)
    if not closed:
        announce(*filter(None, left))


class _Cancelled(NamedTuple):
    """The request that a client cancelled."""

    kind: str
    task_id: int | None
    own_id: bool
    waited: float
    """Seconds from the client's request to its cancellation."""


_CANCEL_STREAM = statements.maybe("cancel_stream", _Cancelled)
_TASK_OF_REQUEST = statements.maybe("task_of_request", _Cancelled)


def cancel_stream(session_id: int, request_id: str) -> tuple[str, int | None, bool, float] | None:
    """Record that the client has cancelled this request (B25-13). Returns four things: the kind of the stream (`call`
    also for a request without a stream yet); the task id, or `None` if the client got a handle, so that the task goes
    on (T25-32); whether the client chose the task's id; and for how many seconds it waited. Returns `None` for an
    unknown request."""
    by_stream = _CANCEL_STREAM(session=session_id, request_id=request_id)
    return by_stream or _TASK_OF_REQUEST(session=session_id, request_id=request_id)


@dataclass(frozen=True, slots=True)
class Sent:
    """A request to be sent to a client. Its JSON-RPC id is made from `id`."""

    id: int
    method: str
    params_json: str


@dataclass(frozen=True, slots=True)
class Withdrawn:
    """A request that is withdrawn because its question was closed. `delivered`: whether the request had been sent; a
    request that is due later had not."""

    sent: Sent
    delivered: bool
    task_id: int
    page: bool
    """Whether the request asked the client to open the page of the question."""


class _Delivered(NamedTuple):
    """A row of `deliver`. The first row is about the stream: `method` is `active` or `idle`, `params` the seconds until
    a further request is due. Each other row is a request, with its method and params."""

    id: int
    method: str
    params: str | None


_PUT = statements.none("put_questions")
_DELIVER = statements.many("deliver", _Delivered)
_WITHDRAW = statements.many("withdraw", Withdrawn)
_CLOSE = statements.none("close_request")
_ASK_FURTHER = statements.many("ask_further", int)
_HURRY = statements.many("hurry", int)
_OFFER_PAGE = statements.many("offer_page", int)
_ANSWER_PAGE = statements.one("answer_page", bool)
_ENDED_PAGES = statements.many("ended_pages", str)


@dataclass(frozen=True, slots=True)
class NewRequest:
    """A request to a client that is to be made for an open question. `page`: whether it asks the client to open the
    question's page."""

    question_id: int
    method: str
    params: dict[str, Any]
    page: bool = False


def put_questions(task_id: int, asked: Sequence[NewRequest]) -> None:
    """Create a request to the client for each of these questions. A question that has a request keeps it."""
    _PUT(
        task=task_id,
        questions=[one.question_id for one in asked],
        pages=[one.page for one in asked],
        methods=[one.method for one in asked],
        params=[jsonx.encode(one.params).decode() for one in asked],
    )


def offer_page(task_id: int, question_id: int) -> None:
    """Record that the client is asked in a round to open the page of the question. It is not asked again."""
    announce(*_OFFER_PAGE(task=task_id, question=question_id))


def answer_page(task_id: int, question_id: int, verdict: str, *, actor: Actor) -> None:
    """Store and record what the client said to the request to open the page of the question: `accept`, `decline` or
    `cancel`, or `refused` for an error, whose message is `actor.reason`. The question is not answered by this. Only the
    client's first word counts, and only while the question is open. If the client accepts, its session is notified when
    the question is closed."""
    said = {"task": task_id, "question": question_id, "verdict": verdict, "reason": actor.reason, "who": who(actor)}
    if change(_ANSWER_PAGE, **said):
        announce(task_id)


def ended_pages(session_id: int) -> list[str]:
    """The params, as JSON, of requests to open a page that this session's client accepted and whose question is closed
    by now. Each is returned only once."""
    return _ENDED_PAGES(session=session_id)


@dataclass(frozen=True, slots=True)
class Delivery:
    """The requests that a stream is to send now. `seconds`: the time until the next request is due; `None` if there is
    none. Of a session's own streams, and of those for one task's result, only the newest is `active` and sends
    anything."""

    requests: list[Sent]
    active: bool
    seconds: float | None


def deliver(place: Place, *, first: bool, methods: Sequence[str], after: int = 0) -> Delivery | None:
    """The requests that this stream is to send now; `None` if the stream has ended, or another process serves it.
    `first`: whether it has just been opened or resumed. `methods`: the methods that the client can answer. `after`: the
    id of the last request that the client got before it resumed the stream. functions.sql has the rules, at
    `deliver`."""
    found = _DELIVER(stream=place.id, attach=place.attach, first=first, after=after, methods=list(methods))
    if not found:
        return None
    stream, *requests = found
    return Delivery(
        [Sent(row.id, row.method, row.params or "") for row in requests],
        stream.method == "active",
        None if stream.params is None else float(stream.params),
    )


def withdraw(place: Place) -> list[Withdrawn]:
    """Withdraw the requests on this stream whose question is closed. Returns each request only once."""
    return _WITHDRAW(stream=place.id)


def answer_request(
    outbound_id: int, task_id: int, question: OpenQuestion, response: dict[str, Any], *, actor: Actor
) -> AnswerOutcome:
    """Answer the question of this request with what the client answered (`answer_question`). One transaction closes
    both the request and the question: otherwise the stream could withdraw the request that was just answered."""
    with transaction.atomic():
        _close_request(outbound_id)
        return answer_question(task_id, question, response, actor=actor)


def refuse_request(
    outbound_id: int, task_id: int, question: OpenQuestion, error: dict[str, Any], *, actor: Actor
) -> AnswerOutcome:
    """Close the question of this request with the error that the client sent in place of an answer (`refuse_question`).
    One transaction closes both, as in `answer_request`."""
    with transaction.atomic():
        _close_request(outbound_id)
        return refuse_question(task_id, question, error, actor=actor)


def _close_request(outbound_id: int) -> None:
    _CLOSE(outbound=outbound_id)


def ask_further(outbound_id: int, method: str, params: dict[str, Any], *, seconds: float) -> None:
    """Close a request whose answer was only a step, and create the next request for the same question, due in
    `seconds`. One statement does both, so that the question is not lost if this process dies in between (CH-13)."""
    announce(*_ASK_FURTHER(outbound=outbound_id, method=method, params=jsonx.encode(params).decode(), seconds=seconds))


def hurry(session_id: int, client_task_id: str) -> None:
    """Make the next `tasks/get` for a hosted task due now, since its client has reported a change (CH-11)."""
    announce(*_HURRY(session=session_id, client_task_id=client_task_id))

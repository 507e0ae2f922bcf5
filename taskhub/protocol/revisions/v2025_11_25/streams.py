"""The streams of a session: those that answer a waiting call or `tasks/result`, and the session's own stream (GET).

The events of a stream are not stored. A task's lines, questions and outcome are in the database anyway, and an event id
names a position among them, so any process can resume a stream, even if the process that served it was killed (rule
B25-16, docs/dev/rules.md).
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import AsyncExitStack, ExitStack, asynccontextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import cached_property
from typing import Any, Final

from taskhub.core.errors import TaskHubError
from taskhub.core.hints import CATALOGUE, context_topic, session_topic
from taskhub.core.records import OpenQuestion, QuestionKind, Session, StoredLine, TaskRecord
from taskhub.core.states import TERMINAL
from taskhub.domain.questions.kinds import METHODS, can_answer
from taskhub.domain.sessions.writes import (
    Delivery,
    Place,
    Sent,
    attach_stream,
    deliver,
    ended_pages,
    leave_stream,
    open_stream,
    put_questions,
    withdraw,
)
from taskhub.domain.tasks.handles import asking_tasks, changed_tasks
from taskhub.domain.tasks.reads import task_by_id
from taskhub.lib import jsonx
from taskhub.lib.numbers import whole
from taskhub.protocol import calls
from taskhub.protocol.envelope import error_message, notification_message, result_message
from taskhub.protocol.errors import INVALID_REQUEST, TOO_MANY, WireError
from taskhub.protocol.following import Following
from taskhub.protocol.hub import Bell, Hub
from taskhub.protocol.incoming import KEEP_ALIVE, Incoming, Stream, event
from taskhub.protocol.lines import Lines, progress_message
from taskhub.protocol.plain.callers import Caller, caller_of
from taskhub.protocol.revisions.v2025_11_25 import hosted, mapping, shown
from taskhub.protocol.revisions.v2025_11_25.sessions import request_name, session_of
from taskhub.protocol.revisions.v2025_11_25.wire import VERSION
from taskhub.protocol.wire.lists import digests
from taskhub.protocol.wire.page_links import MODE, pages
from taskhub.protocol.wire.tasks import for_client

KEEP_ALIVE_SECONDS: Final = 10.0
"""Seconds without an event after which a stream sends a comment. Must be less than the 25 s after which `th_served`
(domain/sessions/functions.sql) takes a stream for dead, because a stream is marked as seen only when it wakes."""
RETRY_MS: Final = 4_000
"""Milliseconds that a client waits before it resumes a stream that ended. The SDKs try twice and then give up. Until
the second try, a web process that was killed is started again, or the client reaches another process."""
LOOK_SECONDS: Final = 0.1
"""A session's own stream looks for news at most once in this many seconds, however often the tasks of its client
change."""
EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
MAX_STREAMS: Final = 200
"""The most open streams of one context in a process."""
MOST_LISTENING: Final = 100
"""A session's own stream is refused if its context has this many open streams, to leave room for streams of calls."""


@dataclass
class _Position:
    """The position of a stream: `line` and `request` are the ids of the last line and the last request that it sent,
    `count` is how many events it made, which keeps event ids unique. A session's own stream has no lines; its `line` is
    the time of the last change that it sent, in microseconds since 1970. `opened`: whether a task's stream has sent its
    first, empty event."""

    place: Place
    line: int = 0
    request: int = 0
    opened: bool = False
    count: int = 0
    spoke: float = 0.0
    """When the last event was made, on the monotonic clock."""

    def next(self, *, line: int | None = None, request: int | None = None, last: bool = False) -> str:
        self.spoke = time.monotonic()
        self.line, self.request = line or self.line, request or self.request
        self.count += 1
        mark = "e" if last else "m" if self.opened else "p"
        return f"{self.place.id}-{self.place.attach}-{self.count}-{self.line}-{self.request}-{mark}"

    def priming(self, *, last: bool = False) -> bytes:
        """An event that has only an id, sent first, so that a client can always resume the stream (B25-12)."""
        return f"id: {self.next(last=last)}\nretry: {RETRY_MS}\ndata: \n\n".encode("ascii")


def microseconds(at: datetime) -> int:
    """The time in microseconds since 1970, exact."""
    return (at - EPOCH) // timedelta(microseconds=1)


def moment(number: int) -> datetime:
    """The time that is `number` microseconds after the beginning of 1970. Raises 400 if it is out of range."""
    try:
        return EPOCH + timedelta(microseconds=number)
    except OverflowError:
        raise WireError(INVALID_REQUEST, "Unknown Last-Event-ID", status=400) from None


def _parsed(event_id: str) -> tuple[int, int, int, str]:
    """The parts of an event id that `_Position.next` made: stream, last line, last request and mark. The mark says what
    the client has received: `p` only the first, empty event, `m` more, `e` everything. Raises 400 for any other id."""
    parts = event_id.split("-")
    numbers = [number for part in parts[:5] if (number := whole(part)) is not None]
    if len(parts) != 6 or len(numbers) != 5:
        raise WireError(INVALID_REQUEST, "Unknown Last-Event-ID", status=400)
    return numbers[0], numbers[3], numbers[4], parts[5]


async def serve_task(
    hub: Hub,
    incoming: Incoming,
    session: Session,
    task: TaskRecord,
    *,
    kind: str,
    request_id: str,
    token: str | None,
    caller: Caller | None = None,
) -> Stream:
    """The stream of a request that waits for `task`. `kind` is `call` for a tool call, `wait` for a call of the hub's
    own tool, or `result` for `tasks/result`. `caller` is set for plain calls. Call `need_room` before the task is
    created, because a call must not be refused once it runs."""
    place = await hub.lanes.run(
        open_stream, session.id, kind, task_id=task.id, request_id=request_id, progress_token=token
    )
    return Stream(_task_stream(_Served(hub, incoming, session, _Position(place), caller=caller), task))


async def listen(hub: Hub, incoming: Incoming) -> Stream:
    """GET: the session's own stream (B25-14), or with `Last-Event-ID` the stream that the client resumes (B25-16)."""
    if "text/event-stream" not in (accept := incoming.headers.get("accept", "").lower()) and "*/*" not in accept:
        raise WireError(INVALID_REQUEST, "Accept must list text/event-stream", status=406)
    session = await session_of(hub, incoming)
    need_room(hub, session, MOST_LISTENING)
    seen = incoming.headers.get("last-event-id")
    if seen is None:
        place = await hub.lanes.run(open_stream, session.id, "listen")
        return Stream(_session_stream(_Served(hub, incoming, session, _Position(place)), place.since))
    stream_id, line, request, sent = _parsed(seen)
    found = await hub.lanes.run(attach_stream, session.id, stream_id)
    if found is None:
        raise WireError(INVALID_REQUEST, "Unknown Last-Event-ID", status=400)
    served = _Served(hub, incoming, session, _Position(found, line, request, sent != "p"), again=True)
    if found.task_id is None:
        return Stream(_session_stream(served, moment(line) if line else found.since))
    task = await hub.lanes.run(task_by_id, found.task_id)
    assert task is not None  # when a task is deleted, so are its streams
    if found.kind in ("call", "wait") and sent != "e" and mapping.makes_plain_calls(session):
        served.caller = await caller_of(hub, incoming, session.client_info)
        await served.caller.waits(task)
    return Stream(_nothing_left(served) if sent == "e" else _task_stream(served, task))


def need_room(hub: Hub, session: Session, most: int = MAX_STREAMS) -> None:
    """Raises 429 if the context has `most` streams open in this process."""
    if hub.streams.get(session.context_id, 0) >= most:
        raise WireError(TOO_MANY, f"At most {most} streams at once", retry_after=5)


@dataclass
class _Served:
    """A stream that this process serves. Within `async with` it counts among the open streams of its context; at the
    end, however its generator ends, the stream is released. `again`: whether the client resumed it. `first`: whether
    `requests` has not run yet. `done`: whether the last event was sent."""

    hub: Hub
    incoming: Incoming
    session: Session
    at: _Position
    again: bool = False
    first: bool = True
    done: bool = False
    caller: Caller | None = None
    """The caller of a plain call; `None` for other streams."""
    asked: tuple[OpenQuestion, ...] | None = None
    """The open questions of the task when `pages_ended` made its last query; `None` before."""
    moved: bool = False
    """Whether the stream ends because its request was cancelled or another process serves it now. Then its caller has
    not left."""

    async def __aenter__(self) -> _Served:
        held = self.hub.streams
        held[self.session.context_id] = held.get(self.session.context_id, 0) + 1
        return self

    async def __aexit__(self, *error: object) -> None:
        held = self.hub.streams
        held[self.session.context_id] -= 1
        if not held[self.session.context_id]:
            del held[self.session.context_id]
        with suppress(TaskHubError):
            await asyncio.shield(self.hub.lanes.run(leave_stream, self.at.place, closed=self.done))

    @asynccontextmanager
    async def waiting_for(self, task: TaskRecord) -> AsyncIterator[None]:
        """While the block runs, the stream waits for the task. If the block ends before the caller has its answer, and
        no other process goes on with the stream, it is recorded that the caller has left. The caller may come back for
        the answer (B25-13)."""
        caller = self.caller
        try:
            with self.hub.serving(task.id):
                yield
        except TaskHubError:  # the database does not answer, so the hub ends the stream
            if caller is not None and not self.done:
                caller.cut_off(task)
            caller = None
            raise
        finally:
            if caller is not None and not self.done and not self.moved:
                with suppress(TaskHubError):
                    await asyncio.shield(caller.leaves(task, cancels=False))

    def patience(self, delivery: Delivery, task: TaskRecord | None = None) -> float:
        """Seconds for which the stream may sleep unless a hint wakes it: until it must send a keep-alive, a request
        that is due later, or an interim result."""
        left = self.at.spoke + KEEP_ALIVE_SECONDS - time.monotonic()
        if delivery.seconds is not None:
            left = min(left, delivery.seconds)
        if task is not None and self.caller is not None and (over := self.caller.seconds_left(task)) is not None:
            left = min(left, over)
        return max(0.01, left)

    async def interim(self, task: TaskRecord) -> bytes | None:
        """The response with the interim result if the caller's patience is over; else `None`."""
        left = None if self.caller is None else self.caller.seconds_left(task)
        if self.caller is None or left is None or left > 0:
            return None
        result = shown.of_hub(await self.caller.gets_interim(task), self.session.version)
        return result_message(json.loads(self.at.place.request_id), result)

    async def answered(self, task: TaskRecord) -> None:
        """Record that the caller has its answer."""
        if task.state in TERMINAL:
            self.hub.brought(task, self.session.context_id)
            if self.caller is not None:
                await self.caller.has(task)

    def silent(self) -> bool:
        """Whether no event was sent for `KEEP_ALIVE_SECONDS`. If so, the time starts again, and the caller must send a
        keep-alive."""
        if time.monotonic() < self.at.spoke + KEEP_ALIVE_SECONDS:
            return False
        self.at.spoke = time.monotonic()
        return True

    async def may_go_on(self) -> bool:
        return not self.hub.closing.is_set() and await self.incoming.valid()

    @cached_property
    def opens_pages(self) -> bool:
        """Whether the session's client opens pages for its user."""
        capabilities = mapping.usable(self.session.client_capabilities, self.session.version)
        return can_answer(capabilities, QuestionKind.ELICITATION, MODE)

    @cached_property
    def methods(self) -> list[str]:
        """The methods of the requests that the session's client can answer. A method is written as the SQL function
        `th_way` writes it: `elicitation/create:url` is a request to open an address. By this list, the stream also
        takes requests of calls in other sessions of the same client."""
        session = self.session
        capabilities = mapping.usable(session.client_capabilities, session.version)
        methods = [method for kind, method in METHODS.items() if can_answer(capabilities, kind, {})]
        if self.opens_pages:
            methods.append(f"{METHODS[QuestionKind.ELICITATION]}:url")
        return methods + (["tasks/get", "tasks/result"] if any(hosted.hosts(session, kind) for kind in METHODS) else [])

    async def requests(self) -> Delivery | None:
        """The requests to send to the client now; `None` if the stream has ended or another process serves it. A new
        stream takes over requests that were sent on other streams. A resumed stream sends the requests again that came
        after the last event that the client has seen."""
        after = self.at.request if self.again else 0
        found = await self.hub.lanes.run(deliver, self.at.place, first=self.first, methods=self.methods, after=after)
        self.first = False
        return found

    async def put(self, task: TaskRecord) -> bool:
        """Store a request to the client for each open question of the task, and for each page that the client is to
        open. Returns whether there are any."""
        asked = for_client(task) if "tasks:answer" in self.incoming.principal.scopes else ()
        session = self.session
        requests = [
            shown.question(task, q, hosted.augmentation() if hosted.hosts(session, q.kind) else None) for q in asked
        ]
        if self.opens_pages:
            base = calls.console_at(self.hub, self.incoming)
            requests += [shown.page(task, q, base) for q in pages(task)]
        if requests:
            await self.hub.lanes.run(put_questions, task.id, requests)
        return bool(requests)

    def asking(self, sent: Sent) -> bytes:
        """A request to the client, as an SSE event."""
        head = jsonx.encode({"jsonrpc": "2.0", "id": request_name(sent.id), "method": sent.method})
        params = sent.params_json.encode()
        body = head if sent.method == "roots/list" and params == b"{}" else head[:-1] + b',"params":' + params + b"}"
        return event(body, self.at.next(request=sent.id))

    async def withdrawn(self) -> list[bytes]:
        """Events for the requests that the client need not answer any more."""
        if not self.at.request:
            return []
        found = []
        for gone in await self.hub.lanes.run(withdraw, self.at.place):
            sent = gone.sent
            if gone.delivered:
                if gone.page:
                    found.append(event(shown.page_ended(json.loads(sent.params_json)), self.at.next()))
                params: dict[str, Any] = {
                    "requestId": request_name(sent.id),
                    "reason": "The question was closed elsewhere",
                }
                task = await self.hub.lanes.run(task_by_id, gone.task_id)
                if task is not None and (tied := shown.related(task)) is not None:
                    params["_meta"] = tied
                found.append(event(notification_message("notifications/cancelled", params), self.at.next()))
            if sent.method.startswith("tasks/") and hosted.cancels(self.session):
                # The client's response is ignored, because no request is stored under this id (CH-10).
                request = {"jsonrpc": "2.0", "id": f"{request_name(sent.id)}-cancel", "method": "tasks/cancel"}
                found.append(event(jsonx.encode({**request, "params": json.loads(sent.params_json)}), self.at.next()))
        return found

    async def pages_ended(self, task: TaskRecord | None = None) -> list[bytes]:
        """Notifications of closed questions whose pages the client was asked to open, on any stream of the session.
        With `task`, makes a query only if the open questions of the task have changed since the last query."""
        if not self.opens_pages or (task is not None and task.questions == self.asked):
            return []
        self.asked = None if task is None else task.questions
        found = await self.hub.lanes.run(ended_pages, self.session.id)
        return [event(shown.page_ended(json.loads(params)), self.at.next()) for params in found]


async def _task_stream(served: _Served, task: TaskRecord) -> AsyncGenerator[bytes, None]:
    """Progress, log lines and questions as they come, keep-alives in between, then the answer."""
    hub, place = served.hub, served.at.place
    own = task.session_id == served.session.id  # a progress token is valid in the session that issued it
    token = place.progress_token or (task.progress_token if place.kind == "result" and own else None)
    lines = Lines(
        task.id,
        token=None if token is None else json.loads(token),
        level=served.session.log_level,
        meta=shown.related(task),
        seen=served.at.line,
        furthest=task.progress if place.kind == "result" and place.told and not served.at.line else None,
    )
    overtaken = False

    async with served, served.waiting_for(task):
        yield served.at.priming()
        if not served.at.opened:
            served.at.opened = True
            if place.kind == "call" and (message := shown.opening(task)) is not None:
                yield event(message, served.at.next())
        with hub.hints.watch(task.public_id, session_topic(served.session.public_id)) as bell:
            while await served.may_go_on():
                task = await calls.fresh(hub, task)
                if task.state not in TERMINAL:
                    await served.put(task)
                delivery = await served.requests()
                if delivery is None:
                    served.moved = True
                    return  # the request was cancelled, or another process serves the stream
                # Of several streams that wait for the task, only the newest sends progress and log lines (B25-15). Once
                # the task has ended, the older streams stay silent.
                overtaken = not delivery.active or (overtaken and task.state in TERMINAL)
                for line, message in await lines.read(hub):
                    if not overtaken:
                        yield event(message, served.at.next(line=line))
                for message in () if overtaken else lines.waiting(task):
                    yield event(message, served.at.next())
                for message in [*await served.withdrawn(), *await served.pages_ended(task)]:
                    yield message
                for sent in delivery.requests:
                    yield served.asking(sent)
                if (answer := _final(place, task) or await served.interim(task)) is not None:
                    yield event(answer, served.at.next(last=True))
                    served.done = True
                    await served.answered(task)
                    return
                await calls.rung(bell, served.patience(delivery, task))
                if served.silent():
                    for message in lines.still(task) if served.caller is not None and not overtaken else ():
                        yield event(message, served.at.next())
                    yield KEEP_ALIVE


def _final(place: Place, task: TaskRecord) -> bytes | None:
    if task.state not in TERMINAL:
        return None
    tied = shown.related(task) if place.kind == "result" or task.client_task_id is not None else None
    outcome = shown.result(task, related=tied)
    request_id = json.loads(place.request_id)
    if isinstance(outcome, WireError):
        return error_message(request_id, outcome.body())
    return result_message(request_id, outcome)


async def _nothing_left(served: _Served) -> AsyncGenerator[bytes, None]:
    """A stream without events, for a client that resumes after the last event."""
    async with served:
        served.done = True
        yield served.at.priming(last=True)


async def _session_stream(served: _Served, since: datetime) -> AsyncGenerator[bytes, None]:
    """The session's own stream: questions of tasks that no other stream waits for, and changes of tasks, lists and
    resources (B25-28, T25-40)."""
    hub, session = served.hub, served.session
    changes = _Changes(session, since)
    topics = (context_topic(session.context_id), CATALOGUE, session_topic(session.public_id))
    async with served, AsyncExitStack() as leaving:
        yield served.at.priming()
        with hub.hints.watch(*topics) as bell:
            lists = await _lists(served)
            resources = await leaving.enter_async_context(_Resources(served, bell))
            while await served.may_go_on():
                for task in await hub.lanes.run(asking_tasks, session.id):
                    await served.put(task)
                # Read before `requests` looks whether a newer stream has opened. The newer stream sends the changes
                # after this point (B25-15).
                changed = await changes.told(hub)
                delivery = await served.requests()
                if delivery is None:
                    return
                for message in [*await served.withdrawn(), *(await served.pages_ended() if delivery.active else ())]:
                    yield message
                for sent in delivery.requests:
                    yield served.asking(sent)
                for changed_at, message in changed if delivery.active else ():
                    yield event(message, served.at.next(line=changed_at))
                fresh = await _lists(served)
                for method in (method for method in fresh if fresh[method] != lists[method] and delivery.active):
                    yield event(jsonx.encode({"jsonrpc": "2.0", "method": method}), served.at.next())
                lists = fresh
                for uri in await resources.updated(delivery.active):
                    yield event(notification_message("notifications/resources/updated", {"uri": uri}), served.at.next())
                await calls.rung(bell, served.patience(delivery))
                if served.silent():
                    yield KEEP_ALIVE
                await asyncio.sleep(LOOK_SECONDS)


async def _lists(served: _Served) -> dict[str, str]:
    """The digest of each list, by the notification of its changes."""
    return digests(await served.hub.catalogue(served.incoming.principal))


class _Resources:
    """The resources that the session follows (`resources/subscribe`), whichever process took the request. `async with`
    ends the interest in these resources at the end of its block."""

    def __init__(self, served: _Served, bell: Bell) -> None:
        self._served = served
        self._bell = bell
        self._uris: list[str] = []
        self._following: Following | None = None
        self._watching = ExitStack()

    async def __aenter__(self) -> _Resources:
        return self

    async def __aexit__(self, *error: object) -> None:
        await asyncio.shield(self._stop())

    async def updated(self, active: bool) -> list[str]:
        """The resources that may have changed since the last call; none unless the stream is `active`."""
        hub, session = self._served.hub, self._served.session
        now = await hub.sessions.run((session.public_id, session.context_id)) if active else None
        wanted = list(now.resources) if now is not None else []
        if wanted != self._uris:
            await self._stop()
            self._uris = wanted
            if wanted:
                found = await hub.catalogue(self._served.incoming.principal)
                self._following = Following(hub, found, wanted)
                self._watching.enter_context(hub.hints.watch(*self._following.topics, bell=self._bell))
                await self._following.start(self._bell)
                self._bell.set()  # `start` has cleared the bell: look again
        if self._following is None:
            return []
        await self._following.renew()
        return await self._following.changed(self._bell.take())

    async def _stop(self) -> None:
        self._watching.close()
        following, self._following = self._following, None
        self._uris = []
        if following is not None:
            with suppress(TaskHubError):
                await following.stop()


class _Changes:
    """Changes of progress and status, in tasks of the session, that were not yet sent to its client."""

    def __init__(self, session: Session, since: datetime) -> None:
        self._session = session
        self._since = since
        self._told: dict[int, tuple[str, str]] = {}
        self._furthest: dict[int, float] = {}

    async def told(self, hub: Hub) -> list[tuple[int, bytes]]:
        """Notifications of the changes since the last call, each with the time of the change in microseconds: progress
        under the token of the call, unless another stream waits for the task and sends the progress (T25-41, T1686-18),
        and `notifications/tasks/status` with the whole task (T25-40)."""
        found: list[tuple[int, bytes]] = []
        for task, waited in await hub.lanes.run(changed_tasks, self._session.id, self._since):
            self._since, stamp = task.updated_at, microseconds(task.updated_at)
            if (progress := self._progress(task)) is not None and not waited:
                found.append((stamp, progress))
            shown_now = (mapping.status(task), task.message)
            if task.revision == VERSION and self._told.get(task.id) != shown_now:
                self._told[task.id] = shown_now
                found.append((stamp, notification_message("notifications/tasks/status", mapping.task_fields(task))))
            if task.state in TERMINAL:
                # The task does not change any more.
                self._told.pop(task.id, None)
                self._furthest.pop(task.id, None)
        return found

    def _progress(self, task: TaskRecord) -> bytes | None:
        """The notification of the task's progress; `None` unless it is further than the last one that was sent."""
        if task.progress_token is None or task.progress is None or task.state in TERMINAL:
            return None
        if task.progress <= self._furthest.get(task.id, float("-inf")):
            return None
        self._furthest[task.id] = task.progress
        line = StoredLine(0, "progress", task.message, task.progress, task.total, task.updated_at)
        return progress_message(json.loads(task.progress_token), line, shown.related(task))

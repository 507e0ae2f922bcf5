"""Tasks of a 2025-11-25 server, for tools that can only be called as tasks.

In this revision `tasks/get` returns only the status. The result is fetched by another request, `tasks/result`, which
waits until the task ends; on the stream of that request the server asks the task's questions, each as a request of its
own. So `tasks/result` is kept open beside the polls while a task asks. `SessionTasks` translates all this into the form
of 2026-07-28, so that `upstream.deferred` polls both revisions alike.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
from collections import deque
from collections.abc import Callable, Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from typing import Any, Final

import mcp_types as types
from mcp import MCPError

from taskhub.core.records import LogLine, Poll
from taskhub.core.states import QuestionKind
from taskhub.core.versions import Version
from taskhub.domain.questions.reads import AnsweredByError
from taskhub.lib import jsonx
from taskhub.upstream.calls import Bound
from taskhub.upstream.connection import Connection, Profile
from taskhub.upstream.failures import gone
from taskhub.upstream.hosted import RELATED
from taskhub.upstream.offers import Verbatim
from taskhub.upstream.refusals import refusal
from taskhub.upstream.sieve import CREATED

logger = logging.getLogger(__name__)

ANSWERING_SECONDS: Final = 86_400
"""Seconds that people may take for an answer. The server is asked to keep a task for this long, plus the run time of
its tool."""

HEAR_SECONDS: Final = 1.0
"""Seconds that a poll waits for the question of a task that asks one. The next poll finds a question that comes
later."""

MOST_OF_ID: Final = 40
"""The most characters of the id of a server's request that are kept. A request with a longer id cannot be answered
later."""

LINES: Final = 100
"""The most log lines of a task that are kept until a poll takes them."""

_METHODS: Final = {
    QuestionKind.ELICITATION: "elicitation/create",
    QuestionKind.SAMPLING: "sampling/createMessage",
    QuestionKind.ROOTS: "roots/list",
}

Lend = Callable[[], AbstractAsyncContextManager[Connection]]


def only_as_tasks(protocol: str, capabilities: Mapping[str, Any], tools: Mapping[str, Any]) -> frozenset[str]:
    """The names of those `tools` (definitions by name) that a server with these capabilities allows to be called only
    as tasks. Other tools are called without a task, because most results come sooner than a poll would find them."""
    found: Any = capabilities
    for part in ("tasks", "requests", "tools", "call"):
        found = found.get(part) if isinstance(found, dict) else None
    if protocol != Version.MCP_2025_11_25 or not isinstance(found, dict):
        return frozenset()
    return frozenset(name for name, tool in tools.items() if _support(tool) == "required")


def _support(tool: Any) -> Any:
    execution = tool.get("execution")
    return execution.get("taskSupport") if isinstance(execution, dict) else None


def task_of(run_seconds: int) -> types.TaskMetadata:
    """The parameter `task` of a call: the server is to keep the task until people have answered and the tool has
    run."""
    return types.TaskMetadata(ttl=(ANSWERING_SECONDS + run_seconds) * 1000)


def made_of(body: dict[str, Any]) -> Any:
    """The task that the server made of a call that it answered with `body`; `None` if it made none."""
    return (body.get("_meta") or {}).get(CREATED)


@dataclass(slots=True)
class _Question:
    """A question whose answer the server waits for."""

    method: str
    params: dict[str, Any]
    answer: asyncio.Future[dict[str, Any]]


@dataclass(slots=True, eq=False)
class _Listener(Bound):
    """Receives what a task asks on the stream of its result."""

    questions: dict[str, _Question] = field(default_factory=dict)
    news: asyncio.Event = field(default_factory=asyncio.Event)

    async def answer(
        self, kind: QuestionKind, params: dict[str, Any], number: types.RequestId = 0
    ) -> dict[str, Any] | None:
        """See `Bound`. A question's key is made of the id of its request and its content, so that a server that repeats
        the question after a lost stream gets the same answer."""
        digest = hashlib.sha256(jsonx.encode([kind, jsonx.repaired(params)])).hexdigest()[:16]
        key = f"{_named(number)}-{digest}"
        asked = _Question(_METHODS[kind], params, asyncio.get_running_loop().create_future())
        self.questions[key] = asked
        self.news.set()
        ended = asyncio.ensure_future(self.ended.wait())
        first: set[asyncio.Future[Any]] = {asked.answer, ended}
        try:
            await asyncio.wait(first, return_when=asyncio.FIRST_COMPLETED)
            return asked.answer.result() if asked.answer.done() else None
        finally:
            ended.cancel()
            self.questions.pop(key, None)


class ResultStream:
    """The request `tasks/result` of one task, kept open until it is answered."""

    def __init__(self, lend: Lend, taken: Poll, profile: Profile) -> None:
        self.lines: deque[LogLine] = deque(maxlen=LINES)
        self.result: dict[str, Any] | None = None
        self._lend = lend
        self._id = taken.upstream_id
        self._listener = _Listener(
            ask=_nobody,
            say=lambda level, text: self.lines.append(LogLine(level, text)),
            roots=profile.roots,
            sampling=profile.sampling,
            context_id=taken.claim.context_id,
            task=taken.upstream_id,
        )
        self._work = asyncio.create_task(self._run())

    @property
    def over(self) -> bool:
        """Whether the request has been answered, or its stream was lost."""
        return self._work.done()

    async def hear(self) -> None:
        """Wait until the task has asked something, or the request is answered; `HEAR_SECONDS` at most."""
        if self._listener.questions:
            return
        self._listener.news.clear()
        try:
            async with asyncio.timeout(HEAR_SECONDS):
                await self._listener.news.wait()
        except TimeoutError:
            pass

    def asked(self) -> dict[str, Any]:
        """The questions of the task that have no answer yet, by key, in the form of `inputRequests`."""
        questions = self._listener.questions.items()
        return {
            key: {"method": each.method, "params": each.params} for key, each in questions if not each.answer.done()
        }

    def give(self, answers: Mapping[str, dict[str, Any]], errors: Mapping[str, dict[str, Any]]) -> None:
        """Answer the task's questions, by their keys, with an answer or an error."""
        for key, asked in self._listener.questions.items():
            if asked.answer.done():
                continue
            if key in answers:
                asked.answer.set_result(answers[key])
            elif key in errors:
                asked.answer.set_exception(AnsweredByError(errors[key]))

    async def close(self) -> None:
        """Cancel the request."""
        self._work.cancel()
        await asyncio.wait({self._work}, timeout=1)

    async def _run(self) -> None:
        try:
            async with self._lend() as connection:
                with connection.calls.serving(self._listener):
                    self.result = await result_of(connection, self._id)
        except Exception as error:  # noqa: BLE001 - the next poll asks again, and tells what is wrong
            logger.info("the result of a task is asked for again: %s", error)
        finally:
            self._listener.news.set()


class SessionTasks:
    """The tasks of one server that this worker polls, with the streams of those that have asked something."""

    def __init__(self) -> None:
        self._streams: dict[tuple[int, str], ResultStream] = {}

    async def told(
        self, lend: Lend, taken: Poll, profile: Profile, body: dict[str, Any], say: Callable[[LogLine], None]
    ) -> dict[str, Any]:
        """The answer `body` to `tasks/get` in the form of 2026-07-28, with the result, the error or the questions of
        the task. Raises what a request of the SDK's client raises."""
        key, status = _key(taken), body.get("status")
        stream = self._streams.get(key)
        if stream is not None:
            while stream.lines:
                say(stream.lines.popleft())
        if status in ("completed", "failed"):
            return await self._ended(lend, taken, str(status))
        if status == "input_required" and (stream is None or stream.over):
            stream = self._streams[key] = ResultStream(lend, taken, profile)
            await stream.hear()
        asked = {} if stream is None else stream.asked()
        if asked or status == "input_required":
            return {**body, "status": "input_required", "inputRequests": asked}
        return body

    def give(self, taken: Poll, answers: Mapping[str, dict[str, Any]], errors: Mapping[str, dict[str, Any]]) -> None:
        """Answer the task's questions, by their keys, with an answer or an error."""
        if (stream := self._streams.get(_key(taken))) is not None:
            stream.give(answers, errors)

    async def respond(self, lend: Lend, taken: Poll) -> None:
        """Send the answers to questions whose stream was lost, perhaps in another worker, by the ids of their requests.
        A server ignores an answer that it has already."""
        stream = self._streams.get(_key(taken))
        heard = set() if stream is None else stream.asked().keys()
        async with lend() as connection:
            for key in (taken.answers.keys() | taken.errors.keys()) - heard:
                number = _number_in(key)
                if number is None:
                    continue
                if key in taken.errors:
                    error = types.ErrorData.model_validate(taken.errors[key])
                    await connection.session.respond(types.JSONRPCError(jsonrpc="2.0", id=number, error=error))
                else:
                    told = types.JSONRPCResponse(jsonrpc="2.0", id=number, result=taken.answers[key])
                    await connection.session.respond(told)

    async def forget(self, taken: Poll) -> None:
        """Close the stream of a task that is not polled any more."""
        if (stream := self._streams.pop(_key(taken), None)) is not None:
            await stream.close()

    async def close(self) -> None:
        """End every stream."""
        streams, self._streams = list(self._streams.values()), {}
        await asyncio.gather(*(stream.close() for stream in streams))

    async def _ended(self, lend: Lend, taken: Poll, status: str) -> dict[str, Any]:
        stream = self._streams.get(_key(taken))
        result = None if stream is None else stream.result
        try:
            if result is None:
                async with lend() as connection:
                    result = await result_of(connection, taken.upstream_id)
        except MCPError as error:
            if status != "failed" or gone(error) or refusal(error) is not None:
                raise
            return {"status": "failed", "error": error.error.model_dump(by_alias=True, exclude_none=True)}
        return {"status": "completed", "result": result}


def _named(number: types.RequestId) -> str:
    """The id of a request as the beginning of a key; an id that is a string gets a `~` in front."""
    return f"~{number[:MOST_OF_ID]}" if isinstance(number, str) else str(number)[:MOST_OF_ID]


def _number_in(key: str) -> types.RequestId | None:
    """The id of the request in a key; `None` if the id was cut."""
    named = key.rpartition("-")[0]
    if len(named.removeprefix("~")) >= MOST_OF_ID:
        return None
    if named.startswith("~"):
        return named[1:]
    return int(named) if named.removeprefix("-").isdecimal() else None


def _key(taken: Poll) -> tuple[int, str]:
    return taken.claim.context_id, taken.upstream_id


async def _nobody(kind: QuestionKind, params: dict[str, Any]) -> dict[str, Any]:
    raise AssertionError("a listener's questions are answered by polls")


async def result_of(connection: Connection, task_id: str) -> dict[str, Any]:
    """Wait for the end of a task, and return its result, without the part of `_meta` that names the task. Raises what a
    request of the SDK's client raises."""
    assert connection.client is not None
    params = types.GetTaskPayloadRequestParams(task_id=task_id)
    body = (await connection.client.session.send_request(types.GetTaskPayloadRequest(params=params), Verbatim)).root
    meta = {name: value for name, value in (body.get("_meta") or {}).items() if name != RELATED}
    rest = {name: value for name, value in body.items() if name != "_meta"}
    return {**rest, "_meta": meta} if meta else rest

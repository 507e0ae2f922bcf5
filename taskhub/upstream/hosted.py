"""Tasks that the hub keeps for a server of 2025-11-25, which asks with `params.task` and does not wait for the answer.

Such a request is answered with a task at once. The server polls the task (`tasks/get`), fetches the answer
(`tasks/result`), and may cancel the task. The SDK's client does not know these requests, so they are taken from the
stream before it reads them. The question itself is answered like any question in the middle of a call.

The tasks of a connection end with it.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from contextvars import Context, copy_context
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Final, Self

import anyio
import mcp_types as types
from mcp.shared.message import SessionMessage
from mcp_types import methods
from pydantic import BaseModel, ValidationError

from taskhub.core.versions import Version
from taskhub.upstream.failures import reason
from taskhub.upstream.sieve import misfit

MOST_TASKS: Final = 64
"""The most tasks that a connection keeps."""
MOST_WAITING: Final = 64
"""The most requests for a result that may wait on one connection until their tasks end."""
LEAST_TTL_MS: Final = 1_000
MOST_TTL_MS: Final = 86_400_000
"""The most milliseconds that a task is kept, and the `ttl` if the server names none."""
POLL_MS: Final = 1_000
"""The pause between two polls that the server is asked to make, in milliseconds."""

RELATED: Final = "io.modelcontextprotocol/related-task"
"""The member of `_meta` that names the task that a message belongs to."""

_HOSTED: Final = {
    "elicitation/create": ("elicitation", "create"),
    "sampling/createMessage": ("sampling", "createMessage"),
}
"""By method of a request that may be hosted: the capability, and its member in `tasks.requests`."""
_OF_TASKS: Final = frozenset({"tasks/get", "tasks/result", "tasks/cancel", "tasks/list"})
_LIVE: Final = "working"

Send = Callable[[SessionMessage], Awaitable[None]]
Ask = Callable[[Any, Any], Awaitable[BaseModel | types.ErrorData]]
"""Answers a request of the server. Like a callback of the SDK, it gets a context (`Origin`) and the params."""


@dataclass(frozen=True, slots=True)
class Origin:
    """The context of a request of the server, in the form that the SDK's callbacks get."""

    meta: dict[str, Any] | None
    request_id: types.RequestId


class _RefusedError(Exception):
    """The server's request is to be answered with `error`."""

    def __init__(self, error: types.ErrorData) -> None:
        super().__init__(error.message)
        self.error = error


def _refused(message: str, code: int = types.INVALID_PARAMS) -> _RefusedError:
    return _RefusedError(types.ErrorData(code=code, message=message))


@dataclass(slots=True, eq=False)
class _Task:
    ttl_ms: int
    id: str = field(default_factory=lambda: secrets.token_urlsafe(24))
    status: str = _LIVE
    message: str = "Waiting for an answer"
    created: datetime = field(default_factory=lambda: datetime.now(UTC))
    updated: datetime = field(default_factory=lambda: datetime.now(UTC))
    outcome: dict[str, Any] | types.ErrorData | None = None
    done_with: bool = False
    """Whether the server has fetched the result, or cancelled the task."""
    told: bool = False
    """Whether the server knows of the task."""
    ended: asyncio.Event = field(default_factory=asyncio.Event)
    work: asyncio.Task[None] | None = None
    expiry: asyncio.TimerHandle | None = None

    def end(self, status: str, message: str, outcome: dict[str, Any] | types.ErrorData) -> None:
        self.status, self.message, self.outcome = status, message, outcome
        self.updated = datetime.now(UTC)
        self.ended.set()

    def shown(self) -> dict[str, Any]:
        """The task as the wire has it."""
        return {
            "taskId": self.id,
            "status": self.status,
            "statusMessage": self.message,
            "createdAt": _time(self.created),
            "lastUpdatedAt": _time(self.updated),
            "ttl": self.ttl_ms,
            "pollInterval": POLL_MS,
        }


class Hosting:
    """The tasks of one connection."""

    def __init__(self, elicit: Ask, sample: Ask) -> None:
        self._ask = {"elicitation/create": elicit, "sampling/createMessage": sample}
        self._declared: frozenset[str] = frozenset()
        self._tasks: dict[str, _Task] = {}
        self._handling: dict[types.RequestId, asyncio.Task[None]] = {}
        self._waiting = 0
        self._send: Send | None = None

    def declared(self, capabilities: dict[str, Any], version: str) -> dict[str, Any]:
        """The capabilities for `initialize`. For a 2025-11-25 server they also say that its requests may be made as
        tasks."""
        if version != Version.MCP_2025_11_25:
            return capabilities
        self._declared = frozenset(method for method, (part, _) in _HOSTED.items() if part in capabilities)
        if not self._declared:
            return capabilities
        named = [_HOSTED[method] for method in sorted(self._declared)]
        requests: dict[str, Any] = {part: {name: {}} for part, name in named}
        return {**capabilities, "tasks": {"list": {}, "cancel": {}, "requests": requests}}

    def watched(self, stream: Any, send: Send) -> _Watched:
        """The stream of incoming messages without those about hosted tasks, which are answered by `send`."""
        self._send = send
        return _Watched(stream, self)

    def close(self) -> None:
        """Forget all tasks, and cancel their questions."""
        for task in [*self._tasks.values()]:
            self._forget(task)
        for handling in [*self._handling.values()]:
            handling.cancel()

    def takes(self, item: Any, context: Context | None) -> bool:
        """Answer the message, in a copy of `context`, if it is about a hosted task. Returns whether it is."""
        if not self._declared or not isinstance(item, SessionMessage):
            return False
        message = item.message
        if isinstance(message, types.JSONRPCNotification):
            if message.method == "notifications/cancelled":
                left = self._handling.get((message.params or {}).get("requestId", ""))
                if left is not None:
                    left.cancel()
            return False
        if not isinstance(message, types.JSONRPCRequest):
            return False
        asks = message.method in self._declared and "task" in (message.params or {})
        if not asks and message.method not in _OF_TASKS:
            return False
        where = copy_context() if context is None else context.copy()
        handling = asyncio.create_task(self._handle(message), context=where)
        self._handling[message.id] = handling
        handling.add_done_callback(lambda done: self._handled(message.id, done))
        return True

    def _handled(self, number: types.RequestId, done: asyncio.Task[None]) -> None:
        if self._handling.get(number) is done:
            del self._handling[number]

    async def _handle(self, request: types.JSONRPCRequest) -> None:
        told: types.JSONRPCResponse | types.JSONRPCError
        try:
            result = await self._result(request)
            told = types.JSONRPCResponse(jsonrpc="2.0", id=request.id, result=result)
        except _RefusedError as refused:
            told = types.JSONRPCError(jsonrpc="2.0", id=request.id, error=refused.error)
        await self._tell(told)

    async def _tell(self, message: types.JSONRPCMessage) -> None:
        assert self._send is not None
        with suppress(anyio.ClosedResourceError, anyio.BrokenResourceError):  # the connection has ended
            await self._send(SessionMessage(message))

    async def _result(self, request: types.JSONRPCRequest) -> dict[str, Any]:
        params = request.params or {}
        match request.method:
            case "tasks/list":
                if params.get("cursor") is not None:
                    raise _refused("Unknown cursor: all tasks are on one page")
                return {"tasks": [task.shown() for task in self._tasks.values()]}
            case "tasks/get":
                return self._named(params, "retrieve").shown()
            case "tasks/cancel":
                return self._cancelled(params)
            case "tasks/result":
                return await self._outcome(params)
        return await self._created(request)

    def _named(self, params: Mapping[str, Any], what: str) -> _Task:
        named = params.get("taskId")
        task = self._tasks.get(named) if isinstance(named, str) else None
        if task is None:
            raise _refused(f"Failed to {what} task: Task not found, or expired")
        return task

    def _cancelled(self, params: Mapping[str, Any]) -> dict[str, Any]:
        task = self._named(params, "cancel")
        if task.status != _LIVE:
            raise _refused(f"Cannot cancel task: it is {task.status}")
        error = types.ErrorData(code=types.INVALID_PARAMS, message="Task was cancelled")
        task.end("cancelled", "Cancelled by the server", error)
        task.done_with = True
        if task.work is not None:
            task.work.cancel()
        return task.shown()

    async def _outcome(self, params: Mapping[str, Any]) -> dict[str, Any]:
        task = self._named(params, "retrieve")
        if not task.ended.is_set():
            if self._waiting >= MOST_WAITING:
                raise _refused(f"{MOST_WAITING} requests wait for results already", types.INTERNAL_ERROR)
            self._waiting += 1
            try:
                await task.ended.wait()
            finally:
                self._waiting -= 1
        task.done_with = True
        assert task.outcome is not None
        if isinstance(task.outcome, types.ErrorData):
            raise _RefusedError(task.outcome)
        return _related(task, task.outcome)

    async def _created(self, request: types.JSONRPCRequest) -> dict[str, Any]:
        asked = {name: value for name, value in (request.params or {}).items() if name != "task"}
        ttl_ms = _ttl_of((request.params or {})["task"])
        try:
            parsed = methods.parse_server_request(request.method, Version.MCP_2025_11_25, asked)
        except ValidationError as error:
            raise _refused(f"Invalid request parameters: {misfit(error)}") from None
        self._make_room()
        task = _Task(ttl_ms)
        self._tasks[task.id] = task
        meta = parsed.params.meta if parsed.params else None
        task.work = asyncio.create_task(self._run(task, request.method, Origin(meta, request.id), parsed.params))
        task.expiry = asyncio.get_running_loop().call_later(ttl_ms / 1000, self._forget, task)
        await asyncio.sleep(0)  # lets `_run` begin: if it finds that nobody can answer, no task is made
        if isinstance(task.outcome, types.ErrorData):
            self._forget(task)
            raise _RefusedError(task.outcome)
        task.told = True
        return _related(task, {"task": {**task.shown(), "status": _LIVE}})

    def _make_room(self) -> None:
        """If there are `MOST_TASKS` tasks, forget the oldest that the server does not need any more."""
        if len(self._tasks) < MOST_TASKS:
            return
        old = next((task for task in self._tasks.values() if task.ended.is_set() and task.done_with), None)
        if old is None:
            raise _refused(f"There are {MOST_TASKS} tasks already", types.INTERNAL_ERROR)
        self._forget(old)

    def _forget(self, task: _Task) -> None:
        """End and forget a task, as when its `ttl` is over."""
        self._tasks.pop(task.id, None)
        if task.expiry is not None:
            task.expiry.cancel()
        if task.work is not None:
            task.work.cancel()
        if not task.ended.is_set():
            error = types.ErrorData(code=types.INVALID_PARAMS, message="Failed to retrieve task: Task has expired")
            task.end("failed", "Expired", error)

    async def _run(self, task: _Task, method: str, origin: Origin, params: Any) -> None:
        """Have the question answered, and end the task with the answer."""
        found: BaseModel | types.ErrorData
        try:
            found = await self._ask[method](origin, params)
        except Exception as error:  # noqa: BLE001 - whatever went wrong, the server hears of it
            found = types.ErrorData(code=types.INTERNAL_ERROR, message=reason(error))
        if task.ended.is_set():
            return
        if isinstance(found, types.ErrorData):
            task.end("failed", found.message[:1024], found)
        else:
            task.end("completed", "Answered", found.model_dump(by_alias=True, mode="json", exclude_none=True))
        if task.told:
            notice = types.JSONRPCNotification(jsonrpc="2.0", method="notifications/tasks/status", params=task.shown())
            await self._tell(notice)


class _Watched:
    """The stream of incoming messages that the SDK reads."""

    def __init__(self, stream: Any, hosting: Hosting) -> None:
        self._stream = stream
        self._hosting = hosting

    async def __aenter__(self) -> Self:
        await self._stream.__aenter__()
        return self

    async def __aexit__(self, *error: Any) -> Any:
        self._hosting.close()
        return await self._stream.__aexit__(*error)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Any:
        item = await self._stream.__anext__()
        while self._hosting.takes(item, getattr(self._stream, "last_context", None)):
            item = await self._stream.__anext__()
        return item


def _ttl_of(wanted: Any) -> int:
    """The `ttl` of a task in milliseconds: the wanted one, within limits. Raises `_RefusedError` if it is invalid."""
    ttl = wanted.get("ttl") if isinstance(wanted, dict) else -1
    if ttl is None:
        return MOST_TTL_MS
    if isinstance(ttl, bool) or not isinstance(ttl, int | float) or not ttl >= 0:
        raise _refused("`task` must be an object, and its `ttl` a number of milliseconds")
    return int(max(LEAST_TTL_MS, min(ttl, MOST_TTL_MS)))


def _related(task: _Task, result: dict[str, Any]) -> dict[str, Any]:
    """The result with the id of its task in `_meta`."""
    return {**result, "_meta": {**(result.get("_meta") or {}), RELATED: {"taskId": task.id}}}


def _time(moment: datetime) -> str:
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")

"""One live connection to an upstream server, through the official SDK's client.

A connection is an actor: the SDK's client must be entered and left in one task, so a task of its
own holds it open while others call through it. It serves one call at a time, so that a question,
a log line or a failure can only belong to that call, and one failing call takes no other down.
"""

from __future__ import annotations

import asyncio
import importlib
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, Literal, Self, TypeVar

import httpx2
import mcp_types as types
from django.conf import settings
from mcp import Client, MCPError, StdioServerParameters
from mcp.client.stdio import stdio_client
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.message import SessionMessage
from pydantic import BaseModel

from taskhub.core.errors import Invalid, Unavailable
from taskhub.core.secrets import HIDDEN, without_secrets
from taskhub.core.states import QuestionKind
from taskhub.core.versions import is_stateless
from taskhub.domain.catalogue.spec import command_of
from taskhub.lib import jsonx
from taskhub.upstream.bounds import MAX_ANSWER, PLAIN, bounded
from taskhub.upstream.refusals import HttpRefusals, refusal
from taskhub.upstream.sieve import Sieve
from taskhub.upstream.stderr import logged
from taskhub.upstream.unreadable import Waiting

CONNECT_SECONDS = 15.0
CLOSE_SECONDS = 5.0
MAX_LOGGER = 100
"""Characters of a logger's name that are put before its line."""

_GONE = (types.CONNECTION_CLOSED, "Connection closed")
"""The SDK's own error. Servers use the same code for errors of their own."""

_STREAM_LOST = "SSE stream "
"""How the SDK's message begins, with the code of a closed connection, when the stream of an answer ended."""

_STREAM_FAILED = f"{_STREAM_LOST}failed: "

_SAMPLING_PARTS = frozenset({"tools", "context"})

_LISTS_CHANGED = (
    types.ToolListChangedNotification,
    types.PromptListChangedNotification,
    types.ResourceListChangedNotification,
)

R = TypeVar("R", bound=BaseModel)
Ask = Callable[[QuestionKind, dict[str, Any]], Awaitable[dict[str, Any]]]
Say = Callable[[str, str], None]
Mode = Literal["auto", "legacy"]
"""`auto` asks a server for its revisions first; `legacy` begins with `initialize`, as before 2026."""


@dataclass(frozen=True, slots=True)
class Target:
    """Where a server is, and how to connect to it."""

    transport: str
    target: str = field(repr=False)
    headers: tuple[tuple[str, str], ...] = field(default=(), repr=False)
    """Sent with every request to an HTTP server."""
    name: str = field(default="", compare=False)
    """The server's name, for the log."""
    unusable: str = ""
    """Why it must not be connected to, as text for people; empty where it may."""

    def reason(self, error: BaseException) -> str:
        """The error in one line, without the server's secrets."""
        return self.shown(reason(error))

    def secrets(self) -> list[str]:
        """The secrets in its headers: of an `Authorization`, what follows the scheme."""
        return [value.partition(" ")[2] or value for _, value in self.headers]

    def shown(self, text: str) -> str:
        """`text`, which may quote the server's address or what was sent to it, without secrets."""
        for secret in filter(None, self.secrets()):
            text = text.replace(secret, HIDDEN)
        return without_secrets(text, self.transport, self.target)


@dataclass(frozen=True, slots=True)
class Profile:
    """What this connection declares. Elicitation always: people answer it in the console. Sampling and roots only when
    the caller declared them, so that a tool which needs the caller's model learns that there is none."""

    sampling: frozenset[str] | None = None
    """Which of its parts, `tools` and `context`; `None` when the caller has no model."""
    roots: bool = False

    @classmethod
    def of(cls, capabilities: Mapping[str, Any]) -> Profile:
        """The profile for a caller with these capabilities."""
        declared = capabilities.get("sampling")
        sampling = _SAMPLING_PARTS.intersection(declared) if isinstance(declared, dict) else None
        return cls(sampling=sampling, roots=isinstance(capabilities.get("roots"), dict))


@dataclass(slots=True)
class Bound:
    """The one call that a connection serves at the moment."""

    ask: Ask
    say: Say
    begin: Callable[[], bool] = lambda: True
    """Called when the call has its connection. Returns whether it is still wanted."""
    roots: bool = False
    """Whether its caller has roots. Where it has none they are refused, since people could only guess them."""


class _Ended(Unavailable):
    """A command ended before it was connected."""


class Connection:
    """Open with `start`, end with `stop`. `client` is usable in between."""

    def __init__(self, target: Target, profile: Profile) -> None:
        self.target = target
        self.profile = profile
        self.client: Client | None = None
        self.bound: Bound | None = None
        self.on_lists_changed: Callable[[], None] = lambda: None
        self.on_updated: Callable[[str], None] = lambda uri: None
        self._opened: asyncio.Future[None] | None = None
        self._stop = asyncio.Event()
        self.forgotten = False
        """Whether the server no longer knows the session."""
        self.refused_call = False
        """Whether the server refused a call for that reason, so that the call never ran."""
        self.unconnected = ""
        """Why its last message could not be sent, over HTTP: nothing listened there."""
        self.dismissed = False
        """Whether it was ended by us. A connection that is neither alive nor dismissed was lost."""
        self.learnt: frozenset[tuple[str, str]] = frozenset()
        """The tools whose mirrored arguments its client knows (`Pool.mirrored`)."""
        self._task: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Connect and negotiate. Raises `Unavailable` with the reason in words."""
        if self.target.unusable:
            raise Unavailable(self.target.unusable)
        try:
            await self._open("auto")
        except _Ended:
            # Servers on early SDKs end at any request before `initialize`, such as the one for their revisions. A
            # command that ended for another reason will end again.
            self._stop = asyncio.Event()
            await self._open("legacy")

    async def _open(self, mode: Mode) -> None:
        self._opened = asyncio.get_running_loop().create_future()
        self._task = asyncio.create_task(self._hold(mode))
        try:
            async with asyncio.timeout(CONNECT_SECONDS):
                await asyncio.shield(self._opened)
        except TimeoutError:
            await self._break_off(self._task)
            raise Unavailable(f"no answer within {CONNECT_SECONDS:.0f} s") from None
        except asyncio.CancelledError:
            # Nothing else refers to it yet, so a command would be left running.
            await self._break_off(self._task)
            raise

    async def stop(self) -> None:
        """Close; never raises."""
        self.dismissed = self.dismissed or self.alive
        self._stop.set()
        if self._task is not None:
            done, _ = await asyncio.wait({self._task}, timeout=CLOSE_SECONDS)
            if not done:
                await self._break_off(self._task)

    async def _break_off(self, task: asyncio.Task[None]) -> None:
        """Cancel the task and wait for its end: the SDK may have to kill the command, which takes a moment."""
        task.cancel()
        await asyncio.wait({task}, timeout=CLOSE_SECONDS)

    @property
    def alive(self) -> bool:
        """Whether calls can go through."""
        return self.client is not None and not self._stop.is_set() and not self.forgotten

    @property
    def modern(self) -> bool:
        """Whether the server speaks 2026-07-28 or later."""
        return self.client is not None and is_stateless(self.client.protocol_version)

    async def _hold(self, mode: Mode) -> None:
        assert self._opened is not None
        try:
            async with self._build(mode) as client:
                self.client = client
                self._opened.set_result(None)
                await self._stop.wait()
        except asyncio.CancelledError:
            raise
        except Unavailable as error:
            if not self._opened.done():
                self._opened.set_exception(error)
        except BaseException as error:  # noqa: BLE001 - the SDK raises exception groups of anything
            if not self._opened.done():
                ended = self.target.transport == "stdio" and mode == "auto" and gone(innermost(error))
                self._opened.set_exception((_Ended if ended else Unavailable)(self.target.reason(error)))
        finally:
            self.client = None

    def _build(self, mode: Mode) -> Client:
        return Client(
            self._server(),
            mode=mode,
            elicitation_callback=self._elicit,
            sampling_callback=None if self.profile.sampling is None else self._sample,
            sampling_capabilities=_sampling(self.profile),
            list_roots_callback=self._roots if self.profile.roots else None,
            logging_callback=self._log,
            log_level="debug",
            message_handler=self._message,
            client_info=types.Implementation(name="taskhub", version=settings.VERSION),
            cache=None,
        )

    async def _elicit(self, context: Any, params: types.ElicitRequestParams) -> types.ElicitResult | types.ErrorData:
        return await self._answer(QuestionKind.ELICITATION, params, types.ElicitResult)

    async def _sample(
        self, context: Any, params: types.CreateMessageRequestParams
    ) -> types.CreateMessageResultWithTools | types.ErrorData:
        # Its content may be a list; this shape of the SDK also accepts what the other one does.
        return await self._answer(QuestionKind.SAMPLING, params, types.CreateMessageResultWithTools)

    async def _roots(self, context: Any) -> types.ListRootsResult | types.ErrorData:
        if self.bound is None:
            # Many servers ask as soon as they are connected. No call runs, so there are none; an error would make each
            # such server log a line at every start.
            return types.ListRootsResult(roots=[])
        if not self.bound.roots:
            return types.ErrorData(code=types.METHOD_NOT_FOUND, message="The caller of this tool has no roots")
        return await self._answer(QuestionKind.ROOTS, None, types.ListRootsResult)

    async def _answer(self, kind: QuestionKind, params: Any, shape: type[R]) -> R | types.ErrorData:
        """Handle a request that an older server makes in the middle of a call: people or the client answer it while the
        call waits."""
        if self.bound is None:
            return types.ErrorData(code=types.INVALID_REQUEST, message="No call is running on this connection")
        body = {} if params is None else params.model_dump(by_alias=True, mode="json", exclude_none=True)
        body.pop("_meta", None)
        return shape.model_validate(await self.bound.ask(kind, body))

    async def _log(self, params: types.LoggingMessageNotificationParams) -> None:
        if self.bound is not None:
            self.bound.say(str(params.level), _said(params.logger, params.data))

    async def _message(self, message: Any) -> None:
        if isinstance(message, _LISTS_CHANGED):
            self.on_lists_changed()
        elif isinstance(message, types.ResourceUpdatedNotification):
            self.on_updated(message.params.uri)

    def _server(self) -> Any:
        if self.target.transport == "python":
            return _imported(self.target.target)
        # Whichever side ends first: the connection of a command that died is of no use.
        return _transport(self.target, self._stop.set, self._forget, self._cannot_send, self._declare)

    def _cannot_send(self, problem: str) -> None:
        self.unconnected = problem

    def _declare(self, message: Any) -> None:
        """Take roots out of a request's capabilities where this call's caller has none: a connection that serves all
        callers declares roots. Older servers were told once, for all calls."""
        if self.bound is None or self.bound.roots or not isinstance(message, types.JSONRPCRequest):
            return
        params = message.params or {}
        meta = params.get("_meta") or {}
        declared = meta.get(types.CLIENT_CAPABILITIES_META_KEY) or {}
        if "roots" in declared:
            told = {name: value for name, value in declared.items() if name != "roots"}
            message.params = {**params, "_meta": {**meta, types.CLIENT_CAPABILITIES_META_KEY: told}}

    def _forget(self, refused: str) -> None:
        """The server no longer knows the session (B25-06: a new one is wanted), and has refused a message of the method
        `refused` for that. Calls that run may still end."""
        self.forgotten = True
        self.refused_call = self.refused_call or refused == "tools/call"


def _sampling(profile: Profile) -> types.SamplingCapability:
    return types.SamplingCapability.model_validate({part: {} for part in profile.sampling or ()})


def _said(logger: str | None, data: Any) -> str:
    """A log line with its logger in front: text as it is, anything else as JSON."""
    text = data if isinstance(data, str) else jsonx.encode(jsonx.repaired(data)).decode()
    return f"{logger[:MAX_LOGGER]}: {text}" if logger else text


def _imported(target: str) -> Any:
    module, _, attribute = target.partition(":")
    try:
        return getattr(importlib.import_module(module), attribute)
    except (ImportError, AttributeError) as error:
        raise Unavailable(f"cannot import {target}: {error}") from None


@asynccontextmanager
async def _transport(
    target: Target,
    on_end: Callable[[], None],
    on_forgotten: Callable[[str], None],
    on_unconnected: Callable[[str], None],
    declare: Callable[[Any], None],
) -> AsyncIterator[tuple[Any, Any]]:
    refusals = HttpRefusals(target.secrets())
    async with AsyncExitStack() as stack:
        match target.transport:
            case "stdio":
                environment, (command, *arguments) = command_of(target.target)
                given = StdioServerParameters(
                    command=command,
                    args=arguments,
                    env=environment,
                    # One byte that is not UTF-8, perhaps in a log line, would end the SDK's reader.
                    encoding_error_handler="replace",
                )
                opening = stdio_client(given, stack.enter_context(logged(target.name or command, target.shown)))
            case "http":
                # A tool may be silent for as long as it may run, which the worker counts.
                http = httpx2.AsyncClient(
                    transport=_Sending(on_unconnected),
                    headers={**dict(target.headers), **PLAIN},
                    timeout=httpx2.Timeout(30.0, read=None),
                    event_hooks={"response": [bounded, refusals.look, _on_forgotten(on_forgotten)]},
                )
                await stack.enter_async_context(http)
                opening = streamable_http_client(target.target, http_client=http, max_sse_event_size=MAX_ANSWER)
            case _:
                raise Invalid(f"unknown transport {target.transport}")
        read, write = await stack.enter_async_context(opening)
        sieve, waiting = Sieve(), Waiting()
        yield _Read(read, sieve, waiting, on_end, refusals), _Written(write, sieve, waiting, declare)


class _Sending(httpx2.AsyncHTTPTransport):
    """Reports messages that were never sent, of which the SDK only says that the connection is closed."""

    def __init__(self, tell: Callable[[str], None]) -> None:
        super().__init__()
        self._tell = tell

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        try:
            return await super().handle_async_request(request)
        except (httpx2.ConnectError, httpx2.ConnectTimeout) as error:
            if request.method == "POST":
                self._tell(reason(error))
            raise


def _on_forgotten(tell: Callable[[str], None]) -> Callable[[httpx2.Response], Awaitable[None]]:
    """Calls `tell` when the server no longer knows the session: with the method of the message that it refused for that
    reason, or an empty text where it may have handled the message all the same.

    The status should be 404 (B25-06); some servers send 400. A body with the id of the request is an answer to it,
    though some servers send even that for an unknown session.
    """

    async def look(response: httpx2.Response) -> None:
        request, status = response.request, response.status_code
        # A server without a stream of its own may say 404 to GET.
        if status not in (400, 404) or request.method != "POST" or "mcp-session-id" not in request.headers:
            return
        asked = _object(request.content)
        try:
            told = _object(await response.aread())
        except httpx2.StreamError:  # beyond the bounds: the SDK will not read it either
            told = {}
        answered = asked.get("id") is not None and told.get("id") == asked["id"]
        if status == 404 and not (answered and _code(told) == types.METHOD_NOT_FOUND):
            tell("" if answered else str(asked.get("method", "")))
        if status == 400 and not answered and asked.get("id") is not None:
            tell(str(asked.get("method", "")))

    return look


def _object(body: bytes) -> dict[str, Any]:
    try:
        found = json.loads(body)
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


def _code(message: dict[str, Any]) -> Any:
    error = message.get("error")
    return error.get("code") if isinstance(error, dict) else None


class _Stream:
    """A stream of the SDK whose messages are watched."""

    def __init__(self, stream: Any, sieve: Sieve, waiting: Waiting) -> None:
        self._stream = stream
        self._sieve = sieve
        self._waiting = waiting

    async def __aenter__(self) -> Self:
        await self._stream.__aenter__()
        return self

    async def __aexit__(self, *error: Any) -> Any:
        return await self._stream.__aexit__(*error)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


class _Read(_Stream):
    """Incoming messages, sieved, with errors in place of replies that cannot be read. Calls `on_end` when its reader
    leaves it, for whatever reason."""

    def __init__(
        self, stream: Any, sieve: Sieve, waiting: Waiting, on_end: Callable[[], None], refusals: HttpRefusals
    ) -> None:
        super().__init__(stream, sieve, waiting)
        self._instead: list[SessionMessage] = []
        self._on_end = on_end
        self._refusals = refusals

    async def __aexit__(self, *error: Any) -> Any:
        self._on_end()
        return await super().__aexit__(*error)

    def __aiter__(self) -> _Read:
        return self

    async def __anext__(self) -> Any:
        if self._instead:
            return self._instead.pop()
        item = self._refusals.named(await self._stream.__anext__())
        self._instead = self._waiting.received(item)
        if isinstance(item, SessionMessage):
            self._sieve.received(item.message)
        return item


class _Written(_Stream):
    """Outgoing messages, after `declare` has adapted them to the caller."""

    def __init__(self, stream: Any, sieve: Sieve, waiting: Waiting, declare: Callable[[Any], None]) -> None:
        super().__init__(stream, sieve, waiting)
        self._declare = declare

    async def send(self, item: Any) -> None:
        self._declare(item.message)
        self._sieve.sent(item.message)
        self._waiting.sent(item.message)
        await self._stream.send(item)


def gone(error: BaseException) -> bool:
    """Whether the error says that the connection is gone. After any other error of a request the connection is as good
    as before."""
    if not isinstance(error, MCPError):
        return False
    if refused := refusal(error):
        return refused.ended
    code, message = error.error.code, error.error.message
    return (code, message) == _GONE or (code == types.CONNECTION_CLOSED and message.startswith(_STREAM_LOST))


def lost(error: MCPError) -> bool:
    """Whether it says that the connection ended during the request, so that the outcome is unknown."""
    return error.error.code == types.CONNECTION_CLOSED and gone(error) and not failure(error)


def failure(error: MCPError) -> str:
    """Why the stream of the answer was given up, if it says so; else empty."""
    message = error.error.message
    return message.removeprefix(_STREAM_FAILED) if gone(error) and message.startswith(_STREAM_FAILED) else ""


def innermost(error: BaseException) -> BaseException:
    """The error that exception groups, however many, are about."""
    while isinstance(error, BaseExceptionGroup) and error.exceptions:
        error = error.exceptions[0]
    return error


def reason(error: BaseException) -> str:
    """The error in one line."""
    error = innermost(error)
    if refused := refusal(error):
        return refused.words()
    return f"{type(error).__name__}: {str(error).splitlines()[0][:300]}" if str(error) else type(error).__name__

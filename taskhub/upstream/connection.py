"""One live connection to a server, through the official SDK's client.

The SDK's client must be entered and left in the same asyncio task, so each connection has its own
task, which holds the client open while other tasks call through it. It may carry several calls at
once (`upstream.calls`).
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from typing import Any, Final, TypeVar

import httpx2
import mcp_types as types
from django.conf import settings
from mcp import Client
from mcp.client.extension import advertise
from mcp.client.streamable_http import streamable_http_client
from pydantic import BaseModel

from taskhub.core.errors import Invalid, Unavailable
from taskhub.core.secrets import without_values
from taskhub.core.states import QuestionKind
from taskhub.core.transports import CONNECT_SECONDS
from taskhub.core.versions import Era, Version, has_sessions, is_stateless
from taskhub.domain.catalogue.spec import command_of
from taskhub.domain.questions.reads import AnsweredByError
from taskhub.upstream.bounds import MAX_ANSWER, PLAIN, bounded
from taskhub.upstream.calls import CALL, Calls, said
from taskhub.upstream.command import command_streams
from taskhub.upstream.eras import Eras, Unspoken, discover, unmade
from taskhub.upstream.failures import innermost
from taskhub.upstream.hosted import RELATED, Hosting
from taskhub.upstream.isolation import isolated
from taskhub.upstream.own_process import OF_CALL
from taskhub.upstream.processes import group
from taskhub.upstream.refusals import HttpRefusals, error_code, message_of
from taskhub.upstream.roots import Roots
from taskhub.upstream.sending import SESSION_ID, HttpSession, Ids, Sending
from taskhub.upstream.sieve import Sieve
from taskhub.upstream.sse import sse_streams
from taskhub.upstream.stderr import Lines, logged
from taskhub.upstream.streams import Incoming, Outgoing
from taskhub.upstream.target import Target, imported
from taskhub.upstream.task_news import TaskNews
from taskhub.upstream.unreadable import Waiting

CLOSE_SECONDS = 5.0
"""Seconds in which a connection has to end after `stop`; then it is broken off, which may take as long again. Must be
longer than it takes to kill a command: `command.FLUSH_SECONDS` and twice `command.END_SECONDS`."""
TASKS = "io.modelcontextprotocol/tasks"
"""The extension by which a server may run a call as a task of its own (revision 2026-07-28)."""
PROBE_SECONDS: Final = 10.0
"""Seconds in which a server has to answer `server/discover`; half of the time for the whole connection, if that is
longer. After that another era is tried, because some old servers do not answer a request that they do not know."""

_SAMPLING_PARTS = frozenset({"tools", "context"})

_LISTS_CHANGED = (
    types.ToolListChangedNotification,
    types.PromptListChangedNotification,
    types.ResourceListChangedNotification,
)

_DECLARED = (
    types.PROTOCOL_VERSION_META_KEY,
    types.CLIENT_INFO_META_KEY,
    types.CLIENT_CAPABILITIES_META_KEY,
    types.LOG_LEVEL_META_KEY,
)

R = TypeVar("R", bound=BaseModel)


@dataclass(frozen=True, slots=True)
class Profile:
    """The client capabilities that a connection declares to the server. Elicitation is declared nearly always, because
    people can answer in the console. Sampling and roots are declared only if the caller declared them, so that a tool
    learns if there is no model. Sampling is also declared if the tool's policy lets people answer."""

    sampling: frozenset[str] | None = None
    """Which of the parts `tools` and `context` of sampling are declared; `None` if sampling is not declared at all."""
    roots: bool = False
    elicitation: bool = True
    sessions: bool = False
    """Whether the callers have sessions. Then a server that speaks both eras is also used in a session, because only
    there can its tools ask questions in the middle of a call."""

    @classmethod
    def of(
        cls, capabilities: Mapping[str, Any], *, people: bool = False, elicitation: bool = True, revision: str = ""
    ) -> Profile:
        """The profile for a caller with these capabilities. `people`: whether people answer sampling that the caller
        cannot. `elicitation`: whether the caller or people can be asked. `revision`: the caller's."""
        declared = capabilities.get("sampling")
        sampling = _SAMPLING_PARTS.intersection(declared) if isinstance(declared, dict) else None
        if people:
            sampling = frozenset({"tools"}).union(sampling or ())
        roots = isinstance(capabilities.get("roots"), dict)
        return cls(sampling, roots, elicitation, has_sessions(revision))


class Connection:
    """A connection to a server. Open it with `start`, and end it with `stop`; `client` is usable in between."""

    def __init__(
        self,
        target: Target,
        profile: Profile,
        eras: Eras | None = None,
        *,
        calls: bool = True,
        roots: bool = True,
        resumed: str = "",
    ) -> None:
        """`eras`: what is known of the server's eras; without it, the server is asked. `calls`: whether the connection
        is for calls. `roots`: whether roots, if the profile has them, are declared to an older server, which is told
        once for all calls. `resumed`: the id of a session to resume, instead of opening one."""
        self.target = target
        self.profile = profile
        self.eras = eras or Eras()
        self.era: Era | None = None
        """The era in which the connection was made."""
        self.tried: dict[Era, str] = {}
        """By era, why an earlier try in it failed, as text for people."""
        self.client: Client | None = None
        self.calls = Calls()
        """The calls that run on the connection."""
        self._tells_roots = roots
        self._asked = Roots(self.calls, for_calls=calls)
        self.on_lists_changed: Callable[[], None] = lambda: None
        self.on_updated: Callable[[str], None] = lambda uri: None
        self.on_opened: Callable[[], None] = lambda: None
        """Called when the process of a command has been started, before the first message is sent."""
        self.on_line: Callable[[str], None] = lambda text: None
        """Called, in any thread, for each line of a command that is logged."""
        self._opened: asyncio.Future[None] | None = None
        self._stop = asyncio.Event()
        self.forgotten = False
        """Whether the server no longer knows the session."""
        self.has_session = False
        """Whether an HTTP server has given the connection a session (`Mcp-Session-Id`)."""
        self.session = HttpSession(resumed, resumed=bool(resumed))
        self.pid: int | None = None
        """The process of a command."""
        self.lost_before = ""
        """Why the client's session before this one was lost; empty if it was not, or once a call has reported it."""
        self.dismissed = False
        """Whether `stop` ended the connection. If it is neither alive nor dismissed, it was lost."""
        self.declared: dict[str, Any] = {}
        """The part of `_meta` in which the calls and polls of this connection declare version, client and capabilities;
        empty before the first of them, and in older revisions."""
        self.learnt: frozenset[tuple[str, str]] = frozenset()
        """`Pool.mirrored` when the SDK's client last listed the tools here; it sends headers only for tools that it has
        listed."""
        self._secrets = target.secrets()
        self.news = TaskNews(self.hide)
        """The server's notifications about its tasks."""
        self._hosting = Hosting(self._elicit, self._sample)
        self._task: asyncio.Task[None] | None = None

    def hide(self, text: str) -> str:
        """`text` of a tool without the server's secrets."""
        return without_values(text, self._secrets) if self._secrets else text

    async def start(self) -> None:
        """Connect and negotiate. Raises `Unavailable` with the reason as text for people, or `NeedsAuthorization`."""
        if self.target.unusable:
            raise Unavailable(self.target.unusable)
        if self.target.bearer is not None:
            await self.target.bearer.ready()
        if self.session.resumed:
            await self._open(Era.SESSIONS, CONNECT_SECONDS)
            self.era = Era.SESSIONS
            return
        order = self.eras.order(self.target.target, self.target.version, sessions=self.profile.sessions)
        seconds = self.target.connect_seconds or CONNECT_SECONDS
        silent = may_be_sse = False
        for era in order:
            if era is Era.SSE and self.tried and not may_be_sse:
                continue
            try:
                first = era is Era.STATELESS and len(order) > 1
                await self._open(era, min(seconds, max(PROBE_SECONDS, seconds / 2)) if first else seconds)
            except Unspoken as error:
                self.tried[era] = error.message
                if error.silent and (silent or era is self.eras.last):
                    break
                silent, may_be_sse = silent or error.silent, may_be_sse or error.may_be_sse
            else:
                self.era = era
                self.eras.worked(era, self.tried, tasks=self._takes_tasks())
                return
        self.eras.forget()
        pinned = f" (it is pinned to {self.target.version})" if self.target.version else ""
        raise Unavailable((self.tried.get(Era.SESSIONS) or next(reversed(self.tried.values()))) + pinned)

    def _takes_tasks(self) -> bool:
        client = self.client
        return client is not None and self.modern and TASKS in (client.server_capabilities.extensions or {})

    async def _open(self, era: Era, seconds: float) -> None:
        """Connect in this era. Raises `Unspoken` if another era may work, else `Unavailable`."""
        self._stop = asyncio.Event()
        self.forgotten = self._unsent = False
        self._opened = asyncio.get_running_loop().create_future()
        self._task = asyncio.create_task(self._hold(era))
        try:
            async with asyncio.timeout(seconds):
                await asyncio.shield(self._opened)
        except TimeoutError:
            await self._break_off(self._task)
            raise Unspoken(f"no answer within {seconds:.0f} s", silent=True) from None
        except asyncio.CancelledError:
            # No pool knows the connection yet, so the command must be ended here.
            await self._break_off(self._task)
            raise

    async def stop(self) -> None:
        """Close the connection. Never raises."""
        self.dismissed = self.dismissed or self.alive
        self._stop.set()
        if self._task is not None:
            done, _ = await asyncio.wait({self._task}, timeout=CLOSE_SECONDS)
            if not done:
                await self._break_off(self._task)

    async def _break_off(self, task: asyncio.Task[None]) -> None:
        """Cancel the task and wait for its end, because the SDK may take a moment to kill a command."""
        task.cancel()
        await asyncio.wait({task}, timeout=CLOSE_SECONDS)

    @property
    def alive(self) -> bool:
        """Whether calls can be made through the connection."""
        return self.client is not None and not self._stop.is_set() and not self.forgotten

    @property
    def modern(self) -> bool:
        """Whether the server speaks 2026-07-28 or later."""
        return self.client is not None and is_stateless(self.client.protocol_version)

    async def _hold(self, era: Era) -> None:
        assert self._opened is not None
        try:
            async with self._build(era) as client:
                if era is Era.STATELESS:
                    await discover(client.session)
                self.client = client
                self._opened.set_result(None)
                await self._stop.wait()
        except asyncio.CancelledError:
            raise
        except BaseException as error:  # noqa: BLE001 - the SDK raises exception groups of anything
            if not self._opened.done():
                error = innermost(error)
                self._opened.set_exception(unmade(error, self.target.reason(error), era, sent=not self._unsent))
        finally:
            self.client = None

    def _build(self, era: Era) -> Client:
        return Client(
            self._server(era),
            # With a version, `Client` sends nothing by itself, so the connection can be closed before another era is
            # tried.
            mode=Version.MCP_2026_07_28 if era is Era.STATELESS else "legacy",
            elicitation_callback=self._elicit if self.profile.elicitation else None,
            sampling_callback=None if self.profile.sampling is None else self._sample,
            sampling_capabilities=_sampling(self.profile),
            list_roots_callback=self._roots if self.profile.roots else None,
            logging_callback=self._log,
            log_level="debug",
            message_handler=self._message,
            client_info=types.Implementation(name="taskhub", version=settings.VERSION),
            extensions=[advertise(TASKS)],
            cache=None,
        )

    async def _elicit(self, context: Any, params: types.ElicitRequestParams) -> types.ElicitResult | types.ErrorData:
        return await self._answer(context, QuestionKind.ELICITATION, params, types.ElicitResult)

    async def _sample(
        self, context: Any, params: types.CreateMessageRequestParams
    ) -> types.CreateMessageResultWithTools | types.ErrorData:
        # The SDK's `...WithTools` accepts a list as content, and all that `CreateMessageResult` accepts.
        return await self._answer(context, QuestionKind.SAMPLING, params, types.CreateMessageResultWithTools)

    async def _roots(self, context: Any) -> types.ListRootsResult | types.ErrorData:
        return await self._asked.asked(lambda: self._answer(context, QuestionKind.ROOTS, None, types.ListRootsResult))

    async def greeted(self) -> None:
        """Before a call, wait until an older server has received the roots that it asked for when it was connected."""
        told = self.profile.roots and self._tells_roots and self.target.transport != "python" and not self.modern
        if told and self.client is not None:
            session = self.client.session
            await self._asked.given(lambda: session.send_request(types.PingRequest(), types.EmptyResult))

    async def _answer(self, context: Any, kind: QuestionKind, params: Any, shape: type[R]) -> R | types.ErrorData:
        """Answer a request that an older server makes during a call; people or the client give the answer while the
        call waits. If that call ends first, the request came from another call of the same client, and is given to that
        other call."""
        body = {} if params is None else params.model_dump(by_alias=True, mode="json", exclude_none=True)
        body.pop("_meta", None)
        meta = context.meta or {}
        related = meta.get(RELATED)
        task = related.get("taskId") if isinstance(related, dict) else None
        newest = self.calls.newest
        while True:
            call = self.calls.asking(task if isinstance(task, str) else "", newest, meta.get(OF_CALL))
            if isinstance(call, types.ErrorData):
                return call
            if why := call.refusal(kind, body):
                return why
            try:
                response = await call.answer(kind, body, context.request_id)
            except AnsweredByError as refused:
                return types.ErrorData.model_validate(refused.error)
            if response is not None:
                return shape.model_validate(response)

    async def _log(self, params: types.LoggingMessageNotificationParams) -> None:
        for call in self.calls.concerned((params.meta or {}).get(OF_CALL)):
            call.say(str(params.level), self.hide(said(params.logger, params.data)))

    async def _message(self, message: Any) -> None:
        if isinstance(message, _LISTS_CHANGED):
            self.on_lists_changed()
        elif isinstance(message, types.ResourceUpdatedNotification):
            self.on_updated(message.params.uri)

    def _server(self, era: Era) -> Any:
        if self.target.transport == "python":
            return imported(self.target.target)
        # `_stop` is also set when the server's side ends, for example when a command has died.
        hooks = _Hooks(
            self._stop.set,
            self._forget,
            self._note_session,
            self.session,
            self._cannot_send,
            self._declare,
            self._note_process,
            self.on_opened,
            self.on_line,
            self.news.heard,
            self._hosting,
        )
        return _transport(self.target, era, hooks)

    def _cannot_send(self, problem: str) -> None:
        self._unsent = True
        if (call := CALL.get()) is not None:
            call.unconnected = problem

    def _declare(self, message: Any) -> None:
        """Note the capabilities that a request declares, and reduce them to those of the call's caller. Older servers
        get capabilities once, at `initialize`, for all calls, and never the extension for tasks (T26-54)."""
        if not isinstance(message, types.JSONRPCRequest):
            return
        params = message.params or {}
        if message.method == "initialize":
            version = self.target.version or params["protocolVersion"]
            hidden = ("extensions",) if self._tells_roots else ("extensions", "roots")
            capabilities = {name: told for name, told in params["capabilities"].items() if name not in hidden}
            capabilities = self._hosting.declared(capabilities, version)
            message.params = {**params, "protocolVersion": version, "capabilities": capabilities}
            return
        meta = params.get("_meta") or {}
        if message.method in ("tools/call", "tasks/get") and not self.declared:
            self.declared = {name: meta[name] for name in _DECLARED if name in meta}
        if (call := CALL.get()) is not None:
            call.number = message.id if message.method == "tools/call" else call.number
            if (told := call.narrowed(meta)) is not meta:
                message.params = {**params, "_meta": told}

    def _forget(self, refused: str) -> None:
        """Note that the server no longer knows the session (B25-06: a new one is needed), and that it refused a message
        of the method `refused` for that reason. Running calls may still get their answers."""
        self.forgotten = True
        if (call := CALL.get()) is not None and refused == "tools/call":
            call.refused = True

    def _note_session(self, session_id: str) -> None:
        self.has_session = True
        self.session.id = session_id

    def _note_process(self, pid: int) -> None:
        self.pid = pid


def _sampling(profile: Profile) -> types.SamplingCapability:
    return types.SamplingCapability.model_validate({part: {} for part in profile.sampling or ()})


@dataclass(frozen=True, slots=True)
class _Hooks:
    """The functions that a transport calls: for news of the connection, and `declare` for outgoing messages."""

    on_end: Callable[[], None]
    on_forgotten: Callable[[str], None]
    on_session: Callable[[str], None]
    session: HttpSession
    on_unconnected: Callable[[str], None]
    declare: Callable[[Any], None]
    on_process: Callable[[int], None]
    on_opened: Callable[[], None]
    on_line: Callable[[str], None]
    hear: Callable[[Any], None]
    hosting: Hosting


@asynccontextmanager
async def _transport(target: Target, era: Era, hooks: _Hooks) -> AsyncIterator[tuple[Any, Any]]:
    refusals = HttpRefusals(target.secrets(), oauth=target.bearer is not None)
    async with AsyncExitStack() as stack:
        match target.transport:
            case "stdio":
                started = await stack.enter_async_context(group())
                environment, words = command_of(target.target)
                if not words:
                    raise Unavailable("its command is empty")
                if not settings.TASKHUB_COMMAND_WRAPPER:  # a wrapper may start other programs
                    target.check_program()
                name = target.name or words[0]
                beside = Lines(name, target.shown, hooks.on_line)
                stack.callback(beside.end)
                opening = command_streams(
                    isolated(words),
                    {**environment, **dict(target.environment)},
                    target.directory,
                    stack.enter_context(logged(name, target.shown, hooks.on_line)),
                    beside.say,
                )
                (read, write), pid = await stack.enter_async_context(opening)
                hooks.on_process(pid)
                read = started.until_exit(read, pid, lambda: hooks.on_forgotten(""))
            case "http":
                # Without a read timeout: a tool may be silent while it runs, and the worker limits the running time.
                http = httpx2.AsyncClient(
                    transport=Sending(hooks.on_unconnected, hooks.session),
                    headers={**dict(target.headers), **PLAIN},
                    timeout=httpx2.Timeout(30.0, read=None, connect=max(30.0, target.connect_seconds)),
                    event_hooks=target.hooks(bounded, refusals.look, _on_session(hooks, era)),
                )
                await stack.enter_async_context(http)
                if era is Era.SSE:
                    spoken: Any = sse_streams(target.url, http, refusals)
                else:
                    spoken = streamable_http_client(target.url, http_client=http, max_sse_event_size=MAX_ANSWER)
                read, write = await stack.enter_async_context(spoken)
            case _:
                raise Invalid(f"unknown transport {target.transport}")
        hooks.on_opened()
        if era is Era.SSE:
            hooks.on_session("")
        sieve, waiting = Sieve(), Waiting()
        ids = Ids() if hooks.session.resumed else None
        incoming: Any = Incoming(read, sieve, waiting, ids, hooks.on_end, refusals, hooks.hear)
        hooks.session.outgoing = outgoing = Outgoing(write, sieve, waiting, ids, hooks.declare)
        if era is not Era.STATELESS:
            incoming = hooks.hosting.watched(incoming, outgoing.send)
        yield incoming, outgoing


def _on_session(hooks: _Hooks, era: Era) -> Callable[[httpx2.Response], Awaitable[None]]:
    """A response hook that reports that the server has sessions, or that it no longer knows the session.
    `hooks.on_forgotten` gets the method of the message that the server refused for that reason, or an empty string if
    the server may have handled the message.

    The status for an unknown session should be 404 (B25-06), but some servers send 400. A body with the id of the
    request is an answer to the request, but some servers send such a body for an unknown session too.
    """

    async def look(response: httpx2.Response) -> None:
        request, status = response.request, response.status_code
        if SESSION_ID in response.headers:
            hooks.on_session(response.headers[SESSION_ID])
        # Not for GET: a server without a stream of its own may answer that with 404.
        if status not in (400, 404) or request.method != "POST":
            return
        if era is not Era.SSE and SESSION_ID not in request.headers:
            return
        asked = message_of(request.content)
        try:
            told = message_of(await response.aread())
        except httpx2.StreamError:  # larger than the bounds, so the SDK does not read it either
            told = {}
        answered = asked.get("id") is not None and told.get("id") == asked["id"]
        if status == 404 and not (answered and error_code(told) == types.METHOD_NOT_FOUND):
            hooks.on_forgotten("" if answered else str(asked.get("method", "")))
        if status == 400 and not answered and asked.get("id") is not None:
            hooks.on_forgotten(str(asked.get("method", "")))

    return look

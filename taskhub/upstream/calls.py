"""The calls that run on one connection, and which of them a message of the server belongs to."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any, Final

import mcp_types as types

from taskhub.core.states import QuestionKind
from taskhub.lib import jsonx

Ask = Callable[[QuestionKind, dict[str, Any]], Awaitable[dict[str, Any]]]
Say = Callable[[str, str], None]

FORMS_AND_LINKS: Final = frozenset({"form", "url"})
MAX_LOGGER: Final = 100
"""The most characters of a logger's name in a line."""
WHOSE: Final = "Calls of several clients run in this process, and the request does not say which of them it belongs to"
"""Why a request of a server is refused."""
ENDED: Final = "The call that the request belongs to has ended"


@dataclass(slots=True, eq=False)
class Bound:
    """A call that a connection carries, with functions for the messages that belong to it."""

    ask: Ask
    say: Say
    begin: Callable[[], bool] = lambda: True
    """Called when there is a connection for the call. Returns whether the call is still wanted."""
    roots: bool = False
    """Whether the caller has roots. If not, a request for roots is refused, since people could only guess them."""
    sampling: frozenset[str] | None = None
    """The parts of sampling that the caller, or people instead of it, can serve; `None` for no sampling at all."""
    elicitation: frozenset[str] | None = FORMS_AND_LINKS
    """The modes of elicitation that can be served, mostly by people; `None` for no elicitation at all."""
    context_id: int = 0
    """The id of the client that calls."""
    task: str = ""
    """The server's task whose result is asked for; empty for any other call."""
    place: int = 0
    """The number of the call on its connection, counted in the order in which calls began."""
    number: types.RequestId | None = None
    """The id of the call's request; `None` until the request is sent."""
    asking: int = 0
    """The number of the server's questions that are being answered."""
    refused: bool = False
    """Whether the server refused the call because it no longer knows the session, so that the call never ran."""
    unconnected: str = ""
    """Why no connection could be made for the HTTP request, as text for people; empty if the request was sent."""
    ended: asyncio.Event = field(default_factory=asyncio.Event)

    def narrowed(self, meta: dict[str, Any]) -> dict[str, Any]:
        """The `_meta` of a request, without the capabilities that this call cannot serve, because a connection that
        serves all callers declares everything."""
        declared = meta.get(types.CLIENT_CAPABILITIES_META_KEY) or {}
        told = {name: value for name, value in declared.items() if name != "roots" or self.roots}
        if "sampling" in told:
            told["sampling"] = {
                name: value for name, value in told["sampling"].items() if name in (self.sampling or ())
            }
            if self.sampling is None:
                del told["sampling"]
        if "elicitation" in told and self.elicitation != FORMS_AND_LINKS:
            told["elicitation"] = {mode: {} for mode in self.elicitation or ()}
            if self.elicitation is None:
                del told["elicitation"]
        return meta if told == declared else {**meta, types.CLIENT_CAPABILITIES_META_KEY: told}

    def refusal(self, kind: QuestionKind, params: dict[str, Any]) -> types.ErrorData | None:
        """Why this call cannot serve a request of the server; `None` if it can. Older servers are told the capabilities
        only once, for all calls, so they may ask for more than this caller has."""
        missing = ""
        if kind is QuestionKind.ROOTS and not self.roots:
            missing = "roots"
        elif kind is QuestionKind.SAMPLING and self.sampling is None:
            missing = "model"
        elif kind is QuestionKind.SAMPLING and "tools" in params and "tools" not in (self.sampling or ()):
            missing = "model that is given tools"
        elif kind is QuestionKind.ELICITATION and str(params.get("mode", "form")) not in (self.elicitation or ()):
            missing = f"means for elicitation by {params.get('mode', 'form')}"
        if not missing:
            return None
        return types.ErrorData(code=types.METHOD_NOT_FOUND, message=f"The caller of this tool has no {missing}")

    async def answer(
        self, kind: QuestionKind, params: dict[str, Any], number: types.RequestId = 0
    ) -> dict[str, Any] | None:
        """Have a question answered; `number` is the id of its request. Returns `None` if the call ends before the
        answer."""
        self.asking += 1
        answering, ended = asyncio.ensure_future(self.ask(kind, params)), asyncio.ensure_future(self.ended.wait())
        first: set[asyncio.Future[Any]] = {answering, ended}
        try:
            await asyncio.wait(first, return_when=asyncio.FIRST_COMPLETED)
            return answering.result() if answering.done() else None
        finally:
            self.asking -= 1
            answering.cancel()
            ended.cancel()


CALL: ContextVar[Bound | None] = ContextVar("taskhub_upstream_call", default=None)
"""The call for which the running code sends or receives. The SDK's HTTP client handles what arrives in the response of
a call in the context of that call. For messages of a command, `CALL` is not set."""


class Calls:
    """The calls of one connection."""

    def __init__(self) -> None:
        self._running: list[Bound] = []
        self._begun = asyncio.Event()
        self.newest = 0
        """The place of the call that began last."""

    async def first(self, seconds: float) -> None:
        """Wait until the first call has begun, `seconds` at most."""
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._begun.wait()

    def __len__(self) -> int:
        return len(self._running)

    @contextmanager
    def serving(self, call: Bound) -> Iterator[None]:
        """While the block runs, the connection carries this call, and what the block sends belongs to it."""
        call.ended.clear()
        self.newest += 1
        call.place = self.newest
        self._running.append(call)
        self._begun.set()
        token = CALL.set(call)
        try:
            yield
        finally:
            CALL.reset(token)
            self._running.remove(call)
            call.ended.set()

    def asking(self, task: str, newest: int, number: types.RequestId | None = None) -> Bound | types.ErrorData:
        """The call that a request of the server belongs to, or why there is none.

        If the request names the server's `task`, or the `number` of a request of the hub, that decides; otherwise the
        call for which the running code receives (`CALL`). A request of a command often has none of these. It belongs to
        the latest call without an open question, of the calls with a place up to `newest`: later calls began after the
        request came.
        """
        if task and (named := next((call for call in self._running if call.task == task), None)) is not None:
            return named
        if number is not None:
            return self._named(number) or types.ErrorData(code=types.INVALID_REQUEST, message=ENDED)
        known = CALL.get()
        if known is not None and known in self._running:
            return known
        running = [call for call in self._running if call.place <= newest]
        if not running:
            return types.ErrorData(code=types.INVALID_REQUEST, message="No call is running on this connection")
        if not self._of_one_client():
            # A client must not see or answer a question of another client's call.
            return types.ErrorData(code=types.INVALID_REQUEST, message=WHOSE)
        return next((call for call in reversed(running) if not call.asking), running[-1])

    def concerned(self, number: types.RequestId | None = None) -> Sequence[Bound]:
        """The calls that a log line of the server may be about: only the call of the request `number` if the line names
        one, or the call for which the running code receives (`CALL`). For any other line these are all running calls,
        but none if they belong to several clients."""
        if number is not None:
            return () if (named := self._named(number)) is None else (named,)
        known = CALL.get()
        if known is not None and known in self._running:
            return (known,)
        return tuple(self._running) if self._of_one_client() else ()

    def _named(self, number: types.RequestId) -> Bound | None:
        return next((call for call in self._running if call.number == number), None)

    def _of_one_client(self) -> bool:
        return len({call.context_id for call in self._running}) == 1


def said(logger: str | None, data: Any) -> str:
    """A log line with the logger's name in front; data that is not text is written as JSON."""
    text = data if isinstance(data, str) else jsonx.encode(jsonx.repaired(data)).decode()
    return f"{logger[:MAX_LOGGER]}: {text}" if logger else text

"""The streams between a transport and the SDK's client, wrapped to watch and change their messages."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Self

from mcp.shared.message import SessionMessage

from taskhub.upstream.refusals import HttpRefusals
from taskhub.upstream.sending import Ids
from taskhub.upstream.sieve import Sieve
from taskhub.upstream.unreadable import Waiting


class _Stream:
    """Wraps one of the SDK's streams; base class of `Incoming` and `Outgoing`."""

    def __init__(self, stream: Any, sieve: Sieve, waiting: Waiting, ids: Ids | None) -> None:
        """`ids`: for a resumed session; else `None`."""
        self._stream = stream
        self._ids = ids
        self._sieve = sieve
        self._waiting = waiting

    async def __aenter__(self) -> Self:
        await self._stream.__aenter__()
        return self

    async def __aexit__(self, *error: Any) -> Any:
        return await self._stream.__aexit__(*error)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


class Incoming(_Stream):
    """The stream of incoming messages: lists are sieved, and errors replace replies that cannot be read. Calls `on_end`
    when the SDK leaves the stream."""

    def __init__(
        self,
        stream: Any,
        sieve: Sieve,
        waiting: Waiting,
        ids: Ids | None,
        on_end: Callable[[], None],
        refusals: HttpRefusals,
        hear: Callable[[Any], None],
    ) -> None:
        """`hear` is called with each message."""
        super().__init__(stream, sieve, waiting, ids)
        self._instead: list[SessionMessage] = []
        self._on_end = on_end
        self._refusals = refusals
        self._hear = hear

    async def __aexit__(self, *error: Any) -> Any:
        self._on_end()
        return await super().__aexit__(*error)

    def __aiter__(self) -> Incoming:
        return self

    async def __anext__(self) -> Any:
        if self._instead:
            return self._instead.pop()
        item = self._refusals.named(await self._stream.__anext__())
        if self._ids is not None and isinstance(item, SessionMessage):
            self._ids.received(item.message)
        self._instead = self._waiting.received(item)
        if isinstance(item, SessionMessage):
            self._sieve.received(item.message)
            self._hear(item.message)
        return item


class Outgoing(_Stream):
    """The stream of outgoing messages, which `declare` adapts to the caller first."""

    def __init__(
        self, stream: Any, sieve: Sieve, waiting: Waiting, ids: Ids | None, declare: Callable[[Any], None]
    ) -> None:
        super().__init__(stream, sieve, waiting, ids)
        self._declare = declare

    async def send(self, item: Any) -> None:
        """Send a message."""
        self._declare(item.message)
        self._sieve.sent(item.message)
        self._waiting.sent(item.message)
        if self._ids is not None:
            self._ids.sent(item.message)
        await self._stream.send(item)

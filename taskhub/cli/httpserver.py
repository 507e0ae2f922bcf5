"""uvicorn's HTTP protocol with the limits it lacks: how long the request line and headers may take to arrive, and how
large they may become while they do. The guard sees a request only once its headers are complete: it has finer limits
for them, and limits the body."""

from __future__ import annotations

import asyncio
from typing import Any, Final

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from taskhub.protocol.envelope import refusal

HEADER_SECONDS = 10.0
MAX_HEAD: Final = 65_536
"""Bytes of request line and headers, or of trailers, which may follow a body."""

_HELD_MOST: Final = 16_384
"""Bytes that are held back to be joined with what follows. More is sent at once, since joining copies it."""

_WHY: Final = refusal("Too many or too large headers")
_TOO_LARGE: Final = b"\r\n".join(
    [
        b"HTTP/1.1 431 Request Header Fields Too Large",
        b"content-type: application/json",
        b"content-length: %d" % len(_WHY),
        b"connection: close",
        b"",
        _WHY,
    ]
)


class _Joined:
    """A transport that sends the head of an answer together with the body that follows at once. uvicorn writes
    them one after the other, and each write is a system call and a packet of its own: a tenth of a `tasks/get`.
    A head that no body follows is sent before the loop waits for anything else."""

    __slots__ = ("_held", "_loop", "_transport")

    def __init__(self, transport: asyncio.Transport, loop: asyncio.AbstractEventLoop) -> None:
        self._transport = transport
        self._loop = loop
        self._held = b""

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)

    def write(self, data: bytes) -> None:
        if self._held:
            data, self._held = self._held + data, b""
            self._transport.write(data)
        elif len(data) > _HELD_MOST:
            self._transport.write(data)
        else:
            self._held = data
            self._loop.call_soon(self._flush)

    def close(self) -> None:
        self._flush()
        self._transport.close()

    def _flush(self) -> None:
        if self._held:
            data, self._held = self._held, b""
            if not self._transport.is_closing():
                self._transport.write(data)


class BoundedHttp(HttpToolsProtocol):
    """Closes a connection whose request line and headers are not complete in time, or too large."""

    _deadline: float | None = None
    _watch: asyncio.TimerHandle | None = None
    _head = 0
    """Bytes since the last complete head, and since the last piece of a body: those of a head that is not complete.
    Counted by the piece that arrives: a call for each header would cost every request."""

    @property
    def asking(self) -> bool:
        """Whether headers are awaited or arriving. Not for a connection that waits for a further request."""
        return self._deadline is not None

    def connection_made(self, transport: Any) -> None:
        """A new connection must send its first headers in time."""
        self._whole: Any = transport
        # uvicorn uses only those methods of its transport that this one has.
        super().connection_made(_Joined(transport, self.loop))  # type: ignore[arg-type]
        self._start_clock()

    def handle_websocket_upgrade(self) -> None:
        """A WebSocket writes its frames whole, and half-closes: it gets the transport itself."""
        self.transport = self._whole
        super().handle_websocket_upgrade()

    def data_received(self, data: bytes) -> None:
        """Beyond the limit the connection is closed: nothing more is kept or read."""
        self._head += len(data)
        super().data_received(data)
        if self._head > MAX_HEAD and not self.transport.is_closing():
            if self.cycle is None or self.cycle.response_complete:  # else it would end up within the answer
                self.transport.write(_TOO_LARGE)
            self.transport.close()

    def on_body(self, body: bytes) -> None:
        """The guard limits the body, not this class."""
        self._head = 0
        super().on_body(body)

    def on_message_begin(self) -> None:
        """A later request on the same connection: the clock starts with its first byte."""
        super().on_message_begin()
        if self._deadline is None:
            self._start_clock()

    def on_headers_complete(self) -> None:
        """The headers are complete: their clock stops."""
        self._deadline = None
        self._head = 0
        super().on_headers_complete()

    def connection_lost(self, exc: Exception | None) -> None:
        """The clock of the connection stops with it."""
        if self._watch is not None:
            self._watch.cancel()
            self._watch = None
        super().connection_lost(exc)

    def _start_clock(self) -> None:
        self._deadline = self.loop.time() + HEADER_SECONDS
        # One timer serves many requests: one for each costs more to set and cancel than to read their headers.
        if self._watch is None:
            self._watch = self.loop.call_at(self._deadline, self._look)

    def _look(self) -> None:
        self._watch = None
        if self._deadline is None:
            return
        if self._deadline <= self.loop.time():
            self.transport.close()
        else:
            self._watch = self.loop.call_at(self._deadline, self._look)

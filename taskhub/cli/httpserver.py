"""uvicorn's HTTP protocol with three limits that it lacks: the time for request line and headers to arrive, their size
before they are complete, and the time for which a peer may read nothing of a response. `api.guard`, which has finer
limits for headers and limits the body, sees a request only when its headers are complete."""

from __future__ import annotations

import asyncio
from typing import Any, Final

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from taskhub.protocol.envelope import refusal

HEADER_SECONDS = 10.0
TAKE_SECONDS = 60.0
"""Seconds. A connection is closed if its peer reads nothing of a response for so long, because the response is kept in
memory."""
MAX_HEAD: Final = 65_536
"""The most bytes of request line and headers, or of the trailers after a body."""

_HELD_MOST: Final = 16_384
"""Bytes. A write of at most this size is held back to be joined with the next one. A larger one is sent at once,
because joining copies it."""

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
    """A transport that joins the head of a response and its body into one write. uvicorn writes them one after the
    other, each with a system call and a packet; the second takes a tenth of the time of a `tasks/get`. A head without a
    body is sent when the event loop runs next."""

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
    """Closes a connection if the request line and headers are not complete in time or are too large, or if the peer
    does not read."""

    _deadline: float | None = None
    _watch: asyncio.TimerHandle | None = None
    _stalled: asyncio.TimerHandle | None = None
    """The timer of the next check whether the peer has read something."""
    _head = 0
    """The bytes since the last complete head or piece of a body, which all belong to an incomplete head. They are
    counted as they arrive, because counting at each header would slow down every request."""

    @property
    def asking(self) -> bool:
        """Whether the peer still has to send the first headers of the connection, or is sending later ones. `False` if
        the connection is idle after a request."""
        return self._deadline is not None

    def connection_made(self, transport: Any) -> None:
        """Start the time limit for the first headers of a new connection."""
        self._whole: Any = transport
        # `_Joined` has all the methods of a transport that uvicorn uses.
        super().connection_made(_Joined(transport, self.loop))  # type: ignore[arg-type]
        self._start_clock()

    def handle_websocket_upgrade(self) -> None:
        """Give a WebSocket the real transport, because it writes whole frames and needs half-closing."""
        self.transport = self._whole
        super().handle_websocket_upgrade()

    def data_received(self, data: bytes) -> None:
        """Close the connection if its head is larger than `MAX_HEAD`, before more is read."""
        self._head += len(data)
        super().data_received(data)
        if self._head > MAX_HEAD and not self.transport.is_closing():
            if self.cycle is None or self.cycle.response_complete:  # else the 431 would appear inside another response
                self.transport.write(_TOO_LARGE)
            self.transport.close()

    def on_body(self, body: bytes) -> None:
        """Reset the count of the head: `api.guard` limits the body."""
        self._head = 0
        super().on_body(body)

    def on_message_begin(self) -> None:
        """Start the time limit for the headers of a later request on the connection, at its first byte."""
        super().on_message_begin()
        if self._deadline is None:
            self._start_clock()

    def on_headers_complete(self) -> None:
        """End the time limit: the headers are complete."""
        self._deadline = None
        self._head = 0
        super().on_headers_complete()

    def pause_writing(self) -> None:
        """Start to check whether the peer reads: so many bytes wait to be sent that uvicorn stops writing."""
        super().pause_writing()
        self._look_at_writing(None)

    def resume_writing(self) -> None:
        """Stop checking: most of the waiting bytes are sent."""
        self._cancel_look_at_writing()
        super().resume_writing()

    def connection_lost(self, exc: Exception | None) -> None:
        """Cancel the timers of the connection."""
        if self._watch is not None:
            self._watch.cancel()
            self._watch = None
        self._cancel_look_at_writing()
        super().connection_lost(exc)

    def _look_at_writing(self, before: int | None) -> None:
        """End the connection if still `before` bytes wait to be sent; else check again after `TAKE_SECONDS`."""
        waiting = self._whole.get_write_buffer_size()
        if before is not None and waiting >= before:
            self._whole.abort()
        else:
            self._stalled = self.loop.call_later(TAKE_SECONDS, self._look_at_writing, waiting)

    def _cancel_look_at_writing(self) -> None:
        if self._stalled is not None:
            self._stalled.cancel()
            self._stalled = None

    def _start_clock(self) -> None:
        self._deadline = self.loop.time() + HEADER_SECONDS
        # One timer for many requests: setting and cancelling one for each would cost more than reading the headers.
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

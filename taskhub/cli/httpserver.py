"""uvicorn's HTTP protocol with the one limit it lacks: a time within which the request line and
headers must have arrived (reliability V09). The guard limits the body's time."""

from __future__ import annotations

import asyncio
from typing import Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

HEADER_SECONDS = 10.0


class TimedHttp(HttpToolsProtocol):
    """Closes a connection whose first bytes are not followed by whole headers in time."""

    _deadline: float | None = None
    _watch: asyncio.TimerHandle | None = None

    def connection_made(self, transport: Any) -> None:
        """A new connection must send its first headers in time."""
        super().connection_made(transport)
        self._start_clock()

    def on_message_begin(self) -> None:
        """A later request on the same connection: the clock starts with its first byte."""
        super().on_message_begin()
        if self._deadline is None:
            self._start_clock()

    def on_headers_complete(self) -> None:
        """In time."""
        self._deadline = None
        super().on_headers_complete()

    def connection_lost(self, exc: Exception | None) -> None:
        """Gone."""
        if self._watch is not None:
            self._watch.cancel()
            self._watch = None
        super().connection_lost(exc)

    def _start_clock(self) -> None:
        self._deadline = self.loop.time() + HEADER_SECONDS
        # One timer looks after many requests: setting and cancelling one for each costs more than
        # reading their headers.
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

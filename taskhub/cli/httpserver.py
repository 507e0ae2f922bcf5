"""uvicorn's HTTP protocol with the one limit it lacks: a time within which the request line and
headers must have arrived (reliability V09). The guard limits the body's time."""

from __future__ import annotations

import asyncio
from typing import Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

HEADER_SECONDS = 10.0


class TimedHttp(HttpToolsProtocol):
    """Closes a connection whose first bytes are not followed by whole headers in time."""

    _header_timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: Any) -> None:
        """A new connection must send its first headers in time."""
        super().connection_made(transport)
        self._header_timer = self.loop.call_later(HEADER_SECONDS, self._too_slow)

    def on_message_begin(self) -> None:
        """A later request on the same connection: the clock starts with its first byte."""
        super().on_message_begin()
        if self._header_timer is None:
            self._header_timer = self.loop.call_later(HEADER_SECONDS, self._too_slow)

    def on_headers_complete(self) -> None:
        """In time."""
        self._stop_clock()
        super().on_headers_complete()

    def connection_lost(self, exc: Exception | None) -> None:
        """Gone."""
        self._stop_clock()
        super().connection_lost(exc)

    def _stop_clock(self) -> None:
        if self._header_timer is not None:
            self._header_timer.cancel()
            self._header_timer = None

    def _too_slow(self) -> None:
        self._header_timer = None
        self.transport.close()

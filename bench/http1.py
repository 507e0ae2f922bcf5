"""One keep-alive HTTP/1.1 connection, as thin as a load generator needs it.

Written here because the generator must cost far less than what it measures: an
HTTP client library would take as much of the machine as the servers under test.
It reads `Content-Length` and chunked bodies and refuses everything else.
"""

from __future__ import annotations

import asyncio
from typing import NamedTuple, cast


class AnswerError(Exception):
    """An answer that is not what HTTP, the protocol or the check asks for."""


class Reply(NamedTuple):
    status: int
    content_type: bytes
    body: bytes


class Connection(asyncio.Protocol):
    """Sends one request at a time and resolves it with the complete reply."""

    def __init__(self) -> None:
        self.transport: asyncio.Transport | None = None
        self._waiter: asyncio.Future[Reply] | None = None
        self._buffer = bytearray()
        self._begin_reply()

    def _begin_reply(self) -> None:
        self._status = 0
        self._content_type = b""
        self._length: int | None = None
        self._chunked = False
        self._last = False
        self._body = bytearray()

    async def exchange(self, message: bytes) -> Reply:
        """Raises `AnswerError` when the connection breaks or the reply is not HTTP."""
        if self.transport is None or self._last:
            raise AnswerError("the connection is closed")
        self._begin_reply()
        self._waiter = asyncio.get_running_loop().create_future()
        self.transport.write(message)
        return await self._waiter

    @property
    def usable(self) -> bool:
        return self.transport is not None and not self._last

    def close(self) -> None:
        if self.transport is not None:
            self.transport.abort()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # uvloop's transports behave like asyncio.Transport and do not inherit it.
        self.transport = cast("asyncio.Transport", transport)

    def connection_lost(self, exc: Exception | None) -> None:
        self.transport = None
        if self._waiter and not self._waiter.done():
            self._waiter.set_exception(AnswerError(f"connection lost: {exc}"))

    def data_received(self, data: bytes) -> None:
        waiter = self._waiter
        if waiter is None or waiter.done():  # nobody asked: drop the connection
            self.close()
            return
        self._buffer += data
        try:
            complete = self._feed()
        except (ValueError, IndexError) as error:
            waiter.set_exception(AnswerError(f"not HTTP: {error}"))
            self.close()
            return
        if complete:
            waiter.set_result(Reply(self._status, self._content_type, bytes(self._body)))

    def _feed(self) -> bool:
        """Consumes the buffer; true when the reply is complete."""
        if not self._status and not self._read_head():
            return False
        return self._read_chunks() if self._chunked else self._read_length()

    def _read_head(self) -> bool:
        end = self._buffer.find(b"\r\n\r\n")
        if end < 0:
            return False
        first, *lines = bytes(self._buffer[:end]).split(b"\r\n")
        del self._buffer[: end + 4]
        for line in lines:
            name, _, value = line.partition(b":")
            match name.lower():
                case b"content-length":
                    self._length = int(value)
                case b"content-type":
                    self._content_type = value.strip().lower()
                case b"transfer-encoding":
                    self._chunked = b"chunked" in value.lower()
                case b"connection":
                    self._last = b"close" in value.lower()
        if self._length is None and not self._chunked:
            raise ValueError("neither Content-Length nor chunked")
        self._status = int(first.split(b" ", 2)[1])
        return True

    def _read_length(self) -> bool:
        assert self._length is not None
        if len(self._buffer) < self._length:
            return False
        self._body += self._buffer[: self._length]
        del self._buffer[: self._length]
        return True

    def _read_chunks(self) -> bool:
        while (end := self._buffer.find(b"\r\n")) >= 0:
            size = int(bytes(self._buffer[:end]).partition(b";")[0], 16)
            stop = end + 2 + size
            if len(self._buffer) < stop + 2:
                return False
            if self._buffer[stop : stop + 2] != b"\r\n":
                raise ValueError("a chunk without its end (trailers are not read)")
            self._body += self._buffer[end + 2 : stop]
            del self._buffer[: stop + 2]
            if size == 0:
                return True
        return False

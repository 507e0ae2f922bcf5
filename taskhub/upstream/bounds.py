"""Bounds the size of HTTP responses of servers: bytes are counted on arrival, before anything is decoded.

Every request asks for an uncompressed response. A compressed one is refused, because 150 KB can unpack to a gigabyte.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Final

import httpx2

MAX_ANSWER: Final = 16 * 1_048_576
"""The most bytes of a JSON response, or of one event in a stream. Twice the largest result, because JSON text may
contain escapes and spaces."""

PLAIN: Final = {"Accept-Encoding": "identity"}


async def bounded(response: httpx2.Response) -> None:
    """A response hook of httpx2, called before the body is read. Reading a body beyond the bounds then raises an error
    that the SDK reports for the request; other errors would end the connection without a message."""
    encoding = response.headers.get("content-encoding", "")
    coded = {word.strip().lower() for word in encoding.split(",")} - {"", "identity"}
    assert isinstance(response.stream, httpx2.AsyncByteStream)
    response.stream = _Bounded(
        response.stream,
        events=response.headers.get("content-type", "").lower().startswith("text/event-stream"),
        refused=f"the answer is compressed ({', '.join(sorted(coded))[:50]}), which it must not be" if coded else "",
    )
    if coded:
        del response.headers["content-encoding"]


class _Bounded(httpx2.AsyncByteStream):
    def __init__(self, stream: httpx2.AsyncByteStream, *, events: bool, refused: str) -> None:
        self._stream = stream
        self._refused = refused
        # A stream of events may be of any length; httpx2 bounds each event.
        self._most = None if events else MAX_ANSWER
        self._error = httpx2.SSEError if events else httpx2.StreamError

    async def __aiter__(self) -> AsyncIterator[bytes]:
        if self._refused:
            raise self._error(self._refused)
        size = 0
        async for part in self._stream:
            size += len(part)
            if self._most is not None and size > self._most:
                raise self._error(f"the answer is larger than {self._most} bytes")
            yield part

    async def aclose(self) -> None:
        await self._stream.aclose()

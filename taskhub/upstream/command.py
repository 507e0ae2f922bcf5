"""The transport of a command: a process that reads and writes a JSON-RPC message in each line.

It is not the SDK's `stdio_client`, which keeps a line of any length and logs each line that is not a message with a
traceback.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from typing import Final, TextIO

import anyio
import mcp_types as types
from anyio.abc import ByteReceiveStream, ByteSendStream, Process
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
from mcp.client.stdio import get_default_environment
from mcp.os.posix.utilities import terminate_posix_process_tree
from mcp.shared.message import SessionMessage

from taskhub.lib.buckets import Buckets
from taskhub.upstream.bounds import MAX_ANSWER
from taskhub.upstream.stderr import MAX_LINE
from taskhub.upstream.unreadable import TooLongError

END_SECONDS: Final = 2.0
"""Seconds in which a process has to end after its input was closed, and again after SIGTERM. Twice this must be less
than `connection.CLOSE_SECONDS`, so that SIGKILL is sent before the connection is broken off."""
FLUSH_SECONDS: Final = 0.5
"""Seconds to wait until all sent messages are written, before the input is closed."""

STRAY_BYTES: Final = 32 * 1_048_576
"""The most bytes a second that are read of output that is not messages. A process that writes more has to wait."""
STRAY_LINE: Final = 16_384
"""A line that is not a message counts as this many bytes more than its length (`STRAY_BYTES`)."""
STRAY_SECONDS: Final = 2.0

_CHUNK: Final = 65_536
_BEGINNING: Final = 256
"""A line is taken for a message only if its first non-space character is within this many bytes."""
_GONE: Final = (anyio.ClosedResourceError, anyio.BrokenResourceError, anyio.EndOfStream, OSError)

Heard = SessionMessage | Exception
Streams = tuple[MemoryObjectReceiveStream[Heard], MemoryObjectSendStream[SessionMessage]]


@asynccontextmanager
async def command_streams(
    words: Sequence[str],
    environment: Mapping[str, str],
    directory: str,
    errors: TextIO,
    on_stray: Callable[[bytes], None],
) -> AsyncIterator[tuple[Streams, int]]:
    """Start a process; yields the streams of its incoming and outgoing messages, and its id. At the end of the block
    the process and all that it started are ended. `errors` is its standard error. `on_stray` gets the beginning of each
    line that is not a message; if the line looks like one, it also arrives as an error. Raises `OSError` if the process
    cannot be started."""
    process = await anyio.open_process(
        list(words),
        env={**get_default_environment(), **environment},
        stderr=errors,
        cwd=directory or None,
        start_new_session=True,
    )
    # No `await` before the task group: if this task were cancelled there, the process would be left behind.
    assert process.stdin is not None
    assert process.stdout is not None
    heard, read = anyio.create_memory_object_stream[Heard](0)
    write, sent = anyio.create_memory_object_stream[SessionMessage](0)
    written = anyio.Event()
    async with anyio.create_task_group() as group:
        group.start_soon(_read, process.stdout, heard, on_stray)
        group.start_soon(_write, process.stdin, sent, heard, written)
        try:
            yield (read, write), process.pid
        finally:
            with anyio.CancelScope(shield=True):
                read.close()  # further output is read and dropped, since a full pipe would keep the process from ending
                write.close()
                with anyio.move_on_after(FLUSH_SECONDS):
                    await written.wait()
                await _end(process)
                for stream in (heard, sent):
                    stream.close()
            group.cancel_scope.cancel()


async def _read(
    stream: ByteReceiveStream, heard: MemoryObjectSendStream[Heard], on_stray: Callable[[bytes], None]
) -> None:
    lines, pace = _Lines(on_stray), Buckets(STRAY_BYTES, seconds=STRAY_SECONDS)

    async def slow_down() -> None:
        stray, lines.stray = lines.stray, 0
        while stray and (seconds := pace.take("", stray)):  # noqa: ASYNC110 - it waits for time alone
            await anyio.sleep(seconds)

    with suppress(*_GONE):
        async with heard:
            try:
                while True:
                    for item in lines.take(await stream.receive(_CHUNK)):
                        await heard.send(item)
                        await slow_down()
                    await slow_down()
            except anyio.EndOfStream:
                lines.end()
            finally:
                with anyio.CancelScope(shield=True), suppress(*_GONE):
                    while True:
                        await stream.receive(_CHUNK)


async def _write(
    stream: ByteSendStream,
    sent: MemoryObjectReceiveStream[SessionMessage],
    heard: MemoryObjectSendStream[Heard],
    written: anyio.Event,
) -> None:
    try:
        async with sent:
            async for item in sent:
                text = item.message.model_dump_json(by_alias=True, exclude_unset=True)
                await stream.send(text.encode(errors="replace") + b"\n")
    except (anyio.ClosedResourceError, anyio.BrokenResourceError, OSError):
        heard.close()  # the process may live on, but no request can reach it
    finally:
        written.set()


async def _end(process: Process) -> None:
    """End the process as the specification says: close its input, wait, SIGTERM, wait, SIGKILL."""
    assert process.stdin is not None
    assert process.stdout is not None
    with suppress(*_GONE):
        await process.stdin.aclose()
    if not await _ended(process):
        await terminate_posix_process_tree(process, END_SECONDS)
        await _ended(process)
    with suppress(*_GONE):
        await process.stdout.aclose()
    # Processes that this process started may hold its pipes open. Then asyncio's transport would stay open too.
    transport = getattr(getattr(process, "_process", None), "_transport", None)
    if transport is not None:
        with suppress(PermissionError):  # raised by Python up to 3.12 for a process of another user
            transport.close()


async def _ended(process: Process) -> bool:
    """Whether the process ends within `END_SECONDS`. Does not use `Process.wait`, which also waits for its pipes."""
    with anyio.move_on_after(END_SECONDS):
        while process.returncode is None:  # noqa: ASYNC110 - nothing tells when it has ended
            await anyio.sleep(0.01)
    return process.returncode is not None


class _Lines:
    """Joins chunks of output into lines, and never keeps more bytes than a message may have."""

    def __init__(self, on_stray: Callable[[bytes], None]) -> None:
        self._on_stray = on_stray
        self._begun = bytearray()
        self._dropping = False
        """Whether the rest of the current line is dropped."""
        self.stray = 0
        """Bytes of lines that were not messages, plus `STRAY_LINE` for each line."""

    def take(self, chunk: bytes) -> Iterator[Heard]:
        """The messages, or errors, of the lines that end in this chunk or become too long with it."""
        *whole, rest = chunk.split(b"\n")
        for part in whole:
            yield from self._append(part)
            yield from self._close()
        yield from self._append(rest)

    def end(self) -> None:
        """Handle the end of the output: an unfinished line is not a message."""
        if self._begun and not self._dropping:
            self._on_stray(bytes(self._begun))

    def _append(self, part: bytes) -> Iterator[Heard]:
        if self._dropping:
            self.stray += len(part)
            return
        self._begun += part
        like = _like_a_message(self._begun)
        if len(self._begun) <= (MAX_ANSWER if like else MAX_LINE):
            return
        beginning, self.stray = bytes(self._begun[: MAX_LINE + 1]), self.stray + len(self._begun)
        self._begun, self._dropping = bytearray(), True
        self._on_stray(beginning)
        if like:
            yield TooLongError(beginning.decode(errors="replace"), MAX_ANSWER)

    def _close(self) -> Iterator[Heard]:
        line, dropped = self._begun, self._dropping
        self._begun, self._dropping = bytearray(), False
        error: ValueError | None = None
        if not dropped and _like_a_message(line):
            try:
                text = line.decode(errors="replace")
                yield SessionMessage(types.jsonrpc_message_adapter.validate_json(text, by_name=False))
                return
            except ValueError as found:
                error = found
        self.stray += STRAY_LINE + len(line)
        if not dropped and line.strip():
            self._on_stray(bytes(line[: MAX_LINE + 1]))
        if error is not None:
            yield error


def _like_a_message(line: bytearray) -> bool:
    return bytes(line[:_BEGINNING]).lstrip()[:1] in (b"{", b"[")

"""Notices when the process of a command exits, and ends the processes that it has started."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from typing import Any, Final, Self

import anyio

LAST_SECONDS: Final = 0.5
"""Seconds for which answers are still read after the process has exited, if processes that it started hold its pipes
open."""
LOOK_SECONDS: Final = 1.0
"""Seconds between two checks whether a process has exited, on systems that do not report it."""
LEFT_SECONDS: Final = 1.0
"""Seconds in which processes that a command leaves behind have to end after SIGTERM."""


class Group:
    """The process group whose leader is the process of a command."""

    def __init__(self) -> None:
        self._pid = 0
        self.unwatch: Callable[[], None] = lambda: None

    def until_exit(self, read: Any, pid: int, on_exit: Callable[[], None]) -> Any:
        """A stream that passes on `read`, and also ends soon after the process `pid` has exited: processes that the
        command has started may hold the pipe open for longer. `on_exit` is called when the process exits."""
        self._pid = pid
        stream = _Ending(read)

        def exited() -> None:
            self.unwatch()
            on_exit()
            self.unwatch = asyncio.get_running_loop().call_later(LAST_SECONDS, stream.end).cancel

        self.unwatch = _watch(pid, exited)
        return stream

    async def end(self) -> None:
        """End what is left of the group: the command itself is usually gone by now."""
        self.unwatch()
        if not self._pid or not _signal(self._pid, signal.SIGTERM):
            return
        try:
            with anyio.move_on_after(LEFT_SECONDS):
                while _signal(self._pid, 0):  # noqa: ASYNC110 - nothing tells when a group has ended
                    await anyio.sleep(0.01)
        finally:
            _signal(self._pid, signal.SIGKILL)


@asynccontextmanager
async def group() -> AsyncIterator[Group]:
    """A group that is ended after the block."""
    made = Group()
    try:
        yield made
    finally:
        await made.end()


class _Ending:
    """A stream that can be ended from outside."""

    def __init__(self, stream: Any) -> None:
        self._stream = stream
        self._scope: anyio.CancelScope | None = None
        self._ended = False

    def end(self) -> None:
        self._ended = True
        if self._scope is not None:
            self._scope.cancel()

    async def __aenter__(self) -> Self:
        await self._stream.__aenter__()
        return self

    async def __aexit__(self, *error: Any) -> Any:
        return await self._stream.__aexit__(*error)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    async def __anext__(self) -> Any:
        if not self._ended:
            with anyio.CancelScope() as self._scope:
                return await self._stream.__anext__()
        raise StopAsyncIteration


def _watch(pid: int, exited: Callable[[], None]) -> Callable[[], None]:
    """Call `exited` when the process has exited. Returns a function that ends the watch."""
    loop = asyncio.get_running_loop()
    try:
        handle = os.pidfd_open(pid)
    except ProcessLookupError:
        return loop.call_soon(exited).cancel
    except (AttributeError, OSError):  # the system does not have this call, or forbids it
        return _look_often(pid, exited)

    def unwatch() -> None:
        nonlocal handle
        if handle >= 0:
            loop.remove_reader(handle)
            os.close(handle)
            handle = -1

    loop.add_reader(handle, exited)
    return unwatch


def _look_often(pid: int, exited: Callable[[], None]) -> Callable[[], None]:
    async def look() -> None:
        with suppress(ProcessLookupError):
            while True:
                await asyncio.sleep(LOOK_SECONDS)
                with suppress(PermissionError):  # the process runs as another user
                    os.kill(pid, 0)

    def looked(task: asyncio.Task[None]) -> None:
        if not task.cancelled():
            exited()

    looking = asyncio.get_running_loop().create_task(look())
    looking.add_done_callback(looked)

    def unwatch() -> None:
        looking.cancel()

    return unwatch


def _signal(group: int, number: int) -> bool:
    """Send a signal to all processes of a group. Returns whether the group still exists."""
    with suppress(PermissionError):  # raised if some belong to another user, or are dead: the group may still exist
        try:
            os.killpg(group, number)
        except ProcessLookupError:
            return False
    return True

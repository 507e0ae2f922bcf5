"""The process of a command, and what it has started: noticed when it exits, and ended with it."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from typing import Any, Final, Self

import anyio

LAST_SECONDS: Final = 0.5
"""Seconds in which answers of a process that has exited are still read, if what it has started holds its pipes open."""
LOOK_SECONDS: Final = 1.0
"""Seconds between two looks at a process where the system does not tell that it has exited."""
LEFT_SECONDS: Final = 1.0
"""Seconds in which processes that a command leaves behind have to end after SIGTERM."""


class Group:
    """The process group of a command, which it leads."""

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
    """Have `exited` called when the process has exited. Returns what ends the watch."""
    loop = asyncio.get_running_loop()
    try:
        handle = os.pidfd_open(pid)
    except ProcessLookupError:
        return loop.call_soon(exited).cancel
    except (AttributeError, OSError):  # no such call here, or it is forbidden
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
                with suppress(PermissionError):  # it runs as another user
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
    """Signal all of a group; whether there is one."""
    with suppress(PermissionError):  # of some, or of those that are dead: it proves nothing
        try:
            os.killpg(group, number)
        except ProcessLookupError:
            return False
    return True

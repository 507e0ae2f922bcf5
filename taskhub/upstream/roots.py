"""Requests for roots by an older server, which is told only once, when it is connected, that it may make them."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any, Final, TypeVar

import mcp_types as types
from mcp import MCPError

from taskhub.upstream.calls import Calls

FIRST_CALL_SECONDS: Final = 1.0
"""If the server asks as soon as it is connected: how many seconds its request waits for the first call."""
PING_SECONDS: Final = 1.0
"""Seconds in which a server that was just connected has to answer a ping, before its first call."""
GIVEN_SECONDS: Final = 10.0
"""Seconds for which the first call waits until its caller has given the roots. Then the call is sent anyway."""
NOBODY: Final = types.ErrorData(code=types.METHOD_NOT_FOUND, message="No call is running whose caller has roots")
"""The error with which a client answers `roots/list` if it has no roots (2025-11-25, client/roots). The hub, which is
the client of a server, answers with it while no call is running whose caller has roots."""

R = TypeVar("R")


class Roots:
    """The requests of a server for roots on one connection."""

    def __init__(self, calls: Calls, *, for_calls: bool) -> None:
        """`for_calls`: whether the connection is for calls."""
        self._calls = calls
        self._for_calls = for_calls
        self._turn = asyncio.Lock()
        self._given = asyncio.Event()
        self._open: set[asyncio.Task[Any]] = set()
        """Requests that have no answer yet."""

    async def asked(self, answer: Callable[[], Awaitable[R]]) -> R | types.ErrorData:
        """Answer a request of the server with the result of `answer`. Returns `NOBODY` if no call is running, because
        the caller of a call has the roots. Many servers ask as soon as they are connected; such a request waits for the
        call for which the connection was made."""
        this = asyncio.current_task()
        assert this is not None
        self._open.add(this)
        try:
            if self._for_calls:
                await self._calls.first(FIRST_CALL_SECONDS)
            return await answer() if self._calls else NOBODY
        finally:
            self._open.discard(this)

    async def given(self, ping: Callable[[], Awaitable[Any]]) -> None:
        """Before the first call of a session whose client has roots: if the server asked for roots when it was
        connected, wait until it has them, `GIVEN_SECONDS` at most. Clients without a hub, too, answer before they call.
        A `ping` makes sure that the server's request has arrived, because the server sends that request before its
        answer to the `ping`."""
        if self._given.is_set():
            return
        async with self._turn:
            if self._given.is_set():
                return
            with suppress(MCPError, TimeoutError):
                async with asyncio.timeout(PING_SECONDS):
                    await ping()
            if self._open:
                await asyncio.wait(self._open, timeout=GIVEN_SECONDS)
            self._given.set()

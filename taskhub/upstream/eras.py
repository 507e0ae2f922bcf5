"""The eras of the protocol: in which order they are tried with a server, and which one worked, so that the next
connection begins with it."""

from __future__ import annotations

from collections.abc import Collection
from http import HTTPStatus
from typing import Final

import anyio
import httpx2
import mcp_types as types
from mcp import ClientSession, MCPError
from pydantic import ValidationError

from taskhub.core.errors import Unavailable
from taskhub.core.transports import SSE
from taskhub.core.versions import WITH_SESSIONS, Era, Version, is_stateless
from taskhub.upstream.refusals import Unauthorized, refusal

NEWEST_FIRST: Final = (Era.STATELESS, Era.SESSIONS)

_NO_STREAMABLE_HTTP: Final = (HTTPStatus.BAD_REQUEST, HTTPStatus.NOT_FOUND, HTTPStatus.METHOD_NOT_ALLOWED)
"""Statuses with which a server of HTTP with SSE refuses `initialize` by POST, as the specification lists them."""

_NO_VERDICT: Final = (
    HTTPStatus.UNAUTHORIZED,
    HTTPStatus.FORBIDDEN,
    HTTPStatus.PROXY_AUTHENTICATION_REQUIRED,
    HTTPStatus.TOO_MANY_REQUESTS,
    HTTPStatus.BAD_GATEWAY,
    HTTPStatus.SERVICE_UNAVAILABLE,
    HTTPStatus.GATEWAY_TIMEOUT,
)
"""Statuses that say nothing about the era, because the server would refuse any request now."""


_CUT_OFF: Final = httpx2.RemoteProtocolError | httpx2.ReadError | anyio.BrokenResourceError | anyio.ClosedResourceError
"""Errors of a connection that the server ended instead of answering."""


class Eras:
    """What is known of the eras of one server. All its connections share it."""

    def __init__(self, last: Era | None = None) -> None:
        self.last = last
        """The newest era in which the server answered; `None` if not known yet."""
        self.sessions: bool | None = None
        """Whether a server that speaks 2026-07-28 is used in sessions too; `None` if not known yet."""

    def order(self, address: str, pinned: str, *, sessions: bool) -> tuple[Era, ...]:
        """The eras to try for a new connection. `pinned`: the version that the server is pinned to, if it is.
        `sessions`: whether the connection is for callers with sessions."""
        http = address.startswith(("http://", "https://"))
        if address.startswith(SSE):
            return (Era.SSE,)
        if pinned:
            old = (Era.SESSIONS, Era.SSE) if http and pinned == Version.MCP_2024_11_05 else (Era.SESSIONS,)
            return (Era.STATELESS,) if is_stateless(pinned) else old
        every = (*NEWEST_FIRST, Era.SSE) if http else NEWEST_FIRST
        first = Era.SESSIONS if self.dual(sessions=sessions) else self.last or Era.STATELESS
        return (first, *(era for era in every if era is not first))

    def dual(self, *, sessions: bool) -> bool:
        """Whether a caller with `sessions` is served in a session, although the server's newest era has none or is not
        known yet."""
        return sessions and self.sessions is not False and self.last in (None, Era.STATELESS)

    def worked(self, era: Era, failed: Collection[Era], *, tasks: bool = False) -> None:
        """Note the era of a new connection, and those in which it could not be made. `tasks`: whether the server may
        run calls as tasks of its own, for which all callers are then served without sessions."""
        if era is not Era.SESSIONS or Era.STATELESS in failed:
            self.last = era
        else:
            self.sessions = True
        if tasks or (era is Era.STATELESS and Era.SESSIONS in failed):
            self.sessions = False

    def forget(self) -> None:
        """Forget what is known. The next connection asks the server again, beginning with the newest era."""
        self.last = self.sessions = None


class Unspoken(Unavailable):
    """The connection was not made, perhaps because the server does not speak the era. `silent`: it said nothing.
    `may_be_sse`: it refused `initialize` by POST like a server of HTTP with SSE."""

    def __init__(self, message: str, *, silent: bool = False, may_be_sse: bool = False) -> None:
        super().__init__(message)
        self.silent = silent
        self.may_be_sse = may_be_sse


class _UnusableError(Exception):
    """The server's answer to `server/discover` is of no use, for example because it names no version that the hub
    speaks."""


async def discover(session: ClientSession) -> None:
    """Ask what the server speaks, and agree on the version. Raises any error; `unmade` turns it into an
    `Unavailable`."""
    try:
        session.adopt(await session.send_request(types.DiscoverRequest(), types.DiscoverResult))
    except (ValidationError, RuntimeError) as error:
        raise _UnusableError(str(error)) from None


def unmade(error: BaseException, words: str, era: Era, *, sent: bool) -> Unavailable:
    """The exception for the error of a new connection: `Unspoken` if it can mean that the server does not speak the
    era, else another `Unavailable`. `words`: the error as text for people. `sent`: whether anything was sent to the
    server."""
    if isinstance(error, Unspoken | Unauthorized):
        return error
    if isinstance(error, Unavailable):
        return Unspoken(error.message) if era is Era.SSE else error
    refused = refusal(error)
    if refused is not None and refused.unauthorized:
        return Unauthorized(words, scopes=refused.scopes)
    if not sent or not _is_verdict(error):
        return Unavailable(words)
    return Unspoken(words, may_be_sse=refused is not None and refused.status in _NO_STREAMABLE_HTTP)


def _is_verdict(error: BaseException) -> bool:
    if not isinstance(error, MCPError):
        return isinstance(error, _UnusableError | _CUT_OFF)
    refused = refusal(error)
    if refused is not None:
        return refused.status not in _NO_VERDICT
    told = error.error.data if error.error.code == types.UNSUPPORTED_PROTOCOL_VERSION else None
    supported = told.get("supported") if isinstance(told, dict) else None
    # If it names only versions of this era, the server does speak the era, but no version that the hub speaks.
    return not isinstance(supported, list) or any(version in WITH_SESSIONS for version in supported)

"""The HTTP transport below the SDK's client, and the session that a connection has at an HTTP server.

A session that another worker opened can be resumed, with its id (`Mcp-Session-Id`) and without a handshake.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from http import HTTPStatus
from secrets import token_hex
from typing import Any, Final

import httpx2
import mcp_types as types
from mcp.shared.message import SessionMessage

from taskhub.core.versions import Version
from taskhub.lib.tls import trusted
from taskhub.upstream.failures import reason
from taskhub.upstream.refusals import message_of

SESSION_ID: Final = "mcp-session-id"


@dataclass(slots=True)
class HttpSession:
    """The session that an HTTP server has given a connection (`Mcp-Session-Id`). Every connection has this record; for
    a connection without a session, `id` is empty."""

    id: str = field(default="", repr=False)
    """The session's id, which is a secret."""
    resumed: bool = False
    """Whether another connection opened the session."""
    left: bool = False
    """Whether the session is to go on when the connection is closed, because the server runs a task in it."""
    outgoing: Any = field(default=None, repr=False)
    """The stream of outgoing messages of the connection; `None` before it is opened."""

    async def respond(self, message: types.JSONRPCResponse | types.JSONRPCError) -> None:
        """Send the answer to a request of the server, if the stream on which the request came was lost."""
        await self.outgoing.send(SessionMessage(message))


class Sending(httpx2.AsyncHTTPTransport):
    """An HTTP transport that reports if no connection could be made for a POST, because the SDK's error only says that
    the connection is closed. It does not send the SDK's request to end a session if others may use that session. In a
    resumed session it answers the SDK's handshake itself, without the server."""

    def __init__(self, tell: Callable[[str], None], session: HttpSession) -> None:
        super().__init__(verify=trusted())
        self._tell = tell
        self._session = session

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        """Send a request."""
        if request.method == "DELETE" and (self._session.resumed or self._session.left):
            return httpx2.Response(HTTPStatus.NO_CONTENT, request=request)
        if self._session.resumed and (answer := _of_handshake(request, self._session.id)) is not None:
            return answer
        try:
            return await super().handle_async_request(request)
        except (httpx2.ConnectError, httpx2.ConnectTimeout) as error:
            if request.method == "POST":
                self._tell(reason(error))
            raise


def _of_handshake(request: httpx2.Request, session_id: str) -> httpx2.Response | None:
    """The answer to a message of the handshake; `None` for any other request."""
    message = message_of(request.content) if request.method == "POST" else {}
    if message.get("method") == "notifications/initialized":
        return httpx2.Response(HTTPStatus.ACCEPTED, request=request)
    if message.get("method") != "initialize":
        return None
    agreed = {
        "protocolVersion": Version.MCP_2025_11_25,
        "capabilities": {},
        "serverInfo": {"name": "resumed", "version": ""},
    }
    answer = {"jsonrpc": "2.0", "id": message.get("id"), "result": agreed}
    return httpx2.Response(HTTPStatus.OK, json=answer, headers={SESSION_ID: session_id}, request=request)


class Ids:
    """The ids of requests in a resumed session. An id must not come twice in a session, but the SDK counts from 0 on
    each connection, so the ids are replaced."""

    def __init__(self) -> None:
        self._prefix = f"{token_hex(6)}-"

    def sent(self, message: Any) -> None:
        """Change the id in an outgoing message, in place."""
        if isinstance(message, types.JSONRPCRequest):
            message.id = f"{self._prefix}{message.id}"
        elif isinstance(message, types.JSONRPCNotification) and message.method == "notifications/cancelled":
            params = message.params or {}
            message.params = {**params, "requestId": f"{self._prefix}{params.get('requestId')}"}

    def received(self, message: Any) -> None:
        """Change the id back in an incoming answer, in place."""
        if not isinstance(message, types.JSONRPCResponse | types.JSONRPCError) or not isinstance(message.id, str):
            return
        number = message.id.removeprefix(self._prefix)
        if number != message.id and number.isdecimal():
            message.id = int(number)

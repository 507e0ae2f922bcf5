"""HTTP with SSE, the transport of 2024-11-05. The server sends all its messages on one stream of events. The first
event is the address to which messages for the server are posted.

It is not the SDK's `sse_client`, which accepts no event above 1 MiB, and in which a refused request waits for ever.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from contextvars import copy_context
from http import HTTPStatus
from typing import Any, Final

import anyio
import httpx2
import mcp_types as types
from mcp.shared._context_streams import ContextReceiveStream, ContextSendStream, create_context_streams
from mcp.shared._httpx_utils import stream_within_origin
from mcp.shared.message import SessionMessage

from taskhub.core.errors import Unavailable
from taskhub.upstream.bounds import MAX_ANSWER
from taskhub.upstream.refusals import HttpRefusals

MAX_ADDRESS: Final = 4_096
"""The most characters of the address that the server names."""
POST_SECONDS: Final = 30.0
"""Seconds to wait until the server has accepted a notification, before the next message is sent."""

MAX_UNREAD: Final = 65_536
"""The response to a message is not read if it has more bytes than this."""

_STREAM: Final = {"Accept": "text/event-stream", "Cache-Control": "no-store"}
_CLOSED: Final = types.ErrorData(code=types.CONNECTION_CLOSED, message="Connection closed")
_REFUSED: Final = types.ErrorData(code=types.INTERNAL_ERROR, message="Server returned an error response")
"""What the SDK says of any response with an error status. `HttpRefusals` describes the response instead."""

Streams = tuple[ContextReceiveStream[SessionMessage | Exception], ContextSendStream[SessionMessage]]


@asynccontextmanager
async def sse_streams(url: str, http: httpx2.AsyncClient, refusals: HttpRefusals) -> AsyncIterator[Streams]:
    """The streams of incoming and outgoing messages, while the block runs. Raises `Unavailable` if the address does not
    open such a stream."""
    async with stream_within_origin(http, "GET", url, headers=_STREAM) as response:
        if error := refusals.of_stream(response):
            raise error
        heard, read = create_context_streams[SessionMessage | Exception](0)
        write, sent = create_context_streams[SessionMessage](0)
        connection = _Sse(http, heard)
        async with heard, read, write, sent, anyio.create_task_group() as group:
            named: asyncio.Future[str] = asyncio.get_running_loop().create_future()
            group.start_soon(connection.listen, response, url, named)
            address = await named
            group.start_soon(connection.post_all, sent, address)
            try:
                yield read, write
            finally:
                group.cancel_scope.cancel()


class _Sse:
    def __init__(self, http: httpx2.AsyncClient, heard: ContextSendStream[SessionMessage | Exception]) -> None:
        self._http = http
        self._heard = heard
        self._waiting: set[types.RequestId] = set()
        """The ids of the requests that have no answer yet."""

    async def listen(self, response: httpx2.Response, url: str, named: asyncio.Future[str]) -> None:
        """Pass on the events until their stream ends, then end the stream of incoming messages, so that the SDK fails
        all waiting requests. `named` gets the address for messages."""
        why = "the stream ended before it named an address for messages"
        try:
            async for event in httpx2.EventSource(response, max_event_size=MAX_ANSWER):
                if event.event == "endpoint" and not named.done():
                    named.set_result(_address(url, event.data))
                elif event.event == "message" and event.data:
                    await self._pass_on(event.data)
        except Unavailable as error:
            why = error.message
        except httpx2.SSEError as error:
            why = str(error)
            for number in sorted(self._waiting, key=str):
                told = types.ErrorData(code=types.CONNECTION_CLOSED, message=f"SSE stream failed: {error}")
                await self._answer(number, told)
        except httpx2.HTTPError:
            pass
        finally:
            if not named.done():
                named.set_exception(Unavailable(why))
            await self._heard.aclose()

    async def _pass_on(self, text: str) -> None:
        try:
            message = types.jsonrpc_message_adapter.validate_json(text, by_name=False)
        except ValueError as error:
            await self._hear(error)  # `Waiting` finds the request that it answers
            return
        if isinstance(message, types.JSONRPCResponse | types.JSONRPCError) and message.id is not None:
            self._waiting.discard(message.id)
        await self._hear(SessionMessage(message))

    async def _hear(self, item: SessionMessage | Exception) -> None:
        with suppress(anyio.BrokenResourceError, anyio.ClosedResourceError):  # the connection is being closed
            await self._heard.send(item)

    async def _answer(self, number: types.RequestId, error: types.ErrorData) -> None:
        self._waiting.discard(number)
        await self._hear(SessionMessage(types.JSONRPCError(jsonrpc="2.0", id=number, error=error)))

    async def post_all(self, sent: ContextReceiveStream[SessionMessage], address: str) -> None:
        """Post outgoing messages until there are no more. Only after a notification, wait for the response before the
        next message: a server may respond to the POST of a request only when it has handled the request."""
        async with anyio.create_task_group() as group:
            async for item in sent:
                message = item.message
                if isinstance(message, types.JSONRPCRequest):
                    self._waiting.add(message.id)
                if isinstance(message, types.JSONRPCNotification):
                    with anyio.move_on_after(POST_SECONDS):
                        await self._post(message, address)
                else:
                    # In the sender's context, which says for which call the message is sent (`CALL`).
                    (sent.last_context or copy_context()).run(group.start_soon, self._post, message, address)

    async def _post(self, message: types.JSONRPCMessage, address: str) -> None:
        number = message.id if isinstance(message, types.JSONRPCRequest) else None
        body = message.model_dump(by_alias=True, mode="json", exclude_unset=True)
        problem: types.ErrorData | None = None
        try:
            async with stream_within_origin(self._http, "POST", address, json=body) as response:
                problem = await _problem(response)
                if int(response.headers.get("content-length", MAX_UNREAD)) < MAX_UNREAD:
                    await response.aread()  # then the connection can be used again
        except (httpx2.HTTPError, httpx2.StreamError, ValueError):
            problem = problem or _CLOSED
        if problem is not None and number in self._waiting and number is not None:
            await self._answer(number, problem)


async def _problem(response: httpx2.Response) -> types.ErrorData | None:
    """The error with which the server refused a message; `None` if it took the message."""
    if response.status_code < HTTPStatus.MULTIPLE_CHOICES:
        return None
    try:
        told: Any = json.loads(await response.aread())
        return types.ErrorData.model_validate(told["error"])
    except (httpx2.StreamError, ValueError, TypeError, KeyError):
        return _REFUSED


def _address(url: str, told: str) -> str:
    """The address for messages. Raises `Unavailable` if it is not at the server's origin, because requests contain the
    server's secrets."""
    try:
        base = httpx2.URL(url)
        found = base.join(told.strip())
    except (httpx2.InvalidURL, ValueError):
        found = None
    if found is None or len(told) > MAX_ADDRESS:
        raise Unavailable("it names no address for messages that can be used")
    if (found.scheme, found.host, found.port) != (base.scheme, base.host, base.port):
        raise Unavailable(f"it wants messages at another server, {found.scheme}://{found.netloc.decode()}")
    return str(found.copy_with(userinfo=base.userinfo))

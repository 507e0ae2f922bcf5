"""Calls tools of an HTTP server of 2026-07-28 by one POST request each, without the SDK's client.

In this revision a call is one request and its response. The SDK's client takes several times the CPU of these two, and
httpx2 several times that of aiohttp, which makes the requests here (decision 16). Everything else goes through the SDK:
connecting, lists, resources, older revisions, and calls of tools whose arguments are repeated in headers. Errors are
those of the SDK, so that callers handle both in the same way.
"""

from __future__ import annotations

import asyncio
import io
import itertools
import json
from collections import Counter
from collections.abc import AsyncIterator, Callable, Collection
from contextlib import asynccontextmanager, suppress
from http import HTTPStatus
from typing import Any, Final

import aiohttp
import httpx2
import mcp_types as types
from mcp import MCPError
from mcp.shared.inbound import MCP_METHOD_HEADER, MCP_NAME_HEADER, MCP_PROTOCOL_VERSION_HEADER, encode_header_value
from mcp.shared.message import SessionMessage
from mcp_types import methods
from pydantic_core import from_json
from yarl import URL

from taskhub.core.errors import TaskHubError
from taskhub.core.names import META_VERSION
from taskhub.core.records import LogLine
from taskhub.core.secrets import without_values
from taskhub.core.transports import CONNECT_SECONDS
from taskhub.lib import jsonx
from taskhub.lib.tls import trusted
from taskhub.upstream.bounds import MAX_ANSWER, PLAIN, bounded
from taskhub.upstream.calls import Bound, said
from taskhub.upstream.connection import Connection, Profile
from taskhub.upstream.failures import CLOSED
from taskhub.upstream.refusals import HttpRefusals
from taskhub.upstream.target import Target
from taskhub.upstream.unreadable import ANOTHERS

_METHOD: Final = "tools/call"
_IDLE_SECONDS: Final = 4.0
"""Seconds for which an idle connection is kept: less than the 5 s after which uvicorn and Node close theirs, because
nobody can tell whether a request that was sent at that moment has run."""
_MAX_HEADER: Final = 65_536
"""The most bytes of one header of a response."""
_WHOLE: Final = 1_048_576
"""Requests of up to this many bytes are handed to aiohttp in one piece."""
_REFUSED: Final = frozenset({types.UNSUPPORTED_PROTOCOL_VERSION, types.HEADER_MISMATCH})
_OTHER_WORDS: Final = "Failed to parse JSON response: 1 validation error"
"""The beginning of the SDK's message for a response that is no JSON-RPC message (`upstream.refusals`)."""


class UnconnectedError(Exception):
    """No connection could be made, so the request was not sent. The message says why, as text for people."""


class RefusedError(Exception):
    """The server refused the request because of its revision, its headers or its address, so the call did not run. Make
    the call through the SDK's client, which finds the right revision, headers and address."""


class Posts:
    """The calls of one server, through connections that all callers share: in this revision a connection has no state.

    Before requests for a profile can be made, `learn` must be called with a connection of that profile that has made a
    call through the SDK's client. Requests declare the same capabilities as that call.
    """

    def __init__(self, target: Target) -> None:
        self._target = target
        self._url = url = httpx2.URL(target.target)
        # Encoded by httpx2, which the SDK's client uses too.
        self._address = URL(f"{url.scheme}://{url.netloc.decode()}{url.raw_path.decode()}", encoded=True)
        self._http: aiohttp.ClientSession | None = None
        self._busy: Counter[aiohttp.ClientSession] = Counter()
        """The number of running calls of each `aiohttp.ClientSession`."""
        self._secrets = target.secrets()
        self._refusals = HttpRefusals(self._secrets, oauth=target.bearer is not None)
        self._numbers = itertools.count(1)
        self._declared: dict[Profile, dict[str, Any]] = {}

    def learn(self, profile: Profile, connection: Connection) -> None:
        """From now on, declare in requests for this profile what the calls of `connection` have declared, if it has
        made any. If its server speaks an older revision, no more requests for the profile are made here."""
        if connection.client is not None and not connection.modern:
            self._declared.pop(profile, None)
        elif connection.declared:
            self._declared[profile] = connection.declared

    def ready(self, profile: Profile) -> bool:
        """Whether calls for this profile can be made."""
        return profile in self._declared

    async def close(self) -> None:
        """Close all connections, those of running calls once these have ended."""
        http, self._http = self._http, None
        if http is not None and not self._busy[http]:
            await http.close()

    async def call(
        self, profile: Profile, params: dict[str, Any], bound: Bound, note: Callable[[LogLine], None]
    ) -> dict[str, Any]:
        """The result of `tools/call` with these params, validated for the revision. `note` gets the call's progress.

        Raises `MCPError` or `ValidationError`, as the SDK's client does; `UnconnectedError`; or `RefusedError`, after
        which no call of the profile can be made here until `learn` is called again.
        """
        number = next(self._numbers)
        declared = self._declared[profile]
        version = declared[META_VERSION]
        meta = {**params.get("_meta", {}), **bound.narrowed(declared), "progressToken": number}
        body = {"jsonrpc": "2.0", "id": number, "method": _METHOD, "params": {**params, "_meta": meta}}
        headers = {
            "accept": "application/json, text/event-stream",
            "content-type": "application/json",
            MCP_PROTOCOL_VERSION_HEADER: version,
            MCP_METHOD_HEADER: _METHOD,
            MCP_NAME_HEADER: encode_header_value(params["name"]),
        }
        answer = _Answer(number, bound, note, self._secrets)
        try:
            async with self._posted(jsonx.encode(body), headers) as response:
                message = await answer.read(response)
        except MCPError as error:
            if error.error.code in _REFUSED:
                self._declared.pop(profile, None)
                raise RefusedError from None
            raise self._named(number, error) from None
        except RefusedError:
            self._declared.pop(profile, None)
            raise
        result: dict[str, Any] = message["result"]
        methods.validate_server_result(_METHOD, version, result)
        return result

    @asynccontextmanager
    async def _session(self) -> AsyncIterator[aiohttp.ClientSession]:
        http = self._http
        if http is None:
            http = self._http = self._client()
        self._busy[http] += 1
        try:
            yield http
        finally:
            self._busy[http] -= 1
            if not self._busy[http]:
                del self._busy[http]
                if http is not self._http:
                    await asyncio.shield(http.close())

    @asynccontextmanager
    async def _posted(self, body: bytes, headers: dict[str, str]) -> AsyncIterator[httpx2.Response]:
        bearer = self._target.bearer
        if bearer is not None:
            with suppress(TaskHubError):
                await bearer.ready()
            headers |= {name.decode(): value.decode() for name, value in bearer.headers()}
        data = body if len(body) <= _WHOLE else io.BytesIO(body)
        try:
            async with (
                self._session() as http,
                http.post(self._address, data=data, headers=headers, allow_redirects=False) as answer,
            ):
                response = httpx2.Response(
                    answer.status,
                    headers=answer.raw_headers,
                    stream=_Body(answer),
                    request=httpx2.Request("POST", self._url, headers=headers, content=body),
                )
                for look in (bounded, self._refusals.look, *((bearer.look,) if bearer else ())):
                    await look(response)
                yield response
        except aiohttp.ConnectionTimeoutError:
            raise UnconnectedError(f"ConnectTimeout: no connection within {self._seconds:g} s") from None
        except (aiohttp.ClientConnectorError, aiohttp.InvalidURL) as error:
            raise UnconnectedError(f"ConnectError: {error.__cause__ or error}"[:300]) from None
        except (aiohttp.ClientError, httpx2.TransportError):
            raise MCPError(*CLOSED) from None

    @property
    def _seconds(self) -> float:
        return self._target.connect_seconds or CONNECT_SECONDS

    def _client(self) -> aiohttp.ClientSession:
        given = dict(self._target.headers)
        if self._url.userinfo:
            given["Authorization"] = aiohttp.BasicAuth(self._url.username, self._url.password, "utf-8").encode()
        return aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=0, ssl=trusted(), keepalive_timeout=_IDLE_SECONDS),
            headers={**given, **PLAIN},
            cookie_jar=aiohttp.DummyCookieJar(),  # cookies of one client's calls must not be sent with another's
            # No read timeout: a tool may be silent while it runs, and the worker limits the running time.
            timeout=aiohttp.ClientTimeout(total=None, connect=self._seconds),
            auto_decompress=False,
            max_line_size=_MAX_HEADER,
            max_field_size=_MAX_HEADER,
        )

    def _named(self, number: int, error: MCPError) -> MCPError:
        """The error; if the response did not come from an MCP server, an error that describes the response."""
        item = SessionMessage(types.JSONRPCError(jsonrpc="2.0", id=number, error=error.error))
        return MCPError.from_jsonrpc_error(self._refusals.named(item).message)


class _Body(httpx2.AsyncByteStream):
    """The body of a response of aiohttp, for httpx2's reader of events and for `bounded`."""

    def __init__(self, answer: aiohttp.ClientResponse) -> None:
        self._answer = answer

    async def __aiter__(self) -> AsyncIterator[bytes]:
        try:
            async for part in self._answer.content.iter_any():
                yield part
        except aiohttp.ClientError as error:
            raise httpx2.ReadError(str(error)) from None


class _Answer:
    """Reads the response to one request."""

    def __init__(self, number: int, bound: Bound, note: Callable[[LogLine], None], secrets: Collection[str]) -> None:
        """`secrets` are hidden in the lines that the tool says."""
        self._number = number
        self._bound = bound
        self._note = note
        self._secrets = secrets

    async def read(self, response: httpx2.Response) -> dict[str, Any]:
        """The JSON-RPC response, whose `result` is an object. Raises `MCPError` for an error of the server, or, with
        the SDK's codes and messages, if there is no such response."""
        message = await self._message(response)
        if "error" in message:
            error = message["error"]
            raise MCPError(error["code"], error["message"], error.get("data"))
        return message

    async def _message(self, response: httpx2.Response) -> dict[str, Any]:
        status, kind = response.status_code, response.headers.get("content-type", "").lower()
        if status == HTTPStatus.ACCEPTED:
            raise MCPError(types.INVALID_REQUEST, "server answered a request with 202 Accepted")
        if response.is_redirect:
            raise RefusedError
        if status >= HTTPStatus.BAD_REQUEST:
            return await self._error(response, kind)
        if kind.startswith("application/json"):
            return await self._json(response)
        if kind.startswith("text/event-stream"):
            return await self._events(response)
        raise MCPError(types.INVALID_REQUEST, f"Unexpected content type: {kind}")

    async def _error(self, response: httpx2.Response, kind: str) -> dict[str, Any]:
        if kind.startswith("application/json"):
            try:
                found = _decoded(await response.aread())
            except (httpx2.StreamError, ValueError):
                found = None
            if (message := _response(found)) and "error" in message:
                return message
        if response.status_code == HTTPStatus.NOT_FOUND:
            raise MCPError(types.METHOD_NOT_FOUND, "Not Found")
        raise MCPError(types.INTERNAL_ERROR, "Server returned an error response")

    async def _json(self, response: httpx2.Response) -> dict[str, Any]:
        try:
            message = _response(_decoded(await response.aread()))
        except httpx2.StreamError as error:
            raise MCPError(types.PARSE_ERROR, f"Failed to parse JSON response: {error}") from None
        except ValueError as error:
            raise MCPError(types.PARSE_ERROR, f"{_OTHER_WORDS}: {error}") from None
        if message is None:
            raise MCPError(types.PARSE_ERROR, _OTHER_WORDS)
        number = message.get("id")
        if number != self._number and not (number is None and "error" in message):
            raise MCPError(types.INTERNAL_ERROR, ANOTHERS)
        return message

    async def _events(self, response: httpx2.Response) -> dict[str, Any]:
        try:
            async for event in httpx2.EventSource(response, max_event_size=MAX_ANSWER):
                if event.event != "message" or not event.data:
                    continue
                try:
                    found = _decoded(event.data)
                except ValueError as error:
                    raise MCPError(types.PARSE_ERROR, f"Failed to parse SSE message: {error}") from None
                if message := _response(found):
                    return message
                self._notified(found)
        except httpx2.SSEError as error:
            raise MCPError(types.CONNECTION_CLOSED, f"SSE stream failed: {error}") from None
        except httpx2.TransportError:
            pass
        raise MCPError(types.CONNECTION_CLOSED, "SSE stream ended without a response")

    def _notified(self, message: Any) -> None:
        """Pass on progress and log lines of the call. Ignore other messages, which are not defined in the response to a
        call."""
        try:
            if message["method"] == "notifications/progress":
                told = types.ProgressNotificationParams.model_validate(message["params"])
                if told.progress_token == self._number:
                    text = without_values(told.message or "", self._secrets)
                    self._note(LogLine("progress", text, progress=told.progress, total=told.total))
            elif message["method"] == "notifications/message":
                line = types.LoggingMessageNotificationParams.model_validate(message["params"])
                self._bound.say(str(line.level), without_values(said(line.logger, line.data), self._secrets))
        except (KeyError, TypeError, ValueError):
            pass  # the SDK, too, ignores a notification that it cannot read


def _decoded(text: str | bytes) -> Any:
    """The JSON value. Raises `ValueError`. Accepts half of a surrogate pair, because the tool has run; it is repaired
    when the result is stored."""
    try:
        return from_json(text)
    except ValueError:
        try:
            return json.loads(text)
        except RecursionError as error:
            raise ValueError("it is nested too deep") from error


def _response(found: Any) -> dict[str, Any] | None:
    """`found` if it is a JSON-RPC response with a result or an error of the right shape; else `None`."""
    if not isinstance(found, dict) or found.get("jsonrpc") != "2.0" or "method" in found:
        return None
    error = found.get("error")
    if isinstance(error, dict):
        whole = isinstance(error.get("code"), int) and isinstance(error.get("message"), str)
        return found if whole else None
    return found if "id" in found and isinstance(found.get("result"), dict) else None

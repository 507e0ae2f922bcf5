"""Explains HTTP responses that are not MCP: an error status, a challenge for a token, "come later" (429, 503,
`Retry-After`), or another content type. If the server did not run a call because of that, the call is made again later
(`outcomes.Postponed`).

The SDK only says "Server returned an error response". So a hook reads each response before the SDK, and its findings
replace the SDK's message.
"""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Collection
from dataclasses import dataclass, replace
from http import HTTPStatus
from typing import Any, Final

import httpx2
import mcp_types as types
from mcp import MCPError
from mcp.client.auth.utils import extract_field_from_www_auth
from mcp.shared.message import SessionMessage

from taskhub.core.errors import Unavailable
from taskhub.core.secrets import without_values
from taskhub.lib.later import seconds_of
from taskhub.lib.signs import spelled

MAX_FOREIGN: Final = 200
"""The most characters of a challenge, a content type or an error that are quoted."""

MAX_SCOPES: Final = 500
"""The most characters of the scopes that a refusal names. A longer list is ignored."""

_SCOPES: Final = re.compile(r"[\x21\x23-\x5b\x5d-\x7e]+( [\x21\x23-\x5b\x5d-\x7e]+)*")
_MOST_NOTED: Final = 100
_OF_HTTP: Final = (HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN)
"""Statuses that are always a refusal by the HTTP server: a JSON-RPC error in the body is only quoted. With any other
status, a JSON-RPC error in the body is passed on as the MCP server's answer."""

MAX_LATER: Final = 60.0
"""The most seconds that the hub waits because of a `Retry-After`."""

_UNRUN: Final = (HTTPStatus.UNAUTHORIZED, HTTPStatus.TOO_MANY_REQUESTS, HTTPStatus.SERVICE_UNAVAILABLE)
"""Statuses that mean that the request was not handled, because a token is needed or the request came too early."""
_UNKNOWN: Final = (HTTPStatus.BAD_GATEWAY, HTTPStatus.GATEWAY_TIMEOUT, 520, 524)
"""Statuses of a gateway that passed the request on but got no usable answer. 520 and 524 are Cloudflare's."""

_WHAT_TO_DO: Final[dict[int, str]] = {
    HTTPStatus.UNAUTHORIZED: "Its token is missing, expired or refused: set a new one on the server's page.",
    HTTPStatus.FORBIDDEN: "Its token does not allow this, or requests from here are not let in.",
    HTTPStatus.NOT_FOUND: "There is no MCP server at this address: check its path.",
    HTTPStatus.METHOD_NOT_ALLOWED: "There is no MCP server at this address: check its path.",
    HTTPStatus.TOO_MANY_REQUESTS: "It gets more requests than it takes.",
}
_BY_OAUTH: Final = "It has to be authorized, or authorized again, on the server's page."
_WANTS_OAUTH: Final = (
    "It wants to be authorized by OAuth: set a way under Authorization on its page, or by `manage.py server edit NAME"
    " --oauth WAY`; or set another token."
)
_FAILS: Final = "The server, or a proxy before it, fails: its own log says why."
_NOT_MCP: Final = "This is no answer of an MCP server: check the address."

_STAND_INS: Final = frozenset(
    {(types.INTERNAL_ERROR, "Server returned an error response"), (types.METHOD_NOT_FOUND, "Not Found")}
)
_OTHER_TYPE: Final = "Unexpected content type: "
_OTHER_JSON: Final = re.compile(r"Failed to parse JSON response: \d+ validation error")
"""Matches the SDK's message for a body that is JSON, but no JSON-RPC message."""

_TOLD_BY_US: Final = re.compile("Unexpected content type|Error parsing JSON response|Redirect to")
"""Matches messages that the SDK logs with a traceback at every try. They are dropped, because TaskHub logs the error
itself, once."""

logging.getLogger("mcp.client.streamable_http").addFilter(lambda record: not _TOLD_BY_US.match(str(record.msg)))


@dataclass(frozen=True, slots=True)
class HttpRefusal:
    """A response that did not come from an MCP server. It is put into the `data` of the `MCPError` for the request.
    `told`: the status, the challenge and an unexpected content type, as text for people."""

    status: int
    told: str
    ended: bool = False
    """Whether the connection cannot be used any more."""
    scopes: str = ""
    """The scopes that the token would need for the request (`insufficient_scope`); empty if the server names none."""
    method: str = ""
    """The method of the request."""
    oauth: bool = False
    """Whether TaskHub is authorized at the server by OAuth."""
    named: bool = False
    """Whether the server names its OAuth metadata (RFC 9728)."""
    later: float | None = None
    """After how many seconds to ask again, if the server says so; else `None`."""

    @property
    def unauthorized(self) -> bool:
        """Whether the server requires a token, or one with more scopes."""
        return self.status == HTTPStatus.UNAUTHORIZED or bool(self.scopes)

    @property
    def unrun(self) -> bool:
        """Whether the request was not handled."""
        return self.status in _UNRUN

    @property
    def unknown(self) -> bool:
        """Whether the call may or may not have been handled."""
        return self.method == "tools/call" and self.status in _UNKNOWN

    def words(self) -> str:
        """A description of the response, and advice what to do, as text for people."""
        if self.status < HTTPStatus.BAD_REQUEST:
            advice = _NOT_MCP
        elif self.oauth and self.unauthorized:
            advice = _BY_OAUTH
        elif self.named and self.status == HTTPStatus.UNAUTHORIZED:
            return f"{_WANTS_OAUTH} It answered {self.told}."  # without its challenge, which may be long
        else:
            advice = _WHAT_TO_DO.get(self.status, _FAILS if self.status >= HTTPStatus.INTERNAL_SERVER_ERROR else "")
        return f"{self.told}. {advice}".strip()


class Unauthorized(Unavailable):
    """The server requires a token, or another one. `scopes`: the scopes that the token needs, if the server names
    them."""

    def __init__(self, message: str, *, scopes: str = "") -> None:
        super().__init__(message)
        self.scopes = scopes


class HttpRefusals:
    """Notes the refusals of one connection, by the id of the request, and puts them into the SDK's errors."""

    def __init__(self, secrets: Collection[str] = (), *, oauth: bool = False) -> None:
        """`secrets` are removed from quoted text, because some servers repeat the token that they refuse. `oauth`:
        whether TaskHub is authorized at the server by OAuth."""
        self._secrets = secrets
        self._oauth = oauth
        self._noted: dict[types.RequestId, HttpRefusal] = {}

    async def look(self, response: httpx2.Response) -> None:
        """A response hook of httpx2, which notes a refusal."""
        if response.request.method != "POST" or not self._tells(response):
            return
        try:
            asked = json.loads(response.request.content)
            number, method = asked["id"], str(asked.get("method", ""))
        except (ValueError, TypeError, KeyError):
            return  # a notification or a response, to which there is no answer
        if len(self._noted) >= _MOST_NOTED:
            self._noted.clear()
        self._noted[number] = HttpRefusal(
            response.status_code,
            self._told(response),
            scopes=_wanted(response),
            method=method,
            oauth=self._oauth,
            named=names_metadata(response),
            later=seconds_of(response.headers.get("retry-after", ""), MAX_LATER),
        )

    def named(self, item: Any) -> Any:
        """The incoming message `item`. If it is the SDK's error for a refusal, it is replaced by one that describes the
        refusal."""
        message = item.message if isinstance(item, SessionMessage) else None
        if not isinstance(message, (types.JSONRPCError, types.JSONRPCResponse)) or message.id is None:
            return item
        found = self._noted.pop(message.id, None)
        if not isinstance(message, types.JSONRPCError):
            return item
        code, said = message.error.code, message.error.message
        stand_in = (code, said) in _STAND_INS or said.startswith(_OTHER_TYPE)
        if found is None and code == types.PARSE_ERROR and _OTHER_JSON.match(said):
            found, stand_in = HttpRefusal(HTTPStatus.OK, "JSON that is no JSON-RPC message"), True
        if found is None:
            return item
        if not stand_in:
            if found.status not in _OF_HTTP:
                return item
            found = replace(found, told=f"{found.told}: {self._bounded(said)}")
        ended = found.status == HTTPStatus.UNAUTHORIZED or (stand_in and code == types.INTERNAL_ERROR)
        found = replace(found, ended=ended)
        error = types.ErrorData(code=code, message=found.words(), data=found)
        return SessionMessage(types.JSONRPCError(jsonrpc="2.0", id=message.id, error=error))

    def of_stream(self, response: httpx2.Response) -> Unavailable | None:
        """The error for a response that is not a stream of events; `None` if it is one."""
        if response.status_code == HTTPStatus.OK and _type(response).startswith("text/event-stream"):
            return None
        told, scopes = self._told(response), _wanted(response)
        named = names_metadata(response)
        found = HttpRefusal(response.status_code, told, scopes=scopes, oauth=self._oauth, named=named)
        return Unauthorized(found.words(), scopes=found.scopes) if found.unauthorized else Unavailable(found.words())

    def _tells(self, response: httpx2.Response) -> bool:
        if response.status_code >= HTTPStatus.BAD_REQUEST:
            return True
        known = ("application/json", "text/event-stream")
        return response.status_code == HTTPStatus.OK and not _type(response).startswith(known)

    def _told(self, response: httpx2.Response) -> str:
        status = response.status_code
        try:
            told = f"HTTP {status} {HTTPStatus(status).phrase}"
        except ValueError:
            told = f"HTTP {status}"
        if challenge := response.headers.get("www-authenticate", ""):
            told += f", WWW-Authenticate: {self._bounded(challenge)}"
        if status < HTTPStatus.BAD_REQUEST:
            told += f", {self._bounded(_type(response)) or 'without a Content-Type'}"
        return told

    def _bounded(self, text: str) -> str:
        text = spelled(without_values(text, self._secrets).strip())
        return text if len(text) <= MAX_FOREIGN else f"{text[:MAX_FOREIGN]}…"


def refusal(error: BaseException) -> HttpRefusal | None:
    """The refusal in the `data` of an `MCPError`; `None` for any other error."""
    found = error.error.data if isinstance(error, MCPError) else None
    return found if isinstance(found, HttpRefusal) else None


def _wanted(response: httpx2.Response) -> str:
    """The scopes that the server requires of the token (RFC 6750, 3.1)."""
    if response.status_code != HTTPStatus.FORBIDDEN:
        return ""
    if extract_field_from_www_auth(response, "error") != "insufficient_scope":
        return ""
    scopes = extract_field_from_www_auth(response, "scope") or ""
    return scopes if len(scopes) <= MAX_SCOPES and _SCOPES.fullmatch(scopes) else ""


def names_metadata(response: httpx2.Response) -> bool:
    """Whether a refusal names the server's OAuth metadata."""
    return bool(extract_field_from_www_auth(response, "resource_metadata"))


def _type(response: httpx2.Response) -> str:
    return str(response.headers.get("content-type", "")).lower()


def message_of(body: bytes) -> dict[str, Any]:
    """The JSON-RPC message in a body; empty if there is none."""
    try:
        found = json.loads(body)
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


def error_code(message: dict[str, Any]) -> Any:
    """The code of the error in a message; `None` if it has none."""
    error = message.get("error")
    return error.get("code") if isinstance(error, dict) else None

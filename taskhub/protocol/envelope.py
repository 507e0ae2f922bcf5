"""JSON-RPC messages: reads them strictly from the body of a request (B26-32), and writes requests, results and
errors."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from taskhub.lib import jsonx
from taskhub.protocol.errors import INVALID_PARAMS, INVALID_REQUEST, PARSE_ERROR, WireError, http_status
from taskhub.protocol.incoming import Reply

JSON: Final = {"Content-Type": "application/json", "Cache-Control": "no-store"}
"""The headers of an answer in JSON. No cache may keep it, because it is for one caller only."""


@dataclass(frozen=True, slots=True)
class Envelope:
    """A request, or a notification when `id` is `None`."""

    id: str | int | None
    method: str
    params: dict[str, Any]
    meta: dict[str, Any]
    has_meta: bool


@dataclass(frozen=True, slots=True)
class Response:
    """The client's answer to a request of the server (2025 wires): either `result` or `error` is set."""

    id: str | int
    result: dict[str, Any] | None
    error: dict[str, Any] | None


class BadEnvelope(WireError):
    """The body is not a valid JSON-RPC message. `id` is that of the request, if it could be read, and goes into the
    answer."""

    def __init__(self, code: int, message: str, id: str | int | None = None) -> None:  # noqa: A002 - JSON-RPC's name
        super().__init__(code, message, status=400)
        self.id = id


def read_envelope(body: bytes) -> Envelope | Response:
    """The message in `body`. Raises `BadEnvelope` (400): -32700 for text that is not strict JSON, -32602 for a `_meta`
    that is not an object, -32600 for anything else that is not one request, notification or response (B26-01, B26-05,
    B25-09)."""
    try:
        message = jsonx.decode(body)
    except jsonx.JsonError as error:
        raise BadEnvelope(PARSE_ERROR, f"Parse error: {error}") from None
    if isinstance(message, list):
        raise BadEnvelope(INVALID_REQUEST, "Batches are not accepted: send one message per POST")
    if not isinstance(message, dict):
        raise BadEnvelope(INVALID_REQUEST, "A JSON-RPC message is an object")
    found = message.get("id")
    readable = found if isinstance(found, (str, int)) and not isinstance(found, bool) else None
    if message.get("jsonrpc") != "2.0":
        raise BadEnvelope(INVALID_REQUEST, 'jsonrpc must be "2.0"', readable)
    if "id" in message and readable is None:
        raise BadEnvelope(INVALID_REQUEST, "id must be a string or an integer")
    method = message.get("method")
    if method is None and ("result" in message or "error" in message):
        return _response(message, readable)
    if not isinstance(method, str) or not method:
        raise BadEnvelope(INVALID_REQUEST, "method must be a string", readable)
    params = message.get("params", {})
    if not isinstance(params, dict):
        raise BadEnvelope(INVALID_REQUEST, "params must be an object", readable)
    meta = params.get("_meta", {})
    if not isinstance(meta, dict):
        raise BadEnvelope(INVALID_PARAMS, "params._meta must be an object", readable)
    return Envelope(id=readable, method=method, params=params, meta=meta, has_meta="_meta" in params)


def _response(message: dict[str, Any], id: str | int | None) -> Response:  # noqa: A002 - JSON-RPC's name
    if id is None:
        raise BadEnvelope(INVALID_REQUEST, "A response names the id of its request")
    result, error = message.get("result"), message.get("error")
    if ("result" in message) == ("error" in message):
        raise BadEnvelope(INVALID_REQUEST, "A response has either a result or an error", id)
    if not isinstance(error if "error" in message else result, dict):
        raise BadEnvelope(INVALID_REQUEST, "The result or error of a response is an object", id)
    return Response(id, result, error)


_STRING: Final = rb'"(?:[^"\\]|\\.)*"'
_MEMBER: Final = rb"\s*(" + _STRING + rb")\s*:\s*(" + _STRING + rb"|-?\d+)\s*"
_ONE: Final = re.compile(_MEMBER)
_AT_THE_HEAD: Final = re.compile(rb"\s*\{((?:" + _MEMBER + rb",)+)")
_AT_THE_TAIL: Final = re.compile(rb"((?:," + _MEMBER + rb")+)\}\s*\Z")


def from_ends(head: bytes, tail: bytes) -> Envelope | None:
    """A request with its id and method but without params, read from the first and the last bytes of a body. The id and
    the method are found if they stand next to the outermost braces, where all known clients put them. `None` if either
    is missing, as in notifications and responses.

    What is found is a member of the message itself, never of a nested object, because the first brace opens the message
    and the last one closes it. A tail that begins inside a string is not mistaken for JSON, because that string would
    not be closed.
    """
    seen: dict[str, Any] = {}
    for found in (_AT_THE_HEAD.match(head), _AT_THE_TAIL.search(tail)):
        try:
            members = _ONE.findall(found[1]) if found else []
            seen |= {json.loads(name): json.loads(value) for name, value in members}
        except (ValueError, RecursionError):
            return None  # the ends are not JSON
    id, method = seen.get("id"), seen.get("method")  # noqa: A001 - JSON-RPC's name
    if id is None or not isinstance(method, str):
        return None
    return Envelope(id=id, method=method, params={}, meta={}, has_meta=False)


def result_message(id: str | int | None, result: bytes) -> bytes:  # noqa: A002 - JSON-RPC's name
    """A JSON-RPC response around an already encoded result."""
    return b'{"jsonrpc":"2.0","id":' + jsonx.encode(id) + b',"result":' + result + b"}"


def error_message(id: str | int | None, error: dict[str, Any]) -> bytes:  # noqa: A002 - JSON-RPC's name
    """A JSON-RPC error; the id is left out when it could not be read (B26-05)."""
    head = b'{"jsonrpc":"2.0",' if id is None else b'{"jsonrpc":"2.0","id":' + jsonx.encode(id) + b","
    return head + b'"error":' + jsonx.encode(error) + b"}"


def refusal(why: str) -> bytes:
    """The error, as JSON, for a request that is refused before its id was read."""
    return error_message(None, {"code": INVALID_REQUEST, "message": why})


def notification_message(method: str, params: dict[str, Any]) -> bytes:
    """A JSON-RPC notification."""
    return jsonx.encode({"jsonrpc": "2.0", "method": method, "params": params})


def result_reply(id: str | int | None, result: bytes) -> Reply:  # noqa: A002 - JSON-RPC's name
    """Status 200 and an already encoded result."""
    return Reply(result_message(id, result), headers=JSON)


def error_reply(
    id: str | int | None,  # noqa: A002 - JSON-RPC's name
    error: WireError,
    status_of: Callable[[int], int] = http_status,
) -> Reply:
    """The error as JSON, with the HTTP status that the revision has for it (`status_of`). The body is never HTML and
    never empty, because a client that negotiates a version reads the error code there."""
    headers = dict(JSON)
    if error.retry_after:
        headers["Retry-After"] = str(error.retry_after)
    return Reply(error_message(id, error.body()), status=error.status or status_of(error.code), headers=headers)

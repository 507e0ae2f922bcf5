"""What refuses a request for now, or for its size, leaves the session of its client alone.

`mcp` 1.x ends its session for good at any HTTP error status to a POST but 404 (tests/clients/python_1_30.py
meets it): such errors travel with 200, under the id of their request.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator
from typing import Any, cast

import pytest

from taskhub.core import errors as domain
from taskhub.core.names import SCOPES
from taskhub.core.records import Principal
from taskhub.lib.lanes import Lanes
from taskhub.lib.signing import Signer
from taskhub.protocol.dispatch import failure, handle
from taskhub.protocol.envelope import from_ends
from taskhub.protocol.hub import Hub
from taskhub.protocol.incoming import Incoming, Reply
from taskhub.protocol.registry import VERSIONS
from tests.protocol.v2025_11_25.conftest import Start
from tests.support.hub import RunningHub
from tests.support.session import SessionClient

LIMIT = 4_194_304
LARGE = "x" * (LIMIT + 1)
CALL = {"name": "greet", "arguments": {"name": LARGE}}

# --- too large


@pytest.fixture(params=["2025-11-25", "2025-06-18", "2025-03-26", "headerless"])
def old(request: pytest.FixtureRequest, hub: RunningHub, start: Start) -> SessionClient:
    """A session of each version; clients of 2025-03-26 need not send the version's header."""
    named = request.param
    session = start(version="2025-03-26" if named == "headerless" else named)
    if named == "headerless":
        session.version = None  # type: ignore[assignment]  # left out of every header from now on
    return session


@pytest.mark.parametrize(
    "message",
    [
        {"method": "tools/call", "params": CALL, "jsonrpc": "2.0", "id": 7},
        {"jsonrpc": "2.0", "id": "seven", "method": "tools/call", "params": CALL},
        {"jsonrpc": "2.0", "method": "tools/call", "params": CALL, "id": '\u20ac " \\'},
    ],
    ids=["as the Python and TypeScript SDKs write it", "as most others do", "mixed"],
)
@pytest.mark.req("B25-20", "B25-11")
def test_a_request_that_is_too_large_is_refused_under_its_id(old: SessionClient, message: dict[str, Any]) -> None:
    answer = old.post(message)
    assert (answer.status, answer.error["code"], answer.messages[0]["id"]) == (200, -32600, message["id"])
    assert str(LIMIT) in answer.error["message"]
    assert old.call("ping").result == {}


@pytest.mark.parametrize(
    ("argument", "why"),
    [
        ("[" * 100 + "]" * 100, "nested deeper"),
        ("NaN", "NaN"),
        ("1e999", "out of range"),
        ('"\\ud83d"', "surrogate"),
        ("1" * 5_000, "a number has more than 4300 digits"),
        ('{"a":1,"a":2}', "a"),
    ],
    ids=["deep", "nan", "infinite", "half a character", "digits", "twice"],
)
@pytest.mark.req("B25-11")
def test_arguments_that_are_no_json_cost_their_call_and_no_session(old: SessionClient, argument: str, why: str) -> None:
    params = f'{{"name":"greet","arguments":{{"name":{argument}}}}}'
    call = f'{{"method":"tools/call","params":{params},"jsonrpc":"2.0","id":7}}'
    answer = old.http.post(old.url, content=call.encode(), headers=old.headers())
    assert (answer.status_code, answer.json()["id"]) == (200, 7)
    assert answer.json()["error"]["code"] in (-32700, -32600)
    assert why in answer.json()["error"]["message"]
    assert old.call("ping").result == {}


@pytest.mark.req("B25-20")
def test_a_request_that_is_too_large_may_come_in_chunks(session: SessionClient) -> None:
    message = json.dumps({"method": "tools/call", "params": CALL, "jsonrpc": "2.0", "id": 7}).encode()

    def chunks() -> Iterator[bytes]:
        for start in range(0, len(message), 65_000):
            yield message[start : start + 65_000]

    answer = session.http.post(session.url, content=chunks(), headers=session.headers())
    assert (answer.status_code, answer.json()["error"]["code"], answer.json()["id"]) == (200, -32600, 7)
    assert session.call("ping").result == {}


@pytest.mark.parametrize(
    "message",
    [
        {"jsonrpc": "2.0", "method": "notifications/progress", "params": {"message": LARGE}},
        {"jsonrpc": "2.0", "id": "taskhub-1", "result": {"text": LARGE}},
        {"params": CALL, "id": 7, "method": "tools/call", "extra": {}, "jsonrpc": "2.0"},
    ],
    ids=["notification", "response", "an id between objects"],
)
@pytest.mark.req("B25-10", "B25-20")
def test_what_is_no_request_or_hides_its_id_is_413(session: SessionClient, message: dict[str, Any]) -> None:
    """An error without an id would be nobody's: its caller would wait for ever."""
    response = session.http.post(session.url, json=message, headers=session.headers())
    assert (response.status_code, "id" in response.json()) == (413, False)


@pytest.mark.parametrize(
    ("head", "tail", "found"),
    [
        (b' {"jsonrpc" : "2.0" , "id" : -1, "method":"a", "params":{', b'"}}', (-1, "a")),
        (b'{"method":"a","params":{', b'}, "jsonrpc":"2.0", "id": "x" }\n', ("x", "a")),
        (b'{"params":{"id":1,', b'},"method":"a","id":2}', (2, "a")),
        (b'{"method":"a","params":{"id":1,', b'"id":1}}', None),
        (b'{"method":"a","params":{', rb'},"x":"y,\"id\":1}', None),
        (b'{"method":"a","params":{', b'},"id":1', None),
        (b'{"method":"a","params":{', b'},"id":null}', None),
        (b'{"method":"a","params":{', b'},"id":1.5}', None),
        (b'{"method":"a","params":{', b'},"id":true}', None),
        (b'{"method":5,"id":1,"params":{', b"}}", None),
        (b'[{"method":"a","id":1,"params":{', b"}}]", None),
        (b'{"method":"\xff","id":1,"params":{', b"}}", None),
        (b'{"method":"\\x","id":1,"params":{', b"}}", None),
        (b"", b"", None),
    ],
)
@pytest.mark.req("B25-20")
def test_an_id_is_told_from_the_ends_only_where_it_is_certain(head: bytes, tail: bytes, found: Any) -> None:
    envelope = from_ends(head, tail)
    assert (None if envelope is None else (envelope.id, envelope.method)) == found


# --- for now


class _Broken:
    """Lanes in which everything ends with one error."""

    most = patience = math.inf

    def __init__(self, error: Exception) -> None:
        self.error = error

    def vain(self, asked: float) -> None:
        """Nobody waits in vain."""

    async def run(self, function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        raise self.error


async def _never() -> None:
    raise AssertionError("nobody leaves in here")


def _hub(error: Exception) -> Hub:
    return Hub(
        lanes=cast("Lanes", _Broken(error)),
        signer=Signer(b"k"),
        server_info={"name": "t", "version": "1"},
        inline_wait_seconds=0.1,
        versions=VERSIONS,
    )


HEADERS = {
    "content-type": "application/json",
    "accept": "*/*",
    "mcp-session-id": "s" * 32,
    "mcp-protocol-version": "2025-11-25",
}
INITIALIZE = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {}}
REQUEST = {"jsonrpc": "2.0", "id": "mine", "method": "tools/list"}
ERRORS = [
    (domain.LimitReached("full", retry_after=3), 42900, 429),
    (domain.Unavailable("away"), 50300, 503),
    (RuntimeError("password=hunter2"), -32603, 500),
    (domain.TaskHubError("x"), -32603, 500),
]


async def _answer(error: Exception, message: dict[str, Any], verb: str = "POST") -> Reply:
    principal = Principal(
        tenant_id=-1, context_id=-1, name="c", issuer="i", subject="s", client_id="c", scopes=frozenset(SCOPES)
    )
    body = json.dumps(message).encode()
    found = await handle(_hub(error), Incoming(body, HEADERS, frozenset(), principal, "", _never, verb=verb))
    assert isinstance(found, Reply)
    return found


@pytest.mark.parametrize(("error", "code", "status"), ERRORS)
@pytest.mark.parametrize("message", [REQUEST, {**REQUEST, "method": "initialize", "params": INITIALIZE}])
@pytest.mark.req("B25-20", "B25-11")
async def test_a_request_is_refused_in_json_alone(
    error: Exception, code: int, status: int, message: dict[str, Any]
) -> None:
    found = await _answer(error, message)
    body = json.loads(found.body)
    assert (found.status, body["id"], body["error"]["code"]) == (200, "mine", code)
    assert ("Retry-After" in found.headers) == (status != 500)
    assert b"hunter2" not in found.body


@pytest.mark.parametrize(("error", "code", "status"), ERRORS)
@pytest.mark.req("B25-10")
async def test_a_notification_counts_as_received_and_a_response_does_not(
    error: Exception, code: int, status: int
) -> None:
    told = await _answer(error, {"jsonrpc": "2.0", "method": "notifications/roots/list_changed"})
    assert (told.status, told.body) == (202, b"")
    answered = await _answer(error, {"jsonrpc": "2.0", "id": "taskhub-1", "result": {}})
    assert (answered.status, json.loads(answered.body)["error"]["code"]) == (status, code)


@pytest.mark.parametrize(("error", "code", "status"), ERRORS)
@pytest.mark.parametrize("verb", ["GET", "DELETE"])
@pytest.mark.req("B25-14", "B25-07")
async def test_what_has_no_body_keeps_its_status(error: Exception, code: int, status: int, verb: str) -> None:
    found = await _answer(error, {}, verb)
    assert (found.status, json.loads(found.body)["error"]["code"]) == (status, code)


@pytest.mark.parametrize(("error", "code", "status"), ERRORS)
@pytest.mark.req("B25-20", "B26-33")
def test_what_fails_before_the_protocol_is_told_the_same_way(error: Exception, code: int, status: int) -> None:
    def told(message: Any, version: str | None, mount: str = "") -> tuple[int, Any, int]:
        headers = {} if version is None else {"mcp-protocol-version": version}
        body = message if isinstance(message, bytes) else json.dumps(message).encode()
        found = failure(_hub(error), error, body=body, headers=headers, mount=mount)
        answer = json.loads(found.body)
        return found.status, answer.get("id"), answer["error"]["code"]

    for version in ("2025-11-25", "2025-06-18", "2025-03-26", None):
        assert told(REQUEST, version) == (200, "mine", code)
    assert told(REQUEST, "2026-07-28") == (status, "mine", code)
    assert told(REQUEST, None, "sep-2557") == (status, "mine", code)
    assert told(b"<html>", "2025-11-25") == (status, None, code)

"""What an HTTP server says instead of MCP is told with its status, its challenge and what to do."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest
from mcp import MCPError

from taskhub.core.errors import Unavailable
from taskhub.domain.relays.outcomes import READ, Failed, RelayClaim
from taskhub.upstream.call import MAX_CLAIMS
from taskhub.upstream.connection import Connection, Profile
from taskhub.upstream.outcomes import Faulted, Postponed
from taskhub.upstream.refusals import MAX_FOREIGN, MAX_LATER
from taskhub.upstream.relay import run_relay
from taskhub.upstream.target import Target
from tests.upstream import kit
from tests.upstream.kit import call, text

NEW_TOKEN = "Its token is missing, expired or refused: set a new one on the server's page."


@contextmanager
def answering(status: int, headers: dict[str, str], body: bytes = b"") -> Iterator[Target]:
    """A server that says this to everybody."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["Content-Length"]))
            self.send_response(status)
            for name, value in headers.items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *args: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    try:
        token = (("Authorization", "Bearer s3cret-of-ours"),)
        yield Target("http", f"http://127.0.0.1:{server.server_port}/mcp", token)
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


async def refused(status: int, headers: dict[str, str], body: bytes = b"") -> str:
    """Why such a server cannot be connected."""
    with answering(status, headers, body) as target:
        connection = Connection(target, Profile())
        try:
            with pytest.raises(Unavailable) as error:
                await connection.start()
        finally:
            await connection.stop()
    return error.value.message


async def test_a_401_tells_its_challenge_and_what_to_do() -> None:
    challenge = 'Bearer realm="shop", error="invalid_token"'
    words = await refused(401, {"WWW-Authenticate": challenge, "Content-Type": "text/plain"}, b"go away")
    assert words == f"HTTP 401 Unauthorized, WWW-Authenticate: {challenge}. {NEW_TOKEN}"
    assert await refused(401, {}) == f"HTTP 401 Unauthorized. {NEW_TOKEN}"


async def test_a_401_that_names_oauth_metadata_says_how_oauth_is_set() -> None:
    metadata = {"WWW-Authenticate": 'Bearer resource_metadata="https://shop.example/.well-known/oauth"'}
    words = await refused(401, metadata)
    assert words.startswith("It wants to be authorized by OAuth"), "what a list cuts off is not the advice"
    assert "--oauth WAY" in words
    assert words.endswith(f"It answered HTTP 401 Unauthorized, WWW-Authenticate: {metadata['WWW-Authenticate']}.")
    assert NEW_TOKEN not in words


async def test_an_error_in_the_body_of_a_401_is_quoted() -> None:
    error = {"jsonrpc": "2.0", "id": None, "error": {"code": -32001, "message": "the key has\nexpired"}}
    words = await refused(401, {"Content-Type": "application/json"}, json.dumps(error).encode())
    assert words == f"HTTP 401 Unauthorized: the key has↵expired. {NEW_TOKEN}"


def test_an_error_that_repeats_our_token_is_told_without_it() -> None:
    target = Target("http", "https://shop.example/mcp", (("Authorization", "Bearer s3cret-of-ours"),))
    said = MCPError(code=-32000, message="token Bearer s3cret-of-ours refused")
    assert target.reason(said) == "MCPError: token Bearer ••• refused"


async def test_a_challenge_is_bounded_made_visible_and_told_without_our_token() -> None:
    challenge = "Bearer was='Bearer s3cret-of-ours' \x1b[31m" + "x" * 5_000
    words = await refused(401, {"WWW-Authenticate": challenge})
    assert "was='Bearer •••' [U+001B][31mxxx" in words
    assert words.endswith(f"x…. {NEW_TOKEN}")
    assert len(words) < MAX_FOREIGN + 150


@pytest.mark.parametrize(
    ("status", "headers", "body", "words"),
    [
        (403, {}, b"", "HTTP 403 Forbidden. Its token does not allow this, or requests from here are not let in."),
        (404, {}, b"", "HTTP 404 Not Found. There is no MCP server at this address: check its path."),
        (503, {}, b"", "HTTP 503 Service Unavailable. The server, or a proxy before it, fails: its own log says why."),
        (529, {}, b"", "HTTP 529. The server, or a proxy before it, fails: its own log says why."),
        (400, {}, b"", "HTTP 400 Bad Request."),
        (
            200,
            {"Content-Type": "text/html; charset=utf-8"},
            b"<html>",
            "HTTP 200 OK, text/html; charset=utf-8. This is no answer of an MCP server: check the address.",
        ),
        (
            200,
            {"Content-Type": "application/json"},
            b'{"hello": "world"}',
            "JSON that is no JSON-RPC message. This is no answer of an MCP server: check the address.",
        ),
    ],
)
async def test_other_answers_that_are_no_mcp_are_named(
    status: int, headers: dict[str, str], body: bytes, words: str, caplog: pytest.LogCaptureFixture
) -> None:
    assert await refused(status, headers, body) == words
    # What the SDK would log here at every try, its worker says once.
    assert caplog.text == ""


async def test_a_call_that_meets_a_401_was_not_run_and_says_so() -> None:
    with kit.HttpServer() as server:
        async with kit.pool_of(server.target) as pool:
            assert text(await call(pool, "echo", {"text": "hello"})) == "hello"
            server.refuses = (401, "")
            for _ in range(2):  # through the connection there was, and through a new one
                outcome = await call(pool, "echo", {"text": "hello"})
                assert isinstance(outcome, Faulted)
                assert outcome.unreached is True
                assert outcome.problem == f"HTTP 401 Unauthorized. {NEW_TOKEN}"
                assert outcome.error == {
                    "code": -32603,
                    "message": f"Server the-server cannot be reached: {outcome.problem}",
                }
            server.refuses = None
            assert text(await call(pool, "echo", {"text": "again"})) == "again"


@pytest.mark.parametrize("status", [502, 504, 524])
async def test_of_a_call_that_a_gateway_passed_on_the_outcome_is_unknown(status: int) -> None:
    with kit.HttpServer() as server:
        async with kit.pool_of(server.target) as pool:
            for warm in (False, True):  # through the SDK's client, and by a single request
                if warm:
                    assert text(await call(pool, "echo", {"text": "hello"})) == "hello"
                server.refuses = (status, "tools/call")
                outcome = await call(pool, "echo", {"text": "hello"})
                assert isinstance(outcome, Faulted)
                assert (outcome.lost, outcome.unreached) == (True, False)
                assert outcome.error["message"].startswith(f"HTTP {status}")
                assert outcome.error["message"].endswith(" of server the-server: outcome unknown")
                server.refuses = None


async def test_a_read_that_meets_a_failing_proxy_tells_its_status() -> None:
    with kit.HttpServer() as server:
        async with kit.pool_of(server.target) as pool:
            server.refuses = (502, READ)
            read = await run_relay(pool, RelayClaim(1, 1, "the-server", READ, {"uri": "x:y"}, {}, 30.0))
            assert isinstance(read, Failed)
            told = "HTTP 502 Bad Gateway. The server, or a proxy before it, fails: its own log says why."
            assert read.message == f"Server the-server failed: {told}"


@pytest.mark.parametrize("status", [429, 503])
async def test_a_call_that_a_server_has_no_room_for_was_not_run(status: int) -> None:
    with kit.HttpServer() as server:
        async with kit.pool_of(server.target) as pool:
            for warm in (False, True):
                if warm:
                    assert text(await call(pool, "echo", {"text": "hello"})) == "hello"
                server.refuses, server.refuses_with = (status, "tools/call"), []
                outcome = await call(pool, "echo", {"text": "hello"})
                assert isinstance(outcome, Faulted)
                assert (outcome.unreached, outcome.lost) == (True, False)
                assert outcome.problem.startswith(f"HTTP {status} ")
                server.refuses_with = [(b"retry-after", b"7")]
                later = await call(pool, "echo", {"text": "hello"})
                assert isinstance(later, Postponed)
                assert later.seconds == 7
                assert later.why.startswith(f"Server the-server wants to be called later: HTTP {status} ")
                often = await call(pool, "echo", {"text": "hello"}, epoch=MAX_CLAIMS + 1)
                assert isinstance(often, Faulted)
                assert often.unreached is True
                server.refuses = None


async def test_a_500_is_an_end() -> None:
    """The server says that it has failed: nothing runs any more."""
    with kit.HttpServer() as server:
        async with kit.pool_of(server.target) as pool:
            server.refuses = (500, "tools/call")
            outcome = await call(pool, "echo", {"text": "hello"})
    assert isinstance(outcome, Faulted)
    assert (outcome.lost, outcome.unreached) == (False, False)
    assert outcome.error["message"].startswith("The tool's server failed: HTTP 500 Internal Server Error.")


@pytest.mark.parametrize(
    ("told", "seconds"),
    [
        (b"3", 3.0),
        (b"100000", MAX_LATER),
        (b"Wed, 21 Oct 2015 07:28:00 GMT", 0.0),
        (b"Fri, 31 Dec 2999 23:59:59 GMT", MAX_LATER),
    ],
)
async def test_a_retry_after_is_a_number_or_a_date_and_bounded(told: bytes, seconds: float) -> None:
    with kit.HttpServer() as server:
        async with kit.pool_of(server.target) as pool:
            server.refuses, server.refuses_with = (503, "tools/call"), [(b"retry-after", told)]
            later = await call(pool, "echo", {"text": "hello"})
            assert isinstance(later, Postponed)
            assert later.seconds == seconds
            for nothing in (b"soon", b"-1", b"1.5", b""):
                server.refuses_with = [(b"retry-after", nothing)]
                assert isinstance(await call(pool, "echo", {"text": "hello"}), Faulted)

"""What is refused before anything else runs: Host, Origin, sizes; for HTTP and WebSocket alike."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
import websockets
from websockets.exceptions import ConnectionClosed, InvalidStatus

from taskhub.api.guard import DRAIN_BYTES, Guard
from tests.support.client import Client
from tests.support.hub import RunningHub

pytestmark = pytest.mark.processes

LIMIT = 4_194_304

HOSTILE = [
    "evil.example.com",
    "localhost.evil.example.com",
    "127.0.0.1.nip.io",
    "localhost@evil.example.com",
    "",
    "a b",
]
FOREIGN = [
    "https://evil.example.com",
    "null",
    "http://localhost:1",
    "http://127.0.0.1",
    "https://127.0.0.1:{port}.evil.example.com",
    "ftp://127.0.0.1:{port}",
    "http://127.0.0.1:{port}@evil.example.com",
    "http://user@127.0.0.1:{port}",
    "http://127.0.0.1:99999",
    "http://[",
]


def _head(hub: RunningHub, *lines: str, path: str = "/healthz", host: str | None = None) -> bytes:
    named = f"127.0.0.1:{hub.port}" if host is None else host
    return "\r\n".join([f"GET {path} HTTP/1.1", f"Host: {named}", *lines, "", ""]).encode("latin-1")


def _status(answer: bytes) -> int:
    return int(answer.split(b" ")[1])


@pytest.mark.parametrize("path", ["/mcp", "/healthz/", "/", "/accounts/login/", "/nope"])
@pytest.mark.parametrize("host", HOSTILE)
@pytest.mark.req("B26-02")
def test_a_host_we_do_not_answer_to_is_refused_everywhere(hub: RunningHub, host: str, path: str) -> None:
    answer = hub.raw(_head(hub, path=path, host=host))
    assert _status(answer) == 400


@pytest.mark.parametrize("path", ["/healthz", "/readyz", "/readyz?full", "/metrics"])
@pytest.mark.parametrize("host", HOSTILE)
def test_a_probe_names_it_as_it_likes_and_hears_nothing_of_that(hub: RunningHub, host: str, path: str) -> None:
    head, _, body = hub.raw(_head(hub, path=path, host=host)).partition(b"\r\n\r\n")
    assert _status(head) == 200
    assert not host or host.encode("latin-1") not in head + body


@pytest.mark.parametrize("path", ["/healthz", "/readyz", "/metrics"])
def test_a_probe_by_a_page_of_another_origin_is_refused(hub: RunningHub, path: str) -> None:
    answer = hub.raw(_head(hub, "Origin: http://evil.example.com", path=path, host="evil.example.com"))
    assert _status(answer) == 403


@pytest.mark.parametrize(
    "host", ["127.0.0.1:{port}", "localhost:{port}", "LOCALHOST:{port}", "localhost", "[::1]:{port}"]
)
@pytest.mark.req("B26-02")
def test_our_own_names_are_answered(hub: RunningHub, host: str) -> None:
    assert _status(hub.raw(_head(hub, host=host.format(port=hub.port)))) == 200


@pytest.mark.req("B26-02")
def test_two_hosts_or_none_are_refused(hub: RunningHub) -> None:
    assert _status(hub.raw(_head(hub, "Host: evil.example.com"))) == 400
    assert _status(hub.raw(b"GET /healthz HTTP/1.1\r\nConnection: close\r\n\r\n")) == 400


@pytest.mark.parametrize("origin", FOREIGN)
@pytest.mark.req("B26-02")
def test_a_foreign_origin_is_refused_in_json(hub: RunningHub, alice: Client, origin: str) -> None:
    sent = origin.format(port=hub.port)
    answer = alice.call("server/discover", headers={"Origin": sent})
    assert answer.refusal == (403, -32600)
    assert _status(hub.raw(_head(hub, f"Origin: {sent}"))) == 403


@pytest.mark.req("B26-02")
def test_the_origin_of_the_address_itself_is_fine(hub: RunningHub, alice: Client) -> None:
    for name in ("127.0.0.1", "localhost"):
        here = f"{name}:{hub.port}"
        answer = alice.call("server/discover", headers={"Host": here, "Origin": f"http://{here}"})
        assert answer.status == 200


@pytest.mark.parametrize(
    ("host", "origin"),
    [
        ("evil.example.com", None),
        ("evil.example.com", "http://evil.example.com"),
        (None, "https://evil.example.com"),
        (None, "null"),
    ],
)
@pytest.mark.req("B26-02")
async def test_a_websocket_is_guarded_like_a_page(hub: RunningHub, host: str | None, origin: str | None) -> None:
    named = host or f"127.0.0.1:{hub.port}"
    sock_kwargs = {"host": "127.0.0.1", "port": hub.port}
    headers = {"Origin": origin} if origin else {}
    with pytest.raises(InvalidStatus) as caught:
        async with websockets.connect(f"ws://{named}/ws/hints", additional_headers=headers, proxy=None, **sock_kwargs):
            pass
    assert caught.value.response.status_code == 403


@pytest.mark.req("B26-02")
async def test_a_websocket_without_a_session_is_closed(hub: RunningHub) -> None:
    origin = f"http://127.0.0.1:{hub.port}"
    address = f"ws://127.0.0.1:{hub.port}/ws/hints"

    async def first_message() -> object:
        async with (
            asyncio.timeout(5),
            websockets.connect(address, additional_headers={"Origin": origin}, proxy=None) as socket,
        ):
            return await socket.recv()

    with pytest.raises((InvalidStatus, ConnectionClosed)):
        await first_message()


@pytest.mark.req("B26-04")
def test_a_body_over_the_limit_is_413_however_it_comes(hub: RunningHub, alice: Client) -> None:
    message = alice.message("tools/call", {"name": "greet", "arguments": {"name": "x" * LIMIT}})
    assert alice.send(message, alice.headers(message)).refusal == (413, -32600)

    def chunks() -> object:
        for _ in range(LIMIT // 65_536 + 24):
            yield b" " * 65_536

    response = alice._http.post(f"{hub.base}/mcp", content=chunks(), headers=alice.headers(message))  # type: ignore[arg-type]
    assert response.status_code == 413
    assert alice.call("server/discover").status == 200


@pytest.mark.req("B26-04")
def test_a_body_just_under_the_limit_is_read(alice: Client) -> None:
    answer = alice.tool("greet", {"name": "x" * (LIMIT - 1_000)})
    assert len(answer.text) == LIMIT - 1_000 + len("Hello, !")


@pytest.mark.parametrize(
    ("line", "status"),
    [
        ("", 413),
        ("Origin: https://evil.example.com", 403),
        ("Host: evil.example.com", 400),
        ("X-Long: " + "y" * 17_000, 431),
    ],
)
@pytest.mark.parametrize("path", ["/mcp", "/accounts/login/"])
@pytest.mark.req("B26-04", "B26-33")
def test_a_refused_body_is_read_so_that_its_sender_reads_why(
    hub: RunningHub, path: str, line: str, status: int
) -> None:
    """Its sender looks for an answer only when all is sent, as HTTP libraries do. With a connection that is closed
    before, sending fails, or the reset takes the answer away."""
    body = b"x" * (3 * LIMIT)
    head = f"POST {path} HTTP/1.1\r\nHost: 127.0.0.1:{hub.port}\r\nContent-Length: {len(body)}\r\n{line}"
    answer = hub.raw(head.encode() + (b"\r\n" if line else b"") + b"\r\n" + body)
    assert _status(answer) == status
    assert json.loads(answer.partition(b"\r\n\r\n")[2])["error"]["code"] == -32600


@pytest.mark.parametrize(
    "line", [f"Content-Length: {DRAIN_BYTES + 1}", f"Content-Length: {LIMIT + 1}\r\nExpect: 100-continue"]
)
@pytest.mark.req("B26-04")
def test_a_body_that_nobody_will_read_is_not_waited_for(hub: RunningHub, line: str) -> None:
    answer = hub.raw(f"POST /mcp HTTP/1.1\r\nHost: 127.0.0.1:{hub.port}\r\n{line}\r\n\r\n".encode())
    assert _status(answer) == 413


def _dripping(count: int) -> tuple[list[int], Callable[[], Awaitable[dict[str, Any]]]]:
    """Receives that bring 64 KiB each, and count down."""
    left = [count]

    async def receive() -> dict[str, Any]:
        left[0] -= 1
        return {"type": "http.request", "body": b" " * 65_536, "more_body": left[0] > 0}

    return left, receive


async def _guarded(
    receive: Callable[[], Awaitable[dict[str, Any]]], *headers: tuple[bytes, bytes]
) -> list[dict[str, Any]]:
    sent: list[dict[str, Any]] = []

    async def send(message: Any) -> None:
        sent.append(message)

    async def app(scope: Any, receive: Any, send: Any) -> None:
        raise AssertionError("refused before")

    guard = Guard(app, hosts=["localhost"], origins=[], max_body=1_024)
    await guard({"type": "http", "path": "/", "headers": [(b"host", b"localhost"), *headers]}, receive, send)
    return sent


@pytest.mark.parametrize("headers", [[], [(b"origin", b"null")]])
@pytest.mark.req("B26-04")
async def test_so_much_is_read_of_a_refused_body_and_no_more(headers: list[tuple[bytes, bytes]]) -> None:
    left, receive = _dripping(10_000)
    sent = await _guarded(receive, *headers)
    assert sent[0]["status"] == (403 if headers else 413)
    assert (10_000 - left[0]) * 65_536 == DRAIN_BYTES + 65_536


@pytest.mark.parametrize(("first", "status"), [(b"x" * 2_000, 413), (b"x", 408)])
@pytest.mark.req("B26-04")
async def test_a_body_that_stops_coming_is_answered_in_time(
    monkeypatch: pytest.MonkeyPatch, first: bytes, status: int
) -> None:
    monkeypatch.setattr("taskhub.api.guard.BODY_SECONDS", 0.05)
    chunks = [first]

    async def receive() -> dict[str, Any]:
        if chunks:
            return {"type": "http.request", "body": chunks.pop(), "more_body": True}
        await asyncio.Event().wait()
        raise AssertionError

    assert (await _guarded(receive))[0]["status"] == status


@pytest.mark.parametrize("length", ["-1", "1e3", "0x10", "1, 1", "99999999999999999999"])
@pytest.mark.req("B26-04")
def test_a_length_that_is_none_is_refused(hub: RunningHub, length: str) -> None:
    request = f"POST /mcp HTTP/1.1\r\nHost: 127.0.0.1:{hub.port}\r\nContent-Length: {length}\r\n\r\nx"
    assert _status(hub.raw(request.encode())) in (400, 413)


@pytest.mark.req("B26-23")
def test_too_many_or_too_large_headers_are_431(hub: RunningHub) -> None:
    many = [f"X-{number}: y" for number in range(150)]
    assert _status(hub.raw(_head(hub, *many))) == 431
    assert _status(hub.raw(_head(hub, "X-Long: " + "y" * 17_000))) == 431
    assert _status(hub.raw(_head(hub, *many[:50]))) == 200


@pytest.mark.req("B26-33")
def test_every_refusal_of_the_guard_is_json(hub: RunningHub) -> None:
    for request in (
        _head(hub, host="evil.example.com", path="/"),
        _head(hub, "Origin: null"),
        _head(hub, "X-Long: " + "y" * 17_000),
    ):
        head, _, body = hub.raw(request).partition(b"\r\n\r\n")
        assert b"content-type: application/json" in head
        assert json.loads(body)["error"]["code"] == -32600

"""Heads that never end, on real sockets: the web process keeps little of them, says 431 and hangs up."""

from __future__ import annotations

import contextlib
import itertools
import socket
from collections.abc import Iterator

import pytest

from taskhub.cli.httpserver import MAX_HEAD
from tests.support.hub import RunningHub

pytestmark = pytest.mark.processes

MOST = 48 * 1_048_576
"""A sender that could get rid of so much was not refused."""
ROOM = 8 * 1_048_576
"""What may be on its way in the buffers of both ends when the refusal comes."""
PIECE = 65_536


def _many() -> Iterator[bytes]:
    for number in itertools.count():
        yield b"".join(b"X-%d-%d: y\r\n" % (number, each) for each in range(4_000))


def _same(piece: bytes) -> Iterator[bytes]:
    while True:
        yield piece * PIECE


ENDLESS = {
    "a request line": (b"GET /healthz?", _same(b"x")),
    "a header's name": (b"GET /healthz HTTP/1.1\r\nX", _same(b"x")),
    "a header's value": (b"GET /healthz HTTP/1.1\r\nX-Long: ", _same(b"y")),
    "blanks before a value": (b"GET /healthz HTTP/1.1\r\nX-Long: ", _same(b" ")),
    "headers": (b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n", _many()),
    "the upgrade to a socket": (b"GET /ws/hints HTTP/1.1\r\nConnection: upgrade\r\nUpgrade: websocket\r\n", _many()),
}
FOLLOWING = {
    "trailers": (b"POST /mcp HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n", _many()),
    "a trailer's value": (
        b"POST /mcp HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n0\r\nX-Long: ",
        _same(b"y"),
    ),
}


def _sent(hub: RunningHub, begin: bytes, rest: Iterator[bytes]) -> tuple[int, bytes]:
    """How much could be sent, and what was answered."""
    sent, answer = 0, b""
    with socket.create_connection(("127.0.0.1", hub.port), timeout=30) as connection:
        with contextlib.suppress(ConnectionError):
            connection.sendall(begin)
            while sent < MOST:
                piece = next(rest)
                connection.sendall(piece)
                sent += len(piece)
        with contextlib.suppress(ConnectionError):
            while chunk := connection.recv(PIECE):
                answer += chunk
    return sent, answer


@pytest.mark.parametrize("what", ENDLESS)
def test_an_endless_head_is_431_before_it_ends(hub: RunningHub, what: str) -> None:
    sent, answer = _sent(hub, *ENDLESS[what])
    assert sent < ROOM
    assert answer.startswith(b"HTTP/1.1 431 ")
    assert b"connection: close" in answer
    assert answer.endswith(b'"message":"Too many or too large headers"}}')


@pytest.mark.parametrize("what", FOLLOWING)
def test_what_never_ends_after_a_body_is_hung_up_on(hub: RunningHub, what: str) -> None:
    sent, _ = _sent(hub, *FOLLOWING[what])
    assert sent < ROOM


def test_a_later_request_of_a_connection_is_counted_for_itself(hub: RunningHub) -> None:
    request = b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1:%d\r\nX-Long: %s\r\n\r\n" % (hub.port, b"y" * 12_000)
    with socket.create_connection(("127.0.0.1", hub.port), timeout=30) as connection:
        file = connection.makefile("rb")
        for _ in range(3 * MAX_HEAD // len(request)):
            connection.sendall(request)
            assert file.readline().startswith(b"HTTP/1.1 200 ")
            length = 0
            while (line := file.readline()) != b"\r\n":
                name, _, value = line.partition(b":")
                length = int(value) if name.lower() == b"content-length" else length
            file.read(length)


def test_a_body_is_not_counted_as_a_head(hub: RunningHub) -> None:
    body = b" " * (4 * MAX_HEAD)
    head = b"POST /mcp HTTP/1.1\r\nHost: 127.0.0.1:%d\r\nContent-Length: %d\r\n\r\n" % (hub.port, len(body))
    assert hub.raw(head + body).startswith(b"HTTP/1.1 401 ")

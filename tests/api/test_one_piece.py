"""An answer leaves the web process in one piece: its head and its body cost one packet, not two."""

from __future__ import annotations

import re
import socket

import pytest

from tests.support.hub import RunningHub

pytestmark = pytest.mark.processes


def test_a_whole_answer_is_one_packet(hub: RunningHub) -> None:
    """Asked so often that two packets would be seen apart."""
    request = b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1:%d\r\n\r\n" % hub.port
    with socket.create_connection(("127.0.0.1", hub.port), timeout=30) as connection:
        for _ in range(100):
            connection.sendall(request)
            head, _, body = connection.recv(65_536).partition(b"\r\n\r\n")
            assert head.startswith(b"HTTP/1.1 200 ")
            assert f"content-length: {len(body)}".encode() in head.lower()
            assert body


def test_answers_to_requests_sent_together_come_whole_and_in_order(hub: RunningHub) -> None:
    first = b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1:%d\r\n\r\n" % hub.port
    last = b"GET /nowhere HTTP/1.1\r\nHost: 127.0.0.1:%d\r\nConnection: close\r\n\r\n" % hub.port
    answers = b""
    with socket.create_connection(("127.0.0.1", hub.port), timeout=30) as connection:
        connection.sendall(first + first + last)
        while piece := connection.recv(65_536):
            answers += piece
    assert re.findall(rb"HTTP/1.1 (\d+) ", answers) == [b"200", b"200", b"404"]

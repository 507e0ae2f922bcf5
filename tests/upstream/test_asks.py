"""Requests without the SDK's client: what is answered as it should be, and what is left to the SDK."""

from __future__ import annotations

import json
from collections.abc import Iterator
from http import HTTPStatus
from typing import Any

import pytest
from mcp import MCPError

from taskhub.upstream.asks import Asks, OtherwiseError, _response
from tests.upstream.tasking_server import CAPABILITIES, EXTENSION, TaskingServer

DECLARED = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    CAPABILITIES: {"extensions": {EXTENSION: {}}},
}
GOOD = {"jsonrpc": "2.0", "id": 7, "result": {"status": "working"}}


@pytest.fixture
def upstream() -> Iterator[TaskingServer]:
    with TaskingServer() as server:
        yield server


async def test_a_request_says_what_the_sdk_would_and_gets_the_result(upstream: TaskingServer) -> None:
    asks = Asks(upstream.target)
    asks.declared = DECLARED
    upstream.tasks["up-1"] = {"status": "working"}
    assert (await asks.ask("tasks/get", {"taskId": "up-1"}, "up-1"))["status"] == "working"
    with pytest.raises(MCPError, match="Task not found"):
        await asks.ask("tasks/get", {"taskId": "up-2"}, "up-2")
    await asks.close()


async def test_whatever_else_comes_is_left_to_the_sdk(upstream: TaskingServer) -> None:
    asks = Asks(upstream.target)
    with pytest.raises(OtherwiseError):
        await asks.ask("tasks/get", {"taskId": "up-1"}, "up-1")  # nothing to declare yet
    asks.declared = DECLARED
    upstream.fails = HTTPStatus.BAD_GATEWAY
    with pytest.raises(OtherwiseError):
        await asks.ask("tasks/get", {"taskId": "up-1"}, "up-1")
    upstream.__exit__(None, None, None)
    with pytest.raises(OtherwiseError):
        await asks.ask("tasks/get", {"taskId": "up-1"}, "up-1")
    await asks.close()
    upstream.__enter__()


def events(*messages: Any) -> bytes:
    return b"".join(b"event: message\r\ndata: %s\r\n\r\n" % json.dumps(each).encode() for each in messages)


@pytest.mark.parametrize(
    ("kind", "body"),
    [
        ("application/json; charset=utf-8", json.dumps(GOOD).encode()),
        ("text/event-stream", events({"jsonrpc": "2.0", "method": "notifications/message"}, GOOD)),
        ("text/event-stream", b": ping\n\ndata: \n\n" + events(GOOD)),
    ],
)
def test_an_answer_is_found_in_json_and_in_a_stream(kind: str, body: bytes) -> None:
    assert _response(7, kind, body) == GOOD


@pytest.mark.parametrize(
    ("kind", "body"),
    [
        ("text/html", b"<html>"),
        ("application/json", b""),
        ("application/json", b"{"),
        ("application/json", json.dumps({**GOOD, "id": 8}).encode()),
        ("application/json", json.dumps({"jsonrpc": "2.0", "id": 7, "error": {"code": "x"}}).encode()),
        ("application/json", json.dumps([GOOD]).encode()),
        ("text/event-stream", b"data: 7\n\n"),
    ],
)
def test_what_is_no_answer_is_none(kind: str, body: bytes) -> None:
    with pytest.raises((OtherwiseError, ValueError)):
        _response(7, kind, body)

"""Every answer names the id of its request, and so do the lines that were logged meanwhile."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any, cast

import httpx2
import pytest
from websockets.exceptions import InvalidStatus
from websockets.sync.client import connect
from websockets.typing import Origin

from taskhub.api.guard import Message, Receive, Scope, Send
from taskhub.api.requests import Identified
from tests.support.client import Client
from tests.support.hub import RunningHub
from tests.support.web import Web, web

pytestmark = pytest.mark.processes

OURS = re.compile(r"[0-9a-f]{16}")


@pytest.fixture(scope="module")
def wordy(hub: RunningHub) -> Iterator[Web]:
    """A web process whose log is JSON."""
    with web(hub, TASKHUB_LOG_FORMAT="json") as running:
        yield running


def get(hub: RunningHub | Web, path: str, **headers: str) -> httpx2.Response:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return httpx2.get(f"{hub.base}{path}", headers=named, trust_env=False)


def lines(running: Web) -> list[dict[str, Any]]:
    return [json.loads(line) for line in running.log.read_text().splitlines() if line.startswith("{")]


@pytest.mark.parametrize("path", ["/mcp", "/healthz", "/readyz", "/tasks/", "/nope", "/static/nope.css"])
def test_every_answer_has_an_id_of_its_own(hub: RunningHub, path: str) -> None:
    first, second = (get(hub, path).headers["x-request-id"] for _ in range(2))
    assert OURS.fullmatch(first)
    assert OURS.fullmatch(second)
    assert first != second


def test_a_call_and_a_refusal_have_one_too(hub: RunningHub, alice: Client) -> None:
    assert OURS.fullmatch(alice.call("server/discover").headers["x-request-id"])
    refused = get(hub, "/tasks/", host="evil.example.com")
    assert refused.status_code == 400
    assert OURS.fullmatch(refused.headers["x-request-id"])


async def test_a_socket_that_is_let_in_has_one() -> None:
    sent: list[Any] = []

    async def let_in(scope: Scope, receive: Receive, send: Send) -> None:
        await send({"type": "websocket.accept", "subprotocol": None, "headers": [(b"a", b"b")]})
        await send({"type": "websocket.send", "text": "{}"})

    async def send(message: Message) -> None:
        sent.append(message)

    scope = {"type": "websocket", "headers": [(b"x-request-id", b"mine")]}
    await Identified(let_in)(scope, cast("Receive", None), send)
    assert sent[0]["headers"] == [(b"a", b"b"), (b"x-request-id", b"mine")]
    assert sent[1] == {"type": "websocket.send", "text": "{}"}


def test_a_socket_that_there_is_not_is_refused_without_a_traceback(wordy: Web) -> None:
    with pytest.raises(InvalidStatus) as refused:
        connect(f"ws://127.0.0.1:{wordy.port}/ws/nope", origin=Origin(wordy.base), proxy=None)
    assert refused.value.response.status_code == 403
    assert "No route" not in wordy.log.read_text()


def test_an_id_that_fits_is_kept(hub: RunningHub) -> None:
    for own in ("a", "0191f3c2-7d5e-7a51-9a0e-3f1f0a5e8f11", "1-67891233-abcdef012345678912345678", "a._-" * 16):
        assert get(hub, "/healthz", x_request_id=own).headers["x-request-id"] == own


@pytest.mark.parametrize("own", ["", "a" * 65, "a b", 'a"b', "a\tb", "ü", "{a}", "a\\n"])
def test_an_id_that_does_not_fit_is_replaced(hub: RunningHub, own: str) -> None:
    answer = httpx2.get(f"{hub.base}/healthz", headers={b"X-Request-Id": own.encode()}, trust_env=False)
    assert OURS.fullmatch(answer.headers["x-request-id"])


def test_each_line_of_the_log_is_json_and_names_the_request_it_is_about(wordy: Web) -> None:
    """A page that is not there, of which Django says so: in a thread, with what it knows of the request."""
    for own in ("one", "two"):
        assert get(wordy, "/nope/", x_request_id=own).status_code == 404
    found = [(line["request_id"], line["level"], line["message"]) for line in lines(wordy) if "nope" in line["message"]]
    assert found == [("one", "WARNING", "Not Found: /nope/"), ("two", "WARNING", "Not Found: /nope/")]
    text = wordy.log.read_text()
    assert all(line.startswith("{") for line in text.splitlines()), text

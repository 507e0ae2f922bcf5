"""Routing headers over HTTP: what must agree with the body, and what may look odd."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest

from taskhub.protocol.registry import VERSIONS
from tests.support.client import PREFIX, VERSION, Client
from tests.support.hub import RunningHub

pytestmark = pytest.mark.processes


def _b64(text: str) -> str:
    return f"=?base64?{base64.b64encode(text.encode()).decode()}?="


def _greet(client: Client) -> dict[str, Any]:
    return client.message("tools/call", {"name": "greet", "arguments": {"name": "sep-2243"}})


@pytest.mark.parametrize(
    ("changes", "answer"),
    [
        ({"MCP-Protocol-Version": None}, (400, -32020)),
        ({"MCP-Protocol-Version": "2025-11-25"}, (400, -32020)),
        ({"MCP-Protocol-Version": "v999.0.0"}, (400, -32020)),
        ({"MCP-Protocol-Version": ""}, (400, -32020)),
        ({"Mcp-Method": None}, (400, -32020)),
        ({"Mcp-Method": "tasks/get"}, (400, -32020)),
        ({"Mcp-Method": "TOOLS/CALL"}, (400, -32020)),
        ({"Mcp-Method": _b64("tools/call")}, (400, -32020)),
        ({"Mcp-Name": None}, (400, -32020)),
        ({"Mcp-Name": ""}, (400, -32020)),
        ({"Mcp-Name": "Greet"}, (400, -32020)),
        ({"Mcp-Name": "=?base64?Z3JlZXQ?="}, (400, -32020)),
        ({"Mcp-Name": "=?base64?Z3Jl!ZXQ=?="}, (400, -32020)),
        ({"Mcp-Name": _b64("other")}, (400, -32020)),
    ],
)
@pytest.mark.req("B26-20", "B26-21", "B26-22", "B26-24")
def test_a_header_that_is_missing_or_differs_is_refused(
    alice: Client, changes: dict[str, str | None], answer: tuple[int, int]
) -> None:
    message = _greet(alice)
    assert alice.send(message, alice.headers(message, changes)).refusal == answer


@pytest.mark.parametrize(
    "changes",
    [
        {"Mcp-Name": _b64("greet")},
        {"Mcp-Session-Id": "ignored", "Last-Event-ID": "7"},
        {"Mcp-Param-Unknown": "whatever"},
        {"Cookie": "sessionid=x"},
        {"Accept": "*/*"},
        {"Accept": "text/event-stream, application/json;q=0.5"},
        {"Content-Type": "application/json; charset=utf-8"},
        {"Content-Type": "Application/JSON"},
    ],
)
@pytest.mark.req("B26-03", "B26-04", "B26-11", "B26-24", "B26-26")
def test_what_may_look_different_is_accepted(alice: Client, changes: dict[str, str | None]) -> None:
    message = _greet(alice)
    assert alice.send(message, alice.headers(message, changes)).text == "Hello, sep-2243!"


@pytest.mark.parametrize("doubled", ["mcp-method", "mcp-name", "mcp-protocol-version"])
@pytest.mark.req("B26-23")
def test_a_routing_header_sent_twice_is_refused_even_if_both_agree(alice: Client, doubled: str) -> None:
    message = _greet(alice)
    headers = alice.headers(message)
    twice = [*headers.items(), (doubled.upper(), headers[doubled])]
    assert alice.send(message, twice).refusal == (400, -32020)


@pytest.mark.req("B26-03")
def test_what_is_accepted_may_be_said_in_parts(alice: Client) -> None:
    message = _greet(alice)
    headers = [(name, value) for name, value in alice.headers(message).items() if name.lower() != "accept"]
    parts = [("Accept", "application/json"), ("Accept", "text/event-stream")]
    assert alice.send(message, [*headers, *parts]).text == "Hello, sep-2243!"
    assert alice.send(message, [*headers, parts[0], parts[0]]).status == 406


def _raw(client: Client, lines: list[str], body: bytes) -> bytes:
    head = [
        "POST /mcp HTTP/1.1",
        f"Host: {client.base.removeprefix('http://')}",
        f"Authorization: Bearer {client.token}",
        "Content-Type: application/json",
        "Accept: application/json, text/event-stream",
        f"Content-Length: {len(body)}",
        *lines,
    ]
    return "\r\n".join(head).encode() + b"\r\n\r\n" + body


@pytest.mark.parametrize(
    "lines",
    [
        ["mcp-protocol-version: 2026-07-28", "mcp-method: tools/call", "mcp-name: greet"],
        ["MCP-PROTOCOL-VERSION: 2026-07-28", "MCP-METHOD: tools/call", "MCP-NAME: greet"],
        ["Mcp-Protocol-Version:   2026-07-28  ", "Mcp-Method:\ttools/call\t", "Mcp-Name:    greet   "],
    ],
)
@pytest.mark.req("B26-23")
def test_names_in_any_case_and_values_with_space_around_them(hub: RunningHub, alice: Client, lines: list[str]) -> None:
    answer = hub.raw(_raw(alice, lines, json.dumps(_greet(alice)).encode()))
    assert answer.startswith(b"HTTP/1.1 200 ")
    assert b"Hello, sep-2243!" in answer


@pytest.mark.req("B26-27", "B26-28")
def test_metadata_that_must_be_there(alice: Client) -> None:
    for missing in ("protocolVersion", "clientCapabilities"):
        answer = alice.call("server/discover", meta={PREFIX + missing: None})
        assert answer.refusal == (400, -32602)
        assert "id" in answer.messages[-1]
    message = alice.message("server/discover")
    for params in ({}, {"_meta": {}}):
        answer = alice.send({**message, "params": params}, alice.headers(message))
        assert answer.refusal == (400, -32602)
        assert answer.messages[-1]["id"] == message["id"]
    bare = {key: value for key, value in message.items() if key != "params"}
    assert alice.send(bare, alice.headers(message)).refusal == (400, -32602)
    assert alice.call("server/discover", meta={PREFIX + "clientInfo": None}).status == 200


@pytest.mark.req("B26-20", "B26-29")
def test_a_version_that_only_the_body_names_is_a_mismatch(alice: Client) -> None:
    for version in ("v999.0.0", "2025-11-25"):
        answer = alice.call("server/discover", meta={PREFIX + "protocolVersion": version})
        assert answer.refusal == (400, -32020)
    old = {"MCP-Protocol-Version": "2025-11-25"}
    assert alice.call("server/discover", headers=old).refusal == (400, -32020)


@pytest.mark.parametrize("version", ["v999.0.0", "2026-07-27", VERSION + " "])
@pytest.mark.req("B26-29")
def test_a_version_nobody_speaks_is_named_in_the_answer(alice: Client, version: str) -> None:
    headers = {"MCP-Protocol-Version": version.strip()}
    answer = alice.call("server/discover", headers=headers, meta={PREFIX + "protocolVersion": version})
    if version.strip() == VERSION:
        assert answer.refusal == (400, -32020)
        return
    assert answer.refusal == (400, -32022)
    assert answer.error["data"] == {"supported": list(VERSIONS), "requested": version}


@pytest.mark.parametrize(
    ("value", "header"),
    [
        ("Hello", "=?base64?SGVsbG8=?="),
        ("SGVsbG8=", "SGVsbG8="),
        ("=?base64?SGVsbG8=", "=?base64?SGVsbG8="),
        ("test value", "test value"),
        ("ü😀", _b64("ü😀")),
    ],
)
@pytest.mark.req("B26-24", "B26-26")
def test_a_mirrored_argument_reaches_the_tool(alice: Client, value: str, header: str) -> None:
    answer = alice.tool("test_custom_header", {"value": value}, headers={"Mcp-Param-Fixture-Value": header})
    assert answer.text == f"Received: {value}"


@pytest.mark.parametrize(
    ("value", "header"),
    [
        ("test-value", None),
        ("test-value", "Test-Value"),
        ("test-value", ""),
        ("Hello", "=?base64?SGVsbG8?="),
        ("Hello", "=?base64?SGVs!!!bG8=?="),
    ],
)
@pytest.mark.req("B26-24", "B26-26")
def test_a_mirrored_argument_that_does_not_agree_is_refused(alice: Client, value: str, header: str | None) -> None:
    answer = alice.tool("test_custom_header", {"value": value}, headers={"Mcp-Param-Fixture-Value": header})
    assert answer.refusal == (400, -32020)


@pytest.mark.req("B26-26")
def test_numbers_and_flags_are_mirrored_too(alice: Client) -> None:
    answer = alice.tool(
        "count_header", {"count": 42, "sure": True}, headers={"Mcp-Param-Count": "42.0", "mcp-param-SURE": "true"}
    )
    assert answer.text == "42 true"
    assert alice.tool("count_header", {}).text == "0 false"
    assert alice.tool("count_header", {"count": 42}, headers={"Mcp-Param-Count": "43"}).refusal == (400, -32020)


@pytest.mark.parametrize(
    "junk", ["\x7f", "ÿþ", "a" * 4_000, "=?base64?", "?=", "%00", "{}", "🙂".encode().decode("latin-1")]
)
@pytest.mark.parametrize("header", ["Mcp-Name", "Mcp-Method", "MCP-Protocol-Version", "Mcp-Param-Fixture-Value"])
@pytest.mark.req("B26-23", "B26-32")
def test_junk_in_a_header_is_a_mismatch_and_nothing_worse(
    hub: RunningHub, alice: Client, header: str, junk: str
) -> None:
    message = alice.message("tools/call", {"name": "test_custom_header", "arguments": {"value": "v"}})
    headers = {
        "Mcp-Name": "test_custom_header",
        "Mcp-Method": "tools/call",
        "MCP-Protocol-Version": VERSION,
        "Mcp-Param-Fixture-Value": "v",
        header: junk,
    }
    lines = [f"{name}: {value}" for name, value in headers.items()]
    body = json.dumps(message).encode()
    head = _raw(alice, [], body).partition(b"\r\n\r\n")[0]
    answer = hub.raw(head + b"\r\n" + "\r\n".join(lines).encode("latin-1") + b"\r\n\r\n" + body)
    status = int(answer.split(b" ")[1])
    assert status == 400
    if b"application/json" in answer:
        assert json.loads(answer.partition(b"\r\n\r\n")[2])["error"]["code"] == -32020

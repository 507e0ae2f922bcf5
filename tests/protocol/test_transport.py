"""HTTP mechanics of `/mcp`: one message per POST, JSON or an event stream, never HTML."""

from __future__ import annotations

import concurrent.futures
import json
import socket

import pytest

from tests.support.client import EVERYTHING, PREFIX, TASKS, Client
from tests.support.hub import RunningHub

pytestmark = pytest.mark.processes


@pytest.mark.parametrize("method", ["GET", "DELETE", "PUT", "PATCH", "HEAD", "OPTIONS", "TRACE", "PROPFIND"])
@pytest.mark.req("B26-01", "B26-12")
def test_only_post_is_spoken(hub: RunningHub, alice: Client, nobody: Client, method: str) -> None:
    for client in (alice, nobody):
        headers = {"authorization": f"Bearer {client.token}"} if client.token else {}
        response = client._http.request(method, f"{hub.base}/mcp", headers=headers)
        assert (response.status_code, response.headers["allow"]) == (405, "POST")
        assert response.headers["content-type"] == "application/json"


@pytest.mark.req("B26-11", "B26-12", "B25-06")
def test_a_get_with_the_marks_of_an_unknown_session_is_404(hub: RunningHub, alice: Client) -> None:
    headers = {"mcp-session-id": "x", "mcp-protocol-version": "2025-11-25", "last-event-id": "7"}
    for method in ("GET", "DELETE"):
        response = alice._http.request(
            method,
            f"{hub.base}/mcp",
            headers={"authorization": f"Bearer {alice.token}", "accept": "text/event-stream", **headers},
        )
        assert response.status_code == 404


@pytest.mark.parametrize("kind", ["text/plain", "", "application/jsonp", "multipart/form-data", "text/html", None])
@pytest.mark.req("B26-04")
def test_another_content_type_is_415(alice: Client, kind: str | None) -> None:
    answer = alice.call("server/discover", headers={"Content-Type": kind})
    assert answer.refusal == (415, -32600)


@pytest.mark.parametrize("accept", ["application/json", "text/event-stream", "text/html", "", None])
@pytest.mark.req("B26-03")
def test_a_client_that_cannot_take_both_kinds_of_answer_is_406(alice: Client, accept: str | None) -> None:
    message = alice.message("server/discover")
    headers = alice.headers(message, {"Accept": accept})
    if accept is None:
        body = json.dumps(message).encode()
        lines = [f"{name}: {value}" for name, value in headers.items()]
        head = ["POST /mcp HTTP/1.1", f"Host: {alice.base.removeprefix('http://')}", f"Content-Length: {len(body)}"]
        raw = httpless(alice, "\r\n".join([*head, *lines]).encode() + b"\r\n\r\n" + body)
        assert raw.startswith(b"HTTP/1.1 406 ")
        return
    assert alice.send(message, headers).refusal == (406, -32600)


def httpless(client: Client, request: bytes) -> bytes:
    """Send bytes that httpx would complete with headers of its own."""
    with socket.create_connection(("127.0.0.1", int(client.base.rpartition(":")[2])), timeout=10) as connection:
        connection.sendall(request)
        return connection.recv(65_536)


@pytest.mark.parametrize(
    ("body", "code"),
    [
        (b"", -32700),
        (b"{", -32700),
        (b"\xff", -32700),
        (b'{"jsonrpc":"2.0","id":1,"method":"server/discover","params":{"n":NaN}}', -32700),
        (b'{"jsonrpc":"2.0","id":1,"id":1,"method":"server/discover"}', -32700),
        (b'{"jsonrpc":"2.0","id":1,"method":"x","params":{"a":' + b"[" * 5_000 + b"]" * 5_000 + b"}}", -32700),
        (b'{"jsonrpc":"2.0","id":1,"method":"x","params":{"s":"\\ud800"}}', -32700),
        (b"[]", -32600),
        (b'[{"jsonrpc":"2.0","id":1,"method":"server/discover"}]', -32600),
        (b'{"jsonrpc":"2.0","id":null,"method":"server/discover"}', -32600),
        (b'{"jsonrpc":"2.0","id":1,"result":{}}', -32600),
        (b'{"jsonrpc":"2.0","id":1,"error":{"code":1,"message":"x"}}', -32600),
        (b"7", -32600),
    ],
)
@pytest.mark.req("B26-01", "B26-05", "B26-14")
def test_what_is_no_single_request_is_400(alice: Client, body: bytes, code: int) -> None:
    headers = alice.headers({"method": "server/discover"})
    message = json.loads(body) if code == -32600 else None
    assert alice.post(body, headers, id=message["id"] if isinstance(message, dict) else None).refusal == (400, code)


@pytest.mark.parametrize("id", [0, -1, 2**63, 10**30, "", "1", "ü" * 100])
@pytest.mark.req("B26-14")
def test_the_id_comes_back_as_it_came(alice: Client, id: str | int) -> None:
    # The client compares value and type.
    assert alice.call("server/discover", id=id).messages[-1]["id"] == id
    assert alice.call("unknown/method", id=id).messages[-1]["id"] == id
    assert alice.tool("slow_compute", {"seconds": 0.5}, id=id).messages[-1]["id"] == id


@pytest.mark.parametrize(
    "method", ["notifications/cancelled", "notifications/initialized", "notifications/unknown", "tools/call"]
)
@pytest.mark.req("B26-06")
def test_a_notification_is_taken_without_a_word(alice: Client, method: str) -> None:
    note = {"jsonrpc": "2.0", "method": method}
    headers = {key: value for key, value in alice.headers(note).items() if key.lower() != "mcp-method"}
    answer = alice.send(note, headers)
    assert (answer.status, answer.body) == (202, b"")


@pytest.mark.req("B26-07", "B26-08")
def test_a_fast_answer_is_json_and_a_slow_one_a_stream(alice: Client) -> None:
    fast = alice.tool("greet", {"name": "x"})
    assert fast.headers["content-type"] == "application/json"
    assert fast.headers["cache-control"] == "no-store"
    slow = alice.tool("slow_compute", {"seconds": 1})
    assert slow.headers["content-type"] == "text/event-stream"
    assert slow.headers["cache-control"] == "no-store"
    assert slow.body.endswith(b"\n\n")
    assert all(line.startswith((b"data: {", b"event: message")) for line in slow.body.split(b"\n") if line)


@pytest.mark.req("B26-07")
def test_no_cache_may_keep_an_answer_whichever_method_gives_it(alice: Client) -> None:
    task_id = alice.create("slow_compute", {"seconds": 30}, caps=TASKS)
    listed = ("tools/list", "prompts/list", "resources/list", "resources/templates/list")
    read = alice.call("resources/list").result["resources"][0]["uri"]
    answers = {
        **{method: alice.call(method) for method in ("server/discover", *listed, "unknown/method")},
        "resources/read": alice.call("resources/read", {"uri": read}),
        "tools/call": alice.tool("greet", {"name": "x"}),
        "a task made": alice.tool("slow_compute", {"seconds": 30}, caps=TASKS),
        "tasks/get": alice.get(task_id),
        "tasks/update": alice.update(task_id, {}),
        "tasks/cancel": alice.cancel(task_id),
        "tasks/get of none": alice.get("unknown"),
    }
    assert {name: answer.headers.get("cache-control") for name, answer in answers.items()} == dict.fromkeys(
        answers, "no-store"
    )


@pytest.mark.req("B26-11")
def test_nothing_is_resumed_and_no_session_is_made(alice: Client) -> None:
    headers: dict[str, str | None] = {"Last-Event-ID": "3", "Mcp-Session-Id": "made-up"}
    answer = alice.tool("slow_compute", {"seconds": 1}, headers=headers)
    assert answer.text == "Computed something in 1 s"
    assert b"\nid:" not in answer.body


@pytest.mark.req("B26-13")
def test_requests_on_one_connection_know_nothing_of_each_other(alice: Client) -> None:
    assert alice.tool("failing_job", caps=EVERYTHING).result["resultType"] == "task"
    assert alice.tool("failing_job").refusal == (400, -32021)
    assert alice.tool("test_missing_capability", caps={"sampling": {}}).status == 200
    assert alice.tool("test_missing_capability").refusal == (400, -32021)


@pytest.mark.req("B26-07", "B26-75")
def test_many_requests_at_once_each_get_their_own_answer(hub: RunningHub, alice: Client) -> None:
    def one(number: int) -> tuple[int, str]:
        with Client(hub.base, alice.token) as client:
            return number, client.tool("greet", {"name": str(number)}, id=number).text

    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        found = dict(pool.map(one, range(24)))
    assert found == {number: f"Hello, {number}!" for number in range(24)}


@pytest.mark.req("B26-33")
def test_no_refusal_is_html_and_no_code_is_made_up(alice: Client, nobody: Client) -> None:
    # The client checks content type and code of every answer (tests/protocol/schema.py).
    refusals = [
        nobody.call("server/discover"),
        alice.call("nope"),
        alice.call("tasks/get", {"taskId": "x"}),
        alice.call("tasks/get", {"taskId": "x"}, caps=TASKS),
        alice.tool("nope"),
        alice.call("server/discover", meta={PREFIX + "protocolVersion": None}),
        alice.post(b"<html>", {"content-type": "text/html", "authorization": f"Bearer {alice.token}"}),
        alice.post(b"x" * 4_200_000, {"authorization": f"Bearer {alice.token}"}),
        alice.call("server/discover", headers={"Host": "evil.example.com"}),
        alice.call("server/discover", headers={"Origin": "https://evil.example.com"}),
    ]
    assert [answer.status for answer in refusals] == [401, 404, 400, 200, 200, 400, 415, 413, 400, 403]
    assert {answer.headers["content-type"] for answer in refusals} == {"application/json"}

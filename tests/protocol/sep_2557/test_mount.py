"""What is told apart by the mount: nothing of SEP-2557 on `/mcp`, nothing of `/mcp` on its mount."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, cast

import pytest

from taskhub.api.asgi import Lean
from taskhub.core.names import SCOPES
from taskhub.core.records import Principal
from taskhub.lib.lanes import Lanes
from taskhub.lib.signing import Signer
from taskhub.protocol.dispatch import handle
from taskhub.protocol.hub import Hub
from taskhub.protocol.incoming import Incoming, Reply
from taskhub.protocol.registry import IN_ORDER, MOUNTS, PROFILES, REVISIONS, VERSIONS
from tests.protocol.schema_2557 import words
from tests.support.client import EVERYTHING, TASKS, Client, accept
from tests.support.hub import RunningHub
from tests.support.sep_2557_client import Historical

processes = pytest.mark.processes

PROPOSED_KEYS = {"task", "ttl", "pollInterval"}
"""Keys that `/mcp` never says to a client of 2026-07-28."""

PROPOSED_WORDS = {"incomplete", "notifications/tasks/status"}


def _story_here(ann: Historical) -> list[dict[str, Any]]:
    """One of everything, on the mount."""
    ann.call("server/discover")
    ann.call("tools/list")
    ann.tool("slow_compute", {"seconds": 0})
    ann.tool("visit_page")
    asked = ann.create("multi_input")["taskId"]
    keys = list(ann.until(asked, "input_required")["inputRequests"])
    ann.get(asked, {keys[0]: accept(name="Ada")})
    with ann.listen(asked) as stream:
        ann.get(asked, {keys[1]: accept(name="Bob")})
        next(note for note in stream if note.get("params", {}).get("status") == "completed")
    ann.until(ann.create("failing_job")["taskId"], "completed")
    ann.until(ann.create("protocol_error_job")["taskId"], "failed")
    held = ann.create("hold", {"seconds": 60})["taskId"]
    ann.cancel(held)
    ann.until(held, "cancelled")
    for method in ("tasks/update", "tasks/list"):
        ann.call(method, {"taskId": asked})
    ann.get("A" * 32)
    ann.get(asked, requestState="forged")
    return ann.received


def _story_there(alice: Client) -> list[dict[str, Any]]:
    """The same on `/mcp`."""
    told: list[dict[str, Any]] = []

    def tell(*answers: Any) -> None:
        told.extend(message for answer in answers for message in answer.messages)

    tell(alice.call("server/discover"), alice.call("tools/list"), alice.tool("slow_compute", {"seconds": 0}))
    tell(alice.tool("visit_page", caps={"elicitation": {"url": {}}}))
    created = alice.tool("multi_input", caps=EVERYTHING)
    tell(created)
    asked = created.result["taskId"]
    shown = alice.until(asked, "input_required")
    first, second = shown["inputRequests"]
    tell(alice.update(asked, {first: accept(name="Ada")}), alice.get(asked))
    with alice.stream("subscriptions/listen", {"notifications": {"taskIds": [asked]}}, caps=TASKS) as stream:
        tell(alice.update(asked, {second: accept(name="Bob")}))
        while (note := stream.next()).get("params", {}).get("status") != "completed":
            told.append(note)
        told.append(note)
    for tool in ("failing_job", "protocol_error_job"):
        task_id = alice.create(tool)
        alice.until(task_id, "completed", "failed")
        tell(alice.get(task_id))
    held = alice.create("hold", {"seconds": 60})
    tell(alice.cancel(held), alice.get(held), alice.get("A" * 32), alice.call("tasks/list", caps=TASKS))
    return told


@processes
@pytest.mark.req("T2557-23")
def test_a_whole_story_on_the_mount_has_no_published_word(ann: Historical) -> None:
    told = _story_here(ann)  # the client looks for the words of the others in each message
    seen = {key for message in told for key, _ in words(message)}
    assert {"task", "ttl", "pollInterval", "requestState", "inputRequests"} <= seen
    said = {value for message in told for _, value in words(message) if isinstance(value, str)}
    assert {"incomplete", "task", "complete", "notifications/tasks/status", "input_required"} <= said
    kinds = {value for message in told for key, value in words(message) if key == "resultType"}
    assert kinds == {"task", "complete", "incomplete"}


@processes
@pytest.mark.req("T2557-23")
def test_a_whole_story_on_mcp_has_no_proposed_word(alice: Client) -> None:
    told = _story_there(alice)
    for message in told:
        for key, value in words(message):
            assert key not in PROPOSED_KEYS, message
            assert not (isinstance(value, str) and value in PROPOSED_WORDS), message
            if isinstance(value, dict) and "taskId" in value:
                assert "requestState" not in value, message
    kinds = {value for message in told for key, value in words(message) if key == "resultType"}
    assert kinds == {"task", "complete", "input_required"}
    assert any(key == "ttlMs" for message in told for key, _ in words(message))


@processes
@pytest.mark.req("T2557-23")
def test_a_task_of_the_one_is_unknown_to_the_other(ann: Historical, alice: Client) -> None:
    here = ann.create("confirm_delete", {"filename": "x"})["taskId"]
    there = alice.create("confirm_delete", {"filename": "x"})
    for answer in (alice.get(here), alice.cancel(here), alice.update(here, {})):
        assert (answer.error["code"], answer.error["message"]) == (-32602, "Task not found")
    assert ann.get(there).reason == ann.cancel(there).reason == "Task not found"
    with alice.stream("subscriptions/listen", {"notifications": {"taskIds": [here]}}, caps=TASKS) as stream:
        assert stream.next()["params"]["notifications"] == {"taskIds": []}
    with ann.listen(there) as told:
        assert next(told)["params"]["notifications"] == {"taskIds": []}
    assert ann.get(here).status == 200
    assert alice.get(there).status == 200


@processes
@pytest.mark.req("T2557-23")
def test_a_round_of_the_one_is_not_continued_on_the_other(ann: Historical, alice: Client) -> None:
    caps = {"elicitation": {"url": {}}}
    here, there = ann.tool("visit_page").result, alice.tool("visit_page", caps=caps).result
    params = {"inputResponses": {"visit": {"action": "accept"}}}
    refused = alice.tool("visit_page", caps=caps, params={**params, "requestState": here["requestState"]})
    assert refused.error["code"] == -32602
    found = ann.tool("visit_page", params={**params, "requestState": there["requestState"]})
    assert found.refusal == (200, -32602)


@processes
@pytest.mark.req("T2557-23")
def test_an_idempotency_key_of_the_one_is_refused_on_the_other(ann: Historical, alice: Client) -> None:
    key = {"io.taskhub/idempotencyKey": "told-apart-by-mount"}
    first = alice.tool("failing_job", caps=TASKS, meta=key).result["taskId"]
    message = ann.request("tools/call", {"name": "failing_job", "arguments": {}})
    message["params"]["_meta"].update(key)
    assert ann.send(message).refusal == (409, 40900)
    assert alice.tool("failing_job", caps=TASKS, meta=key).result["taskId"] == first


@processes
@pytest.mark.parametrize("path", ["/mcp/sep-2557/", "/mcp/sep-2557/x", "/mcp/sep-1686", "/mcp/2026-07-28", "/mcp/"])
@pytest.mark.req("T2557-23")
def test_there_is_no_other_place_below_mcp(hub: RunningHub, path: str) -> None:
    with Historical(hub.base, hub.tokens["agent-a"], path) as lost:
        assert lost.call("server/discover").refusal == (404, -32600)


@processes
@pytest.mark.req("T2557-22")
def test_the_mount_is_guarded_as_mcp_is(hub: RunningHub, ann: Historical) -> None:
    message = ann.request("server/discover")
    assert ann.send(message, {"origin": "https://evil.example.com"}).refusal == (403, -32600)
    assert ann.send(message, {"host": "evil.example.com"}).refusal == (400, -32600)
    assert ann.send(message, {"content-type": "text/plain"}).refusal == (415, -32600)
    with Historical(hub.base, None) as nobody:
        refused = nobody.call("server/discover")
        assert refused.status == 401
        assert refused.headers["www-authenticate"].startswith("Bearer")
    head = f"DELETE /mcp/sep-2557 HTTP/1.1\r\nHost: 127.0.0.1:{hub.port}\r\nMcp-Session-Id: x\r\n"
    bearer = f"Authorization: Bearer {ann.token}\r\n\r\n"
    assert hub.raw((head + bearer).encode()).startswith(b"HTTP/1.1 405")


@pytest.mark.req("T2557-23")
def test_revisions_are_told_apart_by_their_mount() -> None:
    assert MOUNTS == ("sep-2557",)
    assert "sep-2557" not in VERSIONS
    assert set(REVISIONS) == {*VERSIONS, *PROFILES, "sep-2557"}
    assert [revision.mount for revision in IN_ORDER if revision.mount] == ["sep-2557"]


async def _never() -> None:
    raise AssertionError("nobody leaves in here")


def _hub(*mounts: str) -> Hub:
    return Hub(
        lanes=cast("Lanes", None),
        signer=Signer(b"k"),
        server_info={"name": "t", "version": "1"},
        inline_wait_seconds=0.1,
        versions=VERSIONS,
        mounts=frozenset(mounts),
    )


@pytest.mark.parametrize(
    ("mount", "method", "headers", "status"),
    [
        ("sep-2557", "initialize", {}, 400),
        ("sep-2557", "initialize", {"mcp-protocol-version": "2025-11-25"}, 400),
        ("", "initialize", {}, 200),
        ("sep-2557", "ping", {"mcp-session-id": "x", "mcp-protocol-version": "2025-11-25"}, 400),
    ],
)
@pytest.mark.req("T2557-23")
async def test_the_sessions_of_mcp_are_not_begun_on_the_mount(
    mount: str, method: str, headers: dict[str, str], status: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    principal = Principal(
        tenant_id=-1, context_id=-1, name="c", issuer="i", subject="s", client_id="c", scopes=frozenset(SCOPES)
    )
    params = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "c", "version": "1"}}
    hub = _hub("sep-2557")

    async def started(*args: Any, **kwargs: Any) -> str:
        return "S" * 43

    monkeypatch.setattr(hub, "lanes", type("Lanes", (), {"run": staticmethod(started)})())
    incoming = Incoming(
        body=json.dumps({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}).encode(),
        headers={"content-type": "application/json", "accept": "*/*", **headers},
        repeated=frozenset(),
        principal=principal,
        address="",
        gone=_never,
        mount=mount,
    )
    found = await handle(hub, incoming)
    assert isinstance(found, Reply)
    assert found.status == status


@pytest.mark.parametrize(("mounts", "served"), [((), False), (("sep-2557",), True)])
@pytest.mark.req("T2557-23")
async def test_a_mount_that_is_switched_off_is_not_there(mounts: tuple[str, ...], served: bool) -> None:
    sent: list[Any] = []

    async def rest(scope: Any, receive: Any, send: Any) -> None:
        raise AssertionError("Django would answer in HTML")

    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": b"", "more_body": False}

    async def send(message: Any) -> None:
        sent.append(message)

    lean = Lean(rest, _hub(*mounts))
    scope = {"type": "http", "path": "/mcp/sep-2557", "method": "GET", "headers": [], "query_string": b""}
    await lean(scope, cast("Callable[..., Any]", receive), cast("Callable[..., Any]", send))
    assert sent[0]["status"] == (405 if served else 404)
    assert (b"content-type", b"application/json") in [
        (name, value.split(b";")[0]) for name, value in sent[0]["headers"]
    ]
    assert json.loads(sent[1]["body"])["error"]["code"] == -32600

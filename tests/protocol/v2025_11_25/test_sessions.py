"""`initialize`, the session it makes, and the mechanics of its wire (B25-*)."""

from __future__ import annotations

import json
import re
import threading
from typing import Any

import pytest

from tests.protocol.v2025_11_25.conftest import Start
from tests.support.client import Client
from tests.support.hub import RunningHub
from tests.support.session import EVERYTHING, FORMS, VERSION, SessionClient

pytestmark = pytest.mark.processes

OLDER = ("2025-06-18", "2025-03-26")


@pytest.mark.parametrize("version", [VERSION, *OLDER])
@pytest.mark.req("B25-01", "B25-02", "B25-03", "B25-04")
def test_a_version_we_speak_is_agreed_on(start: Start, version: str) -> None:
    session = start(version=version)
    assert session.version == version
    assert session.initialized["serverInfo"]["name"] == "taskhub"
    assert session.session_id is not None
    assert re.fullmatch(r"[\x21-\x7e]{32,}", session.session_id)
    assert session.call("tools/list").status == 200


@pytest.mark.parametrize("version", ["2024-11-05", "2026-07-28", "1.0", "v999.0.0", ""])
@pytest.mark.req("B25-02")
def test_another_version_is_answered_with_our_latest_of_this_era(start: Start, version: str) -> None:
    session = start(version="")
    session.initialize(version, {})
    assert session.version == VERSION


@pytest.mark.parametrize(
    "params",
    [
        {},
        {"protocolVersion": 7, "capabilities": {}, "clientInfo": {}},
        {"protocolVersion": VERSION, "capabilities": [], "clientInfo": {}},
        {"protocolVersion": VERSION, "capabilities": {}},
    ],
)
@pytest.mark.req("B25-01", "B25-20")
def test_a_malformed_initialize_opens_nothing(hub: RunningHub, start: Start, params: dict[str, Any]) -> None:
    session = start(version="")
    before = hub.sql("SELECT count(*) FROM session")
    answer = session.post(session.request("initialize", params), session.headers(mcp_protocol_version=None))
    assert answer.refusal == (200, -32602)
    assert "mcp-session-id" not in answer.headers
    assert hub.sql("SELECT count(*) FROM session") == before


@pytest.mark.req("T25-01", "T25-02", "B25-28")
def test_capabilities_are_exactly_what_this_caller_may_use(start: Start) -> None:
    found = start().initialized["capabilities"]
    assert found["tasks"] == {"list": {}, "cancel": {}, "requests": {"tools": {"call": {}}}}
    assert found["tools"] == {"listChanged": True}
    assert found["logging"] == {}
    assert "extensions" not in found
    for version in OLDER:
        assert "tasks" not in start(version=version).initialized["capabilities"]


@pytest.mark.req("B25-04")
def test_session_ids_do_not_repeat_or_follow_each_other(start: Start) -> None:
    ids = {str(start().session_id) for _ in range(5)}
    assert len(ids) == 5
    assert len({found[:6] for found in ids}) == 5


@pytest.mark.req("B25-05", "B25-08", "B25-20")
def test_a_request_without_its_session_is_400(session: SessionClient) -> None:
    for message in (session.request("tools/list"), {"jsonrpc": "2.0", "method": "notifications/initialized"}):
        assert session.post(message, session.headers(mcp_session_id=None)).refusal == (400, -32600)


@pytest.mark.req("B25-06", "AU-13")
def test_a_session_that_is_not_the_callers_is_404(session: SessionClient, stranger: SessionClient) -> None:
    unknown = session.post(session.request("tools/list"), session.headers(mcp_session_id="x" * 43))
    foreign = session.post(session.request("tools/list"), session.headers(mcp_session_id=stranger.session_id))
    assert unknown.refusal == foreign.refusal == (404, -32600)
    assert unknown.error == foreign.error
    response = session.http.request("DELETE", session.url, headers=session.headers(mcp_session_id=stranger.session_id))
    assert response.status_code == 404
    assert stranger.call("ping").status == 200


@pytest.mark.req("AU-13", "AU-06")
def test_a_session_is_no_authentication(session: SessionClient) -> None:
    assert session.post(session.request("tools/list"), session.headers(authorization=None)).status == 401


@pytest.mark.req("B25-07", "B25-06")
def test_an_ended_session_is_gone_and_its_tasks_are_not(session: SessionClient, start: Start) -> None:
    task_id = session.create("slow_compute", {"seconds": 1})
    assert session.delete() == 204
    assert session.call("tools/list").refusal == (404, -32600)
    assert session.notify("notifications/initialized") == 404
    assert session.delete() == 404
    assert start().until(task_id, "completed")["status"] == "completed"


@pytest.mark.req("B25-07")
def test_ending_a_session_ends_its_own_stream(session: SessionClient) -> None:
    with session.listen() as events:
        first = events.event()
        assert first is not None
        assert session.delete() == 204
        assert events.rest() == []
    assert events.keep_alives == 0, "at once, not when it would be kept alive"


@pytest.mark.parametrize("version", ["2024-11-05", "2025-11-26", "v999.0.0", ""])
@pytest.mark.req("B25-08")
def test_a_version_header_we_do_not_speak_is_400(session: SessionClient, version: str) -> None:
    answer = session.post(session.request("tools/list"), session.headers(mcp_protocol_version=version))
    assert answer.status == 400


@pytest.mark.req("B25-08")
def test_a_missing_version_header_is_the_sessions_version(session: SessionClient) -> None:
    answer = session.post(session.request("tools/list"), session.headers(mcp_protocol_version=None))
    assert "execution" in answer.result["tools"][0]


@pytest.mark.req("B25-09")
def test_a_batch_is_refused_in_every_version(start: Start) -> None:
    for version in (VERSION, *OLDER):
        session = start(version=version)
        answer = session.post([session.request("ping"), session.request("ping")])
        assert (answer.status, answer.messages[0]["error"]["code"]) == (400, -32600)
        assert "Batches" in answer.messages[0]["error"]["message"]


@pytest.mark.req("B25-09", "B25-10")
def test_notifications_and_responses_are_taken_without_a_word(session: SessionClient) -> None:
    for method in ("notifications/initialized", "notifications/roots/list_changed", "notifications/unknown"):
        assert session.notify(method) == 202
    for unknown in ("taskhub-1", "taskhub-999999999999999999", "other", 7):
        assert session.respond({"id": unknown}, {"action": "accept"}) == 202
        assert session.respond({"id": unknown}, error={"code": -1, "message": "no"}) == 202


@pytest.mark.req("B25-23", "B25-24")
def test_ping_and_set_level_answer_with_nothing(session: SessionClient) -> None:
    assert session.call("ping").result == {}
    assert session.call("logging/setLevel", {"level": "warning"}).result == {}
    for level in ("loud", None, 7):
        assert session.call("logging/setLevel", {"level": level}).refusal == (200, -32602)


@pytest.mark.parametrize(("level", "heard"), [(None, 3), ("debug", 3), ("info", 3), ("warning", 0), ("emergency", 0)])
@pytest.mark.req("B25-24")
def test_log_lines_come_from_the_sessions_level_on(start: Start, level: str | None, heard: int) -> None:
    session = start()
    if level is not None:
        session.call("logging/setLevel", {"level": level})
    answer = session.tool("test_tool_with_logging")
    assert [message["method"] for message in answer.notifications] == ["notifications/message"] * heard


@pytest.mark.req("B25-20", "T25-44")
def test_an_unknown_method_is_told_with_200(session: SessionClient) -> None:
    for method in ("tasks/delete", "tasks/update", "server/discover", "subscriptions/listen", "unknown/method"):
        assert session.call(method).refusal == (200, -32601)
    for version in OLDER:
        with SessionClient(session.url.removesuffix("/mcp"), session.token, version=version) as old:
            for method in ("tasks/get", "tasks/result", "tasks/list", "tasks/cancel"):
                assert old.call(method, {"taskId": "x"}).refusal == (200, -32601)


@pytest.mark.req("B25-17")
def test_a_foreign_origin_is_refused(session: SessionClient) -> None:
    answer = session.post(session.request("ping"), {**session.headers(), "origin": "https://evil.example.com"})
    assert answer.status == 403


@pytest.mark.req("B25-18", "B25-14")
def test_a_client_that_cannot_take_a_stream_is_406(session: SessionClient) -> None:
    for accept in ("application/json", "text/event-stream", "text/html"):
        assert session.post(session.request("ping"), session.headers(accept=accept)).status == 406
    response = session.http.request("GET", session.url, headers=session.headers(accept="application/json"))
    assert response.status_code == 406


@pytest.mark.req("B25-29", "T26-54")
def test_what_a_client_adds_is_ignored(session: SessionClient) -> None:
    extension = {"io.modelcontextprotocol/clientCapabilities": {"extensions": {"io.modelcontextprotocol/tasks": {}}}}
    answer = session.tool("greet", {"name": "x"}, _meta={**extension, "example.com/y": 1}, other=[1])
    assert answer.text == "Hello, x!"


@pytest.mark.req("T26-54")
def test_the_extension_gives_a_session_no_tasks(start: Start) -> None:
    session = start(caps={"extensions": {"io.modelcontextprotocol/tasks": {}}})
    answer = session.tool("slow_compute", {"seconds": 0.6})
    assert "Computed" in answer.text


@pytest.mark.req("B25-02", "B25-21")
def test_the_era_is_told_by_the_headers_and_the_metadata(alice: Client, session: SessionClient) -> None:
    modern = alice.message("tools/list")
    for version in (None, VERSION):
        headers = alice.headers(modern, {"MCP-Protocol-Version": version, "Mcp-Session-Id": session.session_id})
        assert alice.send(modern, headers).refusal == (400, -32020)
    bare = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {}}
    assert alice.send(bare, alice.headers(bare)).refusal == (400, -32602)


@pytest.mark.parametrize("version", [VERSION, *OLDER])
@pytest.mark.req("T25-04", "B25-27", "T25-07")
def test_tools_show_what_their_version_has(start: Start, version: str) -> None:
    tools = {tool["name"]: tool for tool in start(version=version).call("tools/list").result["tools"]}
    supports = [tools[name].get("execution", {}).get("taskSupport") for name in ("greet", "slow_compute", "lengthy")]
    assert supports == (["forbidden", "optional", "optional"] if version == VERSION else [None] * 3)
    assert ("outputSchema" in tools["point"]) == (version != OLDER[1])
    schema = tools["json_schema_2020_12_tool"]["inputSchema"]
    assert (schema["$schema"], schema["if"]["required"]) == (
        "https://json-schema.org/draft/2020-12/schema",
        ["contactMethod"],
    )


@pytest.mark.req("B25-27")
def test_a_cursor_that_is_not_ours_is_refused(session: SessionClient) -> None:
    for cursor in ("", "x", 7):
        assert session.call("tools/list", {"cursor": cursor}).refusal == (200, -32602)


@pytest.mark.req("B25-26", "B25-20")
def test_an_unknown_tool_is_an_invalid_parameter(session: SessionClient) -> None:
    assert session.tool("no_such_tool").refusal == (200, -32602)


@pytest.mark.req("B25-26")
def test_arguments_that_break_the_schema_are_told_to_the_model(session: SessionClient) -> None:
    assert session.tool("slow_compute", {"seconds": "soon"}).result["isError"] is True


@pytest.mark.req("B25-27")
def test_structured_output_is_an_object_and_not_before_its_time(start: Start) -> None:
    assert start().tool("point").result["structuredContent"] == {"x": 3, "y": 4}
    old = start(version=OLDER[1]).tool("point").result
    assert "structuredContent" not in old
    assert json.loads(old["content"][0]["text"]) == {"x": 3, "y": 4}


@pytest.mark.req("B25-21")
def test_only_what_the_client_declared_is_asked(start: Start) -> None:
    for version, caps, asked in (
        (VERSION, FORMS, True),
        (VERSION, {}, False),
        (OLDER[0], FORMS, True),
        (OLDER[1], FORMS, False),
    ):
        session = start(version=version, caps=caps)
        with session.open("tools/call", {"name": "test_elicitation", "arguments": {"message": "?"}}) as events:
            if asked:
                request = events.until("elicitation/create")
                assert session.respond(request, {"action": "decline"}) == 202
                assert "decline" in events.until("response")["result"]["content"][0]["text"]
        # What was not asked waits for an operator: the caller may stop waiting.


@pytest.mark.req("B25-11", "B25-15")
def test_requests_at_once_are_answered_each_on_its_own(session: SessionClient) -> None:
    found: dict[int, str] = {}

    def one(number: int) -> None:
        found[number] = session.tool("greet", {"name": str(number)}).text

    threads = [threading.Thread(target=one, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == {number: f"Hello, {number}!" for number in range(8)}


@pytest.mark.req("T25-03")
def test_what_the_client_declared_stays_with_its_session(hub: RunningHub, session: SessionClient) -> None:
    ((caps, info),) = hub.sql(
        "SELECT client_capabilities, client_info FROM session WHERE public_id = %s", [session.session_id]
    )
    assert (caps, info) == (EVERYTHING, {"name": "old", "version": "1"})

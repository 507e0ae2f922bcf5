"""`server/discover` and the lists, over HTTP."""

from __future__ import annotations

import re
from typing import Any

import pytest

from taskhub.protocol.registry import VERSIONS
from tests.conformance.fixture_content import JSON_SCHEMA_2020_12
from tests.support.client import EVERYTHING, EXTENSION, NONE, PREFIX, Client

pytestmark = pytest.mark.processes

LISTS = {
    "tools/list": "tools",
    "prompts/list": "prompts",
    "resources/list": "resources",
    "resources/templates/list": "resourceTemplates",
}


def _tools(client: Client) -> dict[str, dict[str, Any]]:
    return {tool["name"]: tool for tool in client.call("tools/list").result["tools"]}


@pytest.mark.req("T26-01", "T26-02", "B26-40", "B26-41", "B26-42", "B26-44")
def test_discover_says_what_this_server_is_and_can(alice: Client) -> None:
    found = alice.call("server/discover").result
    assert found["supportedVersions"] == list(VERSIONS)
    assert found["capabilities"]["extensions"] == {EXTENSION: {}}
    assert "tasks" not in found["capabilities"]
    info = found["_meta"][PREFIX + "serverInfo"]
    assert (info["name"], bool(re.match(r"\d+\.\d+", info["version"]))) == ("taskhub", True)


@pytest.mark.parametrize("caps", [NONE, EVERYTHING, {"tasks": {}}])
@pytest.mark.req("B26-13", "B26-45")
def test_discover_does_not_depend_on_what_the_client_declares(alice: Client, caps: dict[str, Any]) -> None:
    assert alice.call("server/discover", caps=caps).result == alice.call("server/discover").result


@pytest.mark.req("B26-43", "B26-51", "B26-77")
def test_what_is_declared_answers_and_what_is_not_does_not(alice: Client) -> None:
    declared = alice.call("server/discover").result["capabilities"]
    probes = {
        "tools": ("tools/list",),
        "prompts": ("prompts/list",),
        "resources": ("resources/list", "resources/templates/list"),
        "completions": ("completion/complete",),
    }
    for capability, methods in probes.items():
        for method in methods:
            expected = 200 if capability in declared else 404
            assert (method, alice.call(method).status) == (method, expected)
    assert declared["tools"] == {"listChanged": True}
    assert declared["prompts"] == {"listChanged": True}
    assert declared["resources"] == {"subscribe": True, "listChanged": True}
    assert declared["completions"] == {}


@pytest.mark.parametrize(("method", "member"), list(LISTS.items()))
@pytest.mark.req("B26-44", "B26-45")
def test_a_list_is_the_same_for_every_connection_and_whatever_came_before(
    alice: Client, bob: Client, method: str, member: str
) -> None:
    for caps in (EVERYTHING, {}):  # what the very request declares may count, and nothing else
        first = alice.call(method, caps=caps).result
        alice.tool("greet", {"name": "x"}, caps=EVERYTHING)
        assert alice.call(method, caps=caps).result == first
        assert bob.call(method, caps=caps).result == first
        assert isinstance(first[member], list)


@pytest.mark.req("B26-47", "B26-25", "T26-56")
def test_tools_are_listed_as_their_server_describes_them(alice: Client) -> None:
    listed = alice.call("tools/list").result["tools"]
    names = [tool["name"] for tool in listed]
    assert names[0] == "test_simple_text"
    assert len(set(names)) == len(names)
    for tool in listed:
        assert re.fullmatch(r"[A-Za-z0-9_.-]{1,128}", tool["name"])
        assert tool["inputSchema"]["type"] == "object"
        assert "execution" not in tool
    by_name = _tools(alice)
    assert by_name["json_schema_2020_12_tool"]["inputSchema"] == JSON_SCHEMA_2020_12
    assert by_name["test_custom_header"]["inputSchema"]["properties"]["value"]["x-mcp-header"] == "Fixture-Value"
    assert by_name["slow_compute"]["annotations"] == {"readOnlyHint": True, "idempotentHint": True}
    assert by_name["point"]["outputSchema"]["properties"].keys() == {"x", "y", "taskhub"}


@pytest.mark.parametrize("method", list(LISTS))
@pytest.mark.parametrize("cursor", ["", "x", "AAAA", 7, "\u0000"])
@pytest.mark.req("B26-46")
def test_a_cursor_we_never_gave_out_is_invalid(alice: Client, method: str, cursor: Any) -> None:
    assert alice.call(method, {"cursor": cursor}).refusal == (200, -32602)


@pytest.mark.req("B26-46")
def test_no_next_page_no_next_cursor(alice: Client) -> None:
    assert "nextCursor" not in alice.call("tools/list").result


@pytest.mark.req("B26-50")
def test_a_resource_that_is_not_there_is_named_in_the_error(alice: Client) -> None:
    answer = alice.call("resources/read", {"uri": "test://nonexistent"})
    assert answer.refusal == (200, -32602)
    assert answer.error["data"] == {"uri": "test://nonexistent"}


@pytest.mark.parametrize(
    ("method", "params"),
    [("prompts/get", {"name": "nope"}), ("resources/read", {"uri": "x:y"}), *((m, {}) for m in LISTS)],
)
@pytest.mark.req("T26-10", "B26-60")
def test_only_a_call_makes_a_task_or_asks(alice: Client, method: str, params: dict[str, Any]) -> None:
    body = alice.call(method, {**params, "task": {"ttl": 1000}}, caps=EVERYTHING).messages[-1]
    assert body.get("result", {}).get("resultType", "complete") == "complete"
    assert "taskId" not in body.get("result", {})


@pytest.mark.parametrize(
    "method",
    [
        "initialize",
        "ping",
        "logging/setLevel",
        "resources/subscribe",
        "resources/unsubscribe",
        "tasks/result",
        "tasks/list",
        "tasks/delete",
        "tasks/input_response",
        "elicitation/create",
        "unknown/method",
        "tools/Call",
    ],
)
@pytest.mark.req("B26-31", "B26-84", "T26-41", "T26-42", "T26-55")
def test_a_method_we_do_not_have_is_unknown_whatever_else_is_missing(alice: Client, method: str) -> None:
    assert alice.call(method, {"taskId": "x"}, caps=EVERYTHING).refusal == (404, -32601)
    assert alice.call(method, {"taskId": "x"}, headers={"Mcp-Name": "other"}).refusal == (404, -32601)


@pytest.mark.req("B26-29", "B26-42")
def test_versions_named_in_the_refusal_are_those_of_discover(alice: Client) -> None:
    version = "v999.0.0"
    answer = alice.call(
        "server/discover", headers={"MCP-Protocol-Version": version}, meta={PREFIX + "protocolVersion": version}
    )
    assert answer.refusal == (400, -32022)
    supported = alice.call("server/discover").result["supportedVersions"]
    assert answer.error["data"] == {"supported": supported, "requested": version}

"""Prompts, resources and completion of the servers behind the hub, on the 2025 wires (B25-22..28)."""

from __future__ import annotations

import pytest

from tests.protocol.v2025_11_25.conftest import Start
from tests.support.hub import RunningHub, wait_until
from tests.support.session import SessionClient

pytestmark = pytest.mark.processes

OLDER = ("2025-06-18", "2025-03-26")
WATCHED = "test://watched-resource"
NOTE = "extra://note"


@pytest.mark.req("B25-27", "B25-28")
def test_capabilities_say_what_is_passed_on(start: Start) -> None:
    for version in ("2025-11-25", *OLDER):
        found = start(version=version).initialized["capabilities"]
        assert found["prompts"] == {"listChanged": True}
        assert found["resources"] == {"subscribe": True, "listChanged": True}
        assert found["completions"] == {}


@pytest.mark.parametrize("version", ["2025-11-25", *OLDER])
@pytest.mark.req("B25-27")
def test_lists_hold_what_the_servers_offer(start: Start, version: str) -> None:
    session = start(version=version)
    prompts = {prompt["name"] for prompt in session.call("prompts/list").result["prompts"]}
    assert {"test_simple_prompt", "test_prompt_with_arguments"} <= prompts
    resources = {resource["uri"] for resource in session.call("resources/list").result["resources"]}
    assert {"test://static-text", "test://static-binary", WATCHED} <= resources
    templates = session.call("resources/templates/list").result["resourceTemplates"]
    assert "test://template/{id}/data" in {template["uriTemplate"] for template in templates}
    for method in ("prompts/list", "resources/list", "resources/templates/list"):
        assert session.call(method, {"cursor": "x"}).refusal == (200, -32602)


@pytest.mark.req("B25-26")
def test_a_resource_is_read_from_its_server(session: SessionClient) -> None:
    (text,) = session.call("resources/read", {"uri": "test://static-text"}).result["contents"]
    assert text["text"] == "This is the content of the static text resource."
    (binary,) = session.call("resources/read", {"uri": "test://static-binary"}).result["contents"]
    assert binary["blob"]
    (filled,) = session.call("resources/read", {"uri": "test://template/7/data"}).result["contents"]
    assert '"id":"7"' in filled["text"].replace(" ", "")


@pytest.mark.req("B25-26")
def test_an_unknown_resource_is_told_with_its_uri(session: SessionClient) -> None:
    answer = session.call("resources/read", {"uri": "test://nowhere"})
    assert (answer.refusal, answer.error["data"]) == ((200, -32002), {"uri": "test://nowhere"})
    for uri in (None, 7):
        assert session.call("resources/read", {"uri": uri}).refusal == (200, -32602)


@pytest.mark.req("B25-27", "B25-29")
def test_prompts_are_filled_in_by_their_server(session: SessionClient) -> None:
    arguments = {"arg1": "a", "arg2": "b"}
    found = session.call("prompts/get", {"name": "test_prompt_with_arguments", "arguments": arguments}).result
    assert found["messages"][0]["content"]["text"] == "Prompt with arguments: arg1='a', arg2='b'"
    assert session.call("prompts/get", {"name": "nobody"}).refusal == (200, -32602)
    completed = session.call(
        "completion/complete",
        {
            "ref": {"type": "ref/prompt", "name": "test_prompt_with_arguments"},
            "argument": {"name": "arg1", "value": ""},
        },
    )
    assert isinstance(completed.result["completion"]["values"], list)


@pytest.mark.req("B25-21")
def test_a_prompt_that_asks_says_that_it_cannot_here(session: SessionClient) -> None:
    answer = session.call("prompts/get", {"name": "test_input_required_result_prompt"})
    assert answer.status == 200
    assert answer.error["code"] == -32603


@pytest.mark.req("B25-28", "B25-23")
def test_a_followed_resource_is_told_of_on_the_sessions_stream(
    hub: RunningHub, session: SessionClient, start: Start
) -> None:
    other = start()

    def agreed(number: int) -> bool:
        found: int = hub.sql("SELECT count(*) FROM interest WHERE followed_at IS NOT NULL")[0][0]
        return found == number

    with session.listen() as events, other.listen() as quiet:
        assert events.event() is not None
        assert quiet.event() is not None
        for _ in range(2):
            assert session.call("resources/subscribe", {"uri": NOTE}).result == {}, "twice is once"
        wait_until(lambda: agreed(1), "the server to agree")
        session.tool("touch")
        assert events.until("notifications/resources/updated")["params"] == {"uri": NOTE}
        assert session.call("resources/unsubscribe", {"uri": NOTE}).result == {}
        wait_until(lambda: agreed(0), "the interest to end")
        other.delete()
        assert quiet.rest() == [], "nobody else is told"


@pytest.mark.req("B25-23", "B25-26")
def test_what_nobody_has_cannot_be_followed(session: SessionClient) -> None:
    assert session.call("resources/subscribe", {"uri": "nowhere://x"}).refusal == (200, -32002)
    for uri in (None, "", "x" * 2_000):
        assert session.call("resources/subscribe", {"uri": uri}).refusal == (200, -32602)
    assert session.call("resources/unsubscribe", {"uri": "never://followed"}).result == {}


@pytest.mark.req("B25-28")
def test_a_changed_list_of_prompts_is_told_and_nothing_else(session: SessionClient) -> None:
    with session.listen() as events:
        assert events.event() is not None
        for _ in range(2):
            session.tool("test_trigger_prompt_change")
            assert events.next()["method"] == "notifications/prompts/list_changed"

"""The conformance fixtures, called directly through the SDK's in-process client.

What the official suite checks through the hub is checked here without it, so that a failure
of the suite points at the hub.
"""

from __future__ import annotations

import base64
import time
from typing import Any

import anyio
import pytest
from mcp import Client, MCPError
from mcp.client import ClientRequestContext
from mcp.client.subscriptions import PromptsListChanged, ToolsListChanged
from mcp_types import (
    AudioContent,
    BlobResourceContents,
    CallToolResult,
    CreateMessageRequest,
    CreateMessageRequestParams,
    CreateMessageResult,
    ElicitRequest,
    ElicitRequestFormParams,
    ElicitRequestParams,
    ElicitResult,
    EmbeddedResource,
    ImageContent,
    InputRequiredResult,
    InputResponses,
    ListRootsRequest,
    ListRootsResult,
    LoggingMessageNotificationParams,
    PromptReference,
    Root,
    TextContent,
    TextResourceContents,
)
from pydantic import FileUrl

from .fixture_content import JSON_SCHEMA_2020_12
from .fixture_server import server

pytestmark = [
    pytest.mark.anyio,
    # Logging is deprecated in 2026-07-28 and still in the suite.
    pytest.mark.filterwarnings("ignore::mcp.shared.exceptions.MCPDeprecationWarning"),
]

ALICE = ElicitResult(action="accept", content={"name": "Alice"})
PARIS = CreateMessageResult(role="assistant", content=TextContent(text="Paris."), model="test")
ROOTS = ListRootsResult(roots=[Root(uri=FileUrl("file:///test/root"), name="Test root")])


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


async def elicit(context: ClientRequestContext, params: ElicitRequestParams) -> ElicitResult:
    """Fill every field of a form with something of its type."""
    assert isinstance(params, ElicitRequestFormParams)
    values: dict[str, str | int | float | bool | list[str] | None] = {}
    for name, field in params.requested_schema["properties"].items():
        match field["type"]:
            case "string":
                values[name] = "Alice"
            case "boolean":
                values[name] = True
            case "array":
                values[name] = []
            case _:
                values[name] = 1
    return ElicitResult(action="accept", content=values)


async def sample(context: ClientRequestContext, params: CreateMessageRequestParams) -> CreateMessageResult:
    return PARIS


async def list_roots(context: ClientRequestContext) -> ListRootsResult:
    return ROOTS


def able() -> Client:
    """A client that can answer everything."""
    return Client(server, elicitation_callback=elicit, sampling_callback=sample, list_roots_callback=list_roots)


async def call(name: str, arguments: dict[str, Any] | None = None) -> CallToolResult:
    async with able() as client:
        return await client.call_tool(name, arguments)


async def one_round(
    name: str, answers: InputResponses | None = None, state: str | None = None, **arguments: Any
) -> CallToolResult | InputRequiredResult:
    async with able() as client:
        return await client.session.call_tool(
            name, arguments, input_responses=answers, request_state=state, allow_input_required=True
        )


async def refusal(name: str, answers: InputResponses | None = None, state: str | None = None) -> MCPError:
    """The JSON-RPC error of one call, caught inside: the client wraps what leaves its block in a group."""
    async with able() as client:
        with pytest.raises(MCPError) as refused:
            await client.session.call_tool(
                name, {}, input_responses=answers, request_state=state, allow_input_required=True
            )
    return refused.value


def text(result: object) -> str:
    assert isinstance(result, CallToolResult)
    assert len(result.content) == 1
    assert isinstance(result.content[0], TextContent)
    return result.content[0].text


def questions(result: object) -> dict[str, Any]:
    assert isinstance(result, InputRequiredResult)
    assert result.input_requests
    return dict(result.input_requests)


def schema(question: object) -> dict[str, Any]:
    assert isinstance(question, ElicitRequest)
    assert isinstance(question.params, ElicitRequestFormParams)
    return question.params.requested_schema


# Lists ------------------------------------------------------------------------------------


async def test_tools_are_described_ordered_and_hinted() -> None:
    async with able() as client:
        tools = (await client.list_tools(cache_mode="bypass")).tools
        again = (await client.list_tools(cache_mode="bypass")).tools
    assert tools[0].name == "test_simple_text"
    assert [tool.name for tool in tools] == [tool.name for tool in again]
    modes: dict[str, set[str]] = {}
    for tool in tools:
        assert tool.description
        assert tool.input_schema["type"] == "object"
        modes.setdefault((tool.meta or {}).get("taskhub/task", "auto"), set()).add(tool.name)
    assert modes["auto"] == {"slow_compute", "test_tool_with_task"}
    assert modes["required"] == {"failing_job", "protocol_error_job", "confirm_delete", "multi_input"}


async def test_schemas_reach_the_client_unchanged() -> None:
    async with able() as client:
        tools = {tool.name: tool for tool in (await client.list_tools()).tools}
        received = await client.call_tool("json_schema_2020_12_tool", {"name": "A", "phone": "1"})
        custom = await client.call_tool("test_custom_header", {"value": "Hello"})
    assert tools["json_schema_2020_12_tool"].input_schema == JSON_SCHEMA_2020_12
    assert tools["test_custom_header"].input_schema["properties"]["value"]["x-mcp-header"] == "Fixture-Value"
    assert text(received) == 'Received: {"name": "A", "phone": "1"}'
    assert text(custom) == "Received: Hello"


# Content ----------------------------------------------------------------------------------


async def test_text_and_greeting() -> None:
    assert text(await call("test_simple_text")) == "This is a simple text response for testing."
    assert text(await call("greet", {"name": "World"})) == "Hello, World!"


async def test_media_are_real() -> None:
    image = (await call("test_image_content")).content
    audio = (await call("test_audio_content")).content
    assert len(image) == len(audio) == 1
    assert isinstance(image[0], ImageContent)
    assert image[0].mime_type == "image/png"
    assert base64.b64decode(image[0].data).startswith(b"\x89PNG\r\n\x1a\n")
    assert isinstance(audio[0], AudioContent)
    assert audio[0].mime_type == "audio/wav"
    assert base64.b64decode(audio[0].data)[:4] == b"RIFF"


async def test_embedded_and_mixed_content() -> None:
    (embedded,) = (await call("test_embedded_resource")).content
    assert isinstance(embedded, EmbeddedResource)
    assert embedded.resource == TextResourceContents(
        uri="test://embedded-resource", mime_type="text/plain", text="This is an embedded resource content."
    )
    first, second, third = (await call("test_multiple_content_types")).content
    assert first == TextContent(text="Multiple content types test:")
    assert isinstance(second, ImageContent)
    assert isinstance(third, EmbeddedResource)
    assert isinstance(third.resource, TextResourceContents)
    assert third.resource.text == '{"test":"data","value":123}'


async def test_a_tool_error_has_exactly_its_text() -> None:
    result = await call("test_error_handling")
    assert result.is_error
    assert text(result) == "This tool intentionally returns an error for testing"


async def test_progress_arrives_in_order() -> None:
    seen: list[tuple[float, float | None]] = []

    async def note(progress: float, total: float | None, message: str | None) -> None:
        seen.append((progress, total))

    async with able() as client:
        await client.call_tool("test_tool_with_progress", progress_callback=note)
    assert seen == [(0, 100), (50, 100), (100, 100)]


async def test_logs_arrive_only_when_asked_for() -> None:
    seen: list[object] = []

    async def note(params: LoggingMessageNotificationParams) -> None:
        seen.append(params.data)

    async with Client(server, logging_callback=note) as client:
        assert text(await client.call_tool("test_logging_tool")) == "Logged"
        await client.call_tool("test_tool_with_logging")
    assert seen == []
    async with Client(server, logging_callback=note, log_level="debug") as client:
        await client.call_tool("test_tool_with_logging")
    assert seen == ["Tool execution started", "Tool processing data", "Tool execution completed"]


async def test_reconnection_tool_returns_its_result() -> None:
    assert text(await call("test_reconnection")) == "Reconnection test completed"


# Resources, prompts, completion -----------------------------------------------------------


async def test_resources() -> None:
    async with able() as client:
        listed = (await client.list_resources()).resources
        templates = (await client.list_resource_templates()).resource_templates
        (static,) = (await client.read_resource("test://static-text")).contents
        (binary,) = (await client.read_resource("test://static-binary")).contents
        (data,) = (await client.read_resource("test://template/123/data")).contents
        with pytest.raises(MCPError) as missing:
            await client.read_resource("test://nonexistent-resource-for-conformance-testing")
    assert [str(resource.uri) for resource in listed] == [
        "test://static-text",
        "test://static-binary",
        "test://watched-resource",
    ]
    assert all(resource.name and resource.description and resource.mime_type for resource in listed)
    assert [template.uri_template for template in templates] == ["test://template/{id}/data"]
    assert isinstance(static, TextResourceContents)
    assert static.text == "This is the content of the static text resource."
    assert isinstance(binary, BlobResourceContents)
    assert binary.mime_type == "image/png"
    assert isinstance(data, TextResourceContents)
    assert data.mime_type == "application/json"
    assert data.text == '{"id":"123","templateTest":true,"data":"Data for ID: 123"}'
    assert missing.value.code == -32602
    assert missing.value.data == {"uri": "test://nonexistent-resource-for-conformance-testing"}


async def test_prompts() -> None:
    async with able() as client:
        simple = await client.get_prompt("test_simple_prompt")
        arguments = await client.get_prompt("test_prompt_with_arguments", {"arg1": "x", "arg2": "y"})
        embedded = await client.get_prompt("test_prompt_with_embedded_resource", {"resourceUri": "test://here"})
        image = await client.get_prompt("test_prompt_with_image")
    assert simple.messages[0].content == TextContent(text="This is a simple prompt for testing.")
    assert arguments.messages[0].content == TextContent(text="Prompt with arguments: arg1='x', arg2='y'")
    resource, request = (message.content for message in embedded.messages)
    assert isinstance(resource, EmbeddedResource)
    assert str(resource.resource.uri) == "test://here"
    assert request == TextContent(text="Please process the embedded resource above.")
    assert isinstance(image.messages[0].content, ImageContent)


async def test_a_prompt_may_ask_first() -> None:
    async with able() as client:
        result = await client.get_prompt("test_input_required_result_prompt")
    assert result.messages[0].content == TextContent(text="Use this context: Alice")


async def test_completion() -> None:
    reference = PromptReference(name="test_prompt_with_arguments")
    async with able() as client:
        result = await client.complete(reference, {"name": "arg1", "value": "par"})
    assert result.completion.values == ["paris", "park"]


# Questions --------------------------------------------------------------------------------


async def test_elicitation_round() -> None:
    name = "test_input_required_result_elicitation"
    asked = await one_round(name)
    assert isinstance(asked, InputRequiredResult)
    assert asked.request_state is None
    assert schema(questions(asked)["user_name"])["required"] == ["name"]
    assert text(await one_round(name, {"user_name": ALICE})) == "Hello, Alice!"
    assert text(await one_round(name, {"user_name": ALICE, "extra": ALICE})) == "Hello, Alice!"
    assert text(await one_round(name, {"user_name": ElicitResult(action="decline")})) == "No name was given: decline"


@pytest.mark.parametrize(
    "answers", [{"wrong_key": ALICE}, {"user_name": PARIS}, {"user_name": ElicitResult(action="accept")}]
)
async def test_unusable_answers_are_asked_for_again(answers: InputResponses) -> None:
    assert "user_name" in questions(await one_round("test_input_required_result_elicitation", answers))


async def test_sampling_and_roots_rounds() -> None:
    question = questions(await one_round("test_input_required_result_sampling"))["capital_question"]
    assert isinstance(question, CreateMessageRequest)
    assert question.params.max_tokens == 100
    assert text(await call("test_input_required_result_sampling")) == "Paris."
    roots = questions(await one_round("test_input_required_result_list_roots"))["client_roots"]
    assert isinstance(roots, ListRootsRequest)
    assert text(await call("test_input_required_result_list_roots")) == "Roots: file:///test/root"


@pytest.mark.parametrize(
    "name", ["test_input_required_result_request_state", "test_input_required_result_tampered_state"]
)
async def test_state_must_come_back_untouched(name: str) -> None:
    asked = await one_round(name)
    assert isinstance(asked, InputRequiredResult)
    state = asked.request_state
    assert state is not None
    answers: InputResponses = {"confirm": ElicitResult(action="accept", content={"ok": True})}
    assert text(await one_round(name, answers, state)) == "state-ok, confirmed: true"
    assert isinstance(await one_round(name, answers), InputRequiredResult)
    for wrong in (state + "-TAMPERED", "state-of-round-1", state[:-4]):
        assert (await refusal(name, answers, wrong)).code == -32602


async def test_state_belongs_to_one_tool() -> None:
    asked = await one_round("test_input_required_result_request_state")
    assert isinstance(asked, InputRequiredResult)
    answers: InputResponses = {"confirm": ElicitResult(action="accept", content={"ok": True})}
    refused = await refusal("test_input_required_result_tampered_state", answers, asked.request_state)
    assert refused.code == -32602


async def test_several_questions_at_once() -> None:
    asked = await one_round("test_input_required_result_multiple_inputs")
    assert isinstance(asked, InputRequiredResult)
    assert asked.request_state
    assert set(questions(asked)) == {"user_name", "greeting", "client_roots"}
    partial: InputResponses = {"user_name": ALICE, "greeting": PARIS}
    again = await one_round("test_input_required_result_multiple_inputs", partial, asked.request_state)
    assert isinstance(again, InputRequiredResult)
    assert text(await call("test_input_required_result_multiple_inputs")) == "Paris. Alice has 1 root(s)"


async def test_several_rounds() -> None:
    name = "test_input_required_result_multi_round"
    first = await one_round(name)
    assert isinstance(first, InputRequiredResult)
    assert list(questions(first)) == ["step1"]
    second = await one_round(name, {"step1": ALICE}, first.request_state)
    assert isinstance(second, InputRequiredResult)
    assert list(questions(second)) == ["step2"]
    assert first.request_state != second.request_state
    color: InputResponses = {"step2": ElicitResult(action="accept", content={"color": "blue"})}
    assert text(await one_round(name, color, second.request_state)) == "Alice likes blue"


async def test_only_declared_capabilities_are_asked_for() -> None:
    async with Client(server, sampling_callback=sample) as client:
        result = await client.session.call_tool("test_input_required_result_capabilities", allow_input_required=True)
        assert text(await client.call_tool("test_missing_capability")) == "The client declared sampling"
    assert list(questions(result)) == ["greeting"]
    async with Client(server) as client:
        with pytest.raises(MCPError) as refused:
            await client.call_tool("test_missing_capability")
    assert refused.value.code == -32021
    assert refused.value.data == {"requiredCapabilities": {"sampling": {}}}


async def test_streaming_elicitation_reports_and_asks() -> None:
    assert "user_name" in questions(await one_round("test_streaming_elicitation"))
    assert text(await call("test_streaming_elicitation")) == "Hello, Alice!"


async def test_tools_of_the_older_suites() -> None:
    assert text(await call("test_sampling", {"prompt": "Capital?"})) == "LLM response: Paris."
    said = text(await call("test_elicitation", {"message": "Who?"}))
    assert said == 'User response: action=accept, content={"username": "Alice", "email": "Alice"}'
    defaults = schema(questions(await one_round("test_elicitation_sep1034_defaults"))["response"])["properties"]
    assert {name: field["default"] for name, field in defaults.items()} == {
        "name": "John Doe",
        "age": 30,
        "score": 95.5,
        "status": "active",
        "verified": True,
    }
    enums = schema(questions(await one_round("test_elicitation_sep1330_enums"))["response"])["properties"]
    assert set(enums["untitledSingle"]) == {"type", "description", "enum"}
    assert enums["titledSingle"]["oneOf"][0] == {"const": "value1", "title": "First Option"}
    assert enums["legacyEnum"]["enumNames"] == ["Option One", "Option Two", "Option Three"]
    assert enums["untitledMulti"]["items"]["enum"] == ["option1", "option2", "option3"]
    assert enums["titledMulti"]["items"]["anyOf"][2] == {"const": "value3", "title": "Third Option"}
    assert text(await call("test_elicitation_sep1330_enums")).startswith("Elicitation completed: action=accept")


# Tasks ------------------------------------------------------------------------------------


async def test_slow_compute_takes_its_time() -> None:
    started = time.monotonic()
    assert text(await call("slow_compute", {"seconds": 0.3, "label": "x"})) == "Computed x in 0.3 s"
    assert 0.3 <= time.monotonic() - started < 2
    assert text(await call("slow_compute", {"seconds": 0, "label": "now"})) == "Computed now in 0 s"


async def test_slow_compute_stops_when_it_is_cancelled() -> None:
    seen: list[float] = []

    async def note(progress: float, total: float | None, message: str | None) -> None:
        seen.append(progress)

    started = time.monotonic()
    async with able() as client:
        with anyio.move_on_after(0.2) as scope:
            await client.call_tool("slow_compute", {"seconds": 60, "label": "x"}, progress_callback=note)
        assert scope.cancelled_caught
        reported = len(seen)
        await anyio.sleep(0.7)
    assert len(seen) == reported
    assert time.monotonic() - started < 5


async def test_jobs_fail_in_their_two_ways() -> None:
    assert (await call("failing_job")).is_error
    assert (await refusal("protocol_error_job")).code == -32603


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (ElicitResult(action="accept", content={"confirm": True}), "Deleted a.txt"),
        (ElicitResult(action="accept", content={"confirm": False}), "Kept a.txt"),
        (ElicitResult(action="decline"), "Kept a.txt"),
    ],
)
async def test_confirm_delete(answer: ElicitResult, said: str) -> None:
    assert list(questions(await one_round("confirm_delete", filename="a.txt"))) == ["confirm"]
    assert text(await one_round("confirm_delete", {"confirm": answer}, filename="a.txt")) == said


async def test_multi_input_accepts_the_answers_of_the_suite() -> None:
    asked = questions(await one_round("multi_input"))
    assert list(asked) == ["first", "second"]
    for question in asked.values():
        assert set(schema(question)["properties"]) == {"name", "confirm"}
    answers: InputResponses = {
        key: ElicitResult(action="accept", content={"name": f"partial-{number}", "confirm": True})
        for number, key in enumerate(asked, start=1)
    }
    assert text(await one_round("multi_input", answers)) == "First partial-1, then partial-2"


async def test_tool_with_task_asks_at_once_and_then_takes_a_second() -> None:
    started = time.monotonic()
    assert list(questions(await one_round("test_tool_with_task"))) == ["user_name"]
    assert time.monotonic() - started < 0.9
    started = time.monotonic()
    assert "Alice" in text(await one_round("test_tool_with_task", {"user_name": ALICE}))
    assert time.monotonic() - started >= 1.0


# Changes ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("trigger", "event_type", "kind"),
    [
        ("test_trigger_tool_change", ToolsListChanged, "tool"),
        ("test_trigger_prompt_change", PromptsListChanged, "prompt"),
    ],
)
async def test_changes_are_real_and_announced_to_listeners(trigger: str, event_type: type, kind: str) -> None:
    async def names(client: Client) -> set[str]:
        if kind == "tool":
            return {tool.name for tool in (await client.list_tools(cache_mode="bypass")).tools}
        return {prompt.name for prompt in (await client.list_prompts(cache_mode="bypass")).prompts}

    async with able() as client:
        before = await names(client)
        async with client.listen(tools_list_changed=kind == "tool", prompts_list_changed=kind == "prompt") as events:
            await client.call_tool(trigger)
            with anyio.fail_after(5):
                assert isinstance(await anext(aiter(events)), event_type)
        assert await names(client) == before ^ {f"test_dynamic_{kind}"}
        await client.call_tool(trigger)
        assert await names(client) == before


@pytest.mark.parametrize("kind", ["tool", "prompt"])
async def test_an_older_session_is_told_of_changes_too(kind: str) -> None:
    told = anyio.Event()

    async def note(message: object) -> None:
        if getattr(message, "method", None) == f"notifications/{kind}s/list_changed":
            told.set()

    async with Client(server, mode="legacy", message_handler=note) as client:
        for _ in range(2):
            await client.call_tool(f"test_trigger_{kind}_change")
        with anyio.fail_after(5):
            await told.wait()

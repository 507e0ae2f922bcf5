"""One call at a real server: what it answers, or fails to, becomes a plain record."""

from __future__ import annotations

import asyncio
import gc
import sys
from pathlib import Path
from typing import Any

import pytest

from taskhub.core.records import LogLine
from taskhub.core.states import Audience, QuestionKind
from taskhub.domain.relays.outcomes import Failed, RelayClaim
from taskhub.lib import jsonx
from taskhub.upstream import call as module
from taskhub.upstream import connection
from taskhub.upstream.outcomes import CallOutcome, Faulted, Finished
from taskhub.upstream.pool import Pool
from taskhub.upstream.relay import run_relay
from taskhub.upstream.target import Target
from tests.upstream import kit
from tests.upstream.kit import call, text
from tests.upstream.old_http import OldHttpServer
from tests.upstream.old_server import LATER
from tests.upstream.test_sieve import clumsy

TRANSPORTS = {"python": kit.WORKSHOP, "stdio": kit.COMMAND, "old stdio": kit.OLD}


def broken(outcome: CallOutcome) -> str:
    """What went wrong at the server's side, after it was reached."""
    assert isinstance(outcome, Faulted), outcome
    assert (outcome.error["code"], outcome.unreached) == (-32603, False)
    message: str = outcome.error["message"]
    return message.removeprefix("The tool's server failed: ")


# --- results


@pytest.mark.parametrize("name", TRANSPORTS)
async def test_text_comes_back_over_every_transport(name: str) -> None:
    async with kit.pool_of(TRANSPORTS[name]) as pool:
        assert text(await call(pool, "echo", {"text": "héllo"})) == "héllo"


async def test_text_comes_back_over_http() -> None:
    with kit.HttpServer() as server:
        async with kit.pool_of(server.target) as pool:
            assert text(await call(pool, "echo", {"text": "hello"})) == "hello"
        assert server.clients() == []
    assert server.authorizations == [None]


async def test_an_argument_goes_along_in_the_header_that_its_server_wants() -> None:
    with kit.HttpServer() as server:
        async with kit.pool_of(server.target) as pool:
            for name in ("eu-west", "eu-west", "ü"):
                found = text(await call(pool, "region", {"name": name}))
                assert found.startswith(f"{name} by ")
                assert not found.endswith("None")


async def test_credentials_go_along_over_http_and_the_connection_is_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    with kit.HttpServer() as server:
        with_key = Target("http", server.target.target, (("authorization", "Bearer s3cret"),))
        async with kit.pool_of(with_key) as pool:
            assert text(await call(pool, "echo", {"text": "hello"})) == "hello"
        assert server.authorizations == ["Bearer s3cret"]
        left = server.clients()
    # Whatever was left must not be reported in another test.
    monkeypatch.setattr(sys, "unraisablehook", lambda _: None)
    gc.collect()
    assert left == []


async def test_structured_output_is_kept_beside_its_text(workshops: Pool) -> None:
    outcome = await call(workshops, "point")
    assert isinstance(outcome, Finished)
    assert outcome.result["structuredContent"] == {"x": 3, "y": 4}
    assert outcome.result["content"][0]["type"] == "text"
    assert "resultType" not in outcome.result


async def test_fields_that_nobody_here_knows_are_kept() -> None:
    async with kit.pool_of(kit.OLD) as pool:
        outcome = await call(pool, "later")
    assert isinstance(outcome, Finished)
    assert outcome.result == LATER


@pytest.mark.parametrize(
    ("tool", "arguments", "words"),
    [
        ("refuse", {}, "Error executing tool refuse: not today"),
        ("crash", {}, "Error executing tool crash"),
        ("missing", {}, "Unknown tool: missing"),
    ],
)
async def test_a_tool_that_fails_has_finished_with_an_error(
    workshops: Pool, tool: str, arguments: dict[str, Any], words: str
) -> None:
    outcome = await call(workshops, tool, arguments)
    assert isinstance(outcome, Finished)
    assert outcome.result["isError"] is True
    assert outcome.result["content"] == [{"type": "text", "text": words}]


async def test_a_result_as_large_as_allowed_is_kept_and_a_larger_one_is_replaced(
    workshops: Pool, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = await call(workshops, "text_of_size", {"size": 5_000})
    assert isinstance(whole, Finished)
    size = len(jsonx.encode(whole.result))
    monkeypatch.setattr(module, "MAX_RESULT", size)
    assert await call(workshops, "text_of_size", {"size": 5_000}) == whole
    outcome = await call(workshops, "text_of_size", {"size": 5_001})
    assert isinstance(outcome, Finished)
    words = f"The tool's result is larger than {size} bytes and was not kept."
    assert outcome.result == {"content": [{"type": "text", "text": words}], "isError": True}


async def test_text_that_no_json_can_carry_does_not_fail_the_call(workshops: Pool) -> None:
    assert text(await call(workshops, "half_a_character")).startswith("broken: ")


# --- errors


async def test_a_json_rpc_error_is_passed_on_as_it_is(workshops: Pool) -> None:
    plain = await call(workshops, "protocol_error")
    assert plain == Faulted({"code": -32042, "message": "no such luck"})
    with_data = await call(workshops, "protocol_error", {"data": True})
    assert with_data == Faulted({"code": -32042, "message": "no such luck", "data": {"why": "weather"}})


async def test_an_exception_that_no_framework_catches_is_an_error_without_its_text() -> None:
    async with kit.pool_of(kit.BARE) as pool:
        outcome = await call(pool, "crash")
        assert isinstance(outcome, Faulted)
        assert (outcome.unreached, outcome.error["code"]) == (False, -32603)
        assert "boom" not in str(outcome.error)
        assert text(await call(pool, "fine")) == "fine"


NOT_THERE = {
    "no such module": (Target("python", "tests.upstream.nowhere:server"), "No module named"),
    "no such object": (Target("python", "tests.upstream.servers:nothing"), "no attribute 'nothing'"),
    "no server": (Target("python", "tests.upstream.servers:HELD_SECONDS"), "TypeError"),
    "no such command": (Target("stdio", "/nowhere/at/all"), "there is no program /nowhere/at/all here"),
    "a command that exits at once": (Target("stdio", f"{kit.OLD.target} exit"), "Connection closed"),
    "an empty command": (Target("stdio", ""), "its command is empty"),
    "an open quote": (Target("stdio", "'python"), "No closing quotation"),
}


@pytest.mark.parametrize("what", NOT_THERE)
async def test_a_server_that_is_not_there_was_not_reached(what: str) -> None:
    target, why = NOT_THERE[what]
    async with kit.pool_of(target) as pool:
        outcome = await call(pool, "echo", {"text": "hello"})
    assert isinstance(outcome, Faulted)
    assert (outcome.unreached, outcome.error["code"]) == (True, -32603)
    assert outcome.error["message"].startswith("Server the-server cannot be reached: ")
    assert why in outcome.error["message"]


async def test_a_port_where_nobody_listens_was_not_reached() -> None:
    async with kit.pool_of(kit.HttpServer().target) as pool:
        outcome = await call(pool, "echo", {"text": "hello"})
    assert isinstance(outcome, Faulted)
    assert outcome.unreached is True


async def test_a_command_that_never_says_anything_sensible_is_given_up_and_ended(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(connection, "CONNECT_SECONDS", 0.5)
    async with kit.pool_of(Target("stdio", f"{kit.OLD.target} garbage")) as pool:
        outcome = await call(pool, "echo", {"text": "hello"})
    assert isinstance(outcome, Faulted)
    assert outcome.unreached is True
    await kit.until(lambda: kit.children() == [], "the end of the command")


async def test_an_answer_that_is_no_tool_result_is_an_error_that_names_the_place() -> None:
    async with kit.pool_of(kit.OLD) as pool:
        why = broken(await call(pool, "nonsense"))
    assert why.startswith("the server sent something that is no tool result: ")
    assert "content" in why


async def test_a_server_that_dies_during_the_call_was_reached_and_the_next_call_gets_a_new_one() -> None:
    async with kit.pool_of(kit.OLD) as pool:
        before = text(await call(pool, "pid"))
        outcome = await call(pool, "die")
        assert isinstance(outcome, Faulted)
        assert outcome.unreached is False
        assert text(await call(pool, "pid")) != before


@pytest.mark.parametrize("failure", ["refuse", "crash", "protocol_error", "ask_for_an_object", "missing"])
async def test_whatever_a_server_answers_its_connection_is_used_again(workshops: Pool, failure: str) -> None:
    first = text(await call(workshops, "connection_number"))
    await call(workshops, failure)
    assert text(await call(workshops, "connection_number")) == first


@pytest.mark.parametrize("failure", ["error", "closed", "nonsense"])
async def test_a_command_lives_on_after_an_answer_that_is_an_error_or_nonsense(failure: str) -> None:
    async with kit.pool_of(kit.OLD) as pool:
        before = text(await call(pool, "pid"))
        assert isinstance(await call(pool, failure), Faulted)
        assert text(await call(pool, "pid")) == before


@pytest.mark.parametrize(
    "unknown",
    [
        (404, {"id": None}),
        (404, {"id": "server-error"}),
        (404, None),
        (400, {"id": None}),
        (400, {"id": "server-error"}),
    ],
    ids=str,
)
async def test_a_server_that_forgot_its_sessions_is_connected_to_again_and_no_call_is_lost(
    unknown: tuple[int, Any],
) -> None:
    with OldHttpServer() as server:
        server.unknown = unknown
        async with kit.pool_of(server.target) as pool:
            before = text(await call(pool, "session"))
            assert await call(pool, "refuse") == Faulted({"code": -32600, "message": "not like this"})
            assert text(await call(pool, "session")) == before
            at_once = await asyncio.gather(*(call(pool, "session", context_id=client) for client in (1, 2, 3)))
            assert len({text(outcome) for outcome in at_once}) == 3, "a session for each client"
            server.forget()
            server.runs.clear()
            for word in ("one", "two", "three", "four"):
                assert text(await call(pool, "echo", {"text": word})) == word
            assert server.runs == ["echo"] * 4
            assert text(await call(pool, "session")) != before


async def test_a_prompt_too_is_asked_for_again_where_sessions_were_forgotten() -> None:
    with OldHttpServer() as server:
        async with kit.pool_of(server.target) as pool:
            await asyncio.gather(*(call(pool, "session") for _ in range(3)))
            server.forget()
            relay = RelayClaim(1, 1, "s", "prompts/get", {"name": "none", "arguments": None}, {}, 10.0)
            for _ in range(3):
                assert await pool.run(run_relay(pool, relay)) == Failed(-32601, "Method not found")


async def test_a_tool_that_says_not_found_in_the_words_of_http_is_run_once() -> None:
    with OldHttpServer() as server:
        async with kit.pool_of(server.target) as pool:
            assert await call(pool, "gone") == Faulted({"code": -32602, "message": "no such item"})
            assert server.runs == ["gone"]
            assert text(await call(pool, "echo", {"text": "on"})) == "on"


async def test_a_server_that_says_not_found_to_something_else_has_not_forgotten_the_session() -> None:
    with OldHttpServer() as server:
        server.missing = 404
        async with kit.pool_of(server.target) as pool:
            before = text(await call(pool, "session"))
            relay = RelayClaim(1, 1, "s", "prompts/get", {"name": "none", "arguments": None}, {}, 10.0)
            assert await pool.run(run_relay(pool, relay)) == Failed(-32601, "Method not found")
            assert text(await call(pool, "session")) == before


async def test_a_result_is_kept_although_its_server_cannot_list_its_tools(tmp_path: Path) -> None:
    async with kit.pool_of(clumsy(tmp_path, tools="at lunch")) as pool:
        assert text(await call(pool, "anything")) == "called"


# --- what the server is told


async def test_a_callers_model_and_roots_are_declared_only_when_it_has_them(workshops: Pool) -> None:
    assert text(await call(workshops, "declared")) == "elicitation"
    able: dict[str, Any] = {"sampling": {}, "roots": {}}
    assert text(await call(workshops, "declared", client_capabilities=able)) == "elicitation sampling roots"
    assert text(await call(workshops, "declared", client_capabilities={"sampling": {}})) == "elicitation sampling"
    assert text(await call(workshops, "declared")) == "elicitation"


@pytest.mark.parametrize(
    ("sampling", "told"),
    [
        (None, "none"),
        ({}, "sampling"),
        ({"tools": {}}, "sampling tools"),
        ({"tools": {}, "context": {}, "later": {}}, "sampling context tools"),
    ],
    ids=str,
)
async def test_what_a_callers_model_can_do_is_declared(workshops: Pool, sampling: Any, told: str) -> None:
    able = {} if sampling is None else {"sampling": sampling}
    assert text(await call(workshops, "declared_sampling", client_capabilities=able)) == told
    assert text(await call(workshops, "declared_sampling")) == "none"


@pytest.mark.parametrize(
    ("sampling", "policy", "told"),
    [
        (None, None, "none"),
        (None, Audience.CLIENT, "none"),
        (None, Audience.EITHER, "sampling tools"),
        (None, Audience.OPERATOR, "sampling tools"),
        ({}, None, "sampling"),
        ({"tools": {}, "context": {}}, None, "sampling tools"),
    ],
)
async def test_a_command_is_told_with_each_call_whether_there_is_a_model_or_people_instead(
    sampling: Any, policy: Audience | None, told: str
) -> None:
    able = {} if sampling is None else {"sampling": sampling}
    async with kit.pool_of(kit.COMMAND) as pool:
        await call(pool, "echo", {"text": "another caller's"}, client_capabilities={"sampling": {"tools": {}}})
        declared = await call(pool, "declared_sampling", client_capabilities=able, question_audience=policy)
        assert text(declared) == told


async def test_nobody_is_asked_to_be_the_model_of_a_caller_that_has_none_unless_the_policy_says_so() -> None:
    refused = {"code": -32601, "message": "The caller of this tool has no model"}
    reply = {"role": "assistant", "content": {"type": "text", "text": "wet"}, "model": "a person"}

    async def ask(kind: QuestionKind, params: dict[str, Any]) -> dict[str, Any]:
        assert kind is QuestionKind.SAMPLING
        return reply

    async with kit.pool_of(kit.NOTEBOOK) as pool:
        assert jsonx.decode(text(await call(pool, "ask_model")).encode()) == refused
        for policy in (Audience.OPERATOR, Audience.EITHER):
            found = text(await call(pool, "ask_model", ask=ask, question_audience=policy))
            assert jsonx.decode(found.encode()) == reply
        able: dict[str, Any] = {"sampling": {}}
        assert jsonx.decode(text(await call(pool, "ask_model", ask=ask, client_capabilities=able)).encode()) == reply
    async with kit.pool_of(kit.OLD) as pool:  # it gives the model tools
        found = jsonx.decode(text(await call(pool, "ask_model", client_capabilities=able)).encode())
        assert found == {"code": -32601, "message": "The caller of this tool has no model that is given tools"}


@pytest.mark.parametrize(
    "content",
    [
        {"type": "text", "text": "wet"},
        [{"type": "text", "text": "wet"}],
        [{"type": "text", "text": "I look"}, {"type": "tool_use", "id": "1", "name": "look", "input": {"at": "it"}}],
        {"type": "image", "data": "AA==", "mimeType": "image/png"},
    ],
    ids=["text", "a list", "a tool", "an image"],
)
async def test_a_models_answer_reaches_an_older_server_as_it_is(content: Any) -> None:
    answer = {"role": "assistant", "content": content, "model": "m", "stopReason": "toolUse"}

    async def ask(kind: QuestionKind, params: dict[str, Any]) -> dict[str, Any]:
        assert (kind, params["tools"][0]["name"]) == (QuestionKind.SAMPLING, "look")
        return answer

    async with kit.pool_of(kit.OLD) as pool:
        able = {"sampling": {"tools": {}}}
        found = text(await call(pool, "ask_model", ask=ask, client_capabilities=able))
        assert jsonx.decode(found.encode()) == answer


async def test_nobody_is_asked_for_roots_that_the_caller_does_not_have() -> None:
    refused = {"code": -32601, "message": "The caller of this tool has no roots"}
    roots = {"roots": [{"uri": "file:///srv"}]}

    async def ask(kind: QuestionKind, params: dict[str, Any]) -> dict[str, Any]:
        assert kind is QuestionKind.ROOTS
        return roots

    async with kit.pool_of(kit.OLD) as pool:
        before = text(await call(pool, "pid"))
        assert jsonx.decode(text(await call(pool, "ask_roots")).encode()) == refused
        able: dict[str, Any] = {"roots": {}}
        answer = text(await call(pool, "ask_roots", client_capabilities=able, ask=ask))
        assert jsonx.decode(answer.encode()) == roots
        assert jsonx.decode(text(await call(pool, "ask_roots")).encode()) == refused
        assert text(await call(pool, "pid")) == before


async def test_a_command_is_told_with_each_call_whether_its_caller_has_roots() -> None:
    able: dict[str, Any] = {"roots": {}}
    async with kit.pool_of(kit.COMMAND) as pool:
        assert text(await call(pool, "declared")) == "elicitation"
        assert text(await call(pool, "declared", client_capabilities=able)) == "elicitation roots"
        assert text(await call(pool, "declared")) == "elicitation"


async def test_the_callers_trace_goes_along(workshops: Pool) -> None:
    trace = {"traceparent": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"}
    assert text(await call(workshops, "trace", trace=trace)) == trace["traceparent"]
    assert text(await call(workshops, "trace")) == "None"


# --- what is said while it runs


async def test_progress_and_log_lines_come_in_order(workshops: Pool) -> None:
    said: list[LogLine] = []
    assert text(await call(workshops, "chatter", {"lines": 2}, said=said)) == "said"
    assert said == [
        LogLine("info", "line 1"),
        LogLine("progress", "step 1", 1, 2),
        LogLine("info", "line 2"),
        LogLine("progress", "step 2", 2, 2),
    ]


async def test_progress_without_an_end_or_words_is_a_number(workshops: Pool) -> None:
    said: list[LogLine] = []
    await call(workshops, "progress_without_words", said=said)
    assert said == [LogLine("progress", "", 7, None)]


async def test_an_old_servers_lines_are_heard_and_belong_to_their_call() -> None:
    async with kit.pool_of(kit.OLD) as pool:
        first: list[LogLine] = []
        second: list[LogLine] = []
        await call(pool, "chatter", said=first)
        await call(pool, "echo", {"text": "quiet"}, said=second)
    assert sorted(first, key=str) == sorted(
        [
            LogLine("warning", '{"depth":3,"ok":null}'),
            LogLine("info", "db: slow"),
            LogLine("debug", 'db.pool: ["é",2]'),
            LogLine("progress", "a quarter", 1, 4),
        ],
        key=str,
    )
    assert second == []

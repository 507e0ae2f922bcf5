"""One call at a real server: what it answers, or fails to, becomes a plain record."""

from __future__ import annotations

import asyncio
import gc
import hashlib
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
from taskhub.upstream.call import Asked, CallOutcome, Faulted, Finished, waiting_message
from taskhub.upstream.connection import Target
from taskhub.upstream.pool import Pool
from taskhub.upstream.relay import run_relay
from tests.upstream import kit
from tests.upstream.kit import call, text
from tests.upstream.old_http import OldHttpServer
from tests.upstream.old_server import LATER
from tests.upstream.servers import gates
from tests.upstream.test_sieve import clumsy

TRANSPORTS = {"python": kit.WORKSHOP, "stdio": kit.COMMAND, "old stdio": kit.OLD}
WORD = {"type": "object", "properties": {"word": {"type": "string"}}}


def broken(outcome: CallOutcome) -> str:
    """What went wrong at the server's side, after it was reached."""
    assert isinstance(outcome, Faulted), outcome
    assert (outcome.error["code"], outcome.unreached) == (-32603, False)
    message: str = outcome.error["message"]
    return message.removeprefix("The tool's server failed: ")


def asked(outcome: CallOutcome) -> Asked:
    assert isinstance(outcome, Asked), outcome
    return outcome


def accept(word: str) -> dict[str, Any]:
    return {"action": "accept", "content": {"word": word}}


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
    "no such command": (Target("stdio", "/nowhere/at/all"), "No such file"),
    "a command that exits at once": (Target("stdio", f"{kit.OLD.target} exit"), "Connection closed"),
    "an empty command": (Target("stdio", ""), "ValueError"),
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


# --- questions


async def test_a_question_comes_with_its_key_its_form_and_the_tools_state(workshops: Pool) -> None:
    found = asked(await call(workshops, "ask"))
    (question,) = found.questions
    assert (question.key, question.upstream_key, question.kind) == ("word", "word", QuestionKind.ELICITATION)
    assert question.params == {"mode": "form", "message": "Which word, after ''?", "requestedSchema": WORD}
    assert question.audience is Audience.OPERATOR
    assert found.state
    assert waiting_message(found.questions) == "Waiting for an answer by an operator"


async def test_a_question_asked_again_gets_another_key_and_its_answers_bring_the_tool_on(workshops: Pool) -> None:
    first = asked(await call(workshops, "ask"))
    again = asked(await call(workshops, "ask", answers={"word": accept("more")}, upstream_state=first.state, epoch=4))
    (question,) = again.questions
    assert (question.key, question.upstream_key) == ("word~4", "word")
    assert question.params["message"] == "Which word, after 'more'?"
    assert again.state != first.state
    done = await call(workshops, "ask", answers={"word": accept("done")}, upstream_state=again.state, epoch=5)
    assert text(done) == "heard done in round ++"


async def test_a_key_that_is_too_long_is_shortened_and_the_tool_finds_its_own(workshops: Pool) -> None:
    kept, long = "k" * 48, "k" * 49
    assert asked(await call(workshops, "ask", {"key": kept})).questions[0].key == kept
    found = asked(await call(workshops, "ask", {"key": long}))
    (question,) = found.questions
    assert len(question.key) == 32
    assert question.upstream_key == long
    again = asked(await call(workshops, "ask", {"key": long}, answers={long: accept("x")}, upstream_state=found.state))
    assert again.questions[0].key == f"{question.key}~3"
    done = await call(workshops, "ask", {"key": long}, answers={long: accept("done")}, upstream_state=found.state)
    assert text(done) == "heard done in round +"


async def test_several_questions_are_each_for_whoever_can_answer_them(workshops: Pool) -> None:
    found = asked(await call(workshops, "ask_two", client_capabilities={"elicitation": {}}))
    audiences = {question.key: (question.kind, question.audience) for question in found.questions}
    assert audiences == {
        "word": (QuestionKind.ELICITATION, Audience.EITHER),
        "roots": (QuestionKind.ROOTS, Audience.OPERATOR),
    }
    assert (found.state, waiting_message(found.questions)) == (None, "Waiting for 2 answers")


async def test_a_policy_says_who_is_asked_but_never_a_client_that_cannot_answer(workshops: Pool) -> None:
    found = asked(
        await call(workshops, "ask_two", client_capabilities={"elicitation": {}}, question_audience=Audience.CLIENT)
    )
    assert {question.key: question.audience for question in found.questions} == {
        "word": Audience.CLIENT,
        "roots": Audience.OPERATOR,
    }


async def test_an_answer_without_the_shape_of_one_is_left_out_and_asked_for_again(workshops: Pool) -> None:
    first = asked(await call(workshops, "ask"))
    again = asked(await call(workshops, "ask", answers={"word": {"sure": 1}}, upstream_state=first.state))
    assert again.questions[0].params["message"] == "Which word, after ''?"


@pytest.mark.parametrize(
    ("tool", "arguments", "why"),
    [
        ("ask_for_an_object", {}, "the tool asked with a form nobody can draw: Field 'tree'"),
        (
            "ask_to_open",
            {"url": "https://evil.example\\@github.com/"},
            "the tool asked to open an address that nobody should open: it holds a backslash",
        ),
        (
            "ask_to_open",
            {"url": "https://github.com@evil.example/"},
            "the tool asked to open an address that nobody should open: it names a user before the host",
        ),
        (
            "ask_to_open",
            {"url": "https://github.com\u202e/"},
            "the tool asked to open an address that nobody should open: it holds the invisible character U+202E",
        ),
        ("ask_oddly", {"what": "huge"}, "the tool asked something that nobody can be shown: a number is out of range"),
        ("ask_oddly", {"what": "deep"}, "the tool asked something that nobody can be shown: nested deeper than 64"),
        ("ask_oddly", {"what": "long"}, "the tool asked with a form nobody can draw: Field 'n' wants more than"),
        ("ask_oddly", {"what": "large"}, "the tool asked with a form nobody can draw: Its schema is larger than"),
        ("ask_at_length", {"size": 70_000}, "the tool asked something that nobody can be shown: the message is longer"),
        ("ask_under", {"keys": ["a\0b"]}, "the tool asked under a key that holds U+0000 or is longer than 256"),
        ("ask_under", {"keys": ["x" * 257]}, "the tool asked under a key that holds U+0000 or is longer than 256"),
        ("ask_many", {"count": 17}, "the tool asked 17 questions at once; at most 16 are allowed"),
    ],
)
async def test_what_nobody_could_answer_is_an_error(
    workshops: Pool, tool: str, arguments: dict[str, Any], why: str
) -> None:
    assert broken(await call(workshops, tool, arguments)).startswith(why)


async def test_a_tool_that_wants_only_to_be_called_again_is_called_again(
    workshops: Pool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "PAUSES", (0.01,) * 3)
    assert text(await call(workshops, "call_again", {"times": 3})) == "round 3, nothing answered"
    found = asked(await call(workshops, "call_again", {"times": 2, "ask": True}))
    assert found.state is not None
    done = await call(
        workshops,
        "call_again",
        {"times": 2, "ask": True},
        answers={"word": accept("x")},
        upstream_state=found.state,
    )
    assert text(done) == "round 2, answered"


async def test_a_question_asked_again_after_such_a_round_gets_another_key(
    workshops: Pool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "PAUSES", (0.01,))
    arguments = {"times": 1, "ask": True}
    again = asked(await call(workshops, "call_again", arguments, answers={"word": accept("x")}, epoch=4))
    assert [question.key for question in again.questions] == ["word~4"]


async def test_a_tool_that_wants_it_for_ever_is_given_up(workshops: Pool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "PAUSES", (0.01,) * 9)
    words = "the tool asked for nothing but another call, 10 times"
    assert broken(await call(workshops, "wait_without_question")) == words


async def test_a_command_serves_others_before_it_is_called_again() -> None:
    async with kit.pool_of(kit.COMMAND, most=1) as pool:
        waiting = asyncio.create_task(call(pool, "call_again", {"times": 1}))
        await kit.until(pool._room.locked, "its first round")
        assert text(await call(pool, "echo", {"text": "meanwhile"})) == "meanwhile"
        assert not waiting.done()
        assert text(await waiting) == "round 1, nothing answered"


async def test_questions_have_keys_of_their_own_whatever_the_tool_calls_them(workshops: Pool) -> None:
    long = "x" * 60
    digest = hashlib.sha256(long.encode()).hexdigest()[:32]
    for keys in ([long, digest, f"{digest}~"], [digest, f"{digest}~", long]):
        questions = asked(await call(workshops, "ask_under", {"keys": keys})).questions
        assert len({question.key for question in questions}) == 3
        assert [question.upstream_key for question in questions] == keys


async def test_as_many_questions_as_allowed_are_asked(workshops: Pool) -> None:
    assert len(asked(await call(workshops, "ask_many", {"count": 16})).questions) == 16


async def test_an_old_servers_question_is_answered_in_the_middle_of_its_call() -> None:
    heard: list[tuple[QuestionKind, dict[str, Any]]] = []

    async def ask(kind: QuestionKind, params: dict[str, Any]) -> dict[str, Any]:
        heard.append((kind, params))
        return accept("done")

    async with kit.pool_of(kit.OLD) as pool:
        reply = text(await call(pool, "ask", ask=ask))
    assert reply == '{"action": "accept", "content": {"word": "done"}}'
    ((kind, params),) = heard
    assert kind is QuestionKind.ELICITATION
    assert (params["message"], params["requestedSchema"]) == ("Which word?", WORD)


async def test_an_old_servers_question_that_cannot_be_asked_is_refused_and_the_call_goes_on() -> None:
    async def refuse(kind: QuestionKind, params: dict[str, Any]) -> dict[str, Any]:
        raise ValueError("not with me")

    async with kit.pool_of(kit.OLD) as pool:
        reply = text(await call(pool, "ask", ask=refuse))
        assert "accept" not in reply
        assert text(await call(pool, "echo", {"text": "still here"})) == "still here"
    assert gates.starts == []

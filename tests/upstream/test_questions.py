"""Questions that a tool asks during a call: each becomes a plain record, and its answer brings the tool on."""

from __future__ import annotations

import asyncio
import hashlib
import json
from typing import Any

import pytest

from taskhub.core.states import Audience, QuestionKind
from taskhub.upstream import call as module
from taskhub.upstream.call import waiting_message
from taskhub.upstream.outcomes import Asked, CallOutcome
from taskhub.upstream.pool import Pool
from tests.upstream import kit
from tests.upstream.kit import call, text
from tests.upstream.servers import gates
from tests.upstream.test_call import broken

WORD = {"type": "object", "properties": {"word": {"type": "string"}}}


def asked(outcome: CallOutcome) -> Asked:
    assert isinstance(outcome, Asked), outcome
    return outcome


def accept(word: str) -> dict[str, Any]:
    return {"action": "accept", "content": {"word": word}}


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


async def test_what_only_the_caller_may_answer_is_not_declared_where_it_cannot(workshops: Pool) -> None:
    able: dict[str, Any] = {"elicitation": {}}
    for _ in range(2):  # through the SDK's client, and by a single request
        assert text(await call(workshops, "declared", only_caller=True)) == ""
        assert text(await call(workshops, "declared", only_caller=True, client_capabilities=able)) == "elicitation"
        assert text(await call(workshops, "declared")) == "elicitation"


async def test_a_tool_that_asks_all_the_same_has_failed(workshops: Pool) -> None:
    policy: dict[str, Any] = {"only_caller": True, "question_audience": Audience.CLIENT}
    assert "made a request, elicitation/create, that its caller cannot serve" in broken(
        await call(workshops, "ask", **policy)
    )
    (question,) = asked(await call(workshops, "ask", **policy, client_capabilities={"elicitation": {}})).questions
    assert question.audience is Audience.CLIENT


async def test_an_older_server_is_refused_at_once() -> None:
    policy: dict[str, Any] = {"only_caller": True, "question_audience": Audience.CLIENT}
    refused = {"code": -32601, "message": "The caller of this tool has no means for elicitation by form"}

    async def ask(kind: QuestionKind, params: dict[str, Any]) -> dict[str, Any]:
        return accept("blue")

    async with kit.pool_of(kit.OLD) as pool:
        assert json.loads(text(await call(pool, "ask", **policy))) == refused
        links = {"elicitation": {"url": {}}}
        assert json.loads(text(await call(pool, "ask", **policy, client_capabilities=links))) == refused
        able: dict[str, Any] = {"elicitation": {}}
        found = json.loads(text(await call(pool, "ask", ask=ask, **policy, client_capabilities=able)))
        assert found["action"] == "accept"

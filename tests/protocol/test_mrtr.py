"""Rounds of questions before a result: `input_required` with our own sealed `requestState`."""

from __future__ import annotations

import os
from typing import Any

import pytest

from taskhub.lib.signing import Signer
from tests.support.client import (
    EVERYTHING,
    FORMS,
    NONE,
    TASKS,
    WITHOUT_TASKS,
    Answer,
    Client,
    accept,
)
from tests.support.hub import RunningHub

pytestmark = pytest.mark.processes

ELICIT = "test_input_required_result_elicitation"
SAMPLED = {"role": "assistant", "content": {"type": "text", "text": "Paris"}, "model": "m"}
ROOTS = {"roots": [{"uri": "file:///srv"}]}


def _ask(client: Client, tool: str, caps: dict[str, Any] | None = None, **arguments: Any) -> Answer:
    answer = client.tool(tool, arguments, caps=WITHOUT_TASKS if caps is None else caps)
    assert answer.result["resultType"] == "input_required", answer.result
    return answer


def _retry(
    client: Client, tool: str, asked: Answer, responses: Any, caps: dict[str, Any] | None = None, **arguments: Any
) -> Answer:
    params = {"inputResponses": responses, "requestState": asked.result["requestState"]}
    return client.tool(tool, arguments, caps=WITHOUT_TASKS if caps is None else caps, params=params)


@pytest.mark.req("B26-60", "B26-61", "B26-63", "B26-67", "B26-41")
def test_a_question_and_its_answer(alice: Client) -> None:
    asked = _ask(alice, ELICIT)
    assert list(asked.result["inputRequests"]) == ["user_name"]
    params = asked.result["inputRequests"]["user_name"]["params"]
    assert params["message"] == "What is your name?"
    assert "taskId" not in asked.result
    assert _retry(alice, ELICIT, asked, {"user_name": accept(name="Ada")}).text == "Hello, Ada!"


@pytest.mark.req("B26-63", "B26-13")
def test_any_connection_can_bring_the_answer(hub: RunningHub, alice: Client) -> None:
    asked = _ask(alice, ELICIT)
    with Client(hub.base, alice.token) as other:
        assert _retry(other, ELICIT, asked, {"user_name": accept(name="Ada")}).text == "Hello, Ada!"


@pytest.mark.req("B26-61", "B26-67")
def test_every_kind_of_question_comes_through(alice: Client) -> None:
    tool = "test_input_required_result_multiple_inputs"
    asked = _ask(alice, tool)
    found = {key: request["method"] for key, request in asked.result["inputRequests"].items()}
    assert found == {
        "user_name": "elicitation/create",
        "greeting": "sampling/createMessage",
        "client_roots": "roots/list",
    }
    answers = {"user_name": accept(name="Ada"), "greeting": SAMPLED, "client_roots": ROOTS}
    assert _retry(alice, tool, asked, answers).text == "Paris Ada has 1 root(s)"


@pytest.mark.req("B26-65")
def test_what_is_still_missing_is_asked_again(alice: Client) -> None:
    tool = "test_input_required_result_multiple_inputs"
    asked = _ask(alice, tool)
    again = _retry(alice, tool, asked, {"greeting": SAMPLED, "unknown": accept(x=1)})
    assert set(again.result["inputRequests"]) == {"user_name", "client_roots"}
    done = _retry(alice, tool, again, {"user_name": accept(name="Ada"), "client_roots": ROOTS})
    assert done.text == "Paris Ada has 1 root(s)"


@pytest.mark.parametrize("responses", [{}, {"wrong": accept(name="x")}])
@pytest.mark.req("B26-65")
def test_an_answer_to_something_else_asks_again(alice: Client, responses: dict[str, Any]) -> None:
    asked = _ask(alice, ELICIT)
    again = _retry(alice, ELICIT, asked, responses)
    assert again.result["inputRequests"] == asked.result["inputRequests"]


@pytest.mark.parametrize("responses", [None, [], {"user_name": 12345}, {"user_name": {"action": "x"}}])
@pytest.mark.req("B26-65")
def test_an_answer_of_the_wrong_shape_never_completes_a_call(alice: Client, responses: Any) -> None:
    asked = _ask(alice, ELICIT)
    assert _retry(alice, ELICIT, asked, responses).refusal == (200, -32602)
    assert _retry(alice, ELICIT, asked, {"user_name": accept(name="Ada")}).text == "Hello, Ada!"


@pytest.mark.req("B26-63")
def test_an_answer_may_come_with_the_first_call(alice: Client) -> None:
    answer = alice.tool(ELICIT, caps=FORMS, params={"inputResponses": {"user_name": accept(name="Ada"), "more": {}}})
    assert answer.text == "Hello, Ada!"
    wrong = alice.tool(ELICIT, caps=FORMS, params={"inputResponses": {"user_name": accept(name=7)}})
    assert wrong.result["resultType"] == "input_required"


@pytest.mark.req("B26-61", "B26-64", "T26-30")
def test_several_rounds_each_with_a_state_of_its_own(alice: Client) -> None:
    tool = "test_input_required_result_multi_round"
    first = _ask(alice, tool)
    second = _retry(alice, tool, first, {"step1": accept(name="Ada")})
    assert set(second.result["inputRequests"]) == {"step2"}
    assert second.result["requestState"] != first.result["requestState"]
    assert _retry(alice, tool, second, {"step2": accept(color="green")}).text == "Ada likes green"


@pytest.mark.req("B26-64")
def test_the_servers_own_state_never_reaches_the_client(alice: Client) -> None:
    asked = _ask(alice, "test_input_required_result_request_state")
    assert "state-of-round-1" not in asked.body.decode()
    assert (
        "state-ok"
        in _retry(alice, "test_input_required_result_request_state", asked, {"confirm": accept(ok=True)}).text
    )


@pytest.mark.req("B26-64")
def test_a_state_that_was_changed_is_refused(alice: Client) -> None:
    tool = "test_input_required_result_tampered_state"
    asked = _ask(alice, tool)
    state: str = asked.result["requestState"]
    middle = len(state) // 2
    changed = [
        state + "-TAMPERED",
        state[:-1],
        state[1:],
        state[:middle] + ("A" if state[middle] != "A" else "B") + state[middle + 1 :],
        state + "=",
        state.swapcase(),
        "",
        "x",
        "ü",
        "\u0000",
    ]
    for wrong in changed:
        answer = alice.tool(
            tool, caps=FORMS, params={"inputResponses": {"confirm": accept(ok=True)}, "requestState": wrong}
        )
        assert answer.refusal == (200, -32602), wrong
    assert "state-ok" in _retry(alice, tool, asked, {"confirm": accept(ok=True)}).text


@pytest.mark.req("B26-64")
def test_a_state_of_another_call_or_caller_is_refused(alice: Client, bob: Client) -> None:
    tool = "test_elicitation"
    asked = _ask(alice, tool, message="Who?")
    answers = {"response": accept(username="ada", email="a@example.com")}
    assert _retry(bob, tool, asked, answers, message="Who?").refusal == (200, -32602)
    assert _retry(alice, tool, asked, answers, message="Whom?").refusal == (200, -32602)
    assert _retry(alice, ELICIT, asked, answers, message="Who?").refusal == (200, -32602)
    assert "User response" in _retry(alice, tool, asked, answers, message="Who?").text


@pytest.mark.req("B26-64")
def test_a_state_past_its_time_or_sealed_for_something_else_is_refused(alice: Client) -> None:
    signer = Signer(os.environ["SECRET_KEY"].encode())
    asked = _ask(alice, ELICIT)
    inside = signer.verify("requestState", asked.result["requestState"])
    forged = [
        signer.sign("requestState", inside, seconds=-1),
        signer.sign("tools/list", inside, seconds=60),
        Signer(b"another key").sign("requestState", inside, seconds=60),
        signer.sign("requestState", None, seconds=60),
        signer.sign("requestState", ["A" * 32, *inside[1:]], seconds=60),
    ]
    for state in forged:
        params = {"inputResponses": {"user_name": accept(name="Ada")}, "requestState": state}
        assert alice.tool(ELICIT, caps=FORMS, params=params).refusal == (200, -32602)


@pytest.mark.req("B26-64", "B26-66")
def test_a_round_answered_twice_gives_the_same_result(alice: Client) -> None:
    asked = _ask(alice, ELICIT)
    assert _retry(alice, ELICIT, asked, {"user_name": accept(name="Ada")}).text == "Hello, Ada!"
    assert _retry(alice, ELICIT, asked, {"user_name": accept(name="Eve")}).text == "Hello, Ada!"


@pytest.mark.req("B26-66")
def test_a_round_nobody_answers_holds_no_worker(hub: RunningHub, alice: Client) -> None:
    _ask(alice, ELICIT)
    rows = hub.sql("SELECT state, lease_until FROM task WHERE tool_name = %s ORDER BY id DESC LIMIT 1", [ELICIT])
    assert rows == [("input_required", None)]


@pytest.mark.parametrize(
    ("caps", "keys"),
    [
        ({"sampling": {}}, {"greeting"}),
        ({"elicitation": {}}, {"user_name"}),
        ({"elicitation": {"form": {}}}, {"user_name"}),
        ({"elicitation": {}, "roots": {}}, {"user_name", "client_roots"}),
    ],
)
@pytest.mark.req("B26-62", "B26-13")
def test_only_what_this_very_request_declares_is_asked(alice: Client, caps: dict[str, Any], keys: set[str]) -> None:
    asked = _ask(alice, "test_input_required_result_capabilities", caps)
    assert set(asked.result["inputRequests"]) == keys


@pytest.mark.req("B26-61", "B26-62")
def test_a_page_is_offered_only_to_a_client_that_can_open_one(alice: Client) -> None:
    able = {"elicitation": {"url": {}}}
    asked = _ask(alice, "visit_page", able)
    params = asked.result["inputRequests"]["visit"]["params"]
    assert (params["mode"], params["url"]) == ("url", "https://example.com/sign-in")
    assert _retry(alice, "visit_page", asked, {"visit": {"action": "accept"}}, able).text == "Visited: accept"
    with alice.stream("tools/call", {"name": "visit_page", "arguments": {}}, caps=FORMS) as waiting:
        assert waiting.response.status_code == 200  # an operator is asked instead; leaving ends it


@pytest.mark.req("B26-83")
def test_every_kind_of_field_comes_through(alice: Client) -> None:
    asked = _ask(alice, "test_elicitation_sep1330_enums")
    fields = asked.result["inputRequests"]["response"]["params"]["requestedSchema"]["properties"]
    assert fields["titledSingle"]["oneOf"][0] == {"const": "value1", "title": "First Option"}
    assert fields["untitledMulti"]["items"] == {"type": "string", "enum": ["option1", "option2", "option3"]}
    wrong = _retry(alice, "test_elicitation_sep1330_enums", asked, {"response": accept(untitledSingle="option9")})
    assert wrong.error["data"]["pointer"] == "/inputResponses/response/content/untitledSingle"
    done = _retry(alice, "test_elicitation_sep1330_enums", asked, {"response": accept(titledMulti=["value2"])})
    assert "value2" in done.text


@pytest.mark.req("T26-47", "T26-13", "T26-29", "T26-30")
def test_the_rounds_come_first_and_then_the_task(alice: Client) -> None:
    asked = _ask(alice, "test_tool_with_task", EVERYTHING)
    created = _retry(alice, "test_tool_with_task", asked, {"user_name": accept(name="Alice")}, EVERYTHING).result
    assert created["resultType"] == "task"
    done = alice.until(created["taskId"], "completed")
    assert done["result"]["content"][0]["text"] == "Hello, Alice!"


@pytest.mark.req("T26-47", "T26-04")
def test_the_same_rounds_without_the_extension_end_in_the_result(alice: Client) -> None:
    asked = _ask(alice, "test_tool_with_task")
    done = _retry(alice, "test_tool_with_task", asked, {"user_name": accept(name="Alice")})
    assert done.text == "Hello, Alice!"


@pytest.mark.req("B26-64", "T26-20")
def test_a_state_is_no_way_around_the_extension_gate(alice: Client) -> None:
    asked = _ask(alice, ELICIT)
    params = {"inputResponses": {}, "requestState": asked.result["requestState"]}
    assert alice.tool("confirm_delete", {"filename": "x"}, caps=NONE, params=params).refusal == (400, -32021)
    assert alice.tool("confirm_delete", {"filename": "x"}, caps=TASKS, params=params).refusal == (200, -32602)

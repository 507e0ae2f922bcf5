"""A question for the client alone, where the client cannot be asked: its model is told of it in an interim result, and
answers with a tool of the hub."""

from __future__ import annotations

import json
import secrets
from collections.abc import Iterator
from typing import Any

import pytest

from tests.protocol.test_plain_calls import ANSWER, CANCEL, GET, WAIT, Start, interim_of, start, told
from tests.support.client import TASKS, Client
from tests.support.hub import RunningHub, wait_until
from tests.support.person import Person

__all__ = ["start"]

TOOL = "test_input_required_result_elicitation"
DELETES = "confirm_delete"
NAMED = {"action": "accept", "content": {"name": "Ada"}}
PATIENCE_MS = 600_000
"""Nobody waits for it here: a model is told at once."""


@pytest.fixture(autouse=True)
def _policy(hub: RunningHub) -> Iterator[None]:
    """What the tool asks is for the client alone. It is looked up at the claim."""
    change = "UPDATE tool SET question_audience = %s WHERE name = ANY (%s)"
    hub.sql(change, ["client", [TOOL, DELETES]])
    try:
        yield
    finally:
        hub.sql(change, [None, [TOOL, DELETES]])


def audience(hub: RunningHub, task: str) -> str:
    asked = "SELECT q.audience FROM question q JOIN task t ON t.id = q.task_id WHERE t.public_id = %s"
    return str(hub.sql(asked, [task])[-1][0])


def answering(text: str) -> tuple[str, dict[str, Any], dict[str, Any]]:
    """What the text of a result says to do: the tool, its arguments but for the answer, and the question's params."""
    lines = text.splitlines()
    at = next(number for number, line in enumerate(lines) if line.startswith("It asks you (elicitation, key "))
    params = json.loads(lines[at].split("): ", 1)[1])
    name, _, rest = lines[at + 1].removeprefix("To answer, call ").partition(" with ")
    arguments, _, answer = rest.partition(" and as answer ")
    assert answer.startswith('{"action": "accept", "content": {...}} with content that fits requestedSchema')
    return name, json.loads(arguments), params


def test_it_is_told_at_once_and_answered_by_what_the_result_says(hub: RunningHub, start: Start) -> None:
    program = start(patience_ms=PATIENCE_MS)
    about = interim_of(program, program.call(TOOL))
    name, arguments, params = answering(about["text"])
    assert name == ANSWER
    assert arguments.keys() == {"task_id", "key"}
    assert arguments["task_id"] == about["task_id"]
    assert params["requestedSchema"]["required"] == ["name"]
    assert "A person is waited for" not in about["text"]
    if program.wire != "2025-03-26":
        (asked,) = about["waits_for"]
        assert (asked["from"], asked["question"]) == ("you", params)
        assert (asked["answer"]["call"], asked["answer"]["arguments"]) == (name, arguments)
    assert answering(program.call(WAIT, task_id=about["task_id"])["content"][0]["text"])[1] == arguments
    assert told(program.call(GET, task_id=about["task_id"]))["waits_for"][0]["answer"]["arguments"] == arguments

    bad = program.call(name, **arguments, answer={"action": "accept", "content": {"name": 7}})
    assert (bad["isError"], "does not fit" in bad["content"][0]["text"]) == (True, True)
    told(program.call(name, **arguments, answer=NAMED))
    assert "Ada" in json.dumps(program.call(WAIT, task_id=about["task_id"]))
    assert hub.sql(
        "SELECT e.door FROM event e JOIN task t ON t.id = e.task_id"
        " WHERE t.public_id = %s AND e.action = 'question.accept'",
        [about["task_id"]],
    ) == [("client",)]


def test_a_model_may_decline(hub: RunningHub, start: Start) -> None:
    program = start(patience_ms=PATIENCE_MS)
    about = interim_of(program, program.call(TOOL))
    name, arguments, _ = answering(about["text"])
    told(program.call(name, **arguments, answer={"action": "decline"}))
    assert "has not ended yet" not in json.dumps(program.call(WAIT, task_id=about["task_id"]))


def test_no_person_and_no_other_client_answers_it(hub: RunningHub, start: Start) -> None:
    program = start(patience_ms=PATIENCE_MS)
    about = interim_of(program, program.call(TOOL))
    _, arguments, _ = answering(about["text"])
    assert audience(hub, about["task_id"]) == "client"
    with Client(hub.base, hub.tokens["agent-b"]) as stranger:
        assert stranger.tool(ANSWER, {**arguments, "answer": NAMED}).result["isError"]
    asked = "SELECT q.id FROM question q JOIN task t ON t.id = q.task_id WHERE t.public_id = %s"
    ((question,),) = hub.sql(asked, [about["task_id"]])
    with Person(hub, "approver") as person:
        assert f'action="/inbox/{question}/answer"' not in person.read(f"/inbox/{question}/")
    program.call(CANCEL, task_id=about["task_id"])


def test_the_same_call_again_is_told_again_and_teaches_no_patience(hub: RunningHub, start: Start) -> None:
    program = start(patience_ms=None)
    first = interim_of(program, program.call(TOOL))
    again = interim_of(program, program.call(TOOL))
    assert first["task_id"] == again["task_id"]
    learned = "SELECT 1 FROM learned_patience l JOIN task t ON t.context_id = l.context_id WHERE t.public_id = %s"
    assert hub.sql(learned, [first["task_id"]]) == []
    program.call(CANCEL, task_id=first["task_id"])


def test_without_the_hubs_tools_a_person_is_asked(hub: RunningHub, start: Start) -> None:
    program = start(hub_tools=False)
    about = interim_of(program, program.call(TOOL))
    assert "A person is waited for" in about["text"]
    assert ANSWER not in about["text"]
    assert audience(hub, about["task_id"]) == "operator"


def test_a_program_that_asks_its_user_is_asked(hub: RunningHub) -> None:
    with Client(hub.base, hub.token(f"forms-{secrets.token_hex(4)}")) as client:
        asked = client.tool(TOOL, caps={"elicitation": {}}).result
        assert asked["resultType"] == "input_required"
        answers = {"inputResponses": dict.fromkeys(asked["inputRequests"], NAMED)}
        params = {**answers, "requestState": asked["requestState"]}
        assert "Ada" in json.dumps(client.tool(TOOL, caps={"elicitation": {}}, params=params).result)


def test_a_client_with_tasks_that_cannot_be_asked_leaves_it_to_people(hub: RunningHub) -> None:
    with Client(hub.base, hub.tokens["agent-a"]) as client:
        made = client.create(DELETES, {"filename": "f"}, caps=TASKS)
        asks = "SELECT 1 FROM task WHERE public_id = %s AND state = 'input_required'"
        wait_until(lambda: hub.sql(asks, [made]), "the question")
        assert audience(hub, made) == "operator"
        client.cancel(made)

"""A question that a client's program declines by itself goes to people, where the tool's policy says so."""

from __future__ import annotations

import contextlib
import secrets
from collections.abc import Iterator
from typing import Any

import pytest

from tests.support.client import FORMS, TASKS, Client
from tests.support.hub import RunningHub, wait_until
from tests.support.person import Person, question_at
from tests.support.session import SessionClient

TOOL = "test_input_required_result_elicitation"
DELETES = "confirm_delete"
DECLINED = {"action": "decline"}
PAGES: dict[str, Any] = {"elicitation": {"form": {}, "url": {}}}


@pytest.fixture
def policy(hub: RunningHub) -> Iterator[None]:
    """What a program declines goes to people. It is looked up when the program does."""
    change = "UPDATE tool SET people_after_program = %s WHERE name = ANY (%s)"
    hub.sql(change, [True, [TOOL, DELETES]])
    try:
        yield
    finally:
        hub.sql(change, [False, [TOOL, DELETES]])


@pytest.fixture
def hasty(hub: RunningHub) -> str:
    """A token of a client whose patience is a second."""
    client = f"declines-{secrets.token_hex(4)}"
    token = hub.token(client)
    hub.sql("UPDATE auth_context SET patience_ms = 1000 WHERE name = %s", [client])
    return token


def passed_on(hub: RunningHub) -> int:
    """The question that went to people last."""
    found = hub.sql(
        "SELECT q.id FROM event e JOIN question q ON q.task_id = e.task_id WHERE e.action = 'question.passed.on'"
        " AND q.state = 'open' AND q.audience = 'operator' ORDER BY e.id DESC LIMIT 1"
    )
    return int(found[0][0]) if found else 0


def answered_by_a_person(hub: RunningHub, field: str = "Ada") -> None:
    question = wait_until(lambda: passed_on(hub), "people to be asked")
    with Person(hub, "approver") as person:
        person.answer(question, f0=field)


def _answer(asked: dict[str, Any]) -> dict[str, Any]:
    """The parameters of the next round: all declined."""
    return {"inputResponses": dict.fromkeys(asked["inputRequests"], DECLINED), "requestState": asked["requestState"]}


@pytest.mark.req("B26-63", "B26-67")
def test_a_round_that_is_declined_at_once_is_answered_by_people(hub: RunningHub, policy: None, hasty: str) -> None:
    with Client(hub.base, hasty) as client:
        asked = client.tool(TOOL, {}, caps=FORMS).result
        interim = client.tool(TOOL, {}, caps=FORMS, params=_answer(asked)).result
        assert "Waiting for an answer by an operator" in str(interim)
        answered_by_a_person(hub)
        wait_until(lambda: "Ada" in str(client.tool(TOOL, {}, caps=FORMS).result), "the result")


@pytest.mark.req("B26-61", "B26-67")
def test_a_program_that_opens_pages_is_then_asked_to_open_that_of_the_question(
    hub: RunningHub, policy: None, hasty: str
) -> None:
    with Client(hub.base, hasty) as client:
        asked = client.tool(TOOL, {}, caps=PAGES).result
        again = client.tool(TOOL, {}, caps=PAGES, params=_answer(asked)).result
        ((key, request),) = again["inputRequests"].items()
        question = passed_on(hub)
        assert key.startswith("page-")
        assert question_at(hub, request["params"]["url"]) == question
        assert "asks something that only people answer" in request["params"]["message"]
        client.tool(TOOL, {}, caps=PAGES, params=_answer(again))
        answered_by_a_person(hub)
        wait_until(lambda: "Ada" in str(client.tool(TOOL, {}, caps=PAGES).result), "the result")


@pytest.mark.req("T26-22", "T26-32", "T26-36")
def test_a_task_whose_question_is_declined_at_once_works_on_until_people_answered(
    hub: RunningHub, policy: None, hasty: str
) -> None:
    with Client(hub.base, hasty) as client:
        task = client.create(DELETES, {"filename": "notes.txt"}, caps={**TASKS, **FORMS})
        found = client.until(task, "input_required")
        client.update(task, dict.fromkeys(found["inputRequests"], DECLINED))
        assert client.get(task).result["status"] == "working"
        # Another process of the program had been asked as well.
        client.update(task, dict.fromkeys(found["inputRequests"], DECLINED))
        answered_by_a_person(hub, "true")
        assert "Deleted notes.txt" in str(client.until(task, "completed"))


@pytest.mark.req("B25-21", "B25-10")
def test_a_request_that_is_declined_at_once_is_answered_by_people(hub: RunningHub, policy: None) -> None:
    token = hub.token(f"declines-{secrets.token_hex(4)}")
    with contextlib.ExitStack() as stack:
        session = stack.enter_context(SessionClient(hub.base, token, caps=FORMS))
        events = stack.enter_context(session.open("tools/call", {"name": TOOL, "arguments": {}}))
        session.respond(events.until("elicitation/create"), DECLINED)
        answered_by_a_person(hub)
        *others, answer = events.rest()
        assert [message["method"] for message in others] == []
        assert "Ada" in str(answer["result"])


@pytest.mark.req("B26-67")
def test_without_the_policy_it_is_an_answer(hub: RunningHub, hasty: str) -> None:
    with Client(hub.base, hasty) as client:
        asked = client.tool(TOOL, {}, caps=FORMS).result
        assert client.tool(TOOL, {}, caps=FORMS, params=_answer(asked)).result["resultType"] == "complete"
    assert passed_on(hub) == 0

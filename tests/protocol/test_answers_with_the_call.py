"""Answers that come with the first call: whose questions they answer, and what is left on record."""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from typing import Any

import pytest

from tests.support.client import FORMS, TASKS, Client, accept
from tests.support.hub import RunningHub, wait_until
from tests.support.sep_2557_client import Historical

pytestmark = pytest.mark.processes

TOOL = "test_input_required_result_elicitation"
GIVEN = {"inputResponses": {"user_name": accept(name="Ada")}}
BOTH = {**TASKS, **FORMS}
# A tool whose calls are tasks at once, and the answer to what it asks.
TASK = "confirm_delete"
CALL = {"filename": "a.txt"}
SURE = {"inputResponses": {"confirm": accept(confirm=True)}}


@pytest.fixture(scope="module")
def narrow(hub: RunningHub) -> str:
    return hub.token(f"narrow-{secrets.token_hex(4)}", "tasks:call", "tasks:read")


@pytest.fixture
def for_people(hub: RunningHub) -> Iterator[None]:
    """The tool's questions are for people only."""
    set_audience(hub, "operator")
    yield
    set_audience(hub, None)


def set_audience(hub: RunningHub, audience: str | None) -> None:
    hub.sql("UPDATE tool SET question_audience = %s WHERE name = %s", [audience, TASK])


def decisions(hub: RunningHub) -> list[tuple[Any, ...]]:
    """Those of the latest task."""
    return hub.sql(
        "SELECT d.door, d.verdict, d.reason FROM decision d JOIN question q ON q.id = d.question_id"
        " WHERE q.task_id = (SELECT max(id) FROM task)"
    )


def asked(hub: RunningHub, public_id: str) -> list[tuple[Any, ...]]:
    return hub.sql(
        "SELECT q.audience, q.state, t.state FROM question q JOIN task t ON t.id = q.task_id WHERE t.public_id = %s",
        [public_id],
    )


def calls_of(hub: RunningHub) -> int:
    return int(hub.sql("SELECT count(*) FROM task")[0][0])


@pytest.mark.req("B26-63")
def test_they_are_on_record_as_the_clients_decision(hub: RunningHub, alice: Client) -> None:
    assert alice.tool(TOOL, caps=FORMS, params=GIVEN).text == "Hello, Ada!"
    assert decisions(hub) == [("client", "accept", "Came with the call")]


@pytest.mark.req("AU-04", "B26-63")
def test_a_token_that_may_not_answer_may_not_bring_them(hub: RunningHub, narrow: str) -> None:
    before = calls_of(hub)
    with Client(hub.base, narrow) as client:
        refused = client.tool(TOOL, caps=FORMS, params=GIVEN)
        assert (refused.status, 'scope="tasks:answer"' in refused.headers["www-authenticate"]) == (403, True)
        assert calls_of(hub) == before
        assert client.tool(TOOL, caps=FORMS).result["resultType"] == "input_required"
    with Historical(hub.base, narrow) as historical:
        refused = historical.tool(TOOL, caps=FORMS, params=GIVEN)
        assert (refused.status, 'scope="tasks:answer"' in refused.headers["www-authenticate"]) == (403, True)


@pytest.mark.req("B26-62", "B26-63")
def test_a_client_that_declares_no_forms_answers_none(hub: RunningHub, alice: Client) -> None:
    task_id = alice.create(TASK, CALL, caps=TASKS, params=SURE)
    assert wait_until(lambda: asked(hub, task_id), "the question") == [("operator", "open", "input_required")]
    assert alice.get(task_id).result["status"] == "working"
    assert decisions(hub) == []


@pytest.mark.usefixtures("for_people")
@pytest.mark.req("B26-63")
def test_a_question_for_people_is_not_answered_by_the_call(hub: RunningHub, alice: Client) -> None:
    for task_id in (alice.create(TASK, CALL, caps=BOTH, params=SURE), _historical(hub, alice)):
        assert wait_until(lambda made=task_id: asked(hub, made), "the question") == [
            ("operator", "open", "input_required")
        ]
        assert decisions(hub) == []


def _historical(hub: RunningHub, alice: Client) -> str:
    with Historical(hub.base, alice.token) as client:
        return str(client.create(TASK, CALL, caps=FORMS, params=SURE)["taskId"])

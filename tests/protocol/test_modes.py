"""A tool's mode, as callers with and without tasks meet it in each revision."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.support.client import FORMS, TASKS, Client
from tests.support.hub import RunningHub, wait_until
from tests.support.person import Person
from tests.support.policies import approval_wanted
from tests.support.sep_1686_client import Historical as Of1686
from tests.support.sep_2557_client import Historical
from tests.support.session import SessionClient

VERSIONS = ("2025-11-25", "2025-06-18", "2025-03-26")
OF_2025: dict[str, Any] = {"tasks": {}}
NEEDS_A_TASK = "failing_job"
ALIKE = {NEEDS_A_TASK, "protocol_error_job", "confirm_delete", "multi_input"}
WAITS = "Waiting for approval by ops, 0 of 1"


def names(listed: list[dict[str, Any]]) -> set[str]:
    return {tool["name"] for tool in listed}


@pytest.fixture
def approved(hub: RunningHub) -> Iterator[None]:
    """Calls of `signed` wait for one of ops."""
    with approval_wanted(hub, "signed", {}, group="ops"):
        yield


def question(hub: RunningHub) -> int:
    """The approval that is open."""
    asked = "SELECT id FROM question WHERE kind = 'approval' AND state = 'open' ORDER BY id DESC LIMIT 1"
    found: int = wait_until(lambda: hub.sql(asked), "the approval to be asked for")[0][0]
    return found


# Always: a handle at once, where there can be one --------------------------------------------


@pytest.mark.parametrize("caps", [{}, FORMS, OF_2025], ids=["nothing", "forms", "tasks of 2025"])
@pytest.mark.req("T26-04", "T26-08")
def test_who_declares_no_tasks_waits_for_a_tool_that_is_always_a_task(alice: Client, caps: dict[str, Any]) -> None:
    assert "lengthy" in names(alice.call("tools/list", caps=caps).result["tools"])
    found = alice.tool("lengthy", caps=caps, meta={"progressToken": "p"})
    assert (found.text, found.streamed) == ("Took a while", True)
    assert [note["params"]["message"] for note in found.notifications] == ["begun", "through"]
    assert alice.tool("lengthy", {"seconds": 0}, caps=caps).text == "Took a while"


@pytest.mark.req("T26-12")
def test_who_declares_tasks_has_its_handle_before_the_tool_could_end(alice: Client) -> None:
    assert alice.tool("lengthy", {"seconds": 0}, caps=TASKS).result["resultType"] == "task"


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.req("T25-04", "T25-05", "T25-06")
def test_on_a_session_such_a_tool_may_be_a_task_and_need_not(hub: RunningHub, version: str) -> None:
    with SessionClient(hub.base, hub.tokens["agent-a"], version=version) as session:
        tools = {tool["name"]: tool for tool in session.call("tools/list").result["tools"]}
        assert tools["lengthy"].get("execution") == ({"taskSupport": "optional"} if version == VERSIONS[0] else None)
        found = session.tool("lengthy", _meta={"progressToken": "p"})
        assert found.text == "Took a while"
        assert [note["params"]["message"] for note in found.notifications] == ["begun", "through"]
        if version == VERSIONS[0]:
            assert session.until(session.create("lengthy", {"seconds": 0}), "completed")


@pytest.mark.req("T1686-01", "T2557-01")
def test_in_the_proposals_such_a_tool_is_a_task(hub: RunningHub) -> None:
    with SessionClient(hub.base, hub.tokens["agent-a"], version=VERSIONS[1]) as session:
        old = Of1686(session)
        old.start("always", "lengthy", {"seconds": 0})
        old.until("always", "completed")
    with Historical(hub.base, hub.tokens["agent-a"]) as ann:
        assert ann.create("lengthy", {"seconds": 0})["taskId"]


# Required: a task or nothing -----------------------------------------------------------------


@pytest.mark.parametrize("caps", [{}, FORMS, OF_2025], ids=["nothing", "forms", "tasks of 2025"])
@pytest.mark.req("T26-05", "T26-08")
def test_a_tool_that_requires_a_task_is_listed_to_requests_that_declare_tasks(
    alice: Client, caps: dict[str, Any]
) -> None:
    for _ in range(2):  # the second answer comes from the cache
        with_tasks = alice.call("tools/list", caps=TASKS).result["tools"]
        without = alice.call("tools/list", caps=caps).result["tools"]
        assert NEEDS_A_TASK in names(with_tasks)
        assert names(with_tasks) - names(without) == {
            NEEDS_A_TASK,
            "protocol_error_job",
            "confirm_delete",
            "multi_input",
        }
        theirs = [tool["name"] for tool in without if not tool["name"].startswith("taskhub_")]
        assert [tool["name"] for tool in with_tasks if tool["name"] in names(without)] == theirs
    assert alice.tool(NEEDS_A_TASK, caps=caps).refusal == (400, -32021)


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.req("T25-04", "T25-06")
def test_on_a_session_it_is_listed_where_the_client_declared_tasks(hub: RunningHub, version: str) -> None:
    for caps in ({}, OF_2025):
        with SessionClient(hub.base, hub.tokens["agent-a"], version=version, caps=caps) as session:
            tools = {tool["name"]: tool for tool in session.call("tools/list").result["tools"]}
            assert (NEEDS_A_TASK in tools) == (bool(caps) and version == VERSIONS[0])
            assert session.tool(NEEDS_A_TASK).refusal == (200, -32601)
            if NEEDS_A_TASK in tools:
                assert tools[NEEDS_A_TASK]["execution"] == {"taskSupport": "required"}
            if version == VERSIONS[0]:  # who asks for a task has tasks, declared or not
                assert session.until(session.create(NEEDS_A_TASK), "failed")


@pytest.mark.req("T1686-01", "T1686-03", "T2557-02", "T2557-03")
def test_in_the_proposals_it_is_a_task_like_any_other(hub: RunningHub) -> None:
    with SessionClient(hub.base, hub.tokens["agent-a"], version=VERSIONS[1]) as session:
        old = Of1686(session)
        old.start("required", NEEDS_A_TASK)
        old.until("required", "completed")
    with Historical(hub.base, hub.tokens["agent-a"]) as ann:
        assert NEEDS_A_TASK in names(ann.call("tools/list").result["tools"])
        assert ann.create(NEEDS_A_TASK)["taskId"]


# Who waits is told for whom ------------------------------------------------------------------


def told(notes: list[dict[str, Any]]) -> list[str]:
    """What the notes say, of one token, their numbers going up."""
    assert {(note["method"], note["params"]["progressToken"]) for note in notes} == {("notifications/progress", "p")}
    numbers = [note["params"]["progress"] for note in notes]
    assert numbers == sorted(set(numbers)), numbers
    assert [int(number) for number in numbers] == [0, 0, 1]
    return [note["params"]["message"] for note in notes]


@pytest.mark.req("B26-80")
def test_a_waiting_caller_with_a_token_hears_who_is_waited_for(hub: RunningHub, alice: Client, approved: None) -> None:
    with alice.stream("tools/call", {"name": "signed", "arguments": {}}, meta={"progressToken": "p"}) as stream:
        notes = [stream.next()]
        assert notes[0]["params"]["message"] == WAITS
        with Person(hub, "approver") as person:
            person.decide(question(hub))
        notes += [stream.next(), stream.next()]
        assert stream.next()["result"]["content"][0]["text"] == "Signed"
    assert told(notes) == [WAITS, "begun", "through"]


@pytest.mark.req("B25-25")
def test_so_does_one_on_a_session_also_after_it_took_its_stream_up_again(hub: RunningHub, approved: None) -> None:
    with SessionClient(hub.base, hub.tokens["agent-a"]) as session:
        params = {"name": "signed", "arguments": {}, "_meta": {"progressToken": "p"}}
        with session.open("tools/call", params, id=7) as events:
            first = events.next()
            last = events.last_id
        with session.listen(last, of=("tools/call", params, 7)) as events:
            again = events.next()
            assert first["params"]["message"] == again["params"]["message"] == WAITS
            assert again["params"]["progress"] > first["params"]["progress"]
            with Person(hub, "approver") as person:
                person.decide(question(hub))
            notes = [again, events.next(), events.next()]
            assert events.next()["result"]["content"][0]["text"] == "Signed"
        assert told(notes) == [WAITS, "begun", "through"]


@pytest.mark.req("B26-80", "B25-25")
def test_without_a_token_nobody_hears_anything(hub: RunningHub, alice: Client, approved: None) -> None:
    with alice.stream("tools/call", {"name": "signed", "arguments": {}}) as stream, Person(hub, "approver") as person:
        person.decide(question(hub), "reject", "Not today")
        assert "not approved" in stream.next()["result"]["content"][0]["text"]

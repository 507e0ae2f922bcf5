"""Streams of a session: what comes on them, on which one, and how they are taken up again (B25-11..25)."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest

from tests.protocol.v2025_11_25.conftest import Start
from tests.support.hub import RunningHub, wait_until
from tests.support.session import EVERYTHING, Events, SessionClient

pytestmark = pytest.mark.processes

ASK = {"name": "test_elicitation", "arguments": {"message": "Who?"}}
WHO = {"action": "accept", "content": {"username": "Ann", "email": "ann@example.com"}}
NUMBER = {"_meta": {"progressToken": "p"}}


def _slow(seconds: float, label: str = "", **params: Any) -> dict[str, Any]:
    return {"name": "slow_compute", "arguments": {"seconds": seconds, "label": label}, **params}


def _state(hub: RunningHub, label: str) -> str:
    found = hub.sql("SELECT state FROM task WHERE arguments ->> 'label' = %s ORDER BY id DESC LIMIT 1", [label])
    return str(found[0][0])


@pytest.mark.req("B25-11", "B25-12", "B25-25")
def test_a_stream_begins_with_an_id_and_ends_with_the_response(session: SessionClient) -> None:
    with session.open("tools/call", _slow(1.2, **NUMBER)) as events:
        first = events.event()
        assert first is not None
        assert (first.message, bool(first.id), first.retry) == (None, True, 4_000)
        messages = events.rest()
    assert [message["params"]["progressToken"] for message in messages[:-1]] == ["p"] * (len(messages) - 1)
    steps = [message["params"]["progress"] for message in messages[:-1]]
    assert len(steps) >= 2
    assert steps == sorted(set(steps))
    assert messages[-1]["result"]["content"][0]["text"] == "Computed something in 1.2 s"


@pytest.mark.req("B25-25")
def test_no_token_no_progress(session: SessionClient) -> None:
    assert session.call("tools/call", _slow(0.6)).notifications == []
    for token in (True, 1.5, {}):
        assert session.call("tools/call", _slow(0, _meta={"progressToken": token})).refusal == (200, -32602)


@pytest.mark.req("B25-21", "B25-19", "B25-10")
def test_a_question_comes_on_the_stream_of_its_call(session: SessionClient) -> None:
    names = set()
    for _ in range(2):
        with session.open("tools/call", ASK) as events:
            request = events.until("elicitation/create")
            names.add(request["id"])
            assert "_meta" not in request["params"], "a call without a handle has no related task"
            assert session.respond(request, WHO) == 202
            text = events.until("response")["result"]["content"][0]["text"]
        assert json.loads(text.partition("content=")[2]) == WHO["content"]
    assert len(names) == 2


@pytest.mark.parametrize(
    ("tool", "method", "answer"),
    [
        (
            "test_sampling",
            "sampling/createMessage",
            {"role": "assistant", "content": {"type": "text", "text": "Paris"}, "model": "m"},
        ),
        ("test_input_required_result_list_roots", "roots/list", {"roots": [{"uri": "file:///a", "name": "a"}]}),
    ],
)
@pytest.mark.req("B25-21")
def test_every_kind_of_question_is_a_request(session: SessionClient, tool: str, method: str, answer: Any) -> None:
    arguments = {"prompt": "Capital?"} if tool == "test_sampling" else {}
    with session.open("tools/call", {"name": tool, "arguments": arguments}) as events:
        assert session.respond(events.until(method), answer) == 202
        assert events.until("response")["result"]["content"]


@pytest.mark.req("B25-21", "B25-22")
def test_a_page_to_visit_has_an_elicitation_id(session: SessionClient) -> None:
    with session.open("tools/call", {"name": "visit_page", "arguments": {}}) as events:
        request = events.until("elicitation/create")
        assert (request["params"]["mode"], bool(request["params"]["elicitationId"])) == ("url", True)
        assert session.respond(request, {"action": "accept"}) == 202
        assert events.until("response")["result"]["content"][0]["text"] == "Visited: accept"


@pytest.mark.req("B25-10", "CH-05")
def test_an_error_instead_of_an_answer_fails_the_call_with_it(session: SessionClient) -> None:
    with session.open("tools/call", ASK) as events:
        request = events.until("elicitation/create")
        assert session.respond(request, error={"code": -1, "message": "The user said no", "data": {"x": 1}}) == 202
        assert events.until("response")["error"] == {"code": -1, "message": "The user said no", "data": {"x": 1}}


@pytest.mark.req("B25-10")
def test_an_answer_that_does_not_fit_fails_the_call_and_says_where(session: SessionClient) -> None:
    with session.open("tools/call", ASK) as events:
        request = events.until("elicitation/create")
        assert session.respond(request, {"action": "accept", "content": {"username": 7}}) == 202
        error = events.until("response")["error"]
    assert error["code"] == -32602
    assert "/content/" in error["message"]


@pytest.mark.req("B25-10")
def test_only_the_session_that_was_asked_can_answer(session: SessionClient, start: Start) -> None:
    with session.open("tools/call", ASK) as events:
        request = events.until("elicitation/create")
        other = start(caps=EVERYTHING)
        assert other.respond(request, {"action": "decline"}) == 202
        assert session.respond(request, WHO) == 202
        assert session.respond(request, {"action": "decline"}) == 202, "late and ignored"
        assert "Ann" in events.until("response")["result"]["content"][0]["text"]


@pytest.mark.req("B25-13")
def test_leaving_is_not_cancelling(hub: RunningHub, session: SessionClient) -> None:
    with session.open("tools/call", _slow(1.5, "left")) as events:
        assert events.event() is not None
    assert _state(hub, "left") == "working"
    wait_until(lambda: _state(hub, "left") == "finished", "the call to finish without its caller")


@pytest.mark.req("B25-13")
def test_a_cancelled_request_gets_no_response_and_its_work_stops(hub: RunningHub, session: SessionClient) -> None:
    with session.open("tools/call", _slow(60, "unwanted"), id="mine") as events:
        assert events.event() is not None
        assert session.notify("notifications/cancelled", {"requestId": "mine", "reason": "enough"}) == 202
        assert events.rest() == []
    wait_until(lambda: _state(hub, "unwanted") == "cancelled", "the work to stop")
    for wanted in ("mine", "other", 7, None, True):
        assert session.notify("notifications/cancelled", {"requestId": wanted}) == 202


@pytest.mark.req("B25-13", "B25-19")
def test_another_sessions_request_of_the_same_id_goes_on(hub: RunningHub, session: SessionClient, start: Start) -> None:
    other = start()
    with session.open("tools/call", _slow(1, "same id"), id=77) as events:
        assert events.event() is not None
        assert other.notify("notifications/cancelled", {"requestId": 77}) == 202
        assert events.until("response")["result"]["content"]


def _of(session: SessionClient, last_id: str, params: dict[str, Any], id: object) -> Any:
    return session.listen(last_id, of=("tools/call", params, id))


@pytest.mark.req("B25-16", "B25-12")
def test_a_stream_is_taken_up_where_it_was_left(session: SessionClient) -> None:
    params = _slow(1.5, **NUMBER)
    with session.open("tools/call", params, id=5) as events:
        seen = events.until("notifications/progress")["params"]["progress"]
        last = events.last_id
    with _of(session, last, params, 5) as again:
        messages = again.rest()
    assert [m["params"]["progress"] > seen for m in messages[:-1]] == [True] * (len(messages) - 1)
    assert messages[-1]["result"]["content"][0]["text"].startswith("Computed")
    with _of(session, last, params, 5) as once_more:
        assert once_more.rest()[-1] == messages[-1], "as often as the client likes"
    with _of(session, again.last_id, params, 5) as nothing:
        assert nothing.rest() == [], "all of it was received"


@pytest.mark.req("B25-16")
def test_an_unanswered_question_comes_again_and_a_received_one_does_not(session: SessionClient) -> None:
    with session.open("tools/call", ASK, id=6) as events:
        priming = events.event()
        assert priming is not None
        request = events.until("elicitation/create")
        after = events.last_id
    with _of(session, priming.id, ASK, 6) as again:
        assert again.until("elicitation/create") == request, "the same id"
    with _of(session, after, ASK, 6) as last:
        assert session.respond(request, WHO) == 202
        assert [message.get("method") for message in last.rest()] == [None]


@pytest.mark.req("B25-15", "B25-16")
def test_who_takes_a_stream_up_ends_the_other_hold_on_it(session: SessionClient) -> None:
    params = _slow(2)
    with session.open("tools/call", params, id=8) as events:
        priming = events.event()
        assert priming is not None
        with _of(session, priming.id, params, 8) as again:
            assert "result" in again.rest()[-1]
        assert events.rest() == []


@pytest.mark.parametrize("last", ["x", "1-1-1-0-0-m-", "999999999-1-1-0-0-m", "a-b-c-d-e-f", "1" * 300])
@pytest.mark.req("B25-16")
def test_an_unknown_event_id_is_400(session: SessionClient, last: str) -> None:
    response = session.http.request("GET", session.url, headers=session.headers(last_event_id=last))
    assert response.status_code == 400


@pytest.mark.req("B25-16", "B25-06")
def test_nobody_takes_up_a_strangers_stream(session: SessionClient, stranger: SessionClient) -> None:
    with session.open("tools/call", ASK) as events:
        priming = events.event()
        assert priming is not None
        response = stranger.http.request("GET", stranger.url, headers=stranger.headers(last_event_id=priming.id))
        assert response.status_code == 400
        session.respond(events.until("elicitation/create"), {"action": "decline"})
        events.until("response")


@pytest.mark.req("B25-14", "B25-15", "T25-36")
def test_a_question_of_a_task_nobody_waits_for_comes_on_the_sessions_stream(session: SessionClient) -> None:
    with session.listen() as events:
        assert events.event() is not None
        task_id = session.create("confirm_delete", {"filename": "a"})
        request = events.until("elicitation/create")
        assert request["params"]["_meta"]["io.modelcontextprotocol/related-task"] == {"taskId": task_id}
        assert session.get(task_id).result["status"] == "input_required"
        assert session.respond(request, {"action": "accept", "content": {"confirm": True}}) == 202
        session.until(task_id, "completed")


@pytest.mark.req("B25-15", "T25-38")
def test_who_asks_for_the_result_is_not_asked_again(session: SessionClient) -> None:
    with session.listen() as events:
        assert events.event() is not None
        task_id = session.create("confirm_delete", {"filename": "e"})
        request = events.until("elicitation/create")
        with session.open("tasks/result", {"taskId": task_id}) as waiting:
            assert waiting.event() is not None
            time.sleep(0.3)  # long enough to be asked
            session.respond(request, {"action": "accept", "content": {"confirm": True}})
            assert waiting.next()["result"]["content"][0]["text"] == "Deleted e"


@pytest.mark.req("B25-15")
def test_of_two_streams_of_a_session_the_newer_speaks(session: SessionClient) -> None:
    with session.listen() as older, session.listen() as newer:
        assert older.event() is not None
        assert newer.event() is not None
        task_id = session.create("confirm_delete", {"filename": "b"})
        request = newer.until("elicitation/create")
        session.respond(request, {"action": "decline"})
        session.until(task_id, "completed")
        assert session.delete() == 204
        assert older.rest() == [], "nothing is said twice"


@pytest.mark.req("B25-16", "B25-14")
def test_a_sessions_own_stream_is_taken_up_too(session: SessionClient) -> None:
    with session.listen() as events:
        first = events.event()
        assert first is not None
        task_id = session.create("confirm_delete", {"filename": "c"})
        request = events.until("elicitation/create")
    with session.listen(first.id) as again:
        assert again.until("elicitation/create") == request
        session.respond(request, {"action": "decline"})
        _status(again, task_id, "completed")


def _status(events: Events, task_id: str, status: str) -> dict[str, Any]:
    while True:
        found: dict[str, Any] = events.until("notifications/tasks/status")["params"]
        if (found["taskId"], found["status"]) == (task_id, status):
            return found


@pytest.mark.req("T25-40", "B25-28")
def test_changed_tasks_are_told_on_the_sessions_stream(session: SessionClient, start: Start) -> None:
    other = start()
    with session.listen() as events:
        assert events.event() is not None
        foreign = other.create("failing_job")
        task_id = session.create("failing_job")
        found = _status(events, task_id, "failed")
        assert found == session.get(task_id).result
        other.until(foreign, "failed")
        second = session.create("protocol_error_job")
        told = {events.until("notifications/tasks/status")["params"]["taskId"] for _ in range(1)}
        assert told == {second}, "only this session's"


@pytest.mark.req("B25-28")
def test_a_changed_list_of_tools_is_told_once(session: SessionClient) -> None:
    with session.listen() as events:
        assert events.event() is not None
        for _ in range(2):  # add it, take it away again
            session.tool("test_trigger_tool_change")
            assert events.until("notifications/tools/list_changed") == {
                "jsonrpc": "2.0",
                "method": "notifications/tools/list_changed",
            }


@pytest.mark.req("B25-13", "B25-15", "T25-11")
def test_a_question_answered_elsewhere_is_withdrawn(hub: RunningHub, session: SessionClient) -> None:
    with session.listen() as events:
        assert events.event() is not None
        task_id = session.create("confirm_delete", {"filename": "d"})
        request = events.until("elicitation/create")
        assert session.call("tasks/cancel", {"taskId": task_id}).result["status"] == "cancelled"
        found = events.until("notifications/cancelled")
        assert found["params"]["requestId"] == request["id"]
        assert found["params"]["_meta"] == request["params"]["_meta"], "T25-11"
        assert session.respond(request, {"action": "accept", "content": {"confirm": True}}) == 202
    assert hub.sql("SELECT state FROM task WHERE public_id = %s", [task_id]) == [("cancelled",)]

"""Streams that live long, come in numbers, or are taken up more than once (B25-15, B25-16)."""

from __future__ import annotations

import time
from contextlib import ExitStack
from typing import Any, Final

import pytest

from tests.protocol.v2025_11_25.conftest import Start
from tests.protocol.v2025_11_25.test_hosted import HOSTS, _begun
from tests.support.hub import RunningHub, wait_until
from tests.support.session import EVERYTHING, Events, SessionClient

pytestmark = pytest.mark.processes

KEY: Final = "io.taskhub/idempotencyKey"
MOST: Final = 100


def _progress(events: Events) -> float:
    found: float = events.until("notifications/progress")["params"]["progress"]
    return found


def _slow(session: SessionClient, seconds: float, **params: Any) -> str:
    """A task that reports its progress under the token `p`."""
    answer = session.tool("slow_compute", {"seconds": seconds}, task={}, _meta={"progressToken": "p"}, **params)
    found: str = answer.result["task"]["taskId"]
    return found


@pytest.mark.req("T25-21")
def test_a_stream_that_has_nothing_to_say_is_kept_alive_though_its_task_is_busy(session: SessionClient) -> None:
    """Every step of the task wakes the stream; without a token none of them is told."""
    task_id = session.create("slow_compute", {"seconds": 12})
    with session.open("tasks/result", {"taskId": task_id}) as events:
        assert len(events.rest()) == 1
    assert events.keep_alives >= 1


@pytest.mark.req("B25-15", "T25-41", "B25-25")
def test_progress_goes_on_where_an_earlier_stream_was_left(session: SessionClient) -> None:
    task_id = _slow(session, 3)
    with session.open("tasks/result", {"taskId": task_id}) as events:
        _progress(events)
        told = _progress(events)
    with session.open("tasks/result", {"taskId": task_id}) as again:
        steps = [message["params"]["progress"] for message in again.rest()[:-1]]
    assert steps
    assert min(steps) > told


@pytest.mark.req("B25-15")
def test_of_two_that_wait_for_one_task_the_newer_hears_how_it_goes_and_both_get_the_result(
    session: SessionClient,
) -> None:
    task_id = _slow(session, 3)
    with session.open("tasks/result", {"taskId": task_id}) as older:
        _progress(older)
        with session.open("tasks/result", {"taskId": task_id}) as newer:
            assert len(newer.rest()) > 1
        messages = older.rest()
    # What the older had been sent before the newer was opened.
    assert len(messages) <= 2
    assert messages[-1]["result"]["content"][0]["text"].startswith("Computed")


@pytest.mark.req("B25-16")
def test_what_was_received_whole_is_not_sent_again_however_often_it_is_taken_up(session: SessionClient) -> None:
    params = {"name": "slow_compute", "arguments": {"seconds": 0.5}}
    with session.open("tools/call", params, id=5) as events:
        assert len(events.rest()) == 1
    last = events.last_id
    for _ in range(3):
        with session.listen(last, of=("tools/call", params, 5)) as again:
            assert again.rest() == []
        last = again.last_id


@pytest.mark.req("B25-16", "T25-40")
def test_a_change_that_was_told_is_not_told_again(session: SessionClient) -> None:
    with session.listen() as events:
        assert events.event() is not None
        first = session.create("failing_job")
        while events.until("notifications/tasks/status")["params"]["status"] != "failed":
            pass
    second = session.create("failing_job")
    session.until(second, "failed")
    with session.listen(events.last_id) as again:
        assert again.until("notifications/tasks/status")["params"]["taskId"] == second
    assert first != second


@pytest.mark.req("B25-16")
def test_an_event_id_of_no_time_is_400(session: SessionClient) -> None:
    with session.listen() as events:
        assert events.event() is not None
    made_up = f"{events.last_id.partition('-')[0]}-1-1-{'9' * 18}-0-m"
    response = session.http.request("GET", session.url, headers=session.headers(last_event_id=made_up))
    assert response.status_code == 400


@pytest.mark.req("T25-43")
def test_a_call_is_refused_for_want_of_room_before_it_runs_and_not_after(hub: RunningHub, start: Start) -> None:
    sessions = [start(hub.tokens["agent-b"]) for _ in range(5)]
    call = {"name": "slow_compute", "arguments": {"seconds": 0, "label": "no room"}}
    task_id = sessions[0].create("slow_compute", {"seconds": 30})
    with ExitStack() as held:
        open_ones = [held.enter_context(sessions[number % len(sessions)].listen()) for number in range(MOST)]
        assert all(events.event() is not None for events in open_ones)
        # No more of these, so that calls have room.
        session = sessions[0]
        assert session.http.request("GET", session.url, headers=session.headers()).status_code == 429
        assert sessions[0].call("tools/call", {**call, "arguments": {"seconds": 0}}).status == 200
        wait = {"taskId": task_id}
        waiting = [
            held.enter_context(sessions[number % len(sessions)].open("tasks/result", wait)) for number in range(MOST)
        ]
        assert all(events.event() is not None for events in waiting)
        refused = sessions[0].call("tools/call", call)
        assert (refused.status, refused.error["code"]) == (200, 42900)
        assert int(refused.headers["retry-after"]) > 0
    assert hub.sql("SELECT count(*) FROM task WHERE arguments ->> 'label' = 'no room'") == [(0,)]
    wait_until(lambda: sessions[0].call("tools/call", call).status == 200, "room again")
    sessions[0].call("tasks/cancel", {"taskId": task_id})


# --- two sessions of one caller


@pytest.mark.req("T25-39", "B25-15")
def test_another_session_that_waits_takes_no_question_away_and_hears_no_progress(
    session: SessionClient, start: Start
) -> None:
    other = start()
    task_id = session.create("confirm_delete", {"filename": "shared"})
    with session.open("tasks/result", {"taskId": task_id}) as mine:
        request = mine.until("elicitation/create")
        with other.open("tasks/result", {"taskId": task_id}) as theirs:
            assert theirs.event() is not None
            assert session.respond(request, {"action": "accept", "content": {"confirm": True}}) == 202
            assert [message.get("method") for message in theirs.rest()] == [None], "it cannot answer, and is not asked"
        assert mine.until("response")["result"]["content"][0]["text"] == "Deleted shared"
    busy = _slow(session, 2)
    with session.open("tasks/result", {"taskId": busy}) as mine:
        _progress(mine)
        with other.open("tasks/result", {"taskId": busy}) as theirs:
            assert len(theirs.rest()) == 1, "the token was not its own"
        assert len(mine.rest()) > 1


@pytest.mark.req("B25-15", "T25-38")
def test_a_question_goes_to_the_older_stream_as_soon_as_the_newer_is_gone(session: SessionClient) -> None:
    task_id = session.create("confirm_delete", {"filename": "handed back"})
    with session.open("tasks/result", {"taskId": task_id}) as older:
        request = older.until("elicitation/create")
        with session.open("tasks/result", {"taskId": task_id}) as newer:
            assert newer.until("elicitation/create") == request
        begun = time.monotonic()
        assert older.until("elicitation/create") == request
        assert time.monotonic() - begun < 5, "well before anybody looks by the clock"
        session.respond(request, {"action": "decline"})
        older.until("response")


@pytest.mark.req("T25-38", "B25-15")
def test_a_session_that_only_looks_alive_keeps_no_question_from_the_next(session: SessionClient, start: Start) -> None:
    task_id = session.create("confirm_delete", {"filename": "half-dead"})
    successor = start(caps=EVERYTHING)
    with session.open("tasks/result", {"taskId": task_id}) as left:  # nobody reads it any more, and nothing tells so
        request = left.until("elicitation/create")
        begun = time.monotonic()
        with successor.open("tasks/result", {"taskId": task_id}) as waiting:
            assert waiting.until("elicitation/create") == request
            assert time.monotonic() - begun < 5
            successor.respond(request, {"action": "accept", "content": {"confirm": True}})
            assert waiting.until("response")["result"]["content"][0]["text"] == "Deleted half-dead"


@pytest.mark.req("B25-15")
def test_a_call_in_the_next_session_is_asked_while_the_first_only_listens(session: SessionClient, start: Start) -> None:
    call = {"name": "test_elicitation", "arguments": {"message": "Left and joined?"}}
    successor = start(caps=EVERYTHING)
    with session.listen() as own:
        with session.open("tools/call", call) as left:
            request = left.until("elicitation/create")
        assert own.until("elicitation/create") == request
        with successor.open("tools/call", call) as waiting:
            assert waiting.until("elicitation/create") == request
            successor.respond(request, {"action": "decline"})
            assert waiting.until("response")["result"]["content"][0]["text"].startswith("User response: action=decline")


@pytest.mark.req("B25-07", "T25-38")
def test_what_a_session_that_ends_was_asked_is_asked_of_its_successor_at_once(
    session: SessionClient, start: Start
) -> None:
    task_id = session.create("confirm_delete", {"filename": "handed on"})
    successor = start(caps=EVERYTHING)
    with session.listen() as own:
        request = own.until("elicitation/create")
        with successor.open("tasks/result", {"taskId": task_id}) as waiting:
            assert waiting.event() is not None
            begun = time.monotonic()
            assert session.delete() == 204
            assert waiting.until("elicitation/create") == request
            assert time.monotonic() - begun < 5, "well before anybody looks by the clock"
            successor.respond(request, {"action": "decline"})
            waiting.until("response")


@pytest.mark.req("T25-32")
def test_a_plain_call_that_is_cancelled_leaves_the_task_whose_handle_is_out(session: SessionClient) -> None:
    meta = {KEY: "plain and cancelled"}
    arguments = {"seconds": 3, "label": "kept"}
    task_id = session.tool("slow_compute", arguments, _meta=meta, task={}).result["task"]["taskId"]
    plain = {"name": "slow_compute", "arguments": arguments, "_meta": meta}
    with session.open("tools/call", plain, id="plain") as events:
        assert events.event() is not None
        assert session.notify("notifications/cancelled", {"requestId": "plain"}) == 202
        assert events.rest() == []
    assert session.until(task_id, "completed", "cancelled")["status"] == "completed"


# --- keys, ids and requests that meet late


@pytest.mark.req("T25-09", "T25-34")
def test_a_key_that_finds_a_call_without_a_handle_gives_one_that_works(session: SessionClient) -> None:
    meta = {KEY: "plain first"}
    plain = session.tool("slow_compute", {"seconds": 0}, _meta=meta).result
    made = session.tool("slow_compute", {"seconds": 0}, _meta=meta, task={}).result
    assert made["task"]["status"] == "completed"
    assert "io.modelcontextprotocol/model-immediate-response" not in made["_meta"]
    assert session.get(made["task"]["taskId"]).result["status"] == "completed"
    found = session.call("tasks/result", {"taskId": made["task"]["taskId"]}).result
    assert found["content"] == plain["content"]


@pytest.mark.req("B25-10", "CH-11")
def test_news_of_a_task_whose_id_cannot_be_stored_is_ignored(session: SessionClient) -> None:
    for named in ("\0", "a\0b", "unknown"):
        assert session.notify("notifications/tasks/status", {"taskId": named, "status": "working"}) == 202


@pytest.mark.req("CH-05")
@pytest.mark.parametrize("client_id", ["a\0b", "", "x" * 1_025], ids=["unstorable", "empty", "too long"])
def test_a_hosted_task_whose_id_cannot_be_stored_is_none(start: Start, client_id: str) -> None:
    host = start(caps=HOSTS)
    with host.open("tools/call", {"name": "test_sampling", "arguments": {"prompt": "?"}}) as events:
        _begun(host, events, "sampling/createMessage", client_id=client_id)
        assert events.until("response")["error"]["message"] == "The client's task has no taskId"
    assert host.notify("notifications/tasks/status", {"taskId": "other", "status": "working"}) == 202


@pytest.mark.req("CH-05")
def test_a_hosted_task_has_the_longest_id_that_is_allowed(start: Start) -> None:
    host = start(caps=HOSTS)
    with host.open("tools/call", {"name": "test_sampling", "arguments": {"prompt": "?"}}) as events:
        _begun(host, events, "sampling/createMessage", client_id="x" * 1_024)
        assert events.until("tasks/get")["params"] == {"taskId": "x" * 1_024}


@pytest.mark.req("CH-10", "B25-13")
def test_a_request_that_was_never_sent_is_not_cancelled(start: Start) -> None:
    host = start(caps=HOSTS)
    task_id = host.create("confirm_delete", {"filename": "late"})
    with host.open("tasks/result", {"taskId": task_id}) as events:
        _begun(host, events, pollInterval=60_000)
        assert host.call("tasks/cancel", {"taskId": task_id}).result["status"] == "cancelled"
        said = [message.get("method") for message in events.rest()]
    assert said == ["tasks/cancel", None], "the poll was not due yet"


@pytest.mark.req("B25-29")
def test_a_prompt_says_which_arguments_it_lacks(start: Start) -> None:
    session = start(caps=EVERYTHING)
    for arguments in ({}, {"arguments": {}}, {"arguments": {"arg1": "x"}}):
        refused = session.call("prompts/get", {"name": "test_prompt_with_arguments", **arguments})
        assert refused.refusal == (200, -32602)
        assert "arg2" in refused.error["message"]

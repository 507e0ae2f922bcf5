"""Questions as tasks that the client hosts (CH-*)."""

from __future__ import annotations

import time
from typing import Any, Final

import pytest

from tests.protocol.v2025_11_25.conftest import Start
from tests.support.hub import RunningHub
from tests.support.session import EVERYTHING, Events, SessionClient

pytestmark = pytest.mark.processes

HOSTS: Final[dict[str, Any]] = {
    **EVERYTHING,
    "tasks": {"requests": {"elicitation": {"create": {}}, "sampling": {"createMessage": {}}}, "cancel": {}},
}
RELATED: Final = "io.modelcontextprotocol/related-task"
YES: Final[dict[str, Any]] = {"action": "accept", "content": {"confirm": True}}
LLM: Final[dict[str, Any]] = {"role": "assistant", "content": {"type": "text", "text": "Paris"}, "model": "m"}


def _task(status: str, client_id: str = "C", **more: Any) -> dict[str, Any]:
    stamp = "2026-01-01T00:00:00Z"
    return {"taskId": client_id, "status": status, "createdAt": stamp, "lastUpdatedAt": stamp, "ttl": None, **more}


@pytest.fixture
def host(start: Start) -> SessionClient:
    """A session whose client hosts tasks."""
    return start(caps=HOSTS)


def _begun(host: SessionClient, events: Events, method: str = "elicitation/create", **task: Any) -> dict[str, Any]:
    """The question, after the client said that it has begun a task for it."""
    request = events.until(method)
    assert request["params"]["task"]["ttl"] > 0
    assert host.respond(request, {"task": _task("working", **{"pollInterval": 100, **task})}) == 202
    return request


@pytest.mark.req("CH-01", "CH-03", "CH-04", "CH-05", "CH-07", "CH-09", "CH-12", "CH-17")
def test_a_question_is_asked_polled_and_fetched(host: SessionClient) -> None:
    task_id = host.create("confirm_delete", {"filename": "a"})
    with host.open("tasks/result", {"taskId": task_id}) as events:
        request = _begun(host, events)
        assert request["params"]["_meta"] == {RELATED: {"taskId": task_id}}
        assert host.get(task_id).result["status"] == "input_required"
        first, second = events.until("tasks/get"), None
        host.respond(first, _task("working", pollInterval=100))
        second = events.until("tasks/get")
        host.respond(second, _task("completed"))
        fetch = events.until("tasks/result")
        assert [found["params"] for found in (first, second, fetch)] == [{"taskId": "C"}] * 3
        assert len({found["id"] for found in (request, first, second, fetch)}) == 4
        host.respond(fetch, {**YES, "_meta": {RELATED: {"taskId": "C"}}})
        assert events.until("response")["result"]["content"][0]["text"] == "Deleted a"


@pytest.mark.req("CH-01", "CH-03", "CH-09")
def test_sampling_in_a_call_that_is_waited_for(host: SessionClient) -> None:
    with host.open("tools/call", {"name": "test_sampling", "arguments": {"prompt": "Capital?"}}) as events:
        request = _begun(host, events, "sampling/createMessage")
        assert RELATED not in (request["params"].get("_meta") or {})
        host.respond(events.until("tasks/get"), _task("completed"))
        host.respond(events.until("tasks/result"), LLM)
        assert "Paris" in events.until("response")["result"]["content"][0]["text"]


@pytest.mark.req("CH-07")
def test_the_clients_interval_is_honoured(host: SessionClient) -> None:
    with host.open("tools/call", {"name": "test_sampling", "arguments": {"prompt": "?"}}) as events:
        _begun(host, events, "sampling/createMessage", pollInterval=900)
        begun = time.monotonic()
        poll = events.until("tasks/get")
        assert time.monotonic() - begun > 0.8
        host.respond(poll, _task("completed"))
        host.respond(events.until("tasks/result"), LLM)
        events.until("response")


@pytest.mark.req("CH-05")
def test_a_client_may_answer_at_once_all_the_same(host: SessionClient) -> None:
    with host.open("tools/call", {"name": "test_sampling", "arguments": {"prompt": "?"}}) as events:
        host.respond(events.until("sampling/createMessage"), LLM)
        assert "Paris" in events.until("response")["result"]["content"][0]["text"]


@pytest.mark.req("CH-05", "CH-09")
def test_an_error_on_any_step_ends_the_attempt(host: SessionClient) -> None:
    error = {"code": -1, "message": "no"}
    for step in ("sampling/createMessage", "tasks/result"):
        with host.open("tools/call", {"name": "test_sampling", "arguments": {"prompt": "?"}}) as events:
            if step == "tasks/result":
                _begun(host, events, "sampling/createMessage")
                host.respond(events.until("tasks/get"), _task("failed"))
            host.respond(events.until(step), error=error)
            assert events.until("response")["error"] == error


@pytest.mark.req("CH-15")
def test_a_client_that_lost_its_task_fails_the_call_and_the_message_says_so(host: SessionClient) -> None:
    with host.open("tools/call", {"name": "test_sampling", "arguments": {"prompt": "?"}}) as events:
        _begun(host, events, "sampling/createMessage")
        host.respond(events.until("tasks/get"), error={"code": -32602, "message": "Task not found"})
        assert "lost its own task: Task not found" in events.until("response")["error"]["message"]


@pytest.mark.parametrize("status", ["cancelled", "unknown", 7, None])
@pytest.mark.req("CH-07", "CH-15")
def test_a_task_that_will_have_no_result_fails_the_call(host: SessionClient, status: Any) -> None:
    with host.open("tools/call", {"name": "test_sampling", "arguments": {"prompt": "?"}}) as events:
        _begun(host, events, "sampling/createMessage")
        host.respond(events.until("tasks/get"), {**_task("working"), "status": status})
        assert events.until("response")["error"]["code"] in (-32602, -32603)


@pytest.mark.req("CH-08")
def test_a_client_that_needs_input_itself_is_asked_for_the_result_early(host: SessionClient) -> None:
    with host.open("tools/call", {"name": "test_sampling", "arguments": {"prompt": "?"}}) as events:
        _begun(host, events, "sampling/createMessage")
        host.respond(events.until("tasks/get"), _task("input_required"))
        host.respond(events.until("tasks/result"), LLM)
        events.until("response")


@pytest.mark.req("CH-11")
def test_a_status_notification_hastens_the_next_poll_and_is_not_relied_on(host: SessionClient) -> None:
    with host.open("tools/call", {"name": "test_sampling", "arguments": {"prompt": "?"}}) as events:
        _begun(host, events, "sampling/createMessage", pollInterval=60_000, client_id="slow one")
        assert host.notify("notifications/tasks/status", _task("completed", "another")) == 202
        assert host.notify("notifications/tasks/status", _task("completed", "slow one")) == 202
        host.respond(events.until("tasks/get"), _task("completed", "slow one"))
        host.respond(events.until("tasks/result"), LLM)
        events.until("response")


@pytest.mark.req("CH-13", "CH-14")
def test_a_dropped_stream_goes_on_with_the_next(host: SessionClient) -> None:
    task_id = host.create("confirm_delete", {"filename": "b"})
    with host.open("tasks/result", {"taskId": task_id}) as events:
        _begun(host, events)
    with host.open("tasks/result", {"taskId": task_id}) as events:
        poll = events.until("tasks/get")
    with host.listen() as events:  # nobody waits for the result any more
        assert events.until("tasks/get") == poll, "under the same id"
        host.respond(poll, _task("completed"))
        host.respond(events.until("tasks/result"), YES)
        host.until(task_id, "completed")


@pytest.mark.req("CH-10")
def test_a_question_closed_elsewhere_is_cancelled_at_the_client(host: SessionClient) -> None:
    with host.listen() as events:
        task_id = host.create("confirm_delete", {"filename": "c"})
        _begun(host, events, client_id="mine")
        poll = events.until("tasks/get")
        host.call("tasks/cancel", {"taskId": task_id})
        assert events.until("notifications/cancelled")["params"]["requestId"] == poll["id"]
        cancel = events.until("tasks/cancel")
        assert cancel["params"] == {"taskId": "mine"}
        assert host.respond(cancel, _task("cancelled", "mine")) == 202


@pytest.mark.req("CH-10")
def test_a_client_that_does_not_take_cancellations_gets_none(start: Start) -> None:
    host = start(caps={**HOSTS, "tasks": {"requests": HOSTS["tasks"]["requests"]}})
    with host.listen() as events:
        task_id = host.create("confirm_delete", {"filename": "d"})
        _begun(host, events)
        events.until("tasks/get")
        host.call("tasks/cancel", {"taskId": task_id})
        # The one is sent by whoever keeps the question, the other by whoever watches the task: in either order.
        assert {events.next()["method"], events.next()["method"]} == {
            "notifications/cancelled",
            "notifications/tasks/status",
        }


@pytest.mark.parametrize(
    ("version", "tasks"),
    [
        ("2025-11-25", {}),
        ("2025-11-25", {"requests": {"sampling": {}}}),
        ("2025-11-25", {"requests": {"elicitation": {"create": {}}}}),
        ("2025-06-18", HOSTS["tasks"]),
    ],
)
@pytest.mark.req("CH-01", "CH-02")
def test_others_get_the_plain_request(start: Start, version: str, tasks: Any) -> None:
    session = start(version=version, caps={**EVERYTHING, "tasks": tasks})
    with session.open("tools/call", {"name": "test_sampling", "arguments": {"prompt": "?"}}) as events:
        request = events.until("sampling/createMessage")
        assert "task" not in request["params"]
        session.respond(request, {"task": _task("working")})
        assert events.until("response")["error"]["code"] == -32602, "that is no answer here"


@pytest.mark.req("CH-06", "CH-12")
def test_the_clients_ids_are_its_own(host: SessionClient, start: Start) -> None:
    """Two clients may use the same id, and it may be the id of a task of ours."""
    other = start(caps=HOSTS)
    task_id = host.create("confirm_delete", {"filename": "e"})
    other_id = other.create("confirm_delete", {"filename": "f"})
    with (
        host.open("tasks/result", {"taskId": task_id}) as mine,
        other.open("tasks/result", {"taskId": other_id}) as theirs,
    ):
        _begun(host, mine, client_id=task_id)
        _begun(other, theirs, client_id=task_id)
        assert host.get(task_id).result["status"] == "input_required"
        for session, events, text in ((other, theirs, "Deleted f"), (host, mine, "Deleted e")):
            session.respond(events.until("tasks/get"), _task("completed", task_id))
            session.respond(events.until("tasks/result"), YES)
            assert events.until("response")["result"]["content"][0]["text"] == text


@pytest.mark.req("CH-16")
def test_no_progress_is_asked_for(hub: RunningHub, host: SessionClient) -> None:
    """So none can outlive the client's task."""
    with host.open("tools/call", {"name": "test_sampling", "arguments": {"prompt": "?"}}) as events:
        request = events.until("sampling/createMessage")
        assert "progressToken" not in (request["params"].get("_meta") or {})
        host.respond(request, LLM)
        events.until("response")

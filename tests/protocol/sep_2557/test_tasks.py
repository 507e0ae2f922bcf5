"""SEP-2557 over HTTP, by a client that knows nothing but the proposal."""

from __future__ import annotations

import concurrent.futures
import os
import re
from typing import Any

import pytest

from taskhub.lib.signing import Signer
from tests.support.hub import RunningHub
from tests.support.sep_2557_client import ASKABLE, Historical, accept

pytestmark = pytest.mark.processes

UNKNOWN = "A" * 32


@pytest.mark.parametrize(
    "caps",
    [
        {},
        ASKABLE,
        {"tasks": {"requests": {"tools": {"call": {}}}}},
        {"extensions": {"io.modelcontextprotocol/tasks": {}}},
    ],
)
@pytest.mark.req("T2557-01", "T2557-03", "T2557-07")
def test_whoever_calls_may_get_a_task(ann: Historical, caps: dict[str, Any]) -> None:
    found = ann.tool("failing_job", caps=caps).result
    assert set(found) == {"resultType", "task", "_meta"}
    assert found["resultType"] == "task"
    assert not {"result", "error", "inputRequests", "resultType"} & set(found["task"])


@pytest.mark.req("T2557-01")
def test_asking_for_a_task_is_an_unknown_field(ann: Historical) -> None:
    found = ann.tool("point", params={"task": {"ttl": 60_000}})
    assert found.result["resultType"] == "complete"
    assert "task" not in found.result


@pytest.mark.req("T2557-02", "T2557-06")
def test_a_quick_call_has_its_result_at_once(ann: Historical) -> None:
    found = ann.tool("slow_compute", {"seconds": 0}).result
    assert found["resultType"] == "complete"
    assert found["content"][0]["text"].startswith("Computed")


@pytest.mark.req("T2557-03")
def test_nothing_is_advertised_about_tasks(ann: Historical) -> None:
    found = ann.call("server/discover").result
    assert found["supportedVersions"] == ["2026-07-28"]
    assert set(found["capabilities"]) == {"tools", "logging"}
    tools = ann.call("tools/list").result["tools"]
    assert {"failing_job", "slow_compute", "point"} <= {tool["name"] for tool in tools}
    assert not any("execution" in tool for tool in tools)


@pytest.mark.parametrize(
    "method",
    [
        "tasks/result",
        "tasks/list",
        "tasks/update",
        "tasks/delete",
        "initialize",
        "ping",
        "prompts/list",
        "resources/list",
        "resources/templates/list",
    ],
)
@pytest.mark.req("T2557-04")
def test_there_are_two_methods_for_tasks_and_no_more(ann: Historical, method: str) -> None:
    assert ann.call(method, {"taskId": UNKNOWN}).refusal == (404, -32601)


@pytest.mark.req("T2557-05", "T2557-17")
def test_cancel_is_there_even_if_the_task_is_not(ann: Historical) -> None:
    assert ann.cancel(UNKNOWN).refusal == (200, -32602)
    assert ann.cancel("no id of ours").refusal == (200, -32602)
    assert ann.call("tasks/cancel", {"taskId": 1}, headers={"mcp-name": "1"}).refusal == (200, -32602)


@pytest.mark.req("T2557-06")
def test_a_call_that_never_becomes_a_task_asks_in_a_round(ann: Historical) -> None:
    asked = ann.tool("visit_page").result
    assert asked["resultType"] == "incomplete"
    (key,) = asked["inputRequests"]
    answered = {"inputResponses": {key: {"action": "accept"}}, "requestState": asked["requestState"]}
    done = ann.tool("visit_page", params=answered).result
    assert (done["resultType"], done["content"][0]["text"]) == ("complete", "Visited: accept")


@pytest.mark.req("T2557-06", "T2557-07", "T2557-12")
def test_a_call_that_asks_becomes_a_task_that_asks(ann: Historical) -> None:
    task = ann.create("test_tool_with_task")
    assert task["status"] == "working", "whatever it has asked by now"
    asked = ann.until(task["taskId"], "input_required")
    (key,) = asked["inputRequests"]
    assert ann.get(task["taskId"], {key: accept(name="Ada")}).result["status"] in ("working", "completed")
    done = ann.until(task["taskId"], "completed")
    assert done["result"]["content"][0]["text"] == "Hello, Ada!"


@pytest.mark.req("T2557-08")
def test_a_task_that_was_handed_out_is_found_from_anywhere(hub: RunningHub, ann: Historical) -> None:
    for _ in range(5):
        task = ann.create("failing_job")
        with Historical(hub.base, ann.token) as other:
            assert other.get(task["taskId"]).status == 200


@pytest.mark.req("T2557-09", "T2557-10")
def test_a_task_lives_for_seconds_and_is_polled_in_milliseconds(hub: RunningHub, ann: Historical) -> None:
    task = ann.create("confirm_delete", {"filename": "x"})
    assert (task["ttl"], task["pollInterval"]) == (86_400, 1_000)
    assert hub.sql("SELECT ttl_ms FROM task WHERE public_id = %s", (task["taskId"],)) == [(86_400_000,)]
    got = ann.get(task["taskId"]).result
    assert got["resultType"] == "task"
    assert "task" not in got, "flat"


@pytest.mark.req("T2557-11", "T2557-21")
def test_a_tool_error_completes_and_a_protocol_error_fails(ann: Historical) -> None:
    done = ann.until(ann.create("failing_job")["taskId"], "completed", "failed")
    assert (done["status"], done["result"]["isError"], done["result"]["resultType"]) == ("completed", True, "complete")
    failed = ann.until(ann.create("protocol_error_job")["taskId"], "completed", "failed")
    assert (failed["status"], failed["error"]["code"]) == ("failed", -32603)


@pytest.mark.req("T2557-10", "T2557-12", "T2557-13")
def test_answers_travel_with_the_poll_and_are_applied_before_it_is_answered(ann: Historical) -> None:
    task_id = ann.create("multi_input")["taskId"]
    asked = ann.until(task_id, "input_required")
    first, second = sorted(asked["inputRequests"])
    half = ann.get(task_id, {first: accept(name="Ada"), "never-asked": accept(x=1)}).result
    assert (half["status"], list(half["inputRequests"])) == ("input_required", [second])
    again = ann.get(task_id, {first: accept(name="Eve")}).result
    assert (again["status"], list(again["inputRequests"])) == ("input_required", [second])
    assert ann.get(task_id, {second: accept(name="Bob")}).result["status"] in ("working", "completed")
    done = ann.until(task_id, "completed")
    assert done["result"]["content"][0]["text"] == "First Ada, then Bob"
    after = ann.get(task_id, {first: accept(name="Eve"), second: accept(name="Eve")}).result
    assert after["result"] == done["result"], "a repeat changes nothing"


@pytest.mark.parametrize("responses", [7, [], {"q": 1}, {"q": {"action": "accept", "content": {"x": "\0"}}}])
@pytest.mark.req("T2557-12")
def test_answers_that_are_none_are_refused(ann: Historical, responses: Any) -> None:
    task_id = ann.create("confirm_delete", {"filename": "x"})["taskId"]
    assert ann.get(task_id, inputResponses=responses).refusal == (200, -32602)


@pytest.mark.req("T2557-12")
def test_an_answer_that_does_not_fit_is_refused_and_nothing_is_stored(ann: Historical) -> None:
    task_id = ann.create("multi_input")["taskId"]
    first, second = sorted(ann.until(task_id, "input_required")["inputRequests"])
    assert ann.get(task_id, {first: accept(name="Ada"), second: accept(name=7)}).refusal == (200, -32602)
    assert sorted(ann.get(task_id).result["inputRequests"]) == [first, second]


@pytest.mark.req("T2557-14", "T2557-15", "T2557-16")
def test_every_task_has_a_state_and_any_genuine_one_is_accepted(ann: Historical) -> None:
    task = ann.create("test_tool_with_task")
    old = task["requestState"]
    newer = ann.until(task["taskId"], "input_required")["requestState"]
    newest = ann.get(task["taskId"]).result["requestState"]
    assert len({old, newer, newest}) == 3
    (key,) = ann.get(task["taskId"]).result["inputRequests"]
    assert ann.get(task["taskId"], {key: accept(name="Ada")}, requestState=old).result["status"] in (
        "working",
        "completed",
    )
    ann.until(task["taskId"], "completed")
    for state in (None, old, newer, newest):
        found = ann.get(task["taskId"], requestState=state).result
        assert found["status"] == "completed"
        assert found["requestState"] not in (old, newer, newest)


@pytest.mark.req("T2557-15")
def test_polls_at_once_are_all_answered(ann: Historical) -> None:
    task = ann.create("hold", {"seconds": 30})
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        polls = [pool.submit(ann.get, task["taskId"], requestState=task["requestState"]) for _ in range(16)]
        found = [poll.result().result for poll in polls]
    assert {one["status"] for one in found} == {"working"}
    assert all(ann.get(task["taskId"], requestState=one["requestState"]).status == 200 for one in found)
    ann.cancel(task["taskId"])


@pytest.mark.req("T2557-16", "T2557-22")
def test_a_state_that_is_altered_foreign_or_no_state_is_refused(ann: Historical, ben: Historical) -> None:
    task, other = ann.create("confirm_delete", {"filename": "x"}), ann.create("confirm_delete", {"filename": "y"})
    round_ = ann.tool("visit_page").result["requestState"]
    theirs = ben.create("confirm_delete", {"filename": "z"})
    state = task["requestState"]
    places = [0, 1, 40, len(state) // 2, len(state) - 3, len(state) - 1]
    bent = [state[:at] + ("A" if state[at] != "A" else "B") + state[at + 1 :] for at in places]
    for wrong in (
        *bent,
        state + "A",
        state[:-1],
        "",
        "é",
        7,
        {},
        other["requestState"],
        theirs["requestState"],
        round_,
    ):
        assert ann.get(task["taskId"], requestState=wrong).refusal == (400, -32602), wrong
        assert ann.cancel(task["taskId"], requestState=wrong).refusal == (400, -32602), wrong
    assert ben.get(task["taskId"], requestState=state).refusal == (400, -32602)
    assert ann.get(task["taskId"], requestState=state).result["status"] in ("working", "input_required")


@pytest.mark.req("T2557-16")
def test_a_state_is_checked_before_its_answers_are_taken(ann: Historical, hub: RunningHub) -> None:
    task_id = ann.create("confirm_delete", {"filename": "x"})["taskId"]
    (key,) = ann.until(task_id, "input_required")["inputRequests"]
    assert ann.get(task_id, {key: accept(confirm=True)}, requestState="forged").refusal == (400, -32602)
    assert ann.get(task_id).result["status"] == "input_required"


@pytest.mark.req("T2557-16")
def test_a_state_expires_and_cannot_be_read(hub: RunningHub, ann: Historical) -> None:
    task = ann.create("confirm_delete", {"filename": "x"})
    ((context_id,),) = hub.sql("SELECT context_id FROM task WHERE public_id = %s", (task["taskId"],))
    signer = Signer(os.environ["SECRET_KEY"].encode())
    assert signer.decrypt("sep-2557/task", task["requestState"]) == [task["taskId"], context_id]
    fresh = signer.encrypt("sep-2557/task", [task["taskId"], context_id], seconds=60)
    stale = signer.encrypt("sep-2557/task", [task["taskId"], context_id], seconds=-1)
    assert ann.get(task["taskId"], requestState=fresh).status == 200
    assert ann.get(task["taskId"], requestState=stale).refusal == (400, -32602)
    assert signer.encrypt("sep-2557/task", [], seconds=60) != signer.encrypt("sep-2557/task", [], seconds=60)


@pytest.mark.req("T2557-17", "T2557-14")
def test_cancel_answers_with_the_task(ann: Historical) -> None:
    task_id = ann.create("hold", {"seconds": 60})["taskId"]
    found = ann.cancel(task_id).result
    assert (found["taskId"], found["resultType"]) == (task_id, "task")
    assert found["status"] in ("working", "cancelled")
    ended = ann.until(task_id, "cancelled")
    assert not {"result", "error"} & set(ended)
    assert ann.cancel(task_id).refusal == (200, -32602)


@pytest.mark.req("T2557-17")
def test_a_task_that_has_ended_cannot_be_cancelled(ann: Historical) -> None:
    task_id = ann.create("failing_job")["taskId"]
    ann.until(task_id, "completed")
    refused = ann.cancel(task_id)
    assert refused.refusal == (200, -32602)
    assert "completed" in refused.reason
    assert ann.get(task_id).result["status"] == "completed"


@pytest.mark.parametrize(
    "headers",
    [
        {"mcp-method": None},
        {"mcp-method": "tasks/cancel"},
        {"mcp-method": "TASKS/GET"},
        {"mcp-name": None},
        {"mcp-name": UNKNOWN},
        {"mcp-name": "=?base64?!?="},
        {"mcp-protocol-version": None},
        {"mcp-protocol-version": "2025-11-25"},
    ],
)
@pytest.mark.req("T2557-18")
def test_headers_say_what_the_body_says(ann: Historical, headers: dict[str, str | None]) -> None:
    task_id = ann.create("confirm_delete", {"filename": "x"})["taskId"]
    assert ann.call("tasks/get", {"taskId": task_id}, headers=headers).refusal == (400, -32020)
    if "tasks/cancel" not in headers.values():
        assert ann.call("tasks/cancel", {"taskId": task_id}, headers=headers).refusal == (400, -32020)
    assert ann.get(task_id).status == 200


@pytest.mark.req("T2557-18")
def test_notifications_too_name_their_method(ann: Historical) -> None:
    note = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 1}}
    taken = ann.send(note)
    assert (taken.status, taken.messages) == (202, ())
    assert ann.send(note, {"mcp-method": None}).refusal == (400, -32020)
    assert ann.send(note, {"mcp-method": "notifications/progress"}).refusal == (400, -32020)


@pytest.mark.req("T2557-18")
def test_a_version_that_is_not_spoken_is_named_and_so_is_the_one_that_is(ann: Historical) -> None:
    message = ann.request("server/discover")
    message["params"]["_meta"]["io.modelcontextprotocol/protocolVersion"] = "sep-2557"
    found = ann.send(message, {"mcp-protocol-version": "sep-2557"})
    assert found.refusal == (400, -32022)
    assert found.messages[0]["error"]["data"]["supported"] == ["2026-07-28"]


@pytest.mark.req("T2557-19")
def test_the_server_asks_nothing_and_takes_no_answer(ann: Historical) -> None:
    assert ann.send({"jsonrpc": "2.0", "id": 1, "result": {}}).refusal == (400, -32600)
    task_id = ann.create("multi_input")["taskId"]
    ann.until(task_id, "input_required")
    assert not any("method" in message for message in ann.received)


@pytest.mark.req("T2557-20", "T2557-15")
def test_a_subscription_tells_the_task_with_its_payload(ann: Historical, ben: Historical) -> None:
    task_id = ann.create("confirm_delete", {"filename": "x"})["taskId"]
    (key,) = ann.until(task_id, "input_required")["inputRequests"]
    theirs = ben.create("confirm_delete", {"filename": "y"})["taskId"]
    with ann.listen(task_id, theirs, UNKNOWN) as stream:
        acknowledged = next(stream)
        assert acknowledged["method"] == "notifications/subscriptions/acknowledged"
        assert acknowledged["params"]["notifications"] == {"taskIds": [task_id]}
        first = next(stream)
        assert first["method"] == "notifications/tasks/status"
        assert (first["params"]["status"], list(first["params"]["inputRequests"])) == ("input_required", [key])
        assert "resultType" not in first["params"]
        pushed = first["params"]["requestState"]
        with Historical(ann.url.removesuffix("/mcp/sep-2557"), ann.token) as other:
            other.get(task_id, {key: accept(confirm=True)}, requestState=pushed)
        last = next(note for note in stream if note["params"]["status"] == "completed")
        assert last["params"]["result"]["content"][0]["text"] == "Deleted x"


@pytest.mark.parametrize("notifications", [None, [], {"taskIds": "x"}, {"taskIds": [1]}, {"taskIds": ["A" * 32] * 101}])
@pytest.mark.req("T2557-20")
def test_a_filter_that_is_none_is_refused(ann: Historical, notifications: Any) -> None:
    assert ann.call("subscriptions/listen", {"notifications": notifications}).refusal == (200, -32602)


@pytest.mark.req("T2557-22")
def test_a_foreign_task_is_unknown_and_no_id_can_be_guessed(ann: Historical, ben: Historical) -> None:
    ids = [ann.create("failing_job")["taskId"] for _ in range(3)]
    assert all(re.fullmatch(r"[A-Za-z0-9_-]{32}", task_id) for task_id in ids)
    assert len({task_id[:8] for task_id in ids}) == 3
    for mine in (ids[0], UNKNOWN):
        told = ben.get(mine)
        assert (told.refusal, told.reason) == ((200, -32602), "Task not found")
        assert ben.cancel(mine).refusal == (200, -32602)


@pytest.mark.parametrize(
    ("method", "missing", "params"),
    [
        ("tools/call", "tasks:call", {"name": "point", "arguments": {}}),
        ("tasks/get", "tasks:read", {}),
        ("tasks/get", "tasks:answer", {"inputResponses": {}}),
        ("tasks/cancel", "tasks:cancel", {}),
        ("subscriptions/listen", "tasks:read", {"notifications": {}}),
    ],
)
@pytest.mark.req("T2557-22")
def test_a_token_without_the_scope_is_told_which(
    hub: RunningHub, method: str, missing: str, params: dict[str, Any]
) -> None:
    scopes = {"tasks:call", "tasks:read", "tasks:answer", "tasks:cancel"} - {missing}
    with Historical(hub.base, hub.token("agent-a", *sorted(scopes))) as narrow:
        found = narrow.call(method, {"taskId": UNKNOWN, **params})
    assert found.status == 403
    assert f'scope="{missing}"' in found.headers["www-authenticate"]

"""`tools/call` over HTTP: a result the caller waited for, or a handle; progress, logs and disconnects."""

from __future__ import annotations

import json
import socket
import time
from typing import Any

import pytest

from tests.support.client import (
    EVERYTHING,
    EXTENSION,
    FORMS,
    NONE,
    PREFIX,
    TASKS,
    WITHOUT_TASKS,
    Client,
    accept,
)
from tests.support.hub import RunningHub, wait_until

pytestmark = pytest.mark.processes

REQUIRED = {"requiredCapabilities": {"extensions": {EXTENSION: {}}}}
KEY = "io.taskhub/idempotencyKey"


def _latest(hub: RunningHub, tool: str) -> tuple[str, bool]:
    rows = hub.sql(
        "SELECT state, cancel_requested_at IS NOT NULL FROM task WHERE tool_name = %s ORDER BY id DESC", [tool]
    )
    return (rows[0][0], rows[0][1]) if rows else ("none", False)


def _count(hub: RunningHub, tool: str) -> int:
    found: int = hub.sql("SELECT count(*) FROM task WHERE tool_name = %s", [tool])[0][0]
    return found


@pytest.mark.req("T26-04", "B26-07", "B26-40", "B26-41")
def test_a_plain_call_answers_with_the_tools_own_result(alice: Client) -> None:
    answer = alice.tool("greet", {"name": "World"})
    assert answer.status == 200
    assert {**answer.result, "_meta": None} == {
        "resultType": "complete",
        "content": [{"type": "text", "text": "Hello, World!"}],
        "isError": False,
        "_meta": None,
    }
    assert answer.result["_meta"][PREFIX + "serverInfo"]["name"] == "taskhub"


@pytest.mark.req("B26-47")
def test_arguments_may_be_left_out(alice: Client) -> None:
    answer = alice.call("tools/call", {"name": "test_simple_text"})
    assert answer.text == "This is a simple text response for testing."


@pytest.mark.parametrize(
    ("tool", "kinds"),
    [
        ("test_image_content", ["image"]),
        ("test_audio_content", ["audio"]),
        ("test_embedded_resource", ["resource"]),
        ("test_multiple_content_types", ["text", "image", "resource"]),
    ],
)
@pytest.mark.req("B26-49")
def test_every_kind_of_content_comes_through(alice: Client, tool: str, kinds: list[str]) -> None:
    assert [block["type"] for block in alice.tool(tool).result["content"]] == kinds


@pytest.mark.req("B26-49")
def test_structured_output_comes_with_its_text(alice: Client) -> None:
    found = alice.tool("point").result
    assert found["structuredContent"] == {"x": 3, "y": 4}
    assert found["content"][0]["type"] == "text"


@pytest.mark.req("B26-41", "T26-25")
def test_a_tools_own_metadata_stands_beside_ours(alice: Client) -> None:
    meta = alice.tool("with_meta").result["_meta"]
    assert meta["example.com/mark"] == 7
    assert PREFIX + "serverInfo" in meta


@pytest.mark.req("B26-49")
def test_a_tool_error_is_a_result(alice: Client) -> None:
    answer = alice.tool("test_error_handling")
    assert (answer.status, answer.result["isError"]) == (200, True)


@pytest.mark.parametrize("arguments", [{}, {"name": 7}, {"name": ["x"]}])
@pytest.mark.req("B26-49")
def test_arguments_that_break_the_schema_are_told_to_the_model(alice: Client, arguments: dict[str, Any]) -> None:
    answer = alice.tool("greet", arguments)
    assert (answer.status, answer.result["isError"]) == (200, True)


@pytest.mark.parametrize("tool", ["nope", "Greet", "", "x" * 10_000, "größe"])
@pytest.mark.req("B26-49")
def test_an_unknown_tool_is_an_invalid_parameter(alice: Client, tool: str) -> None:
    name = "=?base64?Z3LDtsOfZQ==?=" if tool == "größe" else tool
    assert alice.tool(tool, name=name).refusal == (200, -32602)


@pytest.mark.parametrize(
    "params",
    [
        {"name": 7},
        {"name": None},
        {"name": {}},
        {"name": []},
        {"name": "greet", "arguments": []},
        {"name": "greet", "arguments": None},
        {"name": "greet", "arguments": {}, "inputResponses": {"q": accept(name="a\u0000b")}},
        {"name": "greet", "arguments": {}, "inputResponses": {"a\u0000b": accept()}},
        {"name": "greet", "arguments": {}, "inputResponses": []},
        {"name": "greet", "arguments": {}, "inputResponses": {"q": 7}},
        {"name": "greet", "arguments": {}, "requestState": 7},
    ],
)
@pytest.mark.req("B26-32", "B26-65")
def test_malformed_parameters_are_refused_and_nothing_is_stored(
    hub: RunningHub, alice: Client, params: dict[str, Any]
) -> None:
    before = _count(hub, "greet")
    assert alice.call("tools/call", params, name="greet").refusal == (200, -32602)
    assert _count(hub, "greet") == before


@pytest.mark.parametrize(
    "value",
    [
        *(2**53 + 1, 10**30, 1.5, -0.0, 1e22, 1e308, 5e-324, True, None, []),
        {"ü": ["\ue000", "😀", "\u2028"]},
        {"zebra": 1, "a": 2, "m": {"y": 0, "x": 0}},
        {"a\0b": "\0"},
    ],
)
@pytest.mark.req("B26-49")
def test_arguments_arrive_as_they_were_sent(alice: Client, value: Any) -> None:
    answer = alice.tool("json_schema_2020_12_tool", {"phone": "1", "address": {"value": value}})
    assert answer.result["isError"] is False
    # As JSON, where an order, a sign or an exponent tells.
    assert answer.text.startswith("Received: ")
    assert f'"value": {json.dumps(value)}' in answer.text


@pytest.mark.parametrize("caps", [NONE, WITHOUT_TASKS, {"tasks": {"requests": {"tools": {"call": {}}}}}])
@pytest.mark.req("T26-03", "T26-04", "T26-08", "T26-57", "B26-13")
def test_a_caller_without_the_extension_waits_for_the_result(alice: Client, caps: dict[str, Any]) -> None:
    assert alice.tool("slow_compute", {"seconds": 1}, caps=TASKS).result["resultType"] == "task"
    answer = alice.tool("slow_compute", {"seconds": 1, "label": "it"}, caps=caps)
    assert (answer.result["resultType"], answer.text) == ("complete", "Computed it in 1 s")
    assert "taskId" not in answer.result
    assert answer.streamed


@pytest.mark.parametrize("caps", [NONE, {"tasks": {}}, {"extensions": {}}, {"extensions": {EXTENSION: True}}])
@pytest.mark.req("T26-05", "T26-08", "T26-57", "B26-30")
def test_a_tool_that_needs_a_task_refuses_before_it_runs(hub: RunningHub, alice: Client, caps: dict[str, Any]) -> None:
    before = _count(hub, "failing_job")
    answer = alice.tool("failing_job", caps=caps)
    assert answer.refusal == (400, -32021)
    assert answer.error["data"] == REQUIRED
    assert _count(hub, "failing_job") == before


@pytest.mark.req("B26-30", "B26-62")
def test_a_tool_that_misses_a_capability_says_which(alice: Client) -> None:
    answer = alice.tool("test_missing_capability")
    assert answer.refusal == (400, -32021)
    assert answer.error["data"] == {"requiredCapabilities": {"sampling": {}}}
    assert alice.tool("test_missing_capability", caps={"sampling": {}}).result["isError"] is False


@pytest.mark.req("T26-12", "T26-13", "T26-14", "T26-15", "T26-16", "T26-17", "T26-19")
def test_a_handle_is_flat_and_carries_no_payload(alice: Client) -> None:
    found = alice.tool("confirm_delete", {"filename": "x"}, caps=EVERYTHING).result
    assert (found["resultType"], found["status"]) == ("task", "working")
    assert set(found) >= {"taskId", "status", "createdAt", "lastUpdatedAt", "ttlMs"}
    assert len(found["taskId"]) >= 22
    other = alice.create("confirm_delete", {"filename": "x"})
    assert other[:8] != found["taskId"][:8]
    alice.cancel(other)
    alice.cancel(found["taskId"])


@pytest.mark.req("T26-09", "T26-11")
def test_the_server_alone_decides_whether_there_is_a_task(alice: Client) -> None:
    hint = {"task": {"ttl": 60_000, "pollInterval": 100}}
    answer = alice.tool("greet", {"name": "x"}, caps=TASKS, params=hint)
    assert (answer.result["resultType"], answer.text) == ("complete", "Hello, x!")
    at_once = alice.tool("slow_compute", {"seconds": 0}, caps=TASKS).result
    assert at_once["resultType"] in ("complete", "task")


@pytest.mark.req("T26-18", "B26-13", "B26-07")
def test_a_handle_is_good_on_any_connection_at_once(hub: RunningHub, alice: Client) -> None:
    for _ in range(5):
        task_id = alice.create("failing_job")
        with Client(hub.base, alice.token) as other:
            assert other.get(task_id).result["taskId"] == task_id


@pytest.mark.req("B26-80", "B26-09", "B26-08")
def test_progress_comes_when_a_token_was_given(alice: Client) -> None:
    answer = alice.tool("test_tool_with_progress", meta={"progressToken": "p-1"})
    told = [note["params"] for note in answer.notifications]
    assert {note["method"] for note in answer.notifications} == {"notifications/progress"}
    assert {params["progressToken"] for params in told} == {"p-1"}
    assert [params["progress"] for params in told] == [0, 50, 100]
    assert told[-1]["total"] == 100
    assert told[-1]["message"] == "Completed step 100 of 100"
    assert answer.text == "Progress test completed"


@pytest.mark.parametrize("token", [7, 0, "", "7"])
@pytest.mark.req("B26-80")
def test_a_progress_token_comes_back_as_it_was(alice: Client, token: Any) -> None:
    answer = alice.tool("test_tool_with_progress", meta={"progressToken": token})
    assert answer.notifications
    for note in answer.notifications:
        assert (type(note["params"]["progressToken"]), note["params"]["progressToken"]) == (type(token), token)


@pytest.mark.parametrize("token", [True, 1.5, [], {"a": 1}])
@pytest.mark.req("B26-80")
def test_a_progress_token_is_text_or_a_whole_number(alice: Client, token: Any) -> None:
    assert alice.tool("greet", {"name": "x"}, meta={"progressToken": token}).refusal == (200, -32602)


@pytest.mark.req("B26-80", "B26-81")
def test_nothing_is_told_to_a_caller_who_asked_for_nothing(alice: Client) -> None:
    for tool in ("test_tool_with_progress", "test_tool_with_logging", "test_logging_tool"):
        answer = alice.tool(tool)
        assert (tool, answer.notifications, answer.result["isError"]) == (tool, [], False)


@pytest.mark.parametrize(
    ("level", "heard"), [("debug", ["info", "error"]), ("info", ["info", "error"]), ("error", ["error"]), ("alert", [])]
)
@pytest.mark.req("B26-81", "B26-09")
def test_log_lines_come_at_the_level_asked_for_and_above(alice: Client, level: str, heard: list[str]) -> None:
    answer = alice.tool("test_logging_tool", meta={PREFIX + "logLevel": level})
    assert [note["params"]["level"] for note in answer.notifications] == heard
    assert {note["method"] for note in answer.notifications} <= {"notifications/message"}


@pytest.mark.parametrize("level", ["loud", "INFO", "", 7, []])
@pytest.mark.req("B26-81")
def test_an_unknown_log_level_is_refused(alice: Client, level: Any) -> None:
    assert alice.tool("greet", {"name": "x"}, meta={PREFIX + "logLevel": level}).refusal == (200, -32602)


@pytest.mark.req("T26-51", "B26-80")
def test_a_task_sends_no_progress_whatever_its_call_asked_for(alice: Client) -> None:
    meta = {"progressToken": "p", PREFIX + "logLevel": "debug"}
    answer = alice.tool("slow_compute", {"seconds": 1, "label": "quiet"}, caps=TASKS, meta=meta)
    assert (answer.result["resultType"], answer.streamed) == ("task", False)
    with alice.stream(
        "subscriptions/listen", {"notifications": {"taskIds": [answer.result["taskId"]]}}, caps=TASKS
    ) as told:
        seen = [told.next()["method"]]
        while True:
            note = told.next()
            seen.append(note["method"])
            if note["params"].get("status") == "completed":
                break
    assert set(seen) == {"notifications/subscriptions/acknowledged", "notifications/tasks"}


@pytest.mark.req("B26-10", "B26-82")
def test_a_caller_that_leaves_cancels_the_call_it_waits_for(hub: RunningHub, alice: Client) -> None:
    label = f"left-{time.monotonic_ns()}"
    with alice.stream(
        "tools/call", {"name": "hold", "arguments": {"seconds": 50}}, meta={"progressToken": label}
    ) as stream:
        assert stream.next()["params"]["progressToken"] == label
        assert _latest(hub, "hold") == ("working", False)
    wait_until(lambda: _latest(hub, "hold")[0] == "cancelled", "the call to be cancelled")


@pytest.mark.req("B26-10", "T26-48")
def test_a_caller_that_leaves_before_its_handle_cancels_the_call(hub: RunningHub, alice: Client) -> None:
    message = alice.message("tools/call", {"name": "hold", "arguments": {"seconds": 49}}, caps=TASKS)
    before = _count(hub, "hold")
    raw = _raw(alice, message)
    with socket.create_connection(("127.0.0.1", hub.port), timeout=5) as connection:
        connection.sendall(raw)
        wait_until(lambda: _count(hub, "hold") > before, "the task")
    wait_until(lambda: _latest(hub, "hold")[0] in ("cancelled", "working"), "a worker")
    wait_until(lambda: _latest(hub, "hold")[0] == "cancelled", "the call to be cancelled")


@pytest.mark.req("T26-48")
def test_a_caller_that_has_its_handle_may_leave(hub: RunningHub, alice: Client) -> None:
    with Client(hub.base, alice.token) as other:
        task_id = other.create("slow_compute", {"seconds": 1}, caps=TASKS)
    assert alice.until(task_id, "completed", "cancelled")["status"] == "completed"


@pytest.mark.req("B26-10")
def test_a_caller_with_a_key_may_come_back_for_the_result(hub: RunningHub, alice: Client) -> None:
    key = f"key-{time.monotonic_ns()}"
    meta = {KEY: key, "progressToken": "p"}
    with alice.stream("tools/call", {"name": "hold", "arguments": {"seconds": 2}}, meta=meta) as stream:
        stream.next()
    answer = alice.tool("hold", {"seconds": 2}, meta={KEY: key})
    assert answer.text == "Let go"
    assert hub.sql("SELECT count(*) FROM task WHERE idempotency_key = %s", [key]) == [(1,)]


@pytest.mark.req("B26-13")
def test_the_same_key_and_arguments_are_the_same_task(alice: Client, bob: Client) -> None:
    meta = {KEY: f"same-{time.monotonic_ns()}"}
    first = alice.create("confirm_delete", {"filename": "a"}, meta=meta)
    assert alice.create("confirm_delete", {"filename": "a"}, meta=meta) == first
    assert alice.tool("confirm_delete", {"filename": "b"}, caps=EVERYTHING, meta=meta).refusal == (409, 40900)
    assert alice.tool("multi_input", {"filename": "a"}, caps=EVERYTHING, meta=meta).refusal == (409, 40900)
    theirs = bob.create("confirm_delete", {"filename": "a"}, meta=meta)
    assert theirs != first
    alice.cancel(first)
    bob.cancel(theirs)


@pytest.mark.req("B26-13")
def test_a_key_still_finds_its_task_after_it_ended(alice: Client) -> None:
    meta = {KEY: f"ended-{time.monotonic_ns()}"}
    assert alice.tool("greet", {"name": "x"}, meta=meta).text == "Hello, x!"
    again = alice.tool("greet", {"name": "x"}, meta=meta)
    assert again.text == "Hello, x!"


@pytest.mark.parametrize("key", [7, "", "x" * 256, "ü", "a\nb", "a\u0000b", []])
@pytest.mark.req("B26-28")
def test_a_key_is_short_printable_text(alice: Client, key: Any) -> None:
    assert alice.tool("greet", {"name": "x"}, meta={KEY: key}).refusal == (200, -32602)


@pytest.mark.req("B26-28")
def test_unknown_and_optional_metadata_does_no_harm(alice: Client) -> None:
    meta: dict[str, Any] = {
        PREFIX + "clientInfo": None,
        "traceparent": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
        "tracestate": "a=1",
        "baggage": "k=v",
        "modelcontextprotocol.io/task": {"taskId": "mine", "keepAlive": 1},
        "x/unknown": {"deep": [1, 2]},
    }
    assert alice.tool("greet", {"name": "x"}, meta=meta).text == "Hello, x!"


@pytest.mark.req("T26-31", "B26-62")
def test_a_question_the_client_cannot_answer_is_never_put_to_it(alice: Client) -> None:
    task_id = alice.create("wrong_question", caps=TASKS)
    waiting = wait_until(
        lambda: (found := alice.get(task_id).result).get("statusMessage", "").startswith("Waiting") and found,
        "the question",
    )
    assert waiting["status"] == "working"
    assert "inputRequests" not in waiting
    shown = alice.get(task_id, caps=EVERYTHING).result
    assert "inputRequests" not in shown
    alice.update(task_id, {"name": accept(name="x")}, caps=EVERYTHING)
    assert alice.get(task_id).result["status"] == "working"
    alice.cancel(task_id)
    assert alice.until(task_id, "cancelled")["status"] == "cancelled"


@pytest.mark.req("B26-30", "B26-26")
def test_an_error_of_the_tool_keeps_its_code_for_a_caller_that_waits(alice: Client) -> None:
    answer = alice.tool("protocol_error_job", caps=TASKS)
    found = alice.until(answer.result["taskId"], "failed")
    assert found["error"] == {"code": -32603, "message": "This job met a protocol error on purpose"}


@pytest.mark.req("B26-09", "B26-60")
def test_a_call_that_streams_and_then_asks_ends_with_the_round(alice: Client) -> None:
    answer = alice.tool("test_streaming_elicitation", caps=FORMS, meta={"progressToken": 1})
    assert {note["method"] for note in answer.notifications} == {"notifications/progress"}
    assert answer.result["resultType"] == "input_required"


def _raw(client: Client, message: dict[str, Any]) -> bytes:
    body = json.dumps(message).encode()
    headers = {**client.headers(message), "host": client.base.removeprefix("http://"), "content-length": str(len(body))}
    lines = [f"{name}: {value}" for name, value in headers.items()]
    return ("POST /mcp HTTP/1.1\r\n" + "\r\n".join(lines) + "\r\n\r\n").encode() + body

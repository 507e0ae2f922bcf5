"""`tasks/get`, `tasks/update` and `tasks/cancel` over HTTP: the life of a task."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest

from tests.support.client import EVERYTHING, EXTENSION, NONE, TASKS, Answer, Client, accept
from tests.support.hub import RunningHub, wait_until

pytestmark = pytest.mark.processes

REQUIRED = {"requiredCapabilities": {"extensions": {EXTENSION: {}}}}
UNKNOWN = "A" * 32


def _without_id(answer: Answer) -> bytes:
    body = dict(answer.messages[-1])
    body.pop("id")
    return json.dumps([answer.status, body]).encode()


def _acknowledges(answer: Answer) -> bool:
    """Nothing but what every result says (T26-32, T26-38, B26-41)."""
    rest = dict(answer.result)
    return rest.pop("_meta").keys() == {"io.modelcontextprotocol/serverInfo"} and rest == {"resultType": "complete"}


def _asked(client: Client, task_id: str) -> dict[str, Any]:
    found: dict[str, Any] = client.until(task_id, "input_required")["inputRequests"]
    return found


@pytest.mark.req("T26-21", "T26-22", "T26-23", "T26-25", "T26-14", "T26-45")
def test_a_task_works_and_completes_with_the_result_of_the_plain_call(alice: Client) -> None:
    task_id = alice.create("slow_compute", {"seconds": 1, "label": "it"}, caps=TASKS)
    working = alice.get(task_id).result
    assert working["status"] == "working"
    done = alice.until(task_id, "completed")
    assert done["result"]["content"] == [{"type": "text", "text": "Computed it in 1 s"}]
    assert "serverInfo" not in json.dumps(done["result"]), "the name of a server behind the hub is its own affair"
    assert done["createdAt"] == working["createdAt"]
    assert done["lastUpdatedAt"] >= working["lastUpdatedAt"]
    assert alice.get(task_id).result == done


@pytest.mark.req("T26-22")
def test_the_first_poll_of_a_quick_task_finds_it_ended(alice: Client) -> None:
    firsts = [alice.get(alice.create("failing_job")).result["status"] for _ in range(20)]
    assert firsts.count("completed") > 10, firsts


@pytest.mark.req("T26-26", "T26-25")
def test_a_tool_error_completes_the_task(alice: Client) -> None:
    task_id = alice.create("failing_job")
    assert alice.until(task_id, "completed", "failed")["result"]["isError"] is True


@pytest.mark.req("T26-27")
def test_a_protocol_error_fails_the_task_and_says_why(alice: Client) -> None:
    found = alice.until(alice.create("protocol_error_job"), "completed", "failed")
    assert found["error"] == {"code": -32603, "message": "This job met a protocol error on purpose"}
    assert found["statusMessage"] == "This job met a protocol error on purpose"


@pytest.mark.req("T26-22", "T26-29", "T26-46")
def test_polling_changes_nothing_and_is_never_refused(alice: Client) -> None:
    task_id = alice.create("confirm_delete", {"filename": "idle"})
    first = alice.until(task_id, "input_required")
    assert all(alice.get(task_id).result == first for _ in range(30))
    alice.cancel(task_id)


@pytest.mark.req("T26-24", "T26-29", "T26-32", "T26-35")
def test_an_answer_moves_the_task_on(alice: Client) -> None:
    task_id = alice.create("confirm_delete", {"filename": "notes.txt"})
    request = _asked(alice, task_id)["confirm"]
    assert request["method"] == "elicitation/create"
    assert request["params"]["message"] == "Delete notes.txt?"
    assert _acknowledges(alice.update(task_id, {"confirm": accept(confirm=True)}))
    assert "inputRequests" not in alice.get(task_id).result
    done = alice.until(task_id, "completed")
    assert done["result"]["content"][0]["text"] == "Deleted notes.txt"


@pytest.mark.parametrize("action", ["decline", "cancel"])
@pytest.mark.req("T26-35", "B26-67")
def test_to_decline_is_an_answer_too(alice: Client, action: str) -> None:
    task_id = alice.create("confirm_delete", {"filename": "x"})
    _asked(alice, task_id)
    alice.update(task_id, {"confirm": {"action": action}})
    assert alice.until(task_id, "completed")["result"]["content"][0]["text"] == "Kept x"


@pytest.mark.req("T26-34", "T26-24", "T26-35")
def test_a_partial_answer_leaves_the_rest_open_at_once(alice: Client) -> None:
    task_id = alice.create("multi_input")
    assert set(_asked(alice, task_id)) == {"first", "second"}
    alice.update(task_id, {"second": accept(name="partial-1", confirm=True)})
    found = alice.get(task_id).result
    assert (found["status"], set(found["inputRequests"])) == ("input_required", {"first"})
    alice.update(task_id, {"first": accept(name="partial-2", confirm=True)})
    done = alice.until(task_id, "completed")
    assert done["result"]["content"][0]["text"] == "First partial-2, then partial-1"


@pytest.mark.req("T26-36")
def test_the_first_answer_wins(alice: Client) -> None:
    task_id = alice.create("multi_input")
    _asked(alice, task_id)
    alice.update(task_id, {"first": accept(name="one")})
    assert alice.update(task_id, {"first": accept(name="two")}).status == 200
    alice.update(task_id, {"second": accept(name="three")})
    assert alice.until(task_id, "completed")["result"]["content"][0]["text"] == "First one, then three"


@pytest.mark.parametrize("responses", [{}, {"nope": {"ignored": True}}, {"nope": None}, {"a\u0000b": 7}, {"": []}])
@pytest.mark.req("T26-33")
def test_answers_nobody_asked_for_are_acknowledged_and_ignored(alice: Client, responses: dict[str, Any]) -> None:
    task_id = alice.create("confirm_delete", {"filename": "x"})
    before = alice.until(task_id, "input_required")
    assert _acknowledges(alice.update(task_id, responses))
    assert alice.get(task_id).result == before
    alice.cancel(task_id)


@pytest.mark.req("T26-33", "T26-21")
def test_an_answer_to_an_ended_task_is_acknowledged_and_ignored(alice: Client) -> None:
    task_id = alice.create("failing_job")
    before = alice.until(task_id, "completed")
    assert _acknowledges(alice.update(task_id, {"confirm": 7}))
    assert alice.get(task_id).result == before


@pytest.mark.parametrize(
    ("response", "pointer"),
    [
        (7, "/inputResponses/second"),
        ([], "/inputResponses/second"),
        ({}, "/inputResponses/second/action"),
        ({"action": "maybe"}, "/inputResponses/second/action"),
        ({"action": "accept"}, "/inputResponses/second/content/name"),
        ({"action": "accept", "content": []}, "/inputResponses/second/content"),
        (accept(name=7), "/inputResponses/second/content/name"),
        (accept(name="x", confirm="yes"), "/inputResponses/second/content/confirm"),
        (accept(name="a\u0000b"), "/inputResponses/second"),
    ],
)
@pytest.mark.req("T26-36", "B26-83")
def test_an_answer_that_does_not_fit_is_refused_and_nothing_is_stored(
    alice: Client, response: Any, pointer: str
) -> None:
    task_id = alice.create("multi_input")
    before = alice.until(task_id, "input_required")
    answer = alice.update(task_id, {"first": accept(name="fits"), "second": response})
    assert answer.refusal == (200, -32602)
    assert answer.error["data"]["pointer"] == pointer
    assert alice.get(task_id).result == before
    alice.cancel(task_id)


@pytest.mark.req("T26-36")
def test_fields_nobody_asked_for_are_dropped(hub: RunningHub, alice: Client) -> None:
    task_id = alice.create("confirm_delete", {"filename": "x"})
    _asked(alice, task_id)
    alice.update(task_id, {"confirm": accept(confirm=True, extra="sent along")})
    alice.until(task_id, "completed")
    stored = hub.sql(
        "SELECT response::text FROM question q JOIN task t ON t.id = q.task_id WHERE t.public_id = %s", [task_id]
    )
    assert [json.loads(row[0]) for row in stored] == [accept(confirm=True)]


@pytest.mark.req("T26-30")
def test_a_question_asked_again_has_a_key_of_its_own(alice: Client) -> None:
    task_id = alice.create("ask_twice")
    seen: list[str] = []
    for word in ("no", "not yet", "done"):
        (key,) = wait_until(
            lambda: [key for key in alice.get(task_id).result.get("inputRequests", {}) if key not in seen],
            "a new question",
        )
        seen.append(key)
        alice.update(task_id, {key: accept(word=word)})
    assert len(set(seen)) == 3
    assert alice.until(task_id, "completed")["result"]["content"][0]["text"] == "Heard: done"


@pytest.mark.req("T26-38", "T26-28", "T26-21")
def test_a_running_task_is_cancelled(alice: Client) -> None:
    task_id = alice.create("slow_compute", {"seconds": 60}, caps=TASKS)
    assert _acknowledges(alice.cancel(task_id))
    assert alice.until(task_id, "cancelled", "completed", seconds=10)["status"] == "cancelled"
    assert _acknowledges(alice.cancel(task_id))


@pytest.mark.req("T26-38", "T26-28", "T26-33")
def test_a_waiting_task_is_cancelled_at_once(alice: Client) -> None:
    task_id = alice.create("confirm_delete", {"filename": "x"})
    _asked(alice, task_id)
    alice.cancel(task_id)
    found = alice.get(task_id).result
    assert found["status"] == "cancelled"
    alice.update(task_id, {"confirm": accept(confirm=True)})
    assert alice.get(task_id).result == found


@pytest.mark.parametrize(("tool", "status"), [("failing_job", "completed"), ("protocol_error_job", "failed")])
@pytest.mark.req("T26-39", "T26-21")
def test_to_cancel_an_ended_task_changes_nothing(alice: Client, tool: str, status: str) -> None:
    task_id = alice.create(tool)
    before = alice.until(task_id, status)
    assert _acknowledges(alice.cancel(task_id))
    assert alice.get(task_id).result == before


@pytest.mark.req("T26-20", "B26-13")
def test_a_task_is_cancelled_from_another_connection_of_its_owner(hub: RunningHub, alice: Client) -> None:
    task_id = alice.create("slow_compute", {"seconds": 60}, caps=TASKS)
    with Client(hub.base, alice.token) as other:
        other.cancel(task_id)
        assert other.until(task_id, "cancelled", seconds=10)["status"] == "cancelled"


@pytest.mark.req("T26-48", "B26-06")
def test_a_cancelled_notification_cancels_no_task(alice: Client) -> None:
    task_id = alice.create("slow_compute", {"seconds": 1}, caps=TASKS)
    for params in ({"requestId": 1}, {"requestId": task_id}, {"taskId": task_id}):
        note = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": params}
        answer = alice.send(note, alice.headers(note))
        assert (answer.status, answer.body) == (202, b"")
    assert alice.until(task_id, "completed", "cancelled")["status"] == "completed"


@pytest.mark.parametrize("method", ["tasks/get", "tasks/update", "tasks/cancel"])
@pytest.mark.parametrize(
    "caps", [NONE, {"tasks": {"cancel": {}}}, {"extensions": {EXTENSION: None}}, {"extensions": []}]
)
@pytest.mark.req("T26-06", "T26-03", "T26-08", "T26-57", "B26-30", "B26-32")
def test_the_extension_is_needed_before_anything_is_looked_up(alice: Client, method: str, caps: dict[str, Any]) -> None:
    theirs = alice.create("failing_job")
    for task_id in ("gate-test", theirs):
        answer = alice.call(method, {"taskId": task_id}, caps=caps)
        assert answer.refusal == (400, -32021)
        assert answer.error["data"] == REQUIRED


METHODS: list[tuple[str, dict[str, Any]]] = [
    ("tasks/get", {}),
    ("tasks/update", {"inputResponses": {"confirm": accept(confirm=True)}}),
    ("tasks/cancel", {}),
]


@pytest.mark.parametrize(("method", "params"), METHODS, ids=[method for method, _ in METHODS])
@pytest.mark.req("T26-20", "T26-40", "T26-19")
def test_a_foreign_task_answers_exactly_as_one_that_never_was(
    alice: Client, bob: Client, method: str, params: dict[str, Any]
) -> None:
    task_id = alice.create("confirm_delete", {"filename": "secret"})
    before = alice.until(task_id, "input_required")
    unknown = bob.call(method, {"taskId": UNKNOWN, **params}, caps=TASKS)
    foreign = bob.call(method, {"taskId": task_id, **params}, caps=TASKS)
    assert unknown.refusal == (200, -32602)
    assert _without_id(foreign) == _without_id(unknown)
    assert set(foreign.headers) == set(unknown.headers)
    assert alice.get(task_id).result == before
    alice.cancel(task_id)


@pytest.mark.parametrize(("method", "params"), METHODS, ids=[method for method, _ in METHODS])
@pytest.mark.parametrize(
    "task_id", ["", "x", "gate-test", "\u0000" * 32, "' OR 1=1 --" * 3, "ü" * 30, "A" * 65, "/" * 32]
)
@pytest.mark.req("T26-40")
def test_an_id_that_cannot_be_one_is_just_unknown(
    alice: Client, method: str, params: dict[str, Any], task_id: str
) -> None:
    unknown = alice.call(method, {"taskId": UNKNOWN, **params}, caps=TASKS)
    name = f"=?base64?{base64.b64encode(task_id.encode()).decode()}?="
    answer = alice.call(method, {"taskId": task_id, **params}, caps=TASKS, name=name)
    assert _without_id(answer) == _without_id(unknown)


@pytest.mark.req("T26-40", "T26-45", "T26-15")
def test_an_ended_task_past_its_time_is_unknown(hub: RunningHub, alice: Client) -> None:
    task_id = alice.create("failing_job")
    found = alice.until(task_id, "completed")
    assert found["ttlMs"] > 0
    hub.sql("UPDATE task SET expires_at = now() - interval '1 second' WHERE public_id = %s", [task_id])
    for method, params in METHODS:
        unknown = alice.call(method, {"taskId": UNKNOWN, **params}, caps=TASKS)
        assert _without_id(alice.call(method, {"taskId": task_id, **params}, caps=TASKS)) == _without_id(unknown)


@pytest.mark.parametrize(
    ("method", "params"),
    [
        ("tasks/get", {}),
        ("tasks/get", {"taskId": 7}),
        ("tasks/get", {"taskId": None}),
        ("tasks/cancel", {"taskId": ["x"]}),
        ("tasks/update", {"inputResponses": {}}),
        ("tasks/update", {"taskId": UNKNOWN}),
        ("tasks/update", {"taskId": UNKNOWN, "inputResponses": None}),
        ("tasks/update", {"taskId": UNKNOWN, "inputResponses": []}),
        ("tasks/update", {"taskId": UNKNOWN, "inputResponses": "x"}),
    ],
)
@pytest.mark.req("T26-37")
def test_malformed_parameters_are_refused(alice: Client, method: str, params: dict[str, Any]) -> None:
    assert alice.call(method, params, name=UNKNOWN, caps=TASKS).refusal == (200, -32602)


@pytest.mark.req("T26-31")
def test_who_polls_with_less_still_sees_every_question(alice: Client) -> None:
    task_id = alice.create("multi_input", caps=EVERYTHING)
    asked = _asked(alice, task_id)
    assert alice.get(task_id, caps={**TASKS, "roots": {}}).result["inputRequests"] == asked
    alice.cancel(task_id)


@pytest.mark.req("T26-53")
def test_a_name_of_another_task_is_refused(alice: Client) -> None:
    task_id = alice.create("failing_job")
    for method, params in METHODS:
        answer = alice.call(method, {"taskId": task_id, **params}, name=UNKNOWN, caps=TASKS)
        assert answer.refusal == (400, -32020)


@pytest.mark.req("T26-53", "B26-22")
def test_clients_that_send_no_name_for_a_task_are_borne(alice: Client) -> None:
    task_id = alice.create("failing_job")
    for method, params in METHODS:
        answer = alice.call(method, {"taskId": task_id, **params}, headers={"Mcp-Name": None}, caps=TASKS)
        assert answer.result["resultType"] == "complete"

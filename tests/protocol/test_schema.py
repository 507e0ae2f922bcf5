"""The checker itself: it accepts what the rules allow and refuses what they forbid."""

from __future__ import annotations

from typing import Any

import pytest

from tests.protocol import schema

TASK: dict[str, Any] = {
    "taskId": "a" * 32,
    "status": "working",
    "createdAt": "2026-08-01T10:00:00.000Z",
    "lastUpdatedAt": "2026-08-01T10:00:00.000Z",
    "ttlMs": None,
    "pollIntervalMs": 1000,
}
FORM = {
    "method": "elicitation/create",
    "params": {"message": "?", "requestedSchema": {"type": "object", "properties": {}}},
}


def test_a_flat_handle_passes() -> None:
    schema.check_result("tools/call", {"resultType": "task", **TASK})


@pytest.mark.parametrize(
    "extra",
    [
        {"task": TASK},
        {"result": {"content": []}},
        {"error": {"code": -32603, "message": "no"}},
        {"inputRequests": {"q": FORM}},
        {"requestState": "x"},
        {"ttl": 1},
        {"pollInterval": 1},
        {"ttlMs": 0},
        {"ttlMs": 1.5},
        {"pollIntervalMs": 0},
        {"status": "submitted"},
        {"createdAt": "yesterday"},
    ],
)
@pytest.mark.req("T26-12", "T26-13", "T26-15", "T26-16", "T26-17")
def test_a_handle_with_more_than_a_handle_is_caught(extra: dict[str, Any]) -> None:
    with pytest.raises(AssertionError):
        schema.check_result("tools/call", {"resultType": "task", **TASK, **extra})


@pytest.mark.parametrize(
    "payload",
    [
        {"status": "working", "result": {"content": []}},
        {"status": "cancelled", "error": {"code": 1, "message": "x"}},
        {"status": "input_required"},
        {"status": "input_required", "inputRequests": {}},
        {"status": "completed"},
        {"status": "completed", "result": {"content": [], "_meta": {"io.modelcontextprotocol/related-task": {}}}},
        {"status": "failed", "error": {"code": "1", "message": "x"}},
        {"status": "failed", "error": {"code": -32001, "message": "x"}},
        {"status": "working", "requestState": "x"},
    ],
)
@pytest.mark.req("T26-23", "T26-24", "T26-25", "T26-27", "T26-28", "T26-29", "B26-33")
def test_a_payload_of_another_status_is_caught(payload: dict[str, Any]) -> None:
    with pytest.raises(AssertionError):
        schema.check_result("tasks/get", {"resultType": "complete", **TASK, **payload})


@pytest.mark.parametrize("method", ["tasks/get", "prompts/get", "resources/read"])
@pytest.mark.req("T26-10", "T26-14")
def test_a_handle_from_anything_but_a_call_is_caught(method: str) -> None:
    with pytest.raises(AssertionError):
        schema.check_result(method, {"resultType": "task", **TASK})


@pytest.mark.req("B26-72")
def test_a_subscription_id_of_another_type_is_caught() -> None:
    told = {
        "jsonrpc": "2.0",
        "method": "notifications/tasks",
        "params": {**TASK, "_meta": {"io.modelcontextprotocol/subscriptionId": "7"}},
    }
    schema.check_message("subscriptions/listen", "7", told, streamed=True)
    with pytest.raises(AssertionError):
        schema.check_message("subscriptions/listen", 7, told, streamed=True)

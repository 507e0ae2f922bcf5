"""What `/mcp/sep-2557` may look like: every message a test receives goes through here.

Task-bearing messages are checked against `schemas/sep_2557_*.json`, written from the rules (T2557-*), and all
of them for words of the published extension.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from tests.protocol.schema import check

PUBLISHED_KEYS: Final = frozenset(
    {"ttlMs", "pollIntervalMs", "cacheScope", "extensions", "tasks", "execution", "notifications/tasks"}
)
"""Keys that only the published extension, its base protocol or the 2025 wires have."""

PUBLISHED_WORDS: Final = frozenset(
    {"tasks/update", "notifications/tasks", "io.modelcontextprotocol/tasks", "io.modelcontextprotocol/related-task"}
)
PLAIN: Final = {
    "server/discover": {"resultType", "supportedVersions", "capabilities", "_meta"},
    "tools/list": {"resultType", "tools", "nextCursor", "_meta"},
    "tools/call": {"resultType", "content", "structuredContent", "isError", "_meta"},
    "subscriptions/listen": {"resultType", "_meta"},
}


def words(value: Any) -> Iterator[tuple[str, Any]]:
    """Every key with its value, and every string as a value of nothing."""
    if isinstance(value, dict):
        for key, inner in value.items():
            yield key, inner
            yield from words(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from words(inner)
    elif isinstance(value, str):
        yield "", value


def check_message(method: str, id: object, message: dict[str, Any]) -> None:
    """A message that came in answer to a request of `method` with `id`."""
    assert message["jsonrpc"] == "2.0"
    for key, value in words(message):
        assert key not in PUBLISHED_KEYS, f"{key} is not of this revision: {message}"
        assert not (isinstance(value, str) and value in PUBLISHED_WORDS), f"{value}: {message}"
    if "method" in message:
        assert "id" not in message, "the server sends no requests (T2557-19)"
        if message["method"] == "notifications/tasks/status":
            assert method == "subscriptions/listen"
            check("sep_2557_task_status", message["params"])
        return
    if "id" in message:
        assert (type(message["id"]), message["id"]) == (type(id), id)
    if "error" in message:
        assert set(message) <= {"jsonrpc", "id", "error"}
        check("error", message["error"])
        return
    assert set(message) == {"jsonrpc", "id", "result"}
    _check_result(method, message["result"])


def _check_result(method: str, result: dict[str, Any]) -> None:
    kind = result["resultType"]
    if method == "tasks/get":
        check("sep_2557_get_task_result", result)
    elif method == "tasks/cancel":
        check("sep_2557_cancel_task_result", result)
    elif kind == "task":
        assert method == "tools/call"
        check("sep_2557_create_task_result", result)
    elif kind == "incomplete":
        assert method == "tools/call"
        assert set(result) == {"resultType", "inputRequests", "requestState", "_meta"}
        for request in result["inputRequests"].values():
            check("input_request", request)
    else:
        assert kind == "complete", "one of three (T2557-06)"
        assert set(result) <= PLAIN[method], set(result) - PLAIN[method]

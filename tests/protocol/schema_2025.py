"""What the 2025 wires may look like: every message a test receives goes through here.

What the SDK has of the published schemas is checked against its models; tasks, which it leaves out,
against the shapes below, written from the rules (T25-*).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import mcp_types.methods as published
from jsonschema import Draft202012Validator

VERSION: Final = "2025-11-25"
RELATED_1686: Final = "modelcontextprotocol.io/related-task"
RELATED: Final = "io.modelcontextprotocol/related-task"
FOREIGN: Final = ("resultType", "ttlMs", "pollIntervalMs", "cacheScope", "inputRequests", "requestState", "serverInfo")
"""Words of the later era: none of them at the root of a result."""

_STAMP: Final = {"type": "string", "pattern": r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$"}
_TASK: Final[dict[str, Any]] = {
    "taskId": {"type": "string", "pattern": "^[A-Za-z0-9_-]{22,64}$"},
    "status": {"enum": ["working", "input_required", "completed", "failed", "cancelled"]},
    "statusMessage": {"type": "string", "minLength": 1},
    "createdAt": _STAMP,
    "lastUpdatedAt": _STAMP,
    "ttl": {"type": ["integer", "null"], "exclusiveMinimum": 0},
    "pollInterval": {"type": "integer", "exclusiveMinimum": 0},
}
_REQUIRED: Final = ["taskId", "status", "createdAt", "lastUpdatedAt", "ttl"]
TASK: Final[dict[str, Any]] = {
    "type": "object",
    "properties": _TASK,
    "required": _REQUIRED,
    "additionalProperties": False,
}
CREATED: Final[dict[str, Any]] = {
    "type": "object",
    "properties": {"task": TASK, "_meta": {"type": "object"}},
    "required": ["task"],
    "additionalProperties": False,
}
LIST: Final[dict[str, Any]] = {
    "type": "object",
    "properties": {"tasks": {"type": "array", "items": TASK}, "nextCursor": {"type": "string"}},
    "required": ["tasks"],
    "additionalProperties": False,
}
_SHAPES: Final = {"tasks/get": TASK, "tasks/cancel": TASK, "tasks/list": LIST}
EMPTY: Final = ("ping", "logging/setLevel", "resources/subscribe", "resources/unsubscribe")


def check(shape: Mapping[str, Any], value: Any) -> None:
    """`value` against a JSON schema; fails with the place and the reason."""
    problems = [f"{error.json_path}: {error.message}" for error in Draft202012Validator(shape).iter_errors(value)]
    assert not problems, f"{problems} in {value}"


def check_message(method: str, params: Mapping[str, Any], version: str, id: object, message: Any) -> None:
    """A message on the answer to a request of `method`, or on the session's own stream (`""`)."""
    assert isinstance(message, dict)
    assert message.get("jsonrpc") == "2.0"
    if "method" in message:
        _check_sent(version, message)
        return
    assert set(message) in ({"jsonrpc", "id", "result"}, {"jsonrpc", "id", "error"}, {"jsonrpc", "error"}), message
    if "id" in message:
        assert (type(message["id"]), message["id"]) == (type(id), id)
    if "error" in message:
        assert set(message["error"]) <= {"code", "message", "data"}
        assert isinstance(message["error"]["code"], int)
        assert isinstance(message["error"]["message"], str)
        return
    check_result(method, params, version, message["result"])


def check_result(method: str, params: Mapping[str, Any], version: str, result: dict[str, Any]) -> None:
    """A result of `method`."""
    assert method != "", "no responses on the session's own stream (B25-15)"
    if method == "tasks/list":  # each task in the words of its revision; those of SEP-1686 its client checks
        result = {**result, "tasks": [task for task in result["tasks"] if "keepAlive" not in task]}
    if _is_1686(method, result):
        return  # its client checks them
    assert not set(result) & set(FOREIGN) or method == "initialize", result
    if method == "tools/call" and "task" in params and version == "2025-11-25":
        check(CREATED, result)
        assert result["_meta"][RELATED] == {"taskId": result["task"]["taskId"]}
    elif method in _SHAPES:
        check(_SHAPES[method], result)
        assert "_meta" not in result, "T25-27"
    elif method == "tasks/result":
        assert result["_meta"][RELATED] == {"taskId": params["taskId"]}, "T25-23"
        published.validate_server_result("tools/call", version, result)
    else:
        published.validate_server_result(method, version, result)
        if method in EMPTY:
            assert result == {}, f"{method} answers exactly {{}} (B25-23)"


def _is_1686(method: str, result: dict[str, Any]) -> bool:
    return method.startswith("tasks/") and RELATED_1686 in result.get("_meta", {})


def _check_sent(version: str, message: dict[str, Any]) -> None:
    method = message["method"]
    params: Any = message.get("params")
    if "id" in message and method.startswith("tasks/"):
        assert (version, method) in {(VERSION, f"tasks/{word}") for word in ("get", "result", "cancel")}
        assert set(params) == {"taskId"}, "no related-task metadata here (CH-12)"
    elif "id" in message:
        published.parse_server_request(method, version, params)
    elif method == "notifications/tasks/created":
        assert set(params) == {"_meta"}
        assert set(params["_meta"]) == {RELATED_1686}
    elif method == "notifications/tasks/status":
        check(TASK, params)
    else:
        published.parse_server_notification(method, version, params)

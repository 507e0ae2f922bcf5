"""What the wire may look like: every message a test receives goes through here.

Core results and notifications are checked against the models that the SDK makes from the published
schema of 2026-07-28; the tasks extension, which has none there, against `schemas/*.json`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any, Final

import mcp_types.methods as published
from jsonschema import Draft202012Validator
from referencing import Registry, Resource

from tests.protocol import schema_2025

VERSION: Final = "2026-07-28"
CACHED: Final = frozenset(
    {"server/discover", "tools/list", "prompts/list", "resources/list", "resources/templates/list", "resources/read"}
)
ROUNDS: Final = frozenset({"tools/call", "prompts/get", "resources/read"})
PLAIN: Final[dict[str, frozenset[str]]] = {
    "tools/call": frozenset({"resultType", "content", "structuredContent", "isError", "_meta"}),
    "server/discover": frozenset(
        {"resultType", "supportedVersions", "capabilities", "instructions", "ttlMs", "cacheScope", "_meta"}
    ),
    "tools/list": frozenset({"resultType", "tools", "nextCursor", "ttlMs", "cacheScope", "_meta"}),
    "subscriptions/listen": frozenset({"resultType", "_meta"}),
}
"""Every key these results may have: a stray one is a leak from somewhere else."""


@cache
def _registry() -> Registry[Any]:
    found: list[tuple[str, Resource[Any]]] = []
    for path in sorted((Path(__file__).parent / "schemas").glob("*.json")):
        body = json.loads(path.read_text())
        Draft202012Validator.check_schema(body)
        found.append((body["$id"], Resource.from_contents(body)))
    return Registry().with_resources(found)


def check(name: str, value: Any) -> None:
    """`value` against `schemas/{name}.json`; fails with the place and the reason."""
    validator = Draft202012Validator({"$ref": f"taskhub:{name}"}, registry=_registry())
    problems = [f"{error.json_path}: {error.message}" for error in validator.iter_errors(value)]
    assert not problems, f"no {name}: {problems} in {value}"


def check_headers(status: int, headers: Mapping[str, str]) -> None:
    """What holds for every answer of `/mcp`."""
    kind = headers.get("content-type", "").partition(";")[0]
    assert kind in ("application/json", "text/event-stream") or (status == 202 and not kind), f"{status} as {kind}"
    assert "mcp-session-id" not in headers, "this wire has no sessions (B26-11)"
    assert "set-cookie" not in headers
    if kind == "text/event-stream" and not headers.get("server", "").startswith("nginx"):  # which keeps it to itself
        assert headers.get("x-accel-buffering") == "no", "a proxy would hold the stream back (B26-08)"


def check_message(method: str, id: object, message: Any, *, streamed: bool) -> None:
    """A message that came in answer to a request of `method` with `id`."""
    assert isinstance(message, dict)
    assert message.get("jsonrpc") == "2.0"
    if "method" in message:
        assert streamed, "a notification travels on a stream"
        assert set(message) <= {"jsonrpc", "method", "params"}, "the server sends no requests (B26-09)"
        _check_notification(method, id, message)
        return
    assert set(message) in ({"jsonrpc", "id", "result"}, {"jsonrpc", "id", "error"}, {"jsonrpc", "error"}), message
    if "id" in message:
        assert (type(message["id"]), message["id"]) == (type(id), id), "the request's own id (B26-14)"
    if "error" in message:
        check("error", message["error"])
    else:
        check_result(method, message["result"])


def check_result(method: str, result: Any) -> None:
    """A result of `method`."""
    kind = result.get("resultType")
    if kind == "task":
        assert method == "tools/call", f"{method} made a task (T26-10)"
        check("create_task_result", result)
    elif method in ("tasks/get", "tasks/cancel") and "ttl" in result:
        earlier = {key: value for key, value in result.items() if key not in ("resultType", "_meta")}
        schema_2025.check(schema_2025.TASK, earlier)  # a task of that revision (T26-43)
    elif method == "tasks/get":
        check("get_task_result", result)
        _check_payload(result)
    elif method in ("tasks/update", "tasks/cancel"):
        check("acknowledgement", result)
    else:
        assert kind in ("complete", "input_required"), result
        published.validate_server_result(method, VERSION, result)
        if kind == "input_required":
            assert method in ROUNDS, f"{method} asked for input (B26-60)"
            assert set(result) <= {"resultType", "inputRequests", "requestState", "_meta"}
            for request in result["inputRequests"].values():
                check("input_request", request)
        elif method in PLAIN:
            assert set(result) <= PLAIN[method], set(result) - PLAIN[method]
        if method in CACHED and kind == "complete":
            assert type(result["ttlMs"]) is int
            assert result["ttlMs"] >= 0
            assert result["cacheScope"] in ("public", "private")


def _check_payload(task: Mapping[str, Any]) -> None:
    if task["status"] == "completed":
        published.validate_server_result("tools/call", VERSION, task["result"])
    elif task["status"] == "input_required":
        # The published type of a round of questions is the type of these.
        round_ = {"resultType": "input_required", "inputRequests": task["inputRequests"]}
        published.validate_server_result("tools/call", VERSION, round_)


def _check_notification(method: str, id: object, message: Mapping[str, Any]) -> None:
    name, params = message["method"], message.get("params")
    if name == "notifications/tasks":
        assert method == "subscriptions/listen", "only on a subscription (T26-49)"
        check("task_notification", params)
        _check_payload(params or {})
    else:
        published.parse_server_notification(name, VERSION, params)
    if method == "subscriptions/listen":
        assert name not in ("notifications/progress", "notifications/message"), "not here (B26-73)"
        found = (params or {})["_meta"]["io.modelcontextprotocol/subscriptionId"]
        assert (type(found), found) == (type(id), id), "the listen request's own id (B26-72)"
    else:
        assert name in ("notifications/progress", "notifications/message"), f"{name} on the stream of {method}"

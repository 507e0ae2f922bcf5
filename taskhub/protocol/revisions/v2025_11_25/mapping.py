"""Task records and tools as 2025-11-25 shows them: total functions, no I/O."""

from __future__ import annotations

import json
from typing import Any, Final

from taskhub.core.records import Session, State, TaskMode, TaskRecord, ToolRecord
from taskhub.core.versions import Version
from taskhub.protocol.plain.interim import relaxed
from taskhub.protocol.plain.tools import HubTool
from taskhub.protocol.revisions.v2025_11_25.wire import RELATED, VERSION
from taskhub.protocol.wire import tasks

SUPPORT: Final[dict[TaskMode, str]] = {
    TaskMode.AUTO: "optional",
    TaskMode.ALWAYS: "optional",
    TaskMode.NEVER: "forbidden",
    TaskMode.REQUIRED: "required",
}
"""The `taskSupport` of a tool, by its mode (T25-04). `always` is shown as `optional`, since every caller may wait for
such a tool, and some SDKs themselves refuse plain calls of a `required` tool."""

MAX_MESSAGE: Final = 4_000
"""The most characters of a `statusMessage`."""
READ_MOST: Final = 65_536
"""The result of a tool error is decoded for a `statusMessage` if it has at most this many characters. For a larger
result the task's own message is shown, which is the beginning of the same text."""

_TOOL: Final = ("name", "description", "inputSchema", "annotations")
TOOL_MEMBERS: Final[dict[str, frozenset[str]]] = {
    Version.MCP_2025_03_26: frozenset(_TOOL),
    Version.MCP_2025_06_18: frozenset({*_TOOL, "title", "outputSchema", "_meta"}),
    VERSION: frozenset({*_TOOL, "title", "outputSchema", "_meta", "icons", "execution"}),
}


def status(task: TaskRecord) -> str:
    """The status of the task; in this revision a tool error is `failed` too (T25-42)."""
    return "failed" if task.state is State.FINISHED and task.is_error else tasks.status(task)


def task_fields(task: TaskRecord) -> dict[str, Any]:
    """The members of a `Task` (T25-15, T25-16, T25-19)."""
    fields = tasks.task_head(task, status(task), _message(task))
    fields["ttl"] = task.ttl_ms
    fields["pollInterval"] = task.poll_interval_ms
    return fields


def _message(task: TaskRecord) -> str:
    """The `statusMessage`. For a failed task it is the whole text of the error: some clients show it to their model and
    never ask for the result."""
    said = ""
    if task.state is State.FAULTED and task.error_json is not None:
        said = str(json.loads(task.error_json).get("message", ""))
    elif task.is_error and task.result_json is not None and len(task.result_json) <= READ_MOST:
        blocks = json.loads(task.result_json).get("content") or []
        texts = [block.get("text") for block in blocks if isinstance(block, dict) and block.get("type") == "text"]
        said = "\n".join(text for text in texts if isinstance(text, str))
    return said[:MAX_MESSAGE] or task.message


def declares_tasks(capabilities: dict[str, Any], version: str) -> bool:
    """Whether the session's client declares the capability `tasks`. A client that does not may still create tasks, but
    is shown only what a plain call can use."""
    return version == VERSION and isinstance(capabilities.get("tasks"), dict)


def makes_plain_calls(session: Session) -> bool:
    """Whether the session's client knows nothing of tasks: it does not declare tasks, and has made no task of
    SEP-1686."""
    return not session.profile and not declares_tasks(session.client_capabilities, session.version)


def usable(capabilities: dict[str, Any], version: str) -> dict[str, Any]:
    """The client's capabilities, without those that its version does not have. A request that needs one of these would
    break the protocol."""
    if version == VERSION:
        return capabilities
    found = {name: capabilities[name] for name in ("roots", "sampling") if isinstance(capabilities.get(name), dict)}
    if "sampling" in found:
        found["sampling"] = {}
    if version == Version.MCP_2025_06_18 and isinstance(capabilities.get("elicitation"), dict):
        found["elicitation"] = {}
    return found


def wire_tool(tool: ToolRecord, version: str) -> dict[str, Any]:
    """A tool as its server describes it, under the name we expose, with the members this version has."""
    members = TOOL_MEMBERS[version]
    shown = {key: value for key, value in tool.definition.items() if key in members and key != "execution"}
    output = shown.get("outputSchema")
    if output is not None and not (isinstance(output, dict) and output.get("type") == "object"):
        del shown["outputSchema"]  # any type is legal in 2026-07-28 only (B26-47)
    if "execution" in members:
        shown["execution"] = {"taskSupport": SUPPORT[tool.mode]}
    return {**shown, "name": tool.exposed_name}


def plain_tool(tool: ToolRecord | HubTool, version: str) -> dict[str, Any]:
    """A tool for a client that makes plain calls. A hub tool is shown as it is; any other as `wire_tool` shows it, but
    an `outputSchema` accepts an interim result too."""
    if isinstance(tool, HubTool):
        return {key: value for key, value in tool.definition.items() if key in TOOL_MEMBERS[version]}
    return relaxed(wire_tool(tool, version))


def related(task: TaskRecord) -> dict[str, Any]:
    """The `_meta` of messages about the task, except those of `tasks/get`, `list` and `cancel` (T25-11, T25-27)."""
    return {RELATED: {"taskId": task.public_id}}

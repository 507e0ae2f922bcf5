"""The hub's own tools, by which clients that know nothing of tasks go on with a call that has not ended.

Calls of these tools make no task. Text and structured content of a result say the same. Errors are tool errors, with a
message for the model. `taskhub_wait_for_task` is implemented by the revisions, because it returns the result of the
call that it waits for.
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Final

from taskhub.core.errors import Invalid, TaskHubError
from taskhub.core.names import HUB_TOOL_PREFIX
from taskhub.core.records import TaskRecord, ToolRecord
from taskhub.domain.catalogue.view import Catalogue
from taskhub.domain.tasks.callers import plain_tasks
from taskhub.domain.tasks.cancel import request_cancel
from taskhub.protocol import calls
from taskhub.protocol.errors import WireError
from taskhub.protocol.hub import Hub
from taskhub.protocol.incoming import Incoming
from taskhub.protocol.plain.interim import ANSWER_TOOL, WAIT_TOOL, standing
from taskhub.protocol.wire.tasks import answerable

LISTED: Final = 50
"""The most tasks in one result of `taskhub_list_tasks`."""

_TASK_ID: Final = {
    "type": "string",
    "description": "The id of the task, as the interim result of the call named it (task_id).",
}


@dataclass(frozen=True, slots=True)
class HubTool:
    """One of the hub's own tools; `definition` is its entry in `tools/list`."""

    name: str
    definition: dict[str, Any]


def _tool(name: str, title: str, description: str, properties: dict[str, Any], **annotations: bool) -> HubTool:
    required = [key for key in properties if key != "state"]
    schema = {"type": "object", "properties": properties, "required": required, "additionalProperties": False}
    hints = {"title": title, "openWorldHint": False, "destructiveHint": False, "readOnlyHint": True, **annotations}
    definition = {"name": name, "description": description, "inputSchema": schema, "annotations": hints}
    return HubTool(name, definition)


TOOLS: Final = MappingProxyType(
    {
        tool.name: tool
        for tool in (
            _tool(
                WAIT_TOOL,
                "Wait for a task",
                "Get the result of a tool call that had not ended. Blocks until there is a result, and returns exactly"
                " what the called tool returned. If it takes too long, it returns where the call stands; then call it"
                " again with the same task_id. Prefer it to calling the tool again.",
                {"task_id": _TASK_ID},
                idempotentHint=True,
            ),
            _tool(
                f"{HUB_TOOL_PREFIX}get_task",
                "Look at a task",
                "See at once where a tool call stands that had not ended: its state, its progress, and who is waited"
                f" for. It never returns the result: {WAIT_TOOL} does.",
                {"task_id": _TASK_ID},
                idempotentHint=True,
            ),
            _tool(
                f"{HUB_TOOL_PREFIX}list_tasks",
                "List tasks",
                "List your tool calls that have not ended, or whose result you have not had, newest first. Use it when"
                " you have lost a task_id.",
                {
                    "state": {
                        "type": "string",
                        "enum": ["open", "unread", "all"],
                        "default": "open",
                        "description": "open: not ended. unread: ended, and the result was not fetched. all: both.",
                    }
                },
                idempotentHint=True,
            ),
            _tool(
                f"{HUB_TOOL_PREFIX}cancel_task",
                "Cancel a task",
                "Stop a tool call that has not ended, for good. Use it only if its result is not wanted any more.",
                {"task_id": _TASK_ID},
                readOnlyHint=False,
                destructiveHint=True,
            ),
            _tool(
                ANSWER_TOOL,
                "Answer a task's question",
                "Answer a question that a running tool call asks you. Approvals are for people and cannot be given"
                " here. Afterwards call " + WAIT_TOOL + " for the result.",
                {
                    "task_id": _TASK_ID,
                    "key": {"type": "string", "description": "The key of the question, as it was told with it."},
                    "answer": {
                        "type": "object",
                        "description": 'For an elicitation: {"action": "accept", "content": {...}} with content'
                        ' that fits the question\'s requestedSchema, or {"action": "decline"} or'
                        ' {"action": "cancel"}. For another kind: the result that MCP has for it.',
                    },
                },
                readOnlyHint=False,
            ),
        )
    }
)
"""The hub's own tools by name, in the order of `tools/list`."""


def is_hub_tool(params: Mapping[str, Any]) -> bool:
    """Whether the params of a `tools/call` name one of the hub's own tools."""
    name = params.get("name")
    return isinstance(name, str) and name in TOOLS


def with_hub_tools(found: Catalogue) -> tuple[ToolRecord | HubTool, ...]:
    """The tools that a client without tasks can call; the hub's own come last."""
    return (*found.plain_tools, *TOOLS.values())


class ToolError(Exception):
    """A hub tool was called wrongly. The message is for the model."""


async def found_task(hub: Hub, incoming: Incoming, arguments: dict[str, Any]) -> TaskRecord:
    """The caller's task that the arguments name, in whichever revision it was made. Raises `ToolError`."""
    named = arguments.get("task_id")
    task = None
    if isinstance(named, str) and calls.PUBLIC_ID.fullmatch(named):
        task = await hub.reads.run((incoming.principal.context_id, named))
    if task is None:
        raise ToolError(f"You have no task with the id {json.dumps(named)[:80]}. taskhub_list_tasks lists yours.")
    return task


def error_result(error: ToolError) -> dict[str, Any]:
    """The error as a `CallToolResult` with `isError`."""
    return calls.refusal_result(str(error))


async def call(hub: Hub, incoming: Incoming, name: str, arguments: dict[str, Any], *, base: str) -> dict[str, Any]:
    """Run a hub tool other than `WAIT_TOOL`; returns its `CallToolResult`. Raises `ScopeMissing` if the token lacks the
    scope that the same operation on a task needs. `base` is the address of the console."""
    unknown = arguments.keys() - TOOLS[name].definition["inputSchema"]["properties"].keys()
    try:
        if unknown:
            raise ToolError(f"{name} has no argument {', '.join(sorted(unknown))[:80]}.")
        return await _CALLS[name](hub, incoming, arguments, base)
    except ToolError as error:
        return error_result(error)
    except WireError:
        raise
    except TaskHubError as error:
        return error_result(ToolError(error.message))


async def _get(hub: Hub, incoming: Incoming, arguments: dict[str, Any], base: str) -> dict[str, Any]:
    calls.need_scope(incoming.principal, "tasks:read")
    return _told(_about(await found_task(hub, incoming, arguments), base))


async def _list(hub: Hub, incoming: Incoming, arguments: dict[str, Any], base: str) -> dict[str, Any]:
    calls.need_scope(incoming.principal, "tasks:read")
    state = arguments.get("state", "open")
    if state not in ("open", "unread", "all"):
        raise ToolError("state is open, unread or all.")
    if incoming.principal.anonymous:
        raise ToolError("Callers without a token cannot be told apart, so their tasks are not listed.")
    found = await hub.lanes.run(plain_tasks, incoming.principal.context_id, state, LISTED)
    return _told({"tasks": [_about(task, base) for task in found]})


async def _cancel(hub: Hub, incoming: Incoming, arguments: dict[str, Any], base: str) -> dict[str, Any]:
    calls.need_scope(incoming.principal, "tasks:cancel")
    task = await found_task(hub, incoming, arguments)
    if task.ended_at is not None:
        raise ToolError(f"Task {task.public_id} has ended already and cannot be cancelled: {task.state}.")
    await hub.lanes.run(request_cancel, task.id, actor=calls.actor_of(incoming))
    return _told(_about(await calls.fresh(hub, task), base))


async def _answer(hub: Hub, incoming: Incoming, arguments: dict[str, Any], base: str) -> dict[str, Any]:
    calls.need_scope(incoming.principal, "tasks:answer")
    task = await found_task(hub, incoming, arguments)
    key, answer = arguments.get("key"), arguments.get("answer")
    if not isinstance(answer, dict):
        raise ToolError("answer must be an object.")
    asked = [question.key for question in answerable(task)]
    if key not in asked:
        known = f"It asks you {', '.join(asked)}." if asked else "It asks you nothing now."
        raise ToolError(f"Task {task.public_id} does not ask you {json.dumps(key)[:80]}. {known}")
    try:
        await calls.store_answers(hub, incoming, task, {key: answer})
    except Invalid as error:
        where = str(error.data.get("pointer", "")).removeprefix(f"/inputResponses/{key}")
        at = f" At {where}." if where else ""
        raise ToolError(f"The answer does not fit the question: {error.message}{at}") from None
    return _told(_about(await calls.fresh(hub, task), base))


def _about(task: TaskRecord, base: str) -> dict[str, Any]:
    about = standing(task, base=base)
    if task.ended_at is None or task.result_json is not None or task.error_json is not None:
        about["next"] = {"call": WAIT_TOOL, "arguments": {"task_id": task.public_id}}
    return about


def _told(structured: dict[str, Any]) -> dict[str, Any]:
    """A `CallToolResult` with `structured` twice: as structured content, and as text."""
    text = json.dumps(structured, ensure_ascii=False, indent=1)
    return {"content": [{"type": "text", "text": text}], "structuredContent": structured}


_CALLS: Final[dict[str, Callable[[Hub, Incoming, dict[str, Any], str], Awaitable[dict[str, Any]]]]] = {
    f"{HUB_TOOL_PREFIX}get_task": _get,
    f"{HUB_TOOL_PREFIX}list_tasks": _list,
    f"{HUB_TOOL_PREFIX}cancel_task": _cancel,
    ANSWER_TOOL: _answer,
}

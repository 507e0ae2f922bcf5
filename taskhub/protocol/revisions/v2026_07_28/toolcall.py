"""`tools/call`: a handle, a result the caller waited for, or an `input_required` round."""

from __future__ import annotations

from typing import Final

from taskhub.core.names import TASKS_EXTENSION
from taskhub.core.records import TaskMode
from taskhub.protocol import calls
from taskhub.protocol.hub import Hub
from taskhub.protocol.incoming import Reply, Stream
from taskhub.protocol.revisions.v2026_07_28 import tasks
from taskhub.protocol.revisions.v2026_07_28.wire import VERSION, Request, missing_capability
from taskhub.protocol.stateless import rounds

WORDING: Final = rounds.Wording(VERSION, round="input_required", handle=tasks.created, asks_in_task=False)


async def call_tool(hub: Hub, request: Request) -> Reply | Stream:
    """Only who declares the extension gets a handle, and what the tool asks it is asked before (T26-47).
    -32021 for any other caller of a tool that requires a task (T26-05); otherwise it waits."""
    calls.need_scope(request.principal, "tasks:call")
    tool, arguments = await rounds.wanted(hub, request)
    declared = tasks.declares_tasks(request.capabilities)
    if tool.mode is TaskMode.REQUIRED and not declared:
        raise missing_capability({"extensions": {TASKS_EXTENSION: {}}})
    return await rounds.answered(hub, request, tool, arguments, WORDING, handle=declared)

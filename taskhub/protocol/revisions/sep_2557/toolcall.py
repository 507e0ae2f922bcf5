"""`tools/call`: a result, or a task that nobody had to ask for (T2557-01, T2557-02)."""

from __future__ import annotations

from typing import Final

from taskhub.protocol import calls
from taskhub.protocol.hub import Hub
from taskhub.protocol.incoming import Reply, Stream
from taskhub.protocol.revisions.sep_2557 import tasks
from taskhub.protocol.revisions.sep_2557.wire import VERSION
from taskhub.protocol.stateless import rounds
from taskhub.protocol.stateless.request import Request

WORDING: Final = rounds.Wording(VERSION, round="incomplete", handle=tasks.created, asks_in_task=True)


async def call_tool(hub: Hub, request: Request) -> Reply | Stream:
    """Any caller may get a handle, and what its task asks is asked in the task."""
    calls.need_scope(request.principal, "tasks:call")
    tool, arguments = await rounds.wanted(hub, request)
    return await rounds.answered(hub, request, tool, arguments, WORDING, handle=True)

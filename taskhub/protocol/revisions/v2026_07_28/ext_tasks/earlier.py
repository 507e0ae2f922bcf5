"""Tasks that were made in 2025-11-25, for a client that has moved on but declares its `tasks` capability
still: it may read and cancel them, and sees them as they were (T26-43)."""

from __future__ import annotations

from typing import Final

from taskhub.core.records import TaskRecord
from taskhub.core.versions import Version
from taskhub.domain.tasks.cancel import cancel_now
from taskhub.protocol import calls, owned
from taskhub.protocol.errors import INVALID_PARAMS, WireError
from taskhub.protocol.hub import Hub
from taskhub.protocol.incoming import Reply
from taskhub.protocol.revisions.v2026_07_28.wire import Request
from taskhub.protocol.stateless.shapes import reply

EARLIER: Final = Version.MCP_2025_11_25


async def named(hub: Hub, request: Request) -> TaskRecord | None:
    """The task that `params.taskId` names, if it was made in 2025-11-25, is the caller's, and the request
    declares `tasks`; else `None`."""
    public_id = request.params.get("taskId")
    if not isinstance(request.capabilities.get("tasks"), dict) or not isinstance(public_id, str):
        return None
    task = await owned.known_task(hub, request.principal, public_id, EARLIER)
    return task if task is not None and task.handle else None


def shown(hub: Hub, request: Request, task: TaskRecord) -> Reply:
    """The task in the words of 2025-11-25."""
    fields = hub.shown(task)
    assert fields is not None  # it has a handle
    return reply(hub, request, fields)


async def cancelled(hub: Hub, request: Request, task: TaskRecord) -> Reply:
    """Cancelled at once, as there; -32602 for one that has ended."""
    if await hub.lanes.run(cancel_now, task.id, actor=calls.actor_of(request.incoming)) is not None:
        raise WireError(INVALID_PARAMS, "Cannot cancel task: it has ended")
    return shown(hub, request, await calls.fresh(hub, task))

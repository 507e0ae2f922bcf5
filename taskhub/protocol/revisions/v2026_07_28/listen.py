"""`subscriptions/listen`: one stream of the changes a client asked for (B26-70..77, T26-49..52)."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, AsyncIterator
from datetime import UTC, datetime
from typing import Any

from taskhub.core.records import TaskRecord
from taskhub.core.states import TERMINAL
from taskhub.lib import jsonx
from taskhub.protocol import calls
from taskhub.protocol.envelope import notification_message, result_message
from taskhub.protocol.errors import INVALID_PARAMS, TOO_MANY, WireError
from taskhub.protocol.hub import CATALOGUE, Hub
from taskhub.protocol.incoming import KEEP_ALIVE, Stream, event
from taskhub.protocol.revisions.v2026_07_28.ext_tasks import mapping
from taskhub.protocol.revisions.v2026_07_28.ext_tasks.methods import known_task, need_tasks
from taskhub.protocol.revisions.v2026_07_28.wire import META_SUBSCRIPTION, Request
from taskhub.queries.tasks import owned_task

MAX_STREAMS = 20
MAX_TASKS = 100
MAX_AGE_SECONDS = 1_800.0
KEEP_ALIVE_SECONDS = 15.0


async def listen(hub: Hub, request: Request) -> Stream:
    """Checks the filter, then streams. Raises -32021 before the stream if `taskIds` are asked for
    without the extension (T26-07), 429 above 20 streams of one caller."""
    wanted = request.params.get("notifications")
    if not isinstance(wanted, dict):
        raise WireError(INVALID_PARAMS, "notifications must be an object")
    task_ids = wanted.get("taskIds")
    if task_ids is not None:
        need_tasks(request.capabilities)
        calls.need_scope(request.principal, "tasks:read")
        if not isinstance(task_ids, list) or not all(isinstance(item, str) for item in task_ids):
            raise WireError(INVALID_PARAMS, "notifications.taskIds must be an array of strings")
        if len(task_ids) > MAX_TASKS:
            raise WireError(INVALID_PARAMS, f"At most {MAX_TASKS} taskIds in one subscription")
    mine: dict[str, TaskRecord] = {}
    for public_id in dict.fromkeys(task_ids or []):
        task = await known_task(hub, request, public_id)
        if task is not None:
            mine[public_id] = task
    tools = wanted.get("toolsListChanged") is True
    frames = _stream(hub, request, tools, None if task_ids is None else mine)
    # The first frame takes the place among the caller's streams, or raises: checked and counted in
    # one step, so that streams opened at once cannot slip past the limit together.
    return Stream(_after(await anext(frames), frames))


async def _after(first: bytes, frames: AsyncGenerator[bytes, None]) -> AsyncIterator[bytes]:
    try:
        yield first
        async for frame in frames:
            yield frame
    finally:
        await frames.aclose()


async def _stream(
    hub: Hub, request: Request, tools: bool, mine: dict[str, TaskRecord] | None
) -> AsyncGenerator[bytes, None]:
    principal, meta = request.principal, {META_SUBSCRIPTION: request.id}
    honoured: dict[str, Any] = {}
    if tools:
        honoured["toolsListChanged"] = True
    if mine is not None:
        honoured["taskIds"] = list(mine)
    held = hub.streams.get(principal.context_id, 0)
    if held >= MAX_STREAMS:
        raise WireError(TOO_MANY, f"At most {MAX_STREAMS} streams at once", retry_after=5)
    hub.streams[principal.context_id] = held + 1
    loop = asyncio.get_running_loop()
    until = loop.time() + MAX_AGE_SECONDS
    if principal.expires_at is not None:
        until = min(until, loop.time() + (principal.expires_at - datetime.now(UTC)).total_seconds())
    topics = [*(mine or ()), CATALOGUE]  # never none: an idle stream too must hear that the server closes
    try:
        with hub.hints.watch(*topics) as bell:
            digest = (await calls.tools_of(hub, principal.tenant_id)).digest if tools else ""
            yield event(
                notification_message(
                    "notifications/subscriptions/acknowledged", {"_meta": meta, "notifications": honoured}
                )
            )
            shown: dict[str, int] = {}
            while await request.incoming.valid():
                for task in await _changed(hub, principal.context_id, mine or {}, shown):
                    yield event(_task_changed(task, meta))
                if tools:
                    fresh = (await calls.tools_of(hub, principal.tenant_id)).digest
                    if fresh != digest:
                        digest = fresh
                        yield event(notification_message("notifications/tools/list_changed", {"_meta": meta}))
                left = until - loop.time()
                if left <= 0 or hub.closing.is_set():
                    break
                if not await calls.rung(bell, min(KEEP_ALIVE_SECONDS, left)) and left > KEEP_ALIVE_SECONDS:
                    yield KEEP_ALIVE
        yield event(result_message(request.id, jsonx.encode({"resultType": "complete", "_meta": meta})))
    finally:
        hub.streams[principal.context_id] -= 1
        if not hub.streams[principal.context_id]:
            del hub.streams[principal.context_id]


async def _changed(hub: Hub, context_id: int, mine: dict[str, TaskRecord], shown: dict[str, int]) -> list[TaskRecord]:
    """The tasks that differ from what was `shown`, which is brought up to date; ended ones leave `mine`."""
    found = []
    for public_id, known in list(mine.items()):
        task = await hub.lanes.run(owned_task, context_id, public_id) or known
        if shown.get(public_id) != task.version:
            shown[public_id] = task.version
            found.append(task)
        if task.state in TERMINAL:
            del mine[public_id]
    return found


def _task_changed(task: TaskRecord, meta: dict[str, Any]) -> bytes:
    """The task exactly as `tasks/get` shows it, without `resultType` (T26-49)."""
    params = json.loads(mapping.encoded_task(task, {}))
    return notification_message("notifications/tasks", {**params, "_meta": {**params.get("_meta", {}), **meta}})

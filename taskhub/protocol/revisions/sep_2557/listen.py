"""`subscriptions/listen` with `taskIds`: the carrier of `notifications/tasks/status` (T2557-20)."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, AsyncIterator
from datetime import UTC, datetime
from typing import Final

from taskhub.core.records import TaskRecord
from taskhub.core.states import TERMINAL
from taskhub.lib import jsonx
from taskhub.protocol import calls
from taskhub.protocol.envelope import notification_message, result_message
from taskhub.protocol.errors import INVALID_PARAMS, TOO_MANY, WireError
from taskhub.protocol.hub import CATALOGUE, Hub
from taskhub.protocol.incoming import KEEP_ALIVE, Stream, event
from taskhub.protocol.owned import known_task
from taskhub.protocol.revisions.sep_2557 import mapping
from taskhub.protocol.revisions.sep_2557.state import request_state
from taskhub.protocol.revisions.sep_2557.wire import VERSION
from taskhub.protocol.stateless.request import META_SUBSCRIPTION, Request

MAX_STREAMS: Final = 20
MAX_TASKS: Final = 100
MAX_AGE_SECONDS: Final = 1_800.0
KEEP_ALIVE_SECONDS: Final = 15.0


async def listen(hub: Hub, request: Request) -> Stream:
    """Checks the filter, then streams. Other kinds than `taskIds` are left out of the acknowledgement;
    429 above 20 streams of one caller, on whatever mount."""
    calls.need_scope(request.principal, "tasks:read")
    wanted = request.params.get("notifications")
    if not isinstance(wanted, dict):
        raise WireError(INVALID_PARAMS, "notifications must be an object")
    ids = wanted.get("taskIds", [])
    if not isinstance(ids, list) or not all(isinstance(item, str) for item in ids):
        raise WireError(INVALID_PARAMS, "notifications.taskIds must be an array of strings")
    if len(ids) > MAX_TASKS:
        raise WireError(INVALID_PARAMS, f"At most {MAX_TASKS} taskIds in one subscription")
    found = [await known_task(hub, request.principal, public_id, VERSION) for public_id in dict.fromkeys(ids)]
    frames = _stream(hub, request, {task.public_id: task for task in found if task is not None})
    # The first frame takes the place among the caller's streams, or raises.
    return Stream(_after(await anext(frames), frames))


async def _after(first: bytes, frames: AsyncGenerator[bytes, None]) -> AsyncIterator[bytes]:
    try:
        yield first
        async for frame in frames:
            yield frame
    finally:
        await frames.aclose()


async def _stream(hub: Hub, request: Request, mine: dict[str, TaskRecord]) -> AsyncGenerator[bytes, None]:
    principal, meta = request.principal, {META_SUBSCRIPTION: request.id}
    held = hub.streams.get(principal.context_id, 0)
    if held >= MAX_STREAMS:
        raise WireError(TOO_MANY, f"At most {MAX_STREAMS} streams at once", retry_after=5)
    hub.streams[principal.context_id] = held + 1
    loop = asyncio.get_running_loop()
    until = loop.time() + MAX_AGE_SECONDS
    if principal.expires_at is not None:
        until = min(until, loop.time() + (principal.expires_at - datetime.now(UTC)).total_seconds())
    try:
        # Never no topic: a stream without tasks too must hear that the server closes.
        with hub.hints.watch(*mine, CATALOGUE) as bell:
            agreed = {"_meta": meta, "notifications": {"taskIds": list(mine)}}
            yield event(notification_message("notifications/subscriptions/acknowledged", agreed))
            told: dict[str, int] = {}
            while await request.incoming.valid():
                for public_id, known in list(mine.items()):
                    task = await known_task(hub, principal, public_id, VERSION) or known
                    if told.get(public_id) != task.version:
                        told[public_id] = task.version
                        params = mapping.encoded_task(task, {"_meta": meta}, request_state(hub, request, task))
                        yield event(notification_message("notifications/tasks/status", json.loads(params)))
                    if task.state in TERMINAL:
                        del mine[public_id]
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

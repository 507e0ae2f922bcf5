"""`subscriptions/listen` with `taskIds`, which sends `notifications/tasks/status` (T2557-20)."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator

from taskhub.core.errors import Unavailable
from taskhub.core.records import TaskRecord
from taskhub.lib import jsonx
from taskhub.protocol import calls
from taskhub.protocol.envelope import notification_message, result_message
from taskhub.protocol.hub import Hub
from taskhub.protocol.incoming import KEEP_ALIVE, Stream, event
from taskhub.protocol.revisions.sep_2557 import VERSION
from taskhub.protocol.revisions.sep_2557.tasks import encoded_task, request_state
from taskhub.protocol.stateless.request import META_SUBSCRIPTION, Request
from taskhub.protocol.stateless.subscription import (
    MAX_TASKS,
    begun,
    changed_tasks,
    check_texts,
    subscribed,
    tasks_of,
    wanted_of,
)


async def listen(hub: Hub, request: Request) -> Stream:
    """Checks the filter, then streams. The acknowledgement names `taskIds` alone. Raises 429 if the caller has 20
    streams open, on any mount."""
    calls.need_scope(request.principal, "tasks:read")
    ids = wanted_of(request).get("taskIds", [])
    check_texts(ids, "taskIds", MAX_TASKS)
    return Stream(await begun(_stream(hub, request, await tasks_of(hub, request, ids, VERSION))))


async def _stream(hub: Hub, request: Request, mine: dict[str, TaskRecord]) -> AsyncGenerator[bytes, None]:
    principal, meta = request.principal, {META_SUBSCRIPTION: request.id}
    with subscribed(hub, request.incoming, mine) as subscription:
        agreed = {"_meta": meta, "notifications": {"taskIds": list(mine)}}
        yield event(notification_message("notifications/subscriptions/acknowledged", agreed))
        shown: dict[str, int] = {}
        while (rung := await subscription.rung()) is not None:
            if not rung:
                yield KEEP_ALIVE
            try:
                for task in await changed_tasks(hub, principal.context_id, mine, shown, rung):
                    state, base = request_state(hub, request, task), calls.console_at(hub, request.incoming)
                    params = encoded_task(task, {"_meta": meta}, state, base)
                    yield event(notification_message("notifications/tasks/status", json.loads(params)))
            except Unavailable:
                subscription.later(rung)
    yield event(result_message(request.id, jsonx.encode({"resultType": "complete", "_meta": meta})))

"""`subscriptions/listen`: one stream of the changes that a client asked for (B26-70..77, T26-49..52)."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator
from dataclasses import dataclass
from typing import Any

from taskhub.core.errors import Unavailable
from taskhub.core.hints import CATALOGUE
from taskhub.core.records import TaskRecord
from taskhub.lib import jsonx
from taskhub.protocol import calls
from taskhub.protocol.envelope import notification_message, result_message
from taskhub.protocol.following import Following
from taskhub.protocol.hub import Hub
from taskhub.protocol.incoming import KEEP_ALIVE, Stream, event
from taskhub.protocol.relays import SCOPE
from taskhub.protocol.revisions.v2026_07_28 import VERSION
from taskhub.protocol.revisions.v2026_07_28.tasks import encoded_task, need_tasks
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
from taskhub.protocol.wire.lists import digests

MAX_RESOURCES = 100

LISTS = {
    "toolsListChanged": "notifications/tools/list_changed",
    "promptsListChanged": "notifications/prompts/list_changed",
    "resourcesListChanged": "notifications/resources/list_changed",
}
RESOURCE_UPDATED = "notifications/resources/updated"


@dataclass(frozen=True, slots=True)
class Wanted:
    """The parts of the client's filter that the hub honours; `None` for a part that the client did not send."""

    lists: frozenset[str]
    """Keys of `LISTS`."""
    tasks: dict[str, TaskRecord] | None
    resources: Following | None

    def acknowledged(self) -> dict[str, Any]:
        """The filter as it is acknowledged to the client (B26-71)."""
        honoured: dict[str, Any] = dict.fromkeys((key for key in LISTS if key in self.lists), True)
        if self.resources is not None:
            honoured["resourceSubscriptions"] = self.resources.uris
        if self.tasks is not None:
            honoured["taskIds"] = list(self.tasks)
        return honoured


async def listen(hub: Hub, request: Request) -> Stream:
    """Checks the filter, then streams. Raises -32021 if the request has `taskIds` but does not declare the tasks
    extension (T26-07), and 429 if the caller has 20 streams open."""
    wanted = wanted_of(request)
    task_ids = wanted.get("taskIds")
    if task_ids is not None:
        need_tasks(request.capabilities)
        calls.need_scope(request.principal, "tasks:read")
        check_texts(task_ids, "taskIds", MAX_TASKS)
    uris = wanted.get("resourceSubscriptions")
    if uris is not None:
        check_texts(uris, "resourceSubscriptions", MAX_RESOURCES)
        if uris:
            calls.need_scope(request.principal, SCOPE)
    mine = await tasks_of(hub, request, task_ids or (), VERSION)
    found = await hub.catalogue(request.principal)
    told = Wanted(
        lists=frozenset(key for key in LISTS if wanted.get(key) is True),
        tasks=None if task_ids is None else mine,
        resources=None if uris is None else Following(hub, found, uris),
    )
    return Stream(await begun(_stream(hub, request, told)))


async def _stream(hub: Hub, request: Request, wanted: Wanted) -> AsyncGenerator[bytes, None]:
    principal, meta = request.principal, {META_SUBSCRIPTION: request.id}
    followed = wanted.resources.topics if wanted.resources is not None else []
    try:
        with subscribed(hub, request.incoming, wanted.tasks or (), [*followed, CATALOGUE]) as subscription:
            if wanted.resources is not None:
                await wanted.resources.start(subscription.bell)
            told = await _digests(hub, request, wanted)
            yield event(
                notification_message(
                    "notifications/subscriptions/acknowledged",
                    {"_meta": meta, "notifications": wanted.acknowledged()},
                )
            )
            shown: dict[str, int] = {}
            while (rung := await subscription.rung()) is not None:
                if not rung:
                    yield KEEP_ALIVE
                try:
                    for task in await changed_tasks(hub, principal.context_id, wanted.tasks or {}, shown, rung):
                        yield event(_task_changed(task, meta, calls.console_at(hub, request.incoming)))
                    fresh = await _digests(hub, request, wanted)
                    for method in (method for method in fresh if fresh[method] != told[method]):
                        yield event(notification_message(method, {"_meta": meta}))
                    told = fresh
                    if wanted.resources is not None:
                        for uri in await wanted.resources.changed(rung):
                            yield event(notification_message(RESOURCE_UPDATED, {"uri": uri, "_meta": meta}))
                        await wanted.resources.renew()
                except Unavailable:
                    subscription.later(rung)
        yield event(result_message(request.id, jsonx.encode({"resultType": "complete", "_meta": meta})))
    finally:
        if wanted.resources is not None:
            await asyncio.shield(wanted.resources.stop())


async def _digests(hub: Hub, request: Request, wanted: Wanted) -> dict[str, str]:
    """The digest of each list in the filter, by the notification of its changes."""
    if not wanted.lists:
        return {}
    found = digests(await hub.catalogue(request.principal))
    return {LISTS[key]: found[LISTS[key]] for key in LISTS if key in wanted.lists}


def _task_changed(task: TaskRecord, meta: dict[str, Any], base: str) -> bytes:
    """The notification with the task exactly as `tasks/get` shows it, without `resultType` (T26-49)."""
    params = json.loads(encoded_task(task, {}, base))
    return notification_message("notifications/tasks", {**params, "_meta": {**params.get("_meta", {}), **meta}})

"""Task records in the words of SEP-2557: total functions, no I/O."""

from __future__ import annotations

import json
from typing import Any

from taskhub.core.records import TaskRecord
from taskhub.protocol.stateless import shapes
from taskhub.protocol.wire.tasks import status, task_head


def task_fields(task: TaskRecord, request_state: str) -> dict[str, Any]:
    """The `Task`: `ttl` in seconds, `pollInterval` in milliseconds (T2557-09)."""
    fields = task_head(task, status(task), task.message)
    fields["ttl"] = None if task.ttl_ms is None else -(-task.ttl_ms // 1_000)
    fields["pollInterval"] = task.poll_interval_ms
    fields["requestState"] = request_state
    return fields


def encoded_task(task: TaskRecord, head: dict[str, Any], request_state: str) -> bytes:
    """`head`, the flat task, and by status its payload, as JSON (T2557-10, T2557-11)."""
    return shapes.encoded_task(task, {**head, **task_fields(task, request_state)})


def shown(task: TaskRecord) -> dict[str, Any]:
    """What `tasks/get` answers now: for the console's wire view. No valid `requestState`, which is
    the owner's alone."""
    decoded: dict[str, Any] = json.loads(encoded_task(task, {"resultType": "task"}, "…"))
    return decoded

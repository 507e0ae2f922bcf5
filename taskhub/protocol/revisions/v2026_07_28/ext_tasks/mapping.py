"""Task records in the words of the tasks extension (SEP-2663): total functions, no I/O.

The extension moves on its own clock, hence its own folder inside the revision.
"""

from __future__ import annotations

import json
from typing import Any

from taskhub.core.names import PROGRESS
from taskhub.core.records import TaskRecord
from taskhub.protocol.stateless import shapes
from taskhub.protocol.wire.tasks import status, task_head


def task_fields(task: TaskRecord) -> dict[str, Any]:
    """The flat `Task` (T26-12, T26-15..17)."""
    fields = task_head(task, status(task), task.message)
    fields["ttlMs"] = task.ttl_ms
    fields["pollIntervalMs"] = task.poll_interval_ms
    return fields


def progress(task: TaskRecord) -> dict[str, float] | None:
    """How far a running task says it is. The extension has no field for it; `_meta` is for such."""
    if task.progress is None or task.ended_at is not None:
        return None
    return {"progress": task.progress, **({} if task.total is None else {"total": task.total})}


def encoded_task(task: TaskRecord, head: dict[str, Any]) -> bytes:
    """`head`, the flat task, and by status its payload, as JSON."""
    fields = {**head, **task_fields(task)}
    if (numbers := progress(task)) is not None:
        fields["_meta"] = {**head.get("_meta", {}), PROGRESS: numbers}
    return shapes.encoded_task(task, fields)


def detailed_task(task: TaskRecord) -> dict[str, Any]:
    """What `tasks/get` answers now, as an object: for the console's wire view."""
    decoded: dict[str, Any] = json.loads(encoded_task(task, {"resultType": "complete"}))
    return decoded

"""Task records in the words of SEP-1686: total functions, no I/O."""

from __future__ import annotations

from typing import Any, Final

from taskhub.core.records import State, TaskRecord
from taskhub.core.versions import Proposal
from taskhub.protocol.envelope import notification_message
from taskhub.protocol.wire import tasks

PROFILE: Final = Proposal.SEP_1686
META_TASK: Final = "modelcontextprotocol.io/task"
RELATED: Final = "modelcontextprotocol.io/related-task"


def status(task: TaskRecord) -> str:
    """A tool error completes the task (T1686-20); nothing goes back to `submitted` (T1686-07)."""
    return "submitted" if task.state is State.QUEUED and task.version <= 1 else tasks.status(task)


def related(task: TaskRecord) -> dict[str, Any]:
    """What everything tied to the task carries in `_meta` (T1686-18)."""
    return {RELATED: {"taskId": task.client_task_id}}


def task_fields(task: TaskRecord) -> dict[str, Any]:
    """The flat task, as `tasks/list` has it (T1686-10..12, T1686-14)."""
    fields: dict[str, Any] = {
        "taskId": task.client_task_id,
        "status": status(task),
        "keepAlive": task.keep_ms,
        "pollFrequency": task.poll_interval_ms,
    }
    if task.state is State.FAULTED:
        fields["error"] = task.message
    return fields


def created(task: TaskRecord) -> bytes:
    """`notifications/tasks/created`, with nothing but the task's id (T1686-08)."""
    return notification_message("notifications/tasks/created", {"_meta": related(task)})

"""Cancels tasks. A cancellation is a recorded request; how the client's request is answered depends on its revision."""

from __future__ import annotations

from taskhub.core.errors import NotFound
from taskhub.core.records import Actor
from taskhub.core.states import State
from taskhub.domain.changes import change, who
from taskhub.store import statements

_CANCEL = statements.one("request_cancel", str)
_CANCEL_NOW = statements.one("cancel_now", str)


def request_cancel(task_id: int, *, actor: Actor) -> State:
    """Ask for the task to stop; returns the state right after.

    A task that no worker runs is cancelled at once. A running one goes on until its worker has stopped the tool, and
    may still finish first. An ended task stays as it is. Asking twice is harmless. Raises `NotFound`.
    """
    state = change(_CANCEL, task_id, task=task_id, who=who(actor))
    if state == "unknown":
        raise NotFound("Task not found")
    return State(state)


def cancel_now(task_id: int, *, actor: Actor) -> State | None:
    """End the task as cancelled at once, even while a worker runs it (T25-28). Returns `None`, or the state of a task
    that had ended before. Raises `NotFound`."""
    before = change(_CANCEL_NOW, task_id, task=task_id, who=who(actor))
    if before == "unknown":
        raise NotFound("Task not found")
    return State(before) if before else None

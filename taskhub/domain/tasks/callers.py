"""Whether the caller of a plain call still waits for it. A call whose caller left goes on, or is cancelled after a
while, and the same call of the same client joins it (`join_or_create_tasks` in functions.sql)."""

from __future__ import annotations

from datetime import datetime

from taskhub.core.records import Actor
from taskhub.domain.changes import change, who
from taskhub.store import statements

_LEAVE = statements.maybe("leave_task", datetime)
_RETURN = statements.one("return_to_task", bool)
_CANCEL_LEFT = statements.one("cancel_left", bool)
_FETCHED = statements.none("fetched")


def leave(task_id: int, *, actor: Actor) -> datetime | None:
    """Record that the caller stopped waiting without the result; `actor.reason` says why. Returns when, or `None`
    where it had left before or has a handle."""
    return change(_LEAVE, task_id, task=task_id, who=who(actor))


def come_back(task_id: int, *, actor: Actor) -> bool:
    """Record that the caller waits again. `False`: it had not left."""
    return change(_RETURN, task_id, task=task_id, who=who(actor))


def fetched(task_id: int) -> None:
    """A caller that had left was given the result: the same call is a new one from here on."""
    _FETCHED(task=task_id)


def cancel_left(task_id: int, left_at: datetime, *, actor: Actor) -> bool:
    """Cancel a task whose caller left at that time and has not come back. Not where a person was asked about it.
    Returns whether it was cancelled."""
    return change(_CANCEL_LEFT, task_id, task=task_id, left_at=left_at, who=who(actor))

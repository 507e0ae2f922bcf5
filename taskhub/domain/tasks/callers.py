"""Whether the caller of a plain call still waits for it. A call whose caller left goes on, or is cancelled after a
while, and the same call of the same client joins it (`join_or_create_tasks` in functions.sql)."""

from __future__ import annotations

import os
import secrets
from datetime import datetime

from taskhub.core.records import Actor, TaskRecord
from taskhub.domain.changes import change, who
from taskhub.store import statements

_LEAVE = statements.maybe("leave_task", datetime)
_WAIT = statements.none("wait_for_task")
_CANCEL_LEFT = statements.one("cancel_left", bool)
_PLAIN = statements.many("plain_tasks", TaskRecord)
_FETCHED = statements.none("fetched")


_processes: dict[int, str] = {}


def this_process() -> str:
    """A word for this process among all that callers wait in. While it lives it holds a lock by this word (`listen`),
    so that others know when it was killed."""
    return _processes.setdefault(os.getpid(), secrets.token_hex(6))


def new_waiter() -> str:
    """A word for a caller that begins to wait in this process."""
    return f"{this_process()}.{secrets.token_urlsafe(9)}"


def leave(task_id: int, waiter: str, *, actor: Actor, interim: bool = False) -> datetime | None:
    """Record that `waiter` stopped waiting without the result; an empty `waiter` is whoever waits. `actor.reason` says
    why. With `interim` it was given an interim result, and no event is written. Returns when it left; `None` if another
    caller waits by now, or none was waiting."""
    return change(_LEAVE, task_id, task=task_id, waiter=waiter, interim=interim, who=who(actor))


def wait(task_id: int, waiter: str) -> None:
    """This caller waits for a task that is there."""
    _WAIT(task=task_id, waiter=waiter)


def fetched(task_id: int) -> None:
    """A caller that had left was given the result: the same call is a new one from here on."""
    _FETCHED(task=task_id)


def cancel_left(task_id: int, left_at: datetime, *, actor: Actor) -> bool:
    """Cancel a task whose caller left at that time and has not come back. Not where a person was asked about it.
    Returns whether the cancellation was requested."""
    return change(_CANCEL_LEFT, task_id, task=task_id, left_at=left_at, who=who(actor))


def plain_tasks(context_id: int, state: str, most: int) -> list[TaskRecord]:
    """The client's tasks of plain calls, newest first: those that are `open`, those that ended `unread`, or `all` of
    both."""
    return _PLAIN(context=context_id, open=state != "unread", unread=state != "open", most=most)

"""Callers of plain calls: which caller waits for a task, or since when none does. A call whose caller has left goes on,
or is cancelled after a while. If its client makes the same call again, that call joins the task (`join_or_create_tasks`
in callers.sql)."""

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
    """The random id of this web process, with which the names of its waiters begin. The process holds an advisory lock
    by this id while it lives (`store.listener.listen`), so that others know when it was killed."""
    return _processes.setdefault(os.getpid(), secrets.token_hex(6))


def new_waiter() -> str:
    """A new name for a caller that begins to wait in this process."""
    return f"{this_process()}.{secrets.token_urlsafe(9)}"


def leave(task_id: int, waiter: str, *, actor: Actor, interim: bool = False) -> datetime | None:
    """Record that `waiter` stopped waiting without the result; an empty `waiter` stands for any. `actor.reason` says
    why. With `interim` the caller was given an interim result, and no event is recorded.

    Returns the time at which the caller left; `None` if another caller waits by now, or none was waiting.
    """
    return change(_LEAVE, task_id, task=task_id, waiter=waiter, interim=interim, who=who(actor))


def wait(task_id: int, waiter: str) -> None:
    """Record that the caller `waiter` waits for a task that existed before."""
    _WAIT(task=task_id, waiter=waiter)


def fetched(task_id: int) -> None:
    """Record that a caller that had left was given the result, so that an equal call from now on makes a new task."""
    _FETCHED(task=task_id)


def cancel_left(task_id: int, left_at: datetime, *, actor: Actor) -> bool:
    """Cancel a task whose caller left at `left_at` and has not come back, unless a person was asked about it. Returns
    whether the cancellation was requested."""
    return change(_CANCEL_LEFT, task_id, task=task_id, left_at=left_at, who=who(actor))


def plain_tasks(context_id: int, state: str, most: int) -> list[TaskRecord]:
    """The client's tasks of plain calls, at most `most`, newest first. `state`: `open` for those that have not ended,
    `unread` for those that ended and whose result was not fetched, or `all` for both."""
    return _PLAIN(context=context_id, open=state != "unread", unread=state != "open", most=most)

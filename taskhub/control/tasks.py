"""Use cases for tasks: cancel a task, and run its call again."""

from __future__ import annotations

from typing import Any

from taskhub.control.caller import Caller
from taskhub.core.errors import Invalid, NotFound
from taskhub.core.records import TaskRecord
from taskhub.core.states import State
from taskhub.domain.tasks import rerun
from taskhub.domain.tasks.cancel import request_cancel
from taskhub.domain.tasks.ended import Rerun, find_rerun
from taskhub.domain.tasks.reads import task_id_in


def cancel_task(caller: Caller, public_id: str, *, reason: str = "") -> State:
    """Request cancellation of a task. Returns the task's state right after the request: a running task goes on until
    its worker has stopped the tool, and may finish first; a task that has ended stays as it is.

    Raises `Forbidden`, or `NotFound` for a task that is not in the caller's tenant.
    """
    caller.require("task.cancel", f"cancel task {public_id}")
    task_id = task_id_in(caller.tenant_id, public_id)
    if task_id is None:
        raise NotFound("There is no such task, or it is not yours to see.")
    return request_cancel(task_id, actor=caller.because(reason))


def rerun_task(caller: Caller, public_id: str) -> TaskRecord:
    """Run a task's call again: a new task with the same arguments, for the same client, under the tool's present
    policy.

    Raises `Forbidden`; `NotFound` for a task that is not in the caller's tenant; `Refused` while it is live or when
    its tool is not offered; and what `create_task` raises.
    """
    caller.require("task.rerun", f"run task {public_id} again")
    return rerun.rerun_task(caller.tenant_id, public_id, caller.because(f"re-run of {public_id}"))


def check_rerun(caller: Caller, public_id: str, arguments: dict[str, Any]) -> Rerun:
    """The call of a task with other arguments, as it would run again, and what the rules say of it. Nothing is run or
    stored. Raises what `rerun_with` raises."""
    caller.require("task.rerun", f"run task {public_id} again")
    return find_rerun(caller.tenant_id, public_id, arguments)


def rerun_with(caller: Caller, public_id: str, arguments: dict[str, Any], *, mark: str, reason: str = "") -> TaskRecord:
    """Run a task's call again with other arguments. `mark` is the mark of the `Rerun` that `check_rerun` returned and
    the caller has seen. Raises what `rerun_task` raises, or `Invalid` if the arguments are the same or do not fit, a
    rule denies the call with them, or the mark has changed since."""
    found = check_rerun(caller, public_id, arguments)
    if found.mark != mark:
        raise Invalid("The tool or the rules have changed since you looked. Look at the call again.")
    told = f"re-run of {public_id} with other arguments" + (f": {reason}" if reason else "")
    return rerun.make(found, caller.because(told))

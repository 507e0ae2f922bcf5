"""Use cases for calls that a person makes in the console: see what the rules say of the call, and make it."""

from __future__ import annotations

import re
from typing import Any, Final

from taskhub.control.caller import Caller
from taskhub.core.errors import Invalid, Refused
from taskhub.core.records import Created, Person, ToolRecord
from taskhub.domain.clients import tries
from taskhub.domain.clients.tries import Try

__all__ = ["Try", "check_try", "tool_to_try", "try_tool"]

# Whoever may not run a call again may not make one either. With this permission a person may also give a program the
# scope `tasks:call` (`core.permissions.SCOPE_NEEDS`).
_PERMISSION: Final = "task.rerun"
_ONCE: Final = re.compile(r"[A-Za-z0-9_-]{16,64}")


def tool_to_try(caller: Caller, tool_id: int) -> ToolRecord:
    """The tool that the caller would call. Raises `Forbidden`, or `NotFound` if it is not offered to clients."""
    caller.require(_PERMISSION, f"try tool {tool_id}")
    return tries.tool_to_try(caller.tenant_id, tool_id)


def check_try(caller: Caller, tool_id: int, arguments: dict[str, Any]) -> Try:
    """The call as the caller would make it now, and what the rules say of it. Nothing is called or stored. Raises what
    `try_tool` raises."""
    caller.require(_PERMISSION, f"try tool {tool_id}")
    return tries.find_try(_person(caller), tool_id, arguments)


def try_tool(
    caller: Caller, tool_id: int, arguments: dict[str, Any], *, mark: str, once: str, reason: str = ""
) -> Created:
    """Call the tool, as the caller's own call. `mark` is the mark of the `Try` that `check_try` returned and the caller
    has seen. The same `once` makes one task only, however often it is sent.

    Raises `Forbidden`; `NotFound` for a tool that is not offered, or hidden from the caller; `Invalid` if the arguments
    do not fit, or the mark has changed since; `Refused` if a rule denies the call or the caller is locked out; and what
    `create_task` raises.
    """
    if not _ONCE.fullmatch(once):
        raise Invalid("Open the form again: what was sent does not come from it.")
    found = check_try(caller, tool_id, arguments)
    if found.mark != mark:
        raise Invalid("The tool or the rules have changed since you looked. Look at the call again.")
    told = "called in the console" + (f": {reason}" if reason else "")
    return tries.call(found, key=f"console-{once}", actor=caller.because(told))


def _person(caller: Caller) -> Person:
    if caller.person is None:
        raise Refused("Only a person calls a tool in the console; `manage.py call` calls one in a terminal.")
    return caller.person

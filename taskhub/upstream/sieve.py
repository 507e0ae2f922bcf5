"""Removes invalid items from lists: the SDK refuses a whole list if one tool, prompt or resource is invalid. So such
items are taken out before the SDK reads the list, and put with the reason into another member of the result (`UNFIT`).

Lists of in-process servers are not sieved: there are no streams, and the server's own SDK refuses the list first.
"""

from __future__ import annotations

from typing import Any, Final

import mcp_types as types
from mcp_types import methods
from pydantic import ValidationError

from taskhub.core.names import META_VERSION
from taskhub.core.versions import Version

UNFIT: Final = "io.taskhub/unfit"
"""The member of a sieved result with the items that were taken out, as pairs of item and reason."""

CREATED: Final = "io.taskhub/task"
"""The member of `_meta` for the task that a server made of a call. The task is moved there, because the SDK would
refuse a task as the answer to a call."""

_MEMBER: Final = {
    "tools/list": "tools",
    "prompts/list": "prompts",
    "resources/list": "resources",
    "resources/templates/list": "resourceTemplates",
}
_ON_SESSIONS: Final = Version.MCP_2025_11_25
"""The version whose schema is used to check messages of all versions with sessions."""


class Sieve:
    """Sieves the lists of one connection. Call `sent` with each outgoing message, `received` with each incoming one."""

    def __init__(self) -> None:
        self._asked: dict[types.RequestId, tuple[str, str]] = {}
        self._tasks: set[types.RequestId] = set()
        """The ids of calls that the server was asked to run as tasks."""

    def sent(self, message: Any) -> None:
        """Note the id of a request for a list, or of a call that asks for a task (2025-11-25)."""
        if isinstance(message, types.JSONRPCRequest) and "task" in (message.params or {}):
            self._tasks.add(message.id)
        if isinstance(message, types.JSONRPCRequest) and message.method in _MEMBER:
            meta = (message.params or {}).get("_meta") or {}
            self._asked[message.id] = (message.method, meta.get(META_VERSION, _ON_SESSIONS))

    def received(self, message: Any) -> None:
        """Sieve the result in the message, in place, if it answers a request for a list. If it answers a call with a
        task, the task is moved into an empty result (`CREATED`)."""
        if isinstance(message, (types.JSONRPCResponse, types.JSONRPCError)):
            if message.id in self._tasks:
                self._tasks.discard(message.id)
                if isinstance(message, types.JSONRPCResponse) and "task" in message.result:
                    message.result = {"content": [], "_meta": {CREATED: message.result["task"]}}
            asked = self._asked.pop(message.id, None) if message.id is not None else None
            if asked and isinstance(message, types.JSONRPCResponse):
                message.result = sieved(*asked, message.result)


def sieved(method: str, version: str, result: dict[str, Any]) -> dict[str, Any]:
    """The result without the items for which the SDK would refuse it. A result that is invalid in another way is
    returned unchanged, because the SDK says what is wrong. An `inputSchema` without a `type` gets `object`."""
    member = _MEMBER[method]
    items = result.get(member)
    if not isinstance(items, list) or not _problem(method, version, result):
        return result
    if method == "tools/list":
        items = [_typed(item) for item in items]
        typed = {**result, member: items}
        if not _problem(method, version, typed):
            return typed
    rest = {name: value for name, value in result.items() if name != UNFIT}
    if _problem(method, version, {**rest, member: []}):
        return result
    kept, unfit = [], []
    for item in items:
        problem = _problem(method, version, {**rest, member: [item]})
        if problem:
            unfit.append([item, problem])
        else:
            kept.append(item)
    return {**rest, member: kept, UNFIT: unfit}


def _typed(tool: Any) -> Any:
    """The tool, with `"type": "object"` in its `inputSchema` if that schema has no type. Servers that were written for
    zod 3 but installed with zod 4 send nothing but a `$schema`. Their tools work, because arguments are always an
    object."""
    schema = tool.get("inputSchema") if isinstance(tool, dict) else None
    if not isinstance(schema, dict) or "type" in schema:
        return tool
    return {**tool, "inputSchema": {**schema, "type": "object"}}


def _problem(method: str, version: str, result: dict[str, Any]) -> str:
    try:
        methods.validate_server_result(method, version, result)
    except ValidationError as error:
        return misfit(error, below=2)  # without the list's name and the index, which say nothing about the item
    except KeyError:
        return ""  # the SDK does not check this version either
    return ""


def misfit(error: ValidationError, *, below: int = 0) -> str:
    """The first problem of a validation, with its place in the value below the first `below` levels, as text."""
    first = error.errors(include_url=False, include_input=False)[0]
    where = "/".join(str(part) for part in first["loc"][below:])[:200]
    return f"{first['msg']} at {where}" if where else str(first["msg"])

"""One bad item must not cost a whole list: the SDK refuses a list in which a single tool, prompt or resource does not
have the right shape. So such items are taken out before the SDK reads the list, and put beside it with the reason, for
code that reads the list verbatim.

In-process servers have no streams: their own SDK refuses the list, before single items can be looked at.
"""

from __future__ import annotations

from typing import Any, Final

import mcp_types as types
from mcp_types import methods
from pydantic import ValidationError

from taskhub.core.names import META_VERSION
from taskhub.core.versions import Version

UNFIT: Final = "io.taskhub/unfit"
"""The member of a sieved list that holds what was taken out: pairs of an item and the reason."""

_MEMBER: Final = {
    "tools/list": "tools",
    "prompts/list": "prompts",
    "resources/list": "resources",
    "resources/templates/list": "resourceTemplates",
}
_ON_SESSIONS: Final = Version.MCP_2025_11_25
"""Messages of all versions with sessions are checked by the shapes of the last."""


class Sieve:
    """Watches the messages of one connection: `sent` the outgoing, `received` the incoming."""

    def __init__(self) -> None:
        self._asked: dict[types.RequestId, tuple[str, str]] = {}

    def sent(self, message: Any) -> None:
        """Note which answers will be lists."""
        if isinstance(message, types.JSONRPCRequest) and message.method in _MEMBER:
            meta = (message.params or {}).get("_meta") or {}
            self._asked[message.id] = (message.method, meta.get(META_VERSION, _ON_SESSIONS))

    def received(self, message: Any) -> None:
        """Sieve the message if it is a list that was asked for."""
        if isinstance(message, (types.JSONRPCResponse, types.JSONRPCError)):
            asked = self._asked.pop(message.id, None) if message.id is not None else None
            if asked and isinstance(message, types.JSONRPCResponse):
                message.result = sieved(*asked, message.result)


def sieved(method: str, version: str, result: dict[str, Any]) -> dict[str, Any]:
    """A list without the items for which the SDK would refuse all of it. A list that is wrong in another way is left
    unchanged: the SDK says what is wrong."""
    member = _MEMBER[method]
    items = result.get(member)
    if not isinstance(items, list) or not _problem(method, version, result):
        return result
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


def _problem(method: str, version: str, result: dict[str, Any]) -> str:
    try:
        methods.validate_server_result(method, version, result)
    except ValidationError as error:
        return misfit(error, below=2)  # the list and the place in it say nothing about the item
    except KeyError:
        return ""  # the SDK does not check this version either
    return ""


def misfit(error: ValidationError, *, below: int = 0) -> str:
    """Which part of the value does not have the shape it should, and why."""
    first = error.errors(include_url=False, include_input=False)[0]
    where = "/".join(str(part) for part in first["loc"][below:])[:200]
    return f"{first['msg']} at {where}" if where else str(first["msg"])

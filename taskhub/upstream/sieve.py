"""One wrong item must not cost a whole list: the SDK refuses a list in which a single tool, prompt or
resource does not have the shape of one. So such items are taken out on the way to it, and laid beside
the list with the reason, for whoever reads it verbatim.

In-process servers have no streams: their own SDK refuses what they list, and no item can be told apart.
"""

from __future__ import annotations

from typing import Any, Final

import mcp_types as types
from mcp_types import methods
from pydantic import ValidationError

from taskhub.core.names import META_VERSION
from taskhub.core.versions import Version

UNFIT: Final = "io.taskhub/unfit"
"""In a list as it comes out of the sieve: pairs of an item that was taken out, and why."""

_MEMBER: Final = {
    "tools/list": "tools",
    "prompts/list": "prompts",
    "resources/list": "resources",
    "resources/templates/list": "resourceTemplates",
}
_ON_SESSIONS: Final = Version.MCP_2025_11_25
"""All versions with sessions are checked by the shapes of the last."""


class Sieve:
    """Sees the messages of one connection go by: `sent` those that leave, `received` those that come."""

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
    """A list without the items that the SDK would refuse all of it for. One that is wrong in another
    way is left as it is: the SDK says what it is."""
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
        return ""  # the SDK does not check it either
    return ""


def misfit(error: ValidationError, *, below: int = 0) -> str:
    """What does not have the shape it should have, and where."""
    first = error.errors(include_url=False, include_input=False)[0]
    where = "/".join(str(part) for part in first["loc"][below:])[:200]
    return f"{first['msg']} at {where}" if where else str(first["msg"])

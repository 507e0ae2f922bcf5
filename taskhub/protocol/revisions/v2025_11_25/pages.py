"""Pages of the task list: a sealed cursor of one caller, good on each of its sessions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from taskhub.core.records import TaskRecord
from taskhub.lib import jsonx
from taskhub.lib.sealing import Unsealed
from taskhub.protocol.errors import INVALID_PARAMS, WireError
from taskhub.protocol.hub import Hub
from taskhub.protocol.revisions.v2025_11_25.wire import Request

PURPOSE: Final = "tasks/list"
SIZE: Final = 50
CURSOR_SECONDS: Final = 3_600


def opened(hub: Hub, request: Request) -> int | None:
    """Where the page starts; `None` for the first. Raises -32602 for a cursor of somebody or
    something else (T25-26, T1686-14)."""
    cursor = request.params.get("cursor")
    if cursor is None:
        return None
    try:
        context_id, before = hub.sealer.open(PURPOSE, cursor) if isinstance(cursor, str) else (None, 0)
    except Unsealed:
        context_id, before = None, 0
    if context_id != request.principal.context_id:
        raise WireError(INVALID_PARAMS, "Invalid cursor: list again from the first page")
    return int(before)


def encoded(
    hub: Hub,
    request: Request,
    found: list[tuple[int, TaskRecord]],
    fields: Callable[[TaskRecord], dict[str, Any]],
) -> bytes:
    """The page of `found`, which holds one task more than a page if there is another."""
    page: dict[str, Any] = {"tasks": [fields(task) for _, task in found[:SIZE]]}
    if len(found) > SIZE:
        where = [request.principal.context_id, found[SIZE - 1][0]]
        page["nextCursor"] = hub.sealer.seal(PURPOSE, where, seconds=CURSOR_SECONDS)
    return jsonx.encode(page)

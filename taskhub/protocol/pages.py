"""Pages of a list, and the cursors between them: the same for every list of every revision."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from taskhub.lib.sealing import Unsealed
from taskhub.protocol.errors import INVALID_PARAMS, WireError
from taskhub.protocol.hub import Hub

PAGE = 100
CURSOR_SECONDS = 3_600

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Page(Generic[T]):
    """Some items of a list; `next_cursor` when there are more."""

    items: Sequence[T]
    next_cursor: str | None


def start_of(hub: Hub, method: str, tenant_id: int, cursor: Any) -> int:
    """Where the page starts that `cursor`, as a client sent it, stands for. Raises -32602 for a cursor
    that was never given out for this list and tenant, or is too old (B26-46, B25-27)."""
    if cursor is None:
        return 0
    try:
        tenant, start = hub.sealer.open(method, cursor) if isinstance(cursor, str) else (None, 0)
    except Unsealed:
        tenant, start = None, 0
    if tenant != tenant_id:
        raise WireError(INVALID_PARAMS, "Invalid cursor: list again from the first page")
    return int(start)


def page_at(hub: Hub, method: str, tenant_id: int, items: Sequence[T], start: int) -> Page[T]:
    """The page that starts there."""
    more = len(items) > start + PAGE
    cursor = hub.sealer.seal(method, [tenant_id, start + PAGE], seconds=CURSOR_SECONDS) if more else None
    return Page(items[start : start + PAGE], cursor)

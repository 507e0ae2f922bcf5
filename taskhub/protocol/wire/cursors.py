"""Cursors between the pages of a list: signed, and good for an hour for one list of one owner."""

from __future__ import annotations

from typing import Any, Final

from taskhub.lib.signing import InvalidToken
from taskhub.protocol.errors import INVALID_PARAMS, WireError
from taskhub.protocol.hub import Hub

CURSOR_SECONDS: Final = 3_600


def opened(hub: Hub, purpose: str, owner: int, cursor: Any) -> int | None:
    """The place that `cursor`, as a client sent it, stands for; `None` for the first page. Raises -32602 for one that
    was never given out for this list and owner, or is too old (B26-46, B25-27, T25-26, T1686-14)."""
    if cursor is None:
        return None
    try:
        whose, place = hub.signer.verify(purpose, cursor) if isinstance(cursor, str) else (None, 0)
    except InvalidToken:
        whose, place = None, 0
    if whose != owner:
        raise WireError(INVALID_PARAMS, "Invalid cursor: list again from the first page")
    return int(place)


def signed(hub: Hub, purpose: str, owner: int, place: int) -> str:
    """The cursor that stands for the place."""
    return hub.signer.sign(purpose, [owner, place], seconds=CURSOR_SECONDS)

"""What commands write: lines to their standard error, and lines to their standard output that are not MCP messages."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from taskhub.store import statements

KEPT: Final = 200
"""The most lines of one server that are kept."""
KEPT_DAYS: Final = 7
"""Days for which a line is kept."""


@dataclass(frozen=True, slots=True)
class LineRow:
    """A line that a process of a command wrote."""

    said_at: datetime
    worker: str
    text: str


_STORE = statements.none("store_lines")
_PURGE = statements.rowcount("purge_lines")
_LINES = statements.many("server_lines", LineRow)


def store_lines(server_id: int, texts: Sequence[str], *, worker: str) -> None:
    """Add lines of a server's processes in this worker, and drop the oldest beyond `KEPT`. No lines are added for a
    removed server."""
    clean = [text.replace("\0", "\ufffd") for text in texts[-KEPT:]]
    if clean:
        _STORE(server=server_id, worker=worker, texts=clean, most=KEPT)


def purge_lines(*, days: int = KEPT_DAYS, limit: int = 1_000) -> int:
    """Delete lines that are older than `days`, and lines of removed servers, at most `limit`. Returns how many."""
    return _PURGE(days=days, most=limit)


def lines_of(server_id: int) -> list[LineRow]:
    """The newest lines of a server, oldest first."""
    return _LINES(server=server_id, most=KEPT)[::-1]

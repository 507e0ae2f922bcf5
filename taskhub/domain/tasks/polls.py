"""When clients last asked for their tasks: kept in memory by the web process and written in
batches, because a read must not cost a write."""

from __future__ import annotations

from collections.abc import Mapping

from taskhub.store import statements

_STORE = statements.none("store_polls")


def store_polls(polled: Mapping[int, float]) -> None:
    """Record the latest poll of each live task; `polled` maps task ids to Unix times."""
    _STORE(tasks=list(polled), polled=list(polled.values()))

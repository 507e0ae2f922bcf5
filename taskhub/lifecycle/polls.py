"""When clients last asked for their tasks: kept in memory by the web process and written in
batches, because a read must not cost a write."""

from __future__ import annotations

from collections.abc import Mapping

from taskhub.store import call


def store_polls(polled: Mapping[int, float]) -> None:
    """Record the latest poll of each live task; `polled` maps task ids to Unix times."""
    call.rows(
        "UPDATE task t SET last_polled_at = greatest(t.last_polled_at, to_timestamp(p.at))"
        " FROM unnest(%s::bigint[], %s::float8[]) AS p(id, at) WHERE t.id = p.id AND t.ended_at IS NULL RETURNING t.id",
        (list(polled), list(polled.values())),
    )

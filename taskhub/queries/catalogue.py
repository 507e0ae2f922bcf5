"""The tools on offer, with their effective policy. Cached per process; a hint drops the cache."""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from taskhub.core.records import Audience, TaskMode, ToolRecord
from taskhub.store.models import Tool

CACHE_SECONDS = 30.0


@dataclass(frozen=True)
class Catalogue:
    """All tools a tenant's clients may call, in a stable order: server by server, as each
    server lists them. `digest` changes with anything a client could see."""

    tenant_id: int
    tools: tuple[ToolRecord, ...]
    by_name: dict[str, ToolRecord]
    digest: str


_cache: dict[int, tuple[float, Catalogue]] = {}
_forgotten = 0
"""Counts `forget_catalogues`: what was read before one must not be kept after it."""


def cached_catalogue(tenant_id: int) -> Catalogue | None:
    """The catalogue if this process knows a fresh one; never touches the database."""
    entry = _cache.get(tenant_id)
    return entry[1] if entry is not None and entry[0] > time.monotonic() else None


def catalogue(tenant_id: int) -> Catalogue:
    """The tenant's catalogue, read if need be."""
    known = cached_catalogue(tenant_id)
    if known is not None:
        return known
    forgotten = _forgotten
    rows = (
        Tool.objects.filter(
            server__tenant_id=tenant_id, server__enabled=True, enabled=True, gone_at__isnull=True, rejected=""
        )
        .select_related("server")
        .order_by("server_id", "position", "id")
    )
    tools = tuple(_records(rows))
    fresh = Catalogue(
        tenant_id=tenant_id,
        tools=tools,
        by_name={tool.exposed_name: tool for tool in tools},
        digest="|".join(f"{tool.exposed_name}:{tool.digest}" for tool in tools),
    )
    if forgotten == _forgotten:
        _cache[tenant_id] = (time.monotonic() + CACHE_SECONDS, fresh)
    return fresh


def forget_catalogues() -> None:
    """Drop the cache: a server, tool or policy changed."""
    global _forgotten
    _forgotten += 1
    _cache.clear()


def tool_by_id(tool_id: int) -> ToolRecord | None:
    """One tool, also when it is disabled or gone."""
    return next(iter(_records(Tool.objects.filter(pk=tool_id).select_related("server"))), None)


def _records(rows: Iterable[Tool]) -> Iterable[ToolRecord]:
    for row in rows:
        definition: dict[str, Any] = row.definition
        policy = TaskMode(row.policy_mode) if row.policy_mode else None
        hint = TaskMode(row.hint_mode) if row.hint_mode else None
        yield ToolRecord(
            id=row.pk,
            server_id=row.server_id,
            server_name=row.server.name,
            name=row.name,
            exposed_name=row.exposed_name,
            definition=definition,
            digest=row.digest,
            mode=policy or hint or TaskMode.AUTO,
            hint_mode=hint,
            policy_mode=policy,
            enabled=row.enabled,
            at_least_once=(
                row.policy_at_least_once if row.policy_at_least_once is not None else row.read_only or row.idempotent
            ),
            approval=row.approval,
            approval_when=row.approval_when,
            approval_group=row.approval_group,
            approval_quorum=row.approval_quorum,
            question_audience=Audience(row.question_audience) if row.question_audience else None,
            max_attempts=row.max_attempts,
            run_seconds=row.run_seconds,
        )

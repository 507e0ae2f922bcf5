"""The versions of tools' definitions: what servers listed, and when."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from django.db.models import F

from taskhub.store import statements
from taskhub.store.models import ToolVersion

MAX_VERSIONS: Final = 20
"""The most versions of a tool that are kept: the newest, and besides them the confirmed version."""

_KEEP = statements.none("keep_versions")


@dataclass(frozen=True, slots=True)
class Version:
    """A definition that a tool has or had, as the server sent it."""

    number: int
    digest: str
    definition: dict[str, Any]
    first_seen_at: datetime
    last_seen_at: datetime | None
    """When the server last listed this definition; `None` for the definition that it lists now."""


def keep_versions(changed: Sequence[int], *, listed: datetime, seen: datetime | None) -> None:
    """Store the present definitions of the tools `changed` as versions, in the transaction that stores a listing.
    `listed`: the time of that listing. `seen`: the time of the server's previous listing; `None` if there was none. A
    definition that a tool had before gets no new version: its earlier version is the present one again."""
    if changed:
        _KEEP(changed=list(changed), listed=listed, seen=seen or listed, most=MAX_VERSIONS)


def tool_versions(tenant_id: int, tool_id: int) -> tuple[Version, ...]:
    """The versions that are kept of a tool, at most 100, the one with the highest number first."""
    rows = ToolVersion.objects.filter(tool_id=tool_id, tool__server__tenant_id=tenant_id).order_by("-number")
    return tuple(
        Version(row.number, row.digest, row.definition, row.first_seen_at, row.last_seen_at) for row in rows[:100]
    )


def confirmed_definitions(tenant_id: int, server_id: int) -> dict[int, dict[str, Any]]:
    """For the server's tools whose definition is not the one that was confirmed last: the confirmed definition, by the
    tool's id."""
    rows = ToolVersion.objects.filter(
        tool__server_id=server_id, tool__server__tenant_id=tenant_id, digest=F("tool__confirmed_digest")
    ).exclude(tool__digest=F("tool__confirmed_digest"))
    return {row.tool_id: row.definition for row in rows}

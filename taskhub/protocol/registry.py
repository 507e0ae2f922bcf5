"""The revisions: one per folder, each with the versions that it serves and a table of methods for each version. A
version that is in no table is not served."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from functools import cache
from types import MappingProxyType
from typing import Any, Final

from taskhub.core.errors import Invalid
from taskhub.core.records import TaskRecord
from taskhub.protocol.envelope import Envelope, Response
from taskhub.protocol.errors import UNSUPPORTED_VERSION, WireError
from taskhub.protocol.revision import Revision
from taskhub.protocol.revisions.sep_2557 import methods as sep_2557
from taskhub.protocol.revisions.v2025_11_25 import methods as v2025_11_25
from taskhub.protocol.revisions.v2026_07_28 import methods as v2026_07_28

_Some = tuple[Revision[Any], ...]

IN_ORDER: Final[_Some] = (v2025_11_25.REVISION, v2026_07_28.REVISION, sep_2557.REVISION)
"""All revisions, the oldest first on each mount. A message that belongs to none of the revisions of its mount goes to
the newest, which answers with an error."""

MOUNTS: Final = tuple(dict.fromkeys(revision.mount for revision in IN_ORDER if revision.mount))
"""The places below `/mcp` that serve one revision each, which a client chooses by the address."""

VERSIONS: Final = tuple(version for one in reversed(IN_ORDER) if not one.mount for version in one.methods)
"""All versions that `/mcp` can serve, newest first."""

PROFILES: Final = frozenset(profile for revision in IN_ORDER for profile in revision.profiles)
"""Variants of a version that have no version of their own, and are switched on and off as versions are."""

REVISIONS: Final[Mapping[str, Revision[Any]]] = MappingProxyType(
    {name: revision for revision in reversed(IN_ORDER) for name in (*revision.methods, *revision.profiles)}
)
"""The revision for each value that `revision` of a task may have."""


def check_named(revisions: Collection[str]) -> None:
    """Raises `Invalid` if `revisions`, which are to be switched on, are empty or not all known."""
    unknown = [name for name in revisions if name not in REVISIONS]
    if unknown or not revisions:
        raise Invalid(
            f"TASKHUB_REVISIONS names {', '.join(unknown) or 'nothing'}; there are: {', '.join(REVISIONS)}",
            field="TASKHUB_REVISIONS",
        )


def open_revisions(mount: str, versions: tuple[str, ...]) -> Iterator[Revision[Any]]:
    """The revisions on this mount that serve at least one of `versions`, the versions of `/mcp` that are switched on.
    `versions` do not matter for a revision with a mount of its own, because that mount exists only while it is switched
    on."""
    on_mount = (revision for revision in IN_ORDER if mount == revision.mount)
    return (revision for revision in on_mount if mount or any(version in versions for version in revision.methods))


@cache
def _revisions(mount: str, versions: tuple[str, ...]) -> tuple[_Some, Revision[Any], _Some]:
    """Three parts for one mount: all its revisions but the newest; the newest; and those that `open_revisions`
    returns."""
    *older, newest = (revision for revision in IN_ORDER if mount == revision.mount)
    return tuple(older), newest, tuple(open_revisions(mount, versions))


def revision_of(
    message: Envelope | Response, headers: Mapping[str, str], mount: str, versions: tuple[str, ...]
) -> Revision[Any]:
    """The revision of a message, among those on its mount. If that revision is switched off, an `initialize` raises
    -32022 with the versions that are served, and any other message belongs to the newest revision."""
    older, newest, served = _revisions(mount, versions)
    revision = next((one for one in older if one.speaks(message, headers)), newest)
    if revision in served:
        return revision
    if not isinstance(message, Envelope) or message.method != "initialize":
        return newest
    requested = message.params.get("protocolVersion")
    raise WireError(
        UNSUPPORTED_VERSION,
        f"This server speaks {', '.join(versions)}; send server/discover",
        {"supported": list(versions), "requested": requested if isinstance(requested, str) else ""},
    )


def shown(task: TaskRecord) -> Mapping[str, object] | None:
    """The present result of `tasks/get` for the task's owner, in the form of the task's revision. `None` if the caller
    was given no handle, or the revision no longer exists. For the console's wire view."""
    revision = REVISIONS.get(task.revision)
    return None if revision is None else revision.shown(task)

"""The revisions: one per folder, each with the versions it speaks and a table of methods for
each. A version that is not in a table is not spoken."""

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
"""Oldest first on each mount. There the newest takes whatever no other speaks, and says what is wrong with it."""

MOUNTS: Final = tuple(dict.fromkeys(revision.mount for revision in IN_ORDER if revision.mount))
"""The places below `/mcp` where a revision that may not be met by accident is served alone."""

VERSIONS: Final = tuple(version for one in reversed(IN_ORDER) if not one.mount for version in one.methods)
"""All that `/mcp` speaks, newest first."""

PROFILES: Final = frozenset(profile for revision in IN_ORDER for profile in revision.profiles)
"""Ways of a version that are none themselves, and are switched on and off like one."""

REVISIONS: Final[Mapping[str, Revision[Any]]] = MappingProxyType(
    {name: revision for revision in reversed(IN_ORDER) for name in (*revision.methods, *revision.profiles)}
)
"""Every revision that a task can be of, and who serves it."""


def check_named(revisions: Collection[str]) -> None:
    """Raises `Invalid` where these, to be switched on, are none or not all ours."""
    unknown = [name for name in revisions if name not in REVISIONS]
    if unknown or not revisions:
        raise Invalid(
            f"TASKHUB_REVISIONS names {', '.join(unknown) or 'nothing'}; there are: {', '.join(REVISIONS)}",
            field="TASKHUB_REVISIONS",
        )


def open_revisions(mount: str, versions: tuple[str, ...]) -> Iterator[Revision[Any]]:
    """The revisions on this mount that serve at least one of `versions`, the versions of `/mcp` that are
    switched on. A mount of its own is only reached while it is."""
    on_mount = (revision for revision in IN_ORDER if mount == revision.mount)
    return (revision for revision in on_mount if mount or any(version in versions for version in revision.methods))


@cache
def _revisions(mount: str, versions: tuple[str, ...]) -> tuple[_Some, Revision[Any], _Some]:
    """On a mount: all revisions but the newest, the newest, and those that are open."""
    *older, newest = (revision for revision in IN_ORDER if mount == revision.mount)
    return tuple(older), newest, tuple(open_revisions(mount, versions))


def revision_of(
    message: Envelope | Response, headers: Mapping[str, str], mount: str, versions: tuple[str, ...]
) -> Revision[Any]:
    """The revision this message speaks, of those on its mount. A client whose
    revision is switched off learns which there are instead of being left to guess."""
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
    """What `tasks/get` answers the task's owner now, in the words of its own revision; `None` when
    its caller has no handle to ask with, or the revision is gone. For the console's wire view."""
    revision = REVISIONS.get(task.revision)
    return None if revision is None else revision.shown(task)

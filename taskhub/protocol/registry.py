"""The doors: one per revision folder, each with the versions it speaks and a table of methods for
each. A missing key is the gate; nothing else in the code compares versions."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from functools import cache
from types import MappingProxyType
from typing import Any, Final

from taskhub.core.errors import Invalid
from taskhub.core.records import TaskRecord
from taskhub.protocol.door import Door, R
from taskhub.protocol.envelope import Envelope, Response
from taskhub.protocol.errors import UNSUPPORTED_VERSION, WireError
from taskhub.protocol.revisions.sep_2557 import methods as sep_2557
from taskhub.protocol.revisions.v2025_11_25 import methods as v2025_11_25
from taskhub.protocol.revisions.v2026_07_28 import methods as v2026_07_28


def _checked(module: Door[R]) -> Door[R]:
    """The module itself: mypy sees here that its checks and its methods agree on one kind of request."""
    return module


DOORS: Final[tuple[Door[Any], ...]] = (_checked(v2025_11_25), _checked(v2026_07_28), _checked(sep_2557))
"""Oldest first on each mount. There the newest takes whatever no other speaks, and says what is wrong with it."""

MOUNTS: Final = tuple(dict.fromkeys(door.MOUNT for door in DOORS if door.MOUNT))
"""The places below `/mcp` where a revision that may not be met by accident is served alone."""

VERSIONS: Final = tuple(version for door in reversed(DOORS) if not door.MOUNT for version in door.METHODS)
"""All that `/mcp` speaks, newest first."""

PROFILES: Final = frozenset(profile for door in DOORS for profile in door.PROFILES)
"""Ways of a version that are none themselves, and are switched on and off like one."""

REVISIONS: Final[Mapping[str, Door[Any]]] = MappingProxyType(
    {name: door for door in reversed(DOORS) for name in (*door.METHODS, *door.PROFILES)}
)
"""Every revision that a task can be of, and its door."""


def check_named(revisions: Collection[str]) -> None:
    """Raises `Invalid` where these, to be switched on, are none or not all ours."""
    unknown = [name for name in revisions if name not in REVISIONS]
    if unknown or not revisions:
        raise Invalid(
            f"TASKHUB_REVISIONS names {', '.join(unknown) or 'nothing'}; there are: {', '.join(REVISIONS)}",
            field="TASKHUB_REVISIONS",
        )


def open_doors(mount: str, versions: tuple[str, ...]) -> Iterator[Door[Any]]:
    """The doors on this mount that serve at least one of `versions`, the versions of `/mcp` that are
    switched on. A mount of its own is only reached while it is."""
    on_mount = (door for door in DOORS if mount == door.MOUNT)
    return (door for door in on_mount if mount or any(version in versions for version in door.METHODS))


@cache
def _doors(mount: str, versions: tuple[str, ...]) -> tuple[tuple[Door[Any], ...], Door[Any], tuple[Door[Any], ...]]:
    """On a mount: all doors but the newest, the newest, and those that are open."""
    *older, newest = (door for door in DOORS if mount == door.MOUNT)
    return tuple(older), newest, tuple(open_doors(mount, versions))


def door_of(
    message: Envelope | Response, headers: Mapping[str, str], mount: str, versions: tuple[str, ...]
) -> Door[Any]:
    """The revision this message speaks, of those on its mount. A client whose
    revision is switched off learns which there are instead of being left to guess."""
    older, newest, served = _doors(mount, versions)
    door = next((door for door in older if door.speaks(message, headers)), newest)
    if door in served:
        return door
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
    door = REVISIONS.get(task.revision)
    return None if door is None else door.shown(task)

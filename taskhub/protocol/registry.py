"""The doors: one per revision folder, each with the versions it speaks and a table of methods for
each. A missing key is the gate; nothing else in the code compares versions."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator, Mapping
from functools import cache
from types import MappingProxyType
from typing import Any, Final

from taskhub.core.records import TaskRecord
from taskhub.protocol.envelope import Envelope, Response
from taskhub.protocol.errors import UNSUPPORTED_VERSION, WireError
from taskhub.protocol.hub import Hub
from taskhub.protocol.incoming import Incoming, Reply, Stream
from taskhub.protocol.revisions.sep_2557 import methods as sep_2557
from taskhub.protocol.revisions.v2025_11_25 import methods as v2025_11_25
from taskhub.protocol.revisions.v2026_07_28 import methods as v2026_07_28

Handler = Callable[[Hub, Any], Awaitable[Reply | Stream]]


class Door:
    """One revision folder, as the dispatcher uses it: what its `methods` module offers.

    `methods` maps each version the folder speaks to its handlers; `check` turns a request into the
    folder's own `Request` (which tells its `version`) or raises `WireError`; `speaks` tells whether
    a message is this folder's; `verbs` are what it does without a body; `status_of` is its HTTP status
    of an error code; `said_in_json` are statuses that a request is not answered with on this wire, only
    the error itself; `shown` is a task of this folder's as its owner would be shown it. `mount` is
    the place below `/mcp` where alone it is served; `profiles` are ways of its versions that have no
    version of their own.
    """

    def __init__(self, module: Any) -> None:
        self.methods: Mapping[str, Mapping[str, Handler]] = module.METHODS
        self.speaks: Callable[[Envelope | Response, Mapping[str, str]], bool] = module.speaks
        self.check: Callable[[Hub, Incoming, Envelope], Awaitable[Any]] = module.check
        self.notified: Callable[[Hub, Incoming, Envelope], Awaitable[None]] = module.notified
        self.responded: Callable[[Hub, Incoming, Response], Awaitable[None]] = module.responded
        self.verbs: Mapping[str, Callable[[Hub, Incoming], Awaitable[Reply | Stream]]] = module.VERBS
        self.status_of: Callable[[int], int] = module.status_of
        self.said_in_json: frozenset[int] = getattr(module, "SAID_IN_JSON", frozenset())
        self.shown: Callable[[TaskRecord], Any] = module.shown
        self.mount: str = getattr(module, "MOUNT", "")
        self.profiles: tuple[str, ...] = getattr(module, "PROFILES", ())


DOORS: Final = tuple(Door(module) for module in (v2025_11_25, v2026_07_28, sep_2557))
"""Oldest first on each mount. There the newest takes whatever no other speaks, and says what is wrong with it."""

MOUNTS: Final = tuple(dict.fromkeys(door.mount for door in DOORS if door.mount))
"""The places below `/mcp` where a revision that may not be met by accident is served alone."""

VERSIONS: Final = tuple(version for door in reversed(DOORS) if not door.mount for version in door.methods)
"""All that `/mcp` speaks, newest first."""

PROFILES: Final = frozenset(profile for door in DOORS for profile in door.profiles)
"""Ways of a version that are none themselves, and are switched on and off like one."""

REVISIONS: Final[Mapping[str, Door]] = MappingProxyType(
    {name: door for door in reversed(DOORS) for name in (*door.methods, *door.profiles)}
)
"""Every revision that a task can be of, and its door."""


def open_doors(mount: str, versions: tuple[str, ...]) -> Iterator[Door]:
    """The doors on this mount that serve at least one of `versions`, the versions of `/mcp` that are
    switched on. A mount of its own is only reached while it is."""
    on_mount = (door for door in DOORS if door.mount == mount)
    return (door for door in on_mount if mount or any(version in versions for version in door.methods))


@cache
def _doors(mount: str, versions: tuple[str, ...]) -> tuple[tuple[Door, ...], Door, tuple[Door, ...]]:
    """On a mount: all doors but the newest, the newest, and those that are open."""
    *older, newest = (door for door in DOORS if door.mount == mount)
    return tuple(older), newest, tuple(open_doors(mount, versions))


def door_of(message: Envelope | Response, headers: Mapping[str, str], mount: str, versions: tuple[str, ...]) -> Door:
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


def shown(task: TaskRecord) -> Any:
    """What `tasks/get` answers the task's owner now, in the words of its own revision; `None` when
    its caller has no handle to ask with, or the revision is gone. For the console's wire view."""
    door = REVISIONS.get(task.revision)
    return None if door is None else door.shown(task)

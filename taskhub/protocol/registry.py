"""The doors: one per revision folder, each with the versions it speaks and a table of methods for
each. A missing key is the gate; nothing else in the code compares versions."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator, Mapping
from typing import Any, Final

from taskhub.protocol.envelope import Envelope, Response
from taskhub.protocol.errors import UNSUPPORTED_VERSION, WireError
from taskhub.protocol.hub import Hub
from taskhub.protocol.incoming import Incoming, Reply, Stream
from taskhub.protocol.revisions.v2025_11_25 import methods as v2025_11_25
from taskhub.protocol.revisions.v2026_07_28 import methods as v2026_07_28

Handler = Callable[[Hub, Any], Awaitable[Reply | Stream]]


class Door:
    """One revision folder, as the dispatcher uses it: what its `methods` module offers.

    `methods` maps each version the folder speaks to its handlers; `check` turns a request into the
    folder's own `Request` (which tells its `version`) or raises `WireError`; `speaks` tells whether
    a message is this folder's; `verbs` are what it does without a body; `status_of` is its HTTP status
    of an error code.
    """

    def __init__(self, module: Any) -> None:
        self.methods: Mapping[str, Mapping[str, Handler]] = module.METHODS
        self.speaks: Callable[[Envelope | Response, Incoming], bool] = module.speaks
        self.check: Callable[[Hub, Incoming, Envelope], Awaitable[Any]] = module.check
        self.notified: Callable[[Hub, Incoming, Envelope], Awaitable[None]] = module.notified
        self.responded: Callable[[Hub, Incoming, Response], Awaitable[None]] = module.responded
        self.verbs: Mapping[str, Callable[[Hub, Incoming], Awaitable[Reply | Stream]]] = module.VERBS
        self.status_of: Callable[[int], int] = module.status_of


DOORS: Final = tuple(Door(module) for module in (v2025_11_25, v2026_07_28))
"""Oldest first. The newest takes whatever no other speaks, and says what is wrong with it."""

VERSIONS: Final = tuple(version for door in reversed(DOORS) for version in door.methods)
"""All there are, newest first."""

PROFILES: Final = frozenset({"sep-1686"})
"""What can be switched on and off besides: ways of a version, not versions."""


def open_doors(versions: tuple[str, ...]) -> Iterator[Door]:
    """The doors that serve at least one of `versions`."""
    return (door for door in DOORS if any(version in versions for version in door.methods))


def door_of(message: Envelope | Response, incoming: Incoming, versions: tuple[str, ...]) -> Door:
    """The revision this message speaks (protocol.md 3.3). A client whose revision is switched off
    learns which there are instead of being left to guess."""
    door = next((door for door in DOORS[:-1] if door.speaks(message, incoming)), DOORS[-1])
    if door in open_doors(versions):
        return door
    if not isinstance(message, Envelope) or message.method != "initialize":
        return DOORS[-1]
    requested = message.params.get("protocolVersion")
    raise WireError(
        UNSUPPORTED_VERSION,
        f"This server speaks {', '.join(versions)}; send server/discover",
        {"supported": list(versions), "requested": requested if isinstance(requested, str) else ""},
    )

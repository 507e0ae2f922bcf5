"""The table of methods: (method, version) to handler. A missing key is the gate; nothing else
in the code compares versions."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from types import MappingProxyType
from typing import Any, Final, Protocol

from taskhub.protocol.envelope import Envelope
from taskhub.protocol.errors import UNSUPPORTED_VERSION, WireError
from taskhub.protocol.hub import Hub
from taskhub.protocol.incoming import Incoming, Reply, Stream
from taskhub.protocol.revisions.v2026_07_28 import methods as v2026_07_28

Handler = Callable[[Hub, Any], Awaitable[Reply | Stream]]


class Revision(Protocol):
    """What a revision folder's `methods` module offers."""

    VERSION: str
    METHODS: Mapping[str, Handler]

    def check(self, envelope: Envelope, incoming: Incoming, hub: Hub) -> Any:
        """The checked request, or a `WireError`."""


class Door:
    """One revision, as the dispatcher uses it."""

    def __init__(self, module: Any) -> None:
        self.version: str = module.VERSION
        self.check: Callable[[Envelope, Incoming, Hub], Any] = module.check
        self.methods: Mapping[str, Handler] = module.METHODS


DOORS: Final = tuple(Door(module) for module in (v2026_07_28,))
"""Oldest first."""

METHODS: Final[Mapping[tuple[str, str], Handler]] = MappingProxyType(
    {(name, door.version): handler for door in DOORS for name, handler in door.methods.items()}
)


def door_of(envelope: Envelope, incoming: Incoming, versions: tuple[str, ...]) -> Door:
    """The revision this request speaks (protocol.md 3.3). A bare `initialize` of an older client
    learns which versions there are instead of being left to guess."""
    spoken = incoming.headers.get("mcp-protocol-version")
    if envelope.method == "initialize" and spoken is None and not envelope.has_meta:
        open_doors = [door for door in DOORS if door.version in versions]
        requested = envelope.params.get("protocolVersion")
        raise WireError(
            UNSUPPORTED_VERSION,
            f"This server speaks {', '.join(door.version for door in open_doors)}; send server/discover",
            {
                "supported": [door.version for door in open_doors],
                "requested": requested if isinstance(requested, str) else "",
            },
        )
    return DOORS[-1]

"""The methods of SEP-2557: its row of the table. What is decided where the proposal is silent stands
in the docstring of the package."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from taskhub.protocol.envelope import Envelope
from taskhub.protocol.hub import Hub
from taskhub.protocol.incoming import Incoming, Reply
from taskhub.protocol.revision import Handler, Revision
from taskhub.protocol.revisions.sep_2557 import listen, mapping, tasks, toolcall
from taskhub.protocol.revisions.sep_2557.wire import VERSION, WIRE, check_notification, checked
from taskhub.protocol.stateless.request import Request, responded
from taskhub.protocol.stateless.shapes import head, reply, wire_tool
from taskhub.protocol.wire.lists import listing


async def check(hub: Hub, incoming: Incoming, envelope: Envelope) -> Request:
    """The request, if it passes this revision's ladder."""
    return checked(envelope, incoming, KNOWN)


async def notified(hub: Hub, incoming: Incoming, envelope: Envelope) -> None:
    """Accepted without effect, if its header says what it is (T2557-18)."""
    check_notification(envelope, incoming)


async def discover(hub: Hub, request: Request) -> Reply:
    """What there is; of tasks not a word (T2557-03)."""
    return reply(hub, request, {"supportedVersions": [WIRE], "capabilities": {"tools": {}, "logging": {}}})


_METHODS: Final[Mapping[str, Handler[Request]]] = MappingProxyType(
    {
        "server/discover": discover,
        "tools/list": listing("tools/list", "tools", lambda found: found.tools, wire_tool, head),
        "tools/call": toolcall.call_tool,
        "subscriptions/listen": listen.listen,
        "tasks/get": tasks.get,
        "tasks/cancel": tasks.cancel,
    }
)
KNOWN: Final = frozenset(_METHODS)
REVISION: Final[Revision[Request]] = Revision(
    methods=MappingProxyType({VERSION: _METHODS}),
    check=check,
    notified=notified,
    responded=responded,
    shown=mapping.shown,
    mount=VERSION,
)

"""The methods of SEP-2557: how a request is checked, `server/discover`, `tools/call`, and the table of all methods. The
docstring of the package says what is decided where the proposal is silent."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Final

from taskhub.protocol import calls
from taskhub.protocol.envelope import Envelope
from taskhub.protocol.hub import Hub
from taskhub.protocol.incoming import Incoming, Reply, Stream
from taskhub.protocol.revision import Handler, Revision
from taskhub.protocol.revisions.sep_2557 import VERSION, WIRE, listen, tasks
from taskhub.protocol.stateless import rounds
from taskhub.protocol.stateless.request import (
    ROUTING,
    Request,
    check_header,
    check_once,
    checked_request,
    responded,
)
from taskhub.protocol.stateless.shapes import head, reply, wire_tool
from taskhub.protocol.wire.lists import listing

NAMED: Final = {"tools/call": "name", "tasks/get": "taskId", "tasks/cancel": "taskId"}
"""Methods that need `Mcp-Name`, and the parameter it repeats (T2557-18)."""


async def check(hub: Hub, incoming: Incoming, envelope: Envelope) -> Request:
    """The checked request of an envelope. Raises `WireError` for the first check that fails."""
    found = checked_request(envelope, incoming, known=KNOWN, named=NAMED, versions=(WIRE,))
    return replace(found, version=VERSION)


async def notified(hub: Hub, incoming: Incoming, envelope: Envelope) -> None:
    """Accepted without effect. Raises -32020 unless `Mcp-Method` repeats the method (T2557-18)."""
    check_once(incoming, ROUTING)
    check_header("Mcp-Method", incoming.headers.get("mcp-method"), envelope.method)


async def discover(hub: Hub, request: Request) -> Reply:
    """The server's version and capabilities. Tasks are not mentioned (T2557-03)."""
    return reply(hub, request, {"supportedVersions": [WIRE], "capabilities": {"tools": {}, "logging": {}}})


WORDING: Final = rounds.Wording(VERSION, round="incomplete", handle=tasks.created, asks_in_task=True)


async def call_tool(hub: Hub, request: Request) -> Reply | Stream:
    """A result, or a handle, for which callers do not ask (T2557-01, T2557-02). If a handle is possible, a question of
    the tool is asked in the task."""
    calls.need_scope(request.principal, "tasks:call")
    tool, arguments = await rounds.wanted(hub, request)
    return await rounds.answered(hub, request, tool, arguments, WORDING, handle=True)


_METHODS: Final[Mapping[str, Handler[Request]]] = MappingProxyType(
    {
        "server/discover": discover,
        "tools/list": listing("tools/list", "tools", lambda found: found.tools, wire_tool, head),
        "tools/call": call_tool,
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
    shown=tasks.wire_view,
    mount=VERSION,
)

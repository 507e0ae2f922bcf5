"""The methods of SEP-2557: its row of the table. What is decided where the proposal is silent stands
in the docstring of the package."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final

from taskhub.core.names import META_SERVER
from taskhub.lib import jsonx
from taskhub.protocol import calls, pages
from taskhub.protocol.envelope import BadEnvelope, Envelope, Response
from taskhub.protocol.errors import INVALID_REQUEST
from taskhub.protocol.hub import Hub
from taskhub.protocol.incoming import Incoming, Reply
from taskhub.protocol.replies import result_reply
from taskhub.protocol.revision import Handler, Revision
from taskhub.protocol.revisions.sep_2557 import listen, mapping, tasks, toolcall
from taskhub.protocol.revisions.sep_2557.wire import VERSION, WIRE, check_notification, checked
from taskhub.protocol.stateless.request import Request


async def check(hub: Hub, incoming: Incoming, envelope: Envelope) -> Request:
    """The request, if it passes this revision's ladder."""
    return checked(envelope, incoming, KNOWN)


async def notified(hub: Hub, incoming: Incoming, envelope: Envelope) -> None:
    """Accepted without effect, if its header says what it is (T2557-18)."""
    check_notification(envelope, incoming)


async def responded(hub: Hub, incoming: Incoming, response: Response) -> None:
    """-32600: nothing was asked (T2557-19)."""
    raise BadEnvelope(INVALID_REQUEST, "This server sends no requests, so it expects no responses", response.id)


async def discover(hub: Hub, request: Request) -> Reply:
    """What there is; of tasks not a word (T2557-03)."""
    found = {
        "resultType": "complete",
        "supportedVersions": [WIRE],
        "capabilities": {"tools": {}, "logging": {}},
        "_meta": {META_SERVER: hub.server_info},
    }
    return result_reply(request.id, jsonx.encode(found))


async def list_tools(hub: Hub, request: Request) -> Reply:
    """One page of the catalogue."""
    found = await calls.tools_of(hub, request.principal.tenant_id)
    start = pages.start_of(hub, request.method, found.tenant_id, request.params.get("cursor"))
    page = pages.page_at(hub, request.method, found.tenant_id, found.tools, start)
    result: dict[str, Any] = {"resultType": "complete", "tools": [mapping.wire_tool(tool) for tool in page.items]}
    if page.next_cursor is not None:
        result["nextCursor"] = page.next_cursor
    return result_reply(request.id, jsonx.encode({**result, "_meta": {META_SERVER: hub.server_info}}))


_METHODS: Final[Mapping[str, Handler[Request]]] = MappingProxyType(
    {
        "server/discover": discover,
        "tools/list": list_tools,
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

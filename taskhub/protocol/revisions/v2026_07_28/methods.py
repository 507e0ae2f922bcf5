"""The methods of 2026-07-28: its rows of the table."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from taskhub.core.names import TASKS_EXTENSION
from taskhub.protocol.envelope import Envelope
from taskhub.protocol.hub import Hub
from taskhub.protocol.incoming import Incoming, Reply
from taskhub.protocol.revision import Handler, Revision
from taskhub.protocol.revisions.v2026_07_28 import listen, lists, offers, tasks, toolcall
from taskhub.protocol.revisions.v2026_07_28.wire import VERSION as VERSION
from taskhub.protocol.revisions.v2026_07_28.wire import Request, checked
from taskhub.protocol.stateless.request import responded
from taskhub.protocol.stateless.shapes import reply


async def check(hub: Hub, incoming: Incoming, envelope: Envelope) -> Request:
    """The request, if it passes this revision's ladder."""
    return checked(envelope, incoming, KNOWN, hub.versions)


async def notified(hub: Hub, incoming: Incoming, envelope: Envelope) -> None:
    """Core defines no client notification over HTTP: accepted, without effect (B26-06, B26-82)."""


async def discover(hub: Hub, request: Request) -> Reply:
    """What this server is and can (B26-42, B26-43, T26-01, T26-02)."""
    found = {
        "supportedVersions": list(hub.versions),
        "capabilities": {
            "tools": {"listChanged": True},
            "prompts": {"listChanged": True},
            "resources": {"subscribe": True, "listChanged": True},
            "completions": {},
            "logging": {},
            "extensions": {TASKS_EXTENSION: {}},
        },
        "ttlMs": lists.TTL_MS,
        "cacheScope": "private",
    }
    return reply(hub, request, found)


_METHODS: Final[Mapping[str, Handler[Request]]] = MappingProxyType(
    {
        "server/discover": discover,
        "tools/list": lists.list_tools,
        "tools/call": toolcall.call_tool,
        "prompts/list": lists.list_prompts,
        "prompts/get": offers.get_prompt,
        "resources/list": lists.list_resources,
        "resources/templates/list": lists.list_templates,
        "resources/read": offers.read_resource,
        "completion/complete": offers.complete,
        "subscriptions/listen": listen.listen,
        "tasks/get": tasks.get,
        "tasks/update": tasks.update,
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
)

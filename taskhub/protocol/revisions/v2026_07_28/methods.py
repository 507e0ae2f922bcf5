"""The methods of 2026-07-28: its rows of the table."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final

from taskhub.core.names import TASKS_EXTENSION
from taskhub.lib import jsonx
from taskhub.lib.sealing import Unsealed
from taskhub.protocol import calls
from taskhub.protocol.envelope import BadEnvelope, Envelope, Response, result_message
from taskhub.protocol.errors import INVALID_PARAMS, INVALID_REQUEST, WireError, http_status
from taskhub.protocol.hub import Hub
from taskhub.protocol.incoming import Incoming, Reply
from taskhub.protocol.revisions.v2026_07_28 import listen, lists, toolcall
from taskhub.protocol.revisions.v2026_07_28.ext_tasks import mapping
from taskhub.protocol.revisions.v2026_07_28.ext_tasks import methods as tasks
from taskhub.protocol.revisions.v2026_07_28.wire import META_SERVER, Request, checked
from taskhub.protocol.revisions.v2026_07_28.wire import VERSION as VERSION
from taskhub.queries.catalogue import Catalogue

PAGE = 100
LIST_TTL_MS = 60_000
CURSOR_SECONDS = 3_600
JSON = {"Content-Type": "application/json"}


def speaks(message: Envelope | Response, incoming: Incoming) -> bool:
    """Whatever no older revision speaks."""
    return True


async def check(hub: Hub, incoming: Incoming, envelope: Envelope) -> Request:
    """The request, if it passes this revision's ladder."""
    return checked(envelope, incoming, KNOWN, hub.versions)


async def notified(hub: Hub, incoming: Incoming, envelope: Envelope) -> None:
    """Core defines no client notification over HTTP: accepted, without effect (B26-06, B26-82)."""


async def responded(hub: Hub, incoming: Incoming, response: Response) -> None:
    """-32600: nothing was asked (B26-01)."""
    raise BadEnvelope(INVALID_REQUEST, "This server sends no requests, so it expects no responses", response.id)


async def discover(hub: Hub, request: Request) -> Reply:
    """What this server is and can (B26-42, B26-43, T26-01, T26-02)."""
    result = {
        "resultType": "complete",
        "supportedVersions": list(hub.versions),
        "capabilities": {
            "tools": {"listChanged": True},
            "prompts": {},
            "resources": {},
            "logging": {},
            "extensions": {TASKS_EXTENSION: {}},
        },
        "ttlMs": LIST_TTL_MS,
        "cacheScope": "private",
        "_meta": {META_SERVER: hub.server_info},
    }
    return Reply(result_message(request.id, jsonx.encode(result)), headers=JSON)


async def list_tools(hub: Hub, request: Request) -> Reply:
    """One page of the catalogue (B26-44..47). No query while the catalogue is cached: the page
    is encoded once and kept until a tool changes."""
    found = await calls.tools_of(hub, request.principal.tenant_id)
    start = _start(hub, request, found)
    key = f"tools/{found.tenant_id}/{start}"
    kept = hub.cache.get(key)
    if kept is None or kept[0] is not found:
        # Kept beside the very catalogue it shows: a fresh catalogue never meets an old page.
        kept = (found, _encoded_page(hub, found, start))
        hub.cache[key] = kept
    return Reply(result_message(request.id, kept[1]), headers=JSON)


def _start(hub: Hub, request: Request, found: Catalogue) -> int:
    cursor = request.params.get("cursor")
    if cursor is None:
        return 0
    try:
        tenant, start = hub.sealer.open("tools/list", cursor) if isinstance(cursor, str) else (None, 0)
    except Unsealed:
        tenant, start = None, 0
    if tenant != found.tenant_id:
        raise WireError(INVALID_PARAMS, "Invalid cursor: list again from the first page")
    return int(start)


def _encoded_page(hub: Hub, found: Catalogue, start: int) -> bytes:
    page: dict[str, Any] = {
        "resultType": "complete",
        "tools": [wire_tool(tool.definition, tool.exposed_name) for tool in found.tools[start : start + PAGE]],
        "ttlMs": LIST_TTL_MS,
        "cacheScope": "private",
        "_meta": {META_SERVER: hub.server_info},
    }
    if len(found.tools) > start + PAGE:
        page["nextCursor"] = hub.sealer.seal("tools/list", [found.tenant_id, start + PAGE], seconds=CURSOR_SECONDS)
    return jsonx.encode(page)


def wire_tool(definition: dict[str, Any], name: str) -> dict[str, Any]:
    """A tool as its server describes it, under the name we expose, without what this revision
    does not have (T26-56)."""
    return {**{key: value for key, value in definition.items() if key != "execution"}, "name": name}


_METHODS: Final[Mapping[str, Any]] = MappingProxyType(
    {
        "server/discover": discover,
        "tools/list": list_tools,
        "tools/call": toolcall.call_tool,
        "prompts/list": lists.empty_list("prompts"),
        "prompts/get": lists.get_prompt,
        "resources/list": lists.empty_list("resources"),
        "resources/templates/list": lists.empty_list("resourceTemplates"),
        "resources/read": lists.read_resource,
        "subscriptions/listen": listen.listen,
        "tasks/get": tasks.get,
        "tasks/update": tasks.update,
        "tasks/cancel": tasks.cancel,
    }
)
KNOWN: Final = frozenset(_METHODS)
METHODS: Final = MappingProxyType({VERSION: _METHODS})
VERBS: Final[Mapping[str, Any]] = MappingProxyType({})
status_of = http_status
shown = mapping.detailed_task

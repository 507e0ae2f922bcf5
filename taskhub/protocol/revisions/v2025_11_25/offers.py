"""`resources/read`, `prompts/get`, `completion/complete` and subscriptions to resources in the 2025 revisions: the
outcomes of `protocol.relays` as results and errors."""

from __future__ import annotations

from typing import Final

from taskhub.core.names import MAX_URI, META_SERVER
from taskhub.core.versions import Version
from taskhub.domain.relays.outcomes import Answered, Failed, Missing, NeedsInput, RelayOutcome
from taskhub.domain.sessions.writes import follow_resource, unfollow_resource
from taskhub.lib import jsonx
from taskhub.protocol import calls, relays
from taskhub.protocol.envelope import result_reply
from taskhub.protocol.errors import INTERNAL_ERROR, INVALID_PARAMS, OUR_OWN, WireError
from taskhub.protocol.hub import Hub
from taskhub.protocol.incoming import Reply
from taskhub.protocol.revisions.v2025_11_25.wire import Request

RESOURCE_NOT_FOUND: Final = -32002
"""The error code of an unknown resource, in the 2025 revisions only (B25-26)."""
MAX_RESOURCES: Final = 100
"""Resources that one session may follow."""

PASSED_ON: Final = frozenset({INVALID_PARAMS, INTERNAL_ERROR, RESOURCE_NOT_FOUND})
"""The codes reserved by JSON-RPC and MCP that are passed on from servers. A client would take any other reserved code
for an error of the hub."""


async def read_resource(hub: Hub, request: Request) -> Reply:
    """The resource from its server; -32002 with the uri if no server has it (B25-26)."""
    return _shown(request, await relays.read_resource(hub, request.incoming, request.params, _round(request)))


async def get_prompt(hub: Hub, request: Request) -> Reply:
    """The prompt, filled in by its server."""
    return _shown(request, await relays.get_prompt(hub, request.incoming, request.params, _round(request)))


async def complete(hub: Hub, request: Request) -> Reply:
    """Suggestions for an argument."""
    return _shown(request, await relays.complete(hub, request.incoming, request.params))


async def subscribe(hub: Hub, request: Request) -> Reply:
    """From now on, the session's own stream sends `notifications/resources/updated` when the resource changes (B25-23,
    B25-28)."""
    calls.need_scope(request.principal, relays.SCOPE)
    uri = _uri(request)
    found = await hub.catalogue(request.principal)
    if not relays.servers_of(found, uri):
        raise WireError(RESOURCE_NOT_FOUND, "Resource not found", {"uri": uri})
    if not await hub.lanes.run(follow_resource, request.on.id, request.on.public_id, uri, most=MAX_RESOURCES):
        raise WireError(INVALID_PARAMS, f"A session may follow at most {MAX_RESOURCES} resources")
    return result_reply(request.id, b"{}")


async def unsubscribe(hub: Hub, request: Request) -> Reply:
    """End the subscription of the session to a resource; no effect if there is none."""
    uri = _uri(request)
    await hub.lanes.run(unfollow_resource, request.on.id, request.on.public_id, uri)
    return result_reply(request.id, b"{}")


def _uri(request: Request) -> str:
    uri = request.params.get("uri")
    if not isinstance(uri, str) or not 1 <= len(uri) <= MAX_URI or not uri.isprintable():
        raise WireError(INVALID_PARAMS, f"uri must be a string of 1 to {MAX_URI} printable characters")
    return uri


def _round(request: Request) -> relays.Round:
    """A round without capabilities, because in these revisions a server cannot answer such a request with questions."""
    return relays.Round(capabilities={}, trace=calls.trace_of(request.meta), revision=Version.MCP_2025_11_25)


def _shown(request: Request, outcome: RelayOutcome) -> Reply:
    match outcome:
        case Answered(result):
            meta = {key: value for key, value in (result.get("_meta") or {}).items() if key != META_SERVER}
            body = {key: value for key, value in result.items() if key != "_meta"}
            return result_reply(request.id, jsonx.encode({**body, **({"_meta": meta} if meta else {})}))
        case NeedsInput():
            raise WireError(
                INTERNAL_ERROR, f"The server asks for input in {request.method}, which needs MCP 2026-07-28"
            )
        case Missing(uri):
            raise WireError(RESOURCE_NOT_FOUND, "Resource not found", {"uri": uri})
        case Failed(code, message, data) if code not in OUR_OWN or code in PASSED_ON:
            raise WireError(code, message, data)
        case Failed(_, message):
            raise WireError(INTERNAL_ERROR, message)

"""A request on the stateless wire of 2026, whichever revision of that wire it speaks:
each says everything, in its headers and in its `_meta` (B26-13, B26-20..28)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from taskhub.core.names import META_VERSION
from taskhub.lib import jsonx
from taskhub.protocol import revision
from taskhub.protocol.envelope import BadEnvelope, Envelope, Response
from taskhub.protocol.errors import INVALID_PARAMS, INVALID_REQUEST, METHOD_NOT_FOUND, UNSUPPORTED_VERSION, WireError
from taskhub.protocol.hub import Hub
from taskhub.protocol.incoming import Incoming
from taskhub.protocol.stateless.headers import check_header, check_name, check_once

META_CAPABILITIES: Final = "io.modelcontextprotocol/clientCapabilities"
META_CLIENT: Final = "io.modelcontextprotocol/clientInfo"
META_LOG_LEVEL: Final = "io.modelcontextprotocol/logLevel"
META_SUBSCRIPTION: Final = "io.modelcontextprotocol/subscriptionId"

ROUTING: Final = frozenset({"mcp-protocol-version", "mcp-method", "mcp-name"})


@dataclass(frozen=True, slots=True)
class Request(revision.Request):
    """A request that passed the ladder."""

    capabilities: dict[str, Any]
    client_info: dict[str, Any]


def climb(
    envelope: Envelope,
    incoming: Incoming,
    *,
    known: frozenset[str],
    named: Mapping[str, str],
    versions: tuple[str, ...],
    nameless: bool = False,
) -> Request:
    """The ladder of B26-32 down to "method known"; raises `WireError` at the first failed rung.

    `named` maps the methods that carry `Mcp-Name` to the parameter it repeats; `nameless` bears its
    absence.
    """
    check_once(incoming, ROUTING)
    version, capabilities = envelope.meta.get(META_VERSION), envelope.meta.get(META_CAPABILITIES)
    if not isinstance(version, str):
        raise WireError(INVALID_PARAMS, f"params._meta must hold {META_VERSION} as a string", status=400)
    if not isinstance(capabilities, dict):
        raise WireError(INVALID_PARAMS, f"params._meta must hold {META_CAPABILITIES} as an object", status=400)
    headers = incoming.headers
    check_header("MCP-Protocol-Version", headers.get("mcp-protocol-version"), version)
    check_header("Mcp-Method", headers.get("mcp-method"), envelope.method)
    # A method we do not have is unknown before its name matters (T26-41).
    if envelope.method in known and envelope.method in named and not (nameless and "mcp-name" not in headers):
        check_name(headers.get("mcp-name"), envelope.params.get(named[envelope.method]))
    if version not in versions:
        raise WireError(
            UNSUPPORTED_VERSION, "Unsupported protocol version", {"supported": list(versions), "requested": version}
        )
    if envelope.method not in known:
        raise WireError(METHOD_NOT_FOUND, f"Method not found: {envelope.method}")
    client = envelope.meta.get(META_CLIENT)
    assert envelope.id is not None  # notifications never come here
    return Request(
        version=version,
        id=envelope.id,
        method=envelope.method,
        params=envelope.params,
        meta=envelope.meta,
        capabilities=capabilities,
        client_info=client if isinstance(client, dict) else {},
        principal=incoming.principal,
        incoming=incoming,
    )


async def responded(hub: Hub, incoming: Incoming, response: Response) -> None:
    """-32600: nothing was asked (B26-01, T2557-19)."""
    raise BadEnvelope(INVALID_REQUEST, "This server sends no requests, so it expects no responses", response.id)


def input_responses(request: Request) -> dict[str, Any] | None:
    """The answers that came with it (B26-63). Raises -32602 for anything but an object of objects."""
    if "inputResponses" not in request.params:
        return None
    found = request.params["inputResponses"]
    if not isinstance(found, dict) or not all(isinstance(value, dict) for value in found.values()):
        raise WireError(INVALID_PARAMS, "inputResponses must be an object of objects")
    if jsonx.has_nul(found):
        raise WireError(INVALID_PARAMS, "inputResponses cannot hold the character U+0000")
    return found

"""Names, shapes and request checks of 2026-07-28 (protocol.md 3.1)."""

from __future__ import annotations

import base64
import binascii
import re
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, Final

from taskhub.core.names import META_VERSION
from taskhub.core.records import Principal
from taskhub.lib import jsonx
from taskhub.protocol.envelope import Envelope
from taskhub.protocol.errors import (
    HEADER_MISMATCH,
    INVALID_PARAMS,
    METHOD_NOT_FOUND,
    MISSING_CAPABILITY,
    UNSUPPORTED_VERSION,
    WireError,
)
from taskhub.protocol.incoming import Incoming

VERSION: Final = "2026-07-28"

META_CAPABILITIES: Final = "io.modelcontextprotocol/clientCapabilities"
META_CLIENT: Final = "io.modelcontextprotocol/clientInfo"
META_SERVER: Final = "io.modelcontextprotocol/serverInfo"
META_LOG_LEVEL: Final = "io.modelcontextprotocol/logLevel"
META_SUBSCRIPTION: Final = "io.modelcontextprotocol/subscriptionId"

NAMED: Final = {
    "tools/call": "name",
    "prompts/get": "name",
    "resources/read": "uri",
    "tasks/get": "taskId",
    "tasks/update": "taskId",
    "tasks/cancel": "taskId",
}
"""Methods that carry `Mcp-Name`, and the parameter it repeats (B26-22)."""

_NUMBER: Final = re.compile(r"-?[0-9]+(\.[0-9]+)?")

ROUTING: Final = frozenset({"mcp-protocol-version", "mcp-method", "mcp-name"})


@dataclass(frozen=True, slots=True)
class Request:
    """A request that passed the ladder."""

    version: str
    id: str | int
    method: str
    params: dict[str, Any]
    meta: dict[str, Any]
    capabilities: dict[str, Any]
    client_info: dict[str, Any]
    principal: Principal
    incoming: Incoming


def checked(envelope: Envelope, incoming: Incoming, known: frozenset[str], versions: tuple[str, ...]) -> Request:
    """The ladder of B26-32 down to "method known"; raises `WireError` at the first failed rung."""
    doubled = incoming.repeated & ROUTING
    if doubled:
        raise WireError(HEADER_MISMATCH, f"Header sent more than once: {', '.join(sorted(doubled))}")
    version, capabilities = envelope.meta.get(META_VERSION), envelope.meta.get(META_CAPABILITIES)
    if not isinstance(version, str):
        raise WireError(INVALID_PARAMS, f"params._meta must hold {META_VERSION} as a string", status=400)
    if not isinstance(capabilities, dict):
        raise WireError(INVALID_PARAMS, f"params._meta must hold {META_CAPABILITIES} as an object", status=400)
    headers = incoming.headers
    if headers.get("mcp-protocol-version") != version:
        raise _mismatch("MCP-Protocol-Version", headers.get("mcp-protocol-version"), version)
    if headers.get("mcp-method") != envelope.method:
        raise _mismatch("Mcp-Method", headers.get("mcp-method"), envelope.method)
    # A method we do not have is unknown before its name matters (T26-41).
    # Published clients (fastmcp-tasks 4.1) send no Mcp-Name on tasks/*: there its absence is
    # borne, because the body alone decides; a value that differs is refused like anywhere else.
    missing_is_fine = envelope.method.startswith("tasks/") and "mcp-name" not in headers
    if envelope.method in known and envelope.method in NAMED and not missing_is_fine:
        _check_name(headers.get("mcp-name"), envelope.params.get(NAMED[envelope.method]))
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


def _check_name(sent: str | None, body: Any) -> None:
    if sent is None:
        raise WireError(HEADER_MISMATCH, "Header missing: Mcp-Name")
    name = decoded_header(sent)
    if isinstance(body, str) and name != body:
        raise _mismatch("Mcp-Name", sent, body)


def _mismatch(header: str, sent: str | None, body: str) -> WireError:
    if sent is None:
        return WireError(HEADER_MISMATCH, f"Header missing: {header}")
    return WireError(
        HEADER_MISMATCH, f"Header mismatch: {header} {sent[:128]!r} does not match body value {body[:128]!r}"
    )


def decoded_header(value: str) -> str:
    """A header value, out of its base64 sentinel if it wears one. Raises -32020 for a sentinel
    whose contents are not strict base64 of UTF-8 (B26-24)."""
    if not (value.startswith("=?base64?") and value.endswith("?=") and len(value) >= 11):
        return value
    try:
        return base64.b64decode(value[9:-2], validate=True).decode("utf-8")
    except (binascii.Error, ValueError):
        raise WireError(HEADER_MISMATCH, "Header value is not valid base64 of UTF-8") from None


def input_responses(request: Request) -> dict[str, Any] | None:
    """The answers of a round (B26-63). Raises -32602 for anything but an object of objects."""
    if "inputResponses" not in request.params:
        return None
    found = request.params["inputResponses"]
    if not isinstance(found, dict) or not all(isinstance(value, dict) for value in found.values()):
        raise WireError(INVALID_PARAMS, "inputResponses must be an object of objects")
    if jsonx.has_nul(found):
        raise WireError(INVALID_PARAMS, "inputResponses cannot hold the character U+0000")
    return found


def trace(request: Request) -> dict[str, Any]:
    """What the caller wants handed on, so that its call can be followed through all servers."""
    return {key: request.meta[key] for key in ("traceparent", "tracestate", "baggage") if key in request.meta}


def missing_capability(required: dict[str, Any]) -> WireError:
    """-32021 with the capabilities object that was missing (B26-30)."""
    return WireError(MISSING_CAPABILITY, "Missing required client capability", {"requiredCapabilities": required})


def param_headers(schema: Any) -> tuple[tuple[str, tuple[str, ...]], ...]:
    """The `x-mcp-header` parameters of an input schema: (lower-case header, path of names)."""
    found: list[tuple[str, tuple[str, ...]]] = []

    def walk(node: Any, path: tuple[str, ...]) -> None:
        properties = node.get("properties") if isinstance(node, dict) else None
        if not isinstance(properties, dict) or len(path) > 8:
            return
        for name, rule in properties.items():
            if isinstance(rule, dict):
                header = rule.get("x-mcp-header")
                if isinstance(header, str) and header:
                    found.append((f"mcp-param-{header.lower()}", (*path, name)))
                walk(rule, (*path, name))

    walk(schema, ())
    return tuple(found)


def check_param_headers(
    annotated: tuple[tuple[str, tuple[str, ...]], ...], arguments: dict[str, Any], incoming: Incoming
) -> None:
    """Each annotated parameter in the body must come in its header too, and agree (B26-26)."""
    for header, path in annotated:
        value: Any = arguments
        for name in path:
            value = value.get(name) if isinstance(value, dict) else None
        if header in incoming.repeated:
            raise WireError(HEADER_MISMATCH, f"Header sent more than once: {header}")
        if value is None:
            continue
        sent = incoming.headers.get(header)
        if sent is None:
            raise WireError(HEADER_MISMATCH, f"Header missing: {header} (for argument {'.'.join(path)})")
        if not _same(decoded_header(sent), value):
            raise WireError(HEADER_MISMATCH, f"Header mismatch: {header} does not match argument {'.'.join(path)}")


def _same(sent: str, value: Any) -> bool:
    if isinstance(value, bool):
        return sent == ("true" if value else "false")
    if isinstance(value, (int, float)):
        # Exactly, whatever the size, and nothing that only Python would call a number.
        return _NUMBER.fullmatch(sent) is not None and Decimal(sent) == Decimal(str(value))
    return bool(sent == value)

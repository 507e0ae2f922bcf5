"""A request in the 2026 revisions. Its `_meta` says all that a session would. Headers repeat parts of the body, for
proxies, and must not differ from the body (B26-13, B26-20..28).

Headers are checked at two points. `checked_request` checks those that every request has (version, method, name).
`check_param_headers` checks those that repeat arguments (`Mcp-Param-*`). The tool's schema names these headers, so they
are checked when the tool is known.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, Final

from taskhub.core.names import META_VERSION
from taskhub.lib import jsonx
from taskhub.protocol import calls, revision
from taskhub.protocol.envelope import BadEnvelope, Envelope, Response
from taskhub.protocol.errors import (
    HEADER_MISMATCH,
    INVALID_PARAMS,
    INVALID_REQUEST,
    METHOD_NOT_FOUND,
    MISSING_CAPABILITY,
    UNSUPPORTED_VERSION,
    WireError,
)
from taskhub.protocol.hub import Hub
from taskhub.protocol.incoming import Incoming

META_CAPABILITIES: Final = "io.modelcontextprotocol/clientCapabilities"
META_CLIENT: Final = "io.modelcontextprotocol/clientInfo"
META_LOG_LEVEL: Final = "io.modelcontextprotocol/logLevel"
META_SUBSCRIPTION: Final = "io.modelcontextprotocol/subscriptionId"

ROUTING: Final = frozenset({"mcp-protocol-version", "mcp-method", "mcp-name"})


@dataclass(frozen=True, slots=True)
class Request(revision.Request):
    """A request that passed `checked_request`."""

    capabilities: dict[str, Any]
    client_info: dict[str, Any]


def checked_request(
    envelope: Envelope,
    incoming: Incoming,
    *,
    known: frozenset[str],
    named: Mapping[str, str],
    versions: tuple[str, ...],
    nameless: bool = False,
) -> Request:
    """The request, after the checks of B26-32 in their order; the last is that the method is known. Raises `WireError`
    for the first check that fails.

    `named` maps the methods that need `Mcp-Name` to the parameter that this header repeats. With `nameless`, the header
    may be missing.
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
    # An unknown method gets the error for unknown methods, whatever its Mcp-Name (T26-41).
    if envelope.method in known and envelope.method in named and not (nameless and "mcp-name" not in headers):
        check_name(headers.get("mcp-name"), envelope.params.get(named[envelope.method]))
    if version not in versions:
        raise WireError(
            UNSUPPORTED_VERSION, "Unsupported protocol version", {"supported": list(versions), "requested": version}
        )
    if envelope.method not in known:
        raise WireError(METHOD_NOT_FOUND, f"Method not found: {envelope.method}")
    client = envelope.meta.get(META_CLIENT)
    calls.need_small_client(incoming, client, capabilities)
    assert envelope.id is not None  # `dispatch` passes no notifications
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


def missing_capability(required: dict[str, Any]) -> WireError:
    """The error -32021 with the capabilities that the client would have to declare (B26-30)."""
    return WireError(MISSING_CAPABILITY, "Missing required client capability", {"requiredCapabilities": required})


async def responded(hub: Hub, incoming: Incoming, response: Response) -> None:
    """Raises -32600 for every response: in these revisions the server sends no requests (B26-01, T2557-19)."""
    raise BadEnvelope(INVALID_REQUEST, "This server sends no requests, so it expects no responses", response.id)


def input_responses(request: Request) -> dict[str, Any] | None:
    """The answers that came with the request; `None` if none came (B26-63). Raises -32602 for anything but an object of
    objects."""
    if "inputResponses" not in request.params:
        return None
    found = request.params["inputResponses"]
    if not isinstance(found, dict) or not all(isinstance(value, dict) for value in found.values()):
        raise WireError(INVALID_PARAMS, "inputResponses must be an object of objects")
    if jsonx.has_nul(found):
        raise WireError(INVALID_PARAMS, "inputResponses cannot hold the character U+0000")
    return found


# Headers that repeat the body ---------------------------------------------------------------

_NUMBER: Final = re.compile(r"-?[0-9]+(\.[0-9]+)?")
_SAFE: Final = re.compile(r"[\t\x20-\x7e]*")
_TOKEN: Final = re.compile(r"[!#$%&'*+\-.^_`|~0-9A-Za-z]+")


def check_once(incoming: Incoming, names: frozenset[str]) -> None:
    """Raises -32020 if one of these headers came more than once (B26-23)."""
    doubled = incoming.repeated & names
    if doubled:
        raise WireError(HEADER_MISMATCH, f"Header sent more than once: {', '.join(sorted(doubled))}")


def check_header(header: str, sent: str | None, body: str) -> None:
    """Raises -32020 unless the header was sent and says the same as the body."""
    if sent is None:
        raise WireError(HEADER_MISMATCH, f"Header missing: {header}")
    if sent != body:
        raise _mismatch(header, sent, body)


def check_name(sent: str | None, body: Any) -> None:
    """As `check_header`, for `Mcp-Name`, whose value may be encoded. Does nothing if the value in the body is not a
    string: the method refuses that as a wrong parameter."""
    if sent is None:
        raise WireError(HEADER_MISMATCH, "Header missing: Mcp-Name")
    name = decoded_header(sent)
    if isinstance(body, str) and name != body:
        raise _mismatch("Mcp-Name", sent, body)


def _mismatch(header: str, sent: str, body: str) -> WireError:
    return WireError(
        HEADER_MISMATCH, f"Header mismatch: {header} {sent[:128]!r} does not match body value {body[:128]!r}"
    )


def decoded_header(value: str) -> str:
    """A header value, decoded if it is in base64 between the markers `=?base64?` and `?=`. Raises -32020 for characters
    that no header may hold (B26-26), and if the text between the markers is not strict base64 of UTF-8 (B26-24)."""
    if _SAFE.fullmatch(value) is None:
        raise WireError(HEADER_MISMATCH, "Header value has characters that must be sent as base64")
    if not (value.startswith("=?base64?") and value.endswith("?=") and len(value) >= 11):
        return value
    try:
        return base64.b64decode(value[9:-2], validate=True).decode("utf-8")
    except (binascii.Error, ValueError):
        raise WireError(HEADER_MISMATCH, "Header value is not valid base64 of UTF-8") from None


# Headers that repeat arguments ---------------------------------------------------------------

_ANNOTATION: Final = "x-mcp-header"
_MIRRORED_TYPES: Final = frozenset({"string", "integer", "boolean"})
_ONE_SCHEMA: Final = frozenset(
    {
        *("items", "contains", "additionalProperties", "propertyNames", "unevaluatedItems", "unevaluatedProperties"),
        *("not", "if", "then", "else", "contentSchema"),
    }
)
_MORE_SCHEMAS: Final = frozenset(
    {"allOf", "anyOf", "oneOf", "prefixItems", "patternProperties", "dependentSchemas", "$defs", "definitions"}
)
"""The JSON Schema keywords besides `properties` that hold schemas: one in `_ONE_SCHEMA`, several in `_MORE_SCHEMAS`."""


def param_headers(schema: Any) -> tuple[tuple[str, tuple[str, ...]], ...]:
    """The arguments that an input schema, by the annotation `x-mcp-header`, has clients repeat in headers: for each,
    the lower-case header and the path of property names.

    Empty if one annotation is invalid (B26-25), because then clients send no headers for the tool. Only tools of
    servers of older revisions, where the annotation has no meaning, can have an invalid one: such tools of 2026 servers
    are rejected.
    """
    found: dict[str, tuple[str, ...]] = {}
    for path, node in _positions(schema, ()):
        if _ANNOTATION in node:
            header = _mirror(path, node)
            if header is None or header in found:
                return ()
            found[header] = path or ()
    return tuple(found.items())


def _mirror(path: tuple[str, ...] | None, node: dict[str, Any]) -> str | None:
    """The header of an annotated schema; `None` if the annotation is invalid."""
    name, kind = node[_ANNOTATION], node.get("type")
    if not path or not isinstance(name, str) or _TOKEN.fullmatch(name) is None:
        return None
    if not isinstance(kind, str) or kind not in _MIRRORED_TYPES:
        return None
    return f"mcp-param-{name.lower()}"


def _positions(node: Any, path: tuple[str, ...] | None) -> Iterator[tuple[tuple[str, ...] | None, dict[str, Any]]]:
    """Every schema within a schema, with its path of property names; the path is `None` if it leads through keywords
    other than `properties`."""
    if not isinstance(node, dict):
        return
    yield path, node
    for keyword, value in node.items():
        if keyword == "properties" and isinstance(value, dict):
            for name, inner in value.items():
                yield from _positions(inner, None if path is None else (*path, name))
        elif keyword in _ONE_SCHEMA:
            yield from _positions(value, None)
        elif keyword in _MORE_SCHEMAS and isinstance(value, (list, dict)):
            for inner in value if isinstance(value, list) else value.values():
                yield from _positions(inner, None)


def check_param_headers(
    annotated: tuple[tuple[str, tuple[str, ...]], ...], arguments: dict[str, Any], incoming: Incoming
) -> None:
    """Raises -32020 unless each annotated argument was sent in its header too, with the same value (B26-26)."""
    for header, path in annotated:
        value: Any = arguments
        for name in path:
            value = value.get(name) if isinstance(value, dict) else None
        check_once(incoming, frozenset({header}))
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
        # Decimals compare exactly, at any size. The pattern refuses text that only Python reads as a number, such as
        # 1_000.
        return _NUMBER.fullmatch(sent) is not None and Decimal(sent) == Decimal(str(value))
    return bool(sent == value)

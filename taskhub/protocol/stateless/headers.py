"""Headers that repeat what the body says, and may not contradict it (B26-21..26)."""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Iterator
from decimal import Decimal
from typing import Any, Final

from taskhub.protocol.errors import HEADER_MISMATCH, WireError
from taskhub.protocol.incoming import Incoming

_NUMBER: Final = re.compile(r"-?[0-9]+(\.[0-9]+)?")
_SAFE: Final = re.compile(r"[\t\x20-\x7e]*")
_TOKEN: Final = re.compile(r"[!#$%&'*+\-.^_`|~0-9A-Za-z]+")
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
"""The keywords of JSON Schema that hold schemas, besides `properties`."""


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
    """The same for `Mcp-Name`, whose value may be encoded. A body value that is no string is a wrong
    parameter, which the method itself refuses."""
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
    """A header value, out of its base64 sentinel if it wears one. Raises -32020 for characters that
    no header may hold (B26-26), and for a sentinel whose contents are not strict base64 of UTF-8 (B26-24)."""
    if _SAFE.fullmatch(value) is None:
        raise WireError(HEADER_MISMATCH, "Header value has characters that must be sent as base64")
    if not (value.startswith("=?base64?") and value.endswith("?=") and len(value) >= 11):
        return value
    try:
        return base64.b64decode(value[9:-2], validate=True).decode("utf-8")
    except (binascii.Error, ValueError):
        raise WireError(HEADER_MISMATCH, "Header value is not valid base64 of UTF-8") from None


def param_headers(schema: Any) -> tuple[tuple[str, tuple[str, ...]], ...]:
    """The `x-mcp-header` parameters of an input schema: (lower-case header, path of names).

    None at all where one of them is void (B26-25): a client sends no headers for such a tool. Only an
    older server's tool gets this far, and it never meant them.
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
    """The header of an annotated schema; none where the annotation is void."""
    name, kind = node[_ANNOTATION], node.get("type")
    if not path or not isinstance(name, str) or _TOKEN.fullmatch(name) is None:
        return None
    if not isinstance(kind, str) or kind not in _MIRRORED_TYPES:
        return None
    return f"mcp-param-{name.lower()}"


def _positions(node: Any, path: tuple[str, ...] | None) -> Iterator[tuple[tuple[str, ...] | None, dict[str, Any]]]:
    """Every schema in a schema, with the names that lead there; `None` where more than `properties` does."""
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
    """Each annotated parameter in the body must come in its header too, and agree (B26-26)."""
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
        # Exactly, whatever the size, and nothing that only Python would call a number.
        return _NUMBER.fullmatch(sent) is not None and Decimal(sent) == Decimal(str(value))
    return bool(sent == value)

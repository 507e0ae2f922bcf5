"""JSON-RPC errors of the protocol, and the HTTP status of each."""

from __future__ import annotations

from typing import Any, Final

PARSE_ERROR: Final = -32700
INVALID_REQUEST: Final = -32600
METHOD_NOT_FOUND: Final = -32601
INVALID_PARAMS: Final = -32602
INTERNAL_ERROR: Final = -32603
HEADER_MISMATCH: Final = -32020
MISSING_CAPABILITY: Final = -32021
UNSUPPORTED_VERSION: Final = -32022
TOO_MANY: Final = 42900
"""The codes that the hub adds, 42900, 40900 and 50300, lie outside -32768..-32000 (B26-33)."""
KEY_REUSED: Final = 40900
UNAVAILABLE: Final = 50300


class WireError(Exception):
    """A JSON-RPC error to answer with. `status` is the HTTP status; if it is 0, the revision chooses one for `code`.
    `retry_after` is in seconds; 0 for none."""

    def __init__(self, code: int, message: str, data: Any = None, *, status: int = 0, retry_after: int = 0) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.data = data
        self.status = status
        self.retry_after = retry_after

    def body(self) -> dict[str, Any]:
        """The JSON-RPC error object."""
        error: dict[str, Any] = {"code": self.code, "message": self.message}
        if self.data is not None:
            error["data"] = self.data
        return error


NAMED: Final = frozenset(
    {
        PARSE_ERROR,
        INVALID_REQUEST,
        METHOD_NOT_FOUND,
        INVALID_PARAMS,
        INTERNAL_ERROR,
        HEADER_MISMATCH,
        MISSING_CAPABILITY,
        UNSUPPORTED_VERSION,
        TOO_MANY,
        KEY_REUSED,
        UNAVAILABLE,
    }
)
"""All codes that the hub itself uses."""

_STATUS: Final = {
    PARSE_ERROR: 400,
    INVALID_REQUEST: 400,
    METHOD_NOT_FOUND: 404,
    HEADER_MISMATCH: 400,
    MISSING_CAPABILITY: 400,
    UNSUPPORTED_VERSION: 400,
    TOO_MANY: 429,
    KEY_REUSED: 409,
    UNAVAILABLE: 503,
}


def http_status(code: int) -> int:
    """The HTTP status of an error code in the 2026 revisions; 200 for any other code, for which the specification names
    none."""
    return _STATUS.get(code, 200)


OUR_OWN: Final = range(-32768, -31999)
"""The range of codes that JSON-RPC and MCP reserve."""

PASSED_ON: Final = frozenset({INVALID_PARAMS, INTERNAL_ERROR, MISSING_CAPABILITY})
"""The codes in the reserved range (`OUR_OWN`) that are passed on from servers. A client would take any other code of
that range for an error of the hub: after "unsupported version", for example, it would try another version with the hub
(B26-33)."""


def of_server(code: int, message: str, data: Any = None) -> WireError:
    """The error of a server behind the hub, as the 2026 revisions send it. It keeps its code unless it would be taken
    for an error of the hub: then the code is -32603, and the server's code is in `data`. The HTTP status is 200, as the
    hub itself has not failed; only a missing capability keeps 400."""
    status = 0 if code == MISSING_CAPABILITY else 200
    if code not in OUR_OWN or code in PASSED_ON:
        return WireError(code, message, data, status=status)
    kept = {"code": code} if data is None else {"code": code, "data": data}
    return WireError(INTERNAL_ERROR, message, kept, status=status)

"""Names, statuses and the request of 2025-11-25, 2025-06-18 and 2025-03-26 (T25-*, B25-*). These revisions share
sessions and messages; tasks exist in 2025-11-25 alone."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from taskhub.core.names import META_VERSION
from taskhub.core.records import Session
from taskhub.core.versions import WITH_SESSIONS, Version
from taskhub.protocol import revision
from taskhub.protocol.envelope import Envelope, Response
from taskhub.protocol.errors import INVALID_REQUEST, PARSE_ERROR, TOO_MANY, UNAVAILABLE

VERSION: Final = Version.MCP_2025_11_25
OLDER: Final = (Version.MCP_2025_06_18, Version.MCP_2025_03_26)

RELATED: Final = "io.modelcontextprotocol/related-task"
IMMEDIATE: Final = "io.modelcontextprotocol/model-immediate-response"

_STATUS: Final = {PARSE_ERROR: 400, INVALID_REQUEST: 400, TOO_MANY: 429, UNAVAILABLE: 503}


STATUSES_SENT_AS_200: Final = frozenset({413, 429, 500, 503})
"""HTTP statuses that are replaced by 200. The SDK `mcp` 1.x ends its session for good after any HTTP error to a POST
except 404, but these errors may be over by the next request. The JSON-RPC error stays the same (B25-20)."""


def status_of(code: int) -> int:
    """The HTTP status of an error code: 200 for most, and never 404, which would say that the session is gone
    (B25-20)."""
    return _STATUS.get(code, 200)


@dataclass(frozen=True, slots=True)
class Request(revision.Request):
    """A request in a session. Only for `initialize`, `session` is `None`."""

    session: Session | None

    @property
    def on(self) -> Session:
        """The session of the request. Not for `initialize`, which has none."""
        assert self.session is not None  # only initialize has none
        return self.session


def speaks(message: Envelope | Response, headers: Mapping[str, str]) -> bool:
    """Whether this message belongs to a version with sessions. It does not if its version header or its `_meta` names a
    version without sessions, or if the two differ."""
    header = headers.get("mcp-protocol-version")
    if header is not None and header not in WITH_SESSIONS:
        return False
    if isinstance(message, Response):
        return True
    named = message.meta.get(META_VERSION)
    return named is None or (named in WITH_SESSIONS if header is None else named == header)

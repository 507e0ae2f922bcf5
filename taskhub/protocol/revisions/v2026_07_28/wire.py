"""Names and request checks of 2026-07-28 (B26-*)."""

from __future__ import annotations

from typing import Any, Final

from taskhub.core.names import META_SERVER, META_VERSION
from taskhub.core.versions import Version
from taskhub.protocol.envelope import Envelope
from taskhub.protocol.errors import MISSING_CAPABILITY, WireError
from taskhub.protocol.incoming import Incoming
from taskhub.protocol.stateless.request import (
    META_CAPABILITIES,
    META_CLIENT,
    META_LOG_LEVEL,
    META_SUBSCRIPTION,
    Request,
    checked_request,
    input_responses,
)

VERSION: Final = Version.MCP_2026_07_28

NAMED: Final = {
    "tools/call": "name",
    "prompts/get": "name",
    "resources/read": "uri",
    "tasks/get": "taskId",
    "tasks/update": "taskId",
    "tasks/cancel": "taskId",
}
"""Methods that carry `Mcp-Name`, and the parameter it repeats (B26-22)."""


def checked(envelope: Envelope, incoming: Incoming, known: frozenset[str], versions: tuple[str, ...]) -> Request:
    """The request, if it passes the ladder; raises `WireError` at the first failed rung."""
    # Published clients (fastmcp-tasks 4.1) send no Mcp-Name on tasks/*: there its absence is
    # borne, because the body alone decides; a value that differs is refused like anywhere else.
    nameless = envelope.method.startswith("tasks/")
    return checked_request(envelope, incoming, known=known, named=NAMED, versions=versions, nameless=nameless)


def missing_capability(required: dict[str, Any]) -> WireError:
    """-32021 with the capabilities object that was missing (B26-30)."""
    return WireError(MISSING_CAPABILITY, "Missing required client capability", {"requiredCapabilities": required})


__all__ = [
    "META_CAPABILITIES", "META_CLIENT", "META_LOG_LEVEL", "META_SERVER", "META_SUBSCRIPTION", "META_VERSION",
    "NAMED", "VERSION", "Request", "checked", "input_responses", "missing_capability",
]  # fmt: skip

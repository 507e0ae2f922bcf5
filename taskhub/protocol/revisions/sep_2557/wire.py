"""Names and request checks of SEP-2557 (T2557-*)."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from taskhub.core.versions import Proposal, Version
from taskhub.protocol.envelope import Envelope
from taskhub.protocol.incoming import Incoming
from taskhub.protocol.stateless.request import ROUTING, Request, check_header, check_once, checked_request

VERSION: Final = Proposal.SEP_2557
"""What its tasks are said to be of, and its mount."""

WIRE: Final = Version.MCP_2026_07_28
"""The version of the base wire."""

NAMED: Final = {"tools/call": "name", "tasks/get": "taskId", "tasks/cancel": "taskId"}
"""Methods that carry `Mcp-Name`, and the parameter it repeats (T2557-18)."""


def checked(envelope: Envelope, incoming: Incoming, known: frozenset[str]) -> Request:
    """The request, if it passes the ladder; raises `WireError` at the first failed rung."""
    return replace(checked_request(envelope, incoming, known=known, named=NAMED, versions=(WIRE,)), version=VERSION)


def check_notification(envelope: Envelope, incoming: Incoming) -> None:
    """Raises -32020 unless `Mcp-Method` says what the notification is (T2557-18)."""
    check_once(incoming, ROUTING)
    check_header("Mcp-Method", incoming.headers.get("mcp-method"), envelope.method)

"""The versions of the protocol, in one table. Versions are compared by this table, never by their text."""

from __future__ import annotations

from enum import StrEnum
from typing import Final


class Version(StrEnum):
    """Every published version that TaskHub can speak with clients or servers, oldest first."""

    MCP_2024_11_05 = "2024-11-05"
    MCP_2025_03_26 = "2025-03-26"
    MCP_2025_06_18 = "2025-06-18"
    MCP_2025_11_25 = "2025-11-25"
    MCP_2026_07_28 = "2026-07-28"


class Proposal(StrEnum):
    """Proposals (SEPs) that are served as they were written. The revision of a task is one of these or a version."""

    SEP_1686 = "sep-1686"
    SEP_2557 = "sep-2557"


DECIDED_ONLY: Final = "approvals"
"""Stands in place of the revision in a task that is only decided, and never run: a request of `/api/v1/approvals`."""

OF_CALLER: Final = "caller"
"""Stands in place of the version that a server is pinned to: each call is then made in its caller's version, if the
server speaks both eras."""

STATELESS: Final = frozenset({Version.MCP_2026_07_28})
"""Versions without sessions: each request carries all that is needed to answer it, such as its version."""

WITH_SESSIONS: Final = frozenset(Version) - STATELESS
"""Versions with sessions: `initialize` begins one and agrees on the version."""


def is_stateless(version: str | None) -> bool:
    """Whether the version has no sessions; `False` for one that the table does not know."""
    return version in STATELESS


def has_sessions(revision: str | None) -> bool:
    """Whether a caller of this revision, a version or a proposal, calls within a session."""
    return revision in WITH_SESSIONS or revision == Proposal.SEP_1686


class Era(StrEnum):
    """A way in which a server is spoken to. The versions of an era begin a connection alike."""

    STATELESS = "stateless"
    """`server/discover` tells what the server speaks: since 2026-07-28."""
    SESSIONS = "sessions"
    """`initialize` begins a session: before 2026-07-28."""
    SSE = "sse"
    """The same, over HTTP with SSE: the transport of 2024-11-05."""


BEGUN_BY: Final = {Era.STATELESS: "server/discover", Era.SESSIONS: "initialize", Era.SSE: "HTTP with SSE"}
"""How a connection begins in each era, as text for people."""

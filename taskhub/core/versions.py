"""The versions of the protocol, in one table. Others compare versions by what stands here, never by their text."""

from __future__ import annotations

from enum import StrEnum
from typing import Final


class Version(StrEnum):
    """Every published version that we or our servers may speak, oldest first."""

    MCP_2024_11_05 = "2024-11-05"
    MCP_2025_03_26 = "2025-03-26"
    MCP_2025_06_18 = "2025-06-18"
    MCP_2025_11_25 = "2025-11-25"
    MCP_2026_07_28 = "2026-07-28"


class Proposal(StrEnum):
    """Proposals that are spoken as they stood. A task may be of one, as of a version."""

    SEP_1686 = "sep-1686"
    SEP_2557 = "sep-2557"


STATELESS: Final = frozenset({Version.MCP_2026_07_28})
"""Each request says everything, its version included."""

WITH_SESSIONS: Final = frozenset(Version) - STATELESS
"""`initialize` agrees on the version, for a session."""


def is_stateless(version: str | None) -> bool:
    """Whether it is of the wire without sessions. Not for what the table does not know."""
    return version in STATELESS

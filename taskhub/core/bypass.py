"""Bypass: a time in which calls of a tenant run without the approvals that rules ask for."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Final

from taskhub.core.errors import Invalid

MAX_MINUTES: Final = 1_440
"""The longest bypass: a day. The table has the same limit."""
MAX_REASON: Final = 200
"""The most characters of the reason, which is stored with every call that the bypass lets pass."""


@dataclass(frozen=True, slots=True)
class Bypass:
    """A bypass that was in force when it was read. Calls that rules deny or hide stay denied or hidden, and people are
    still asked about calls that a rule calls critical."""

    id: int
    reason: str
    begun_by: str
    """The name of whoever began it."""
    began_at: datetime
    ends_at: datetime
    server_id: int | None = None
    """The server whose calls the bypass lets pass; `None` for all servers."""
    server: str = ""
    over_at: float = field(default=0.0, compare=False)
    """When the bypass ends, as `time.monotonic` of this process. It is reckoned from the time that was left by the
    database's clock, because this machine's clock may differ."""

    def counts_for(self, server_id: int) -> bool:
        """Whether the bypass lets calls of this server pass now."""
        return time.monotonic() < self.over_at and self.server_id in (None, server_id)

    def stored(self) -> dict[str, Any]:
        """The bypass as tasks and events store it."""
        until = self.ends_at.astimezone(UTC).isoformat(timespec="seconds")
        return {"id": self.id, "until": until, "reason": self.reason, "by": self.begun_by}


@dataclass(frozen=True, slots=True)
class Passed:
    """The bypass that let a call pass, as its task keeps it (`Bypass.stored`)."""

    id: int
    until: datetime
    reason: str
    by: str


def not_asked(by: Passed) -> str:
    """The sentence that is shown for a call that the bypass let pass."""
    until = by.until.astimezone(UTC)
    return f"Not asked: bypass until {until:%Y-%m-%d %H:%M} UTC, because “{by.reason}”, by {by.by}"


def passed(decided: Any) -> Passed | None:
    """The bypass that a stored verdict names (`core.rules.Verdict.stored`); `None` if it names none."""
    kept = decided.get("bypass") if isinstance(decided, dict) else None
    if not isinstance(kept, dict):
        return None
    return Passed(kept["id"], datetime.fromisoformat(kept["until"]), kept["reason"], kept["by"])


def checked_reason(reason: str) -> str:
    """The reason for a bypass, without blanks around it. Raises `Invalid` if it is empty, too long or not printable."""
    reason = reason.strip()
    if not 0 < len(reason) <= MAX_REASON or not reason.isprintable():
        raise Invalid(
            f"Say why, in 1 to {MAX_REASON} printable characters on one line: whoever looks at the calls reads it.",
            field="reason",
        )
    return reason


def checked_minutes(minutes: int) -> int:
    """The length of a bypass in minutes, unchanged. Raises `Invalid` unless it is from 1 to `MAX_MINUTES`."""
    if isinstance(minutes, bool) or not 1 <= minutes <= MAX_MINUTES:
        raise Invalid(f"Give a whole number from 1 to {MAX_MINUTES:,} minutes, not {minutes}.", field="minutes")
    return minutes

"""Permits as records, and their limits."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Final

FEWEST_SECONDS: Final = 10
MOST_SECONDS: Final = 86_400
"""Fewest and most seconds for which a permit can be redeemed."""
DEFAULT_SECONDS: Final = 3_600
"""Seconds for which a permit can be redeemed, if the client does not say."""
WANTED_SECONDS: Final = 86_400
"""The most seconds that a client can give people to decide; also the seconds that they have if the client does not
say."""
KEPT_HOURS: Final = 24
"""Hours for which a permit is kept after it has expired, so that its client can be told that it has expired."""


@dataclass(frozen=True, slots=True)
class Permit:
    """A call that a client may make once. `server` and `tool` are the server's name in the hub and the tool's name at
    the server, `exposed_name` the tool's name at the hub."""

    public_id: str
    tenant: str
    issuer: str
    subject: str
    client_id: str
    server: str
    tool: str
    exposed_name: str
    arguments_sha256: str
    rules_version: int
    asked: bool
    """Whether people approved the call; otherwise a rule allowed it."""
    issued_at: datetime
    expires_at: datetime
    redeemed_at: datetime | None
    expired: bool
    """Whether the permit had expired when it was read."""
    task_id: int | None
    """The task that people decided; `None` if a rule allowed the call, or the task was purged."""


class Redemption(StrEnum):
    """The outcome of an attempt to redeem a permit; the SQL function `redeem_permit` says what each one means."""

    REDEEMED = "redeemed"
    UNKNOWN = "unknown"
    OTHER_ARGUMENTS = "other_arguments"
    USED = "used"
    EXPIRED = "expired"
    WITHDRAWN = "withdrawn"
    TOOL_CHANGED = "tool_changed"
    CALL_CHANGED = "call_changed"
    APPROVER_LEFT = "approver_left"

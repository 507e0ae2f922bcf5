"""What a person may change about a server."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

MAX_REASON: Final = 200
"""Characters of the reason why a server is disabled."""


@dataclass(frozen=True, slots=True)
class ServerEdit:
    """What is to change about a server; `None` leaves it as it is.

    `spec` may be the one that people are shown, with hidden secrets: then the address or command stays. `calls_at_once`
    is 0 for the default of the transport, `token` empty for none.
    """

    spec: str | None = None
    prefix: str | None = None
    calls_at_once: int | None = None
    token: str | None = None

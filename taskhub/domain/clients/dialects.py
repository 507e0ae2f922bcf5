"""Dialects of a client: the programs that use the client's tokens, each with its protocol revision and the capabilities
that it declares. One token may serve several programs, and one program may speak several revisions."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from taskhub.domain.foreign import object_of
from taskhub.domain.sessions.reads import IDLE_DAYS
from taskhub.store import statements

LOOKED_AT = 200
"""How many of the newest calls, and of the newest sessions, are searched for dialects."""
MOST = 8
"""The most dialects that are returned: the newest."""


@dataclass(frozen=True, slots=True)
class ClientDialect:
    """One program in one revision. `capabilities`: those that it declared last. `heard_at`: when it last called or used
    a session. `sessions`: how many open sessions it has."""

    client_info: dict[str, Any]
    revision: str
    capabilities: dict[str, Any]
    heard_at: datetime
    sessions: int

    @property
    def program(self) -> str:
        """Title, name and version that the program reported, in one text."""
        words = [str(self.client_info.get(part, "")) for part in ("title", "name", "version")]
        if words[0] == words[1]:
            words = words[1:]
        return " ".join(word for word in words if word)[:120]


_DIALECTS = statements.many(
    "client_dialects", ClientDialect, convert={"client_info": object_of, "capabilities": object_of}
)


def client_dialects(tenant_id: int, context_id: int) -> tuple[ClientDialect, ...]:
    """The dialects in which the client speaks to the hub, at most `MOST`, the one that was heard last first."""
    return tuple(_DIALECTS(tenant=tenant_id, context=context_id, looked_at=LOOKED_AT, idle_days=IDLE_DAYS, most=MOST))

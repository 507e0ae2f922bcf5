"""How a client speaks: the programs behind it, each with the revision it speaks and what it declares.
One token may serve several, and one program may speak several revisions."""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from taskhub.queries._read import read
from taskhub.queries.sessions import IDLE_DAYS

LOOKED_AT = 200
"""Newest calls, and as many sessions, that are read for it."""
MOST = 8
"""Voices shown; the newest."""

# What a session declared counts when it never called too; what a call declared is the truth of the
# stateless revisions, where each request speaks for itself (T26-03).
_VOICES = f"""
    WITH heard AS (
        (SELECT t.client_info, t.revision, t.client_capabilities, t.created_at AS at, NULL::bigint AS session
         FROM task t JOIN auth_context c ON c.id = t.context_id
         WHERE t.context_id = %(id)s AND c.tenant_id = %(tenant)s AND t.rerun_of_id IS NULL
         ORDER BY t.id DESC LIMIT {LOOKED_AT})
        UNION ALL
        (SELECT s.client_info, s.version, s.client_capabilities, s.seen_at, s.id
         FROM session s WHERE s.context_id = %(id)s AND s.tenant_id = %(tenant)s AND s.ended_at IS NULL
           AND s.seen_at > clock_timestamp() - interval '{IDLE_DAYS} days'
         ORDER BY s.seen_at DESC LIMIT {LOOKED_AT})
    )
    SELECT client_info::text, revision, (array_agg(client_capabilities ORDER BY at DESC))[1]::text,
           max(at), count(DISTINCT session)
    FROM heard GROUP BY client_info, revision ORDER BY max(at) DESC LIMIT {MOST}
"""


@dataclass(frozen=True, slots=True)
class Voice:
    """One program in one revision. `sessions` are those it has open, `capabilities` what it declared last."""

    program: str
    revision: str
    capabilities: dict[str, Any]
    heard_at: datetime
    sessions: int


def voices(tenant_id: int, context_id: int) -> tuple[Voice, ...]:
    """The client's voices, latest first."""
    rows = read(_VOICES, {"id": context_id, "tenant": tenant_id})
    return tuple(
        Voice(_program(info), revision, _object(capabilities), at, sessions)
        for info, revision, capabilities, at, sessions in rows
    )


def _program(text: str) -> str:
    info = _object(text)
    words = [str(info.get(part, "")) for part in ("title", "name", "version")]
    if words[0] == words[1]:
        words = words[1:]
    return " ".join(word for word in words if word)[:120]


def _object(text: str) -> dict[str, Any]:
    value = json.loads(text)
    return value if isinstance(value, dict) else {}

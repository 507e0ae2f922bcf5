"""Clients: the auth contexts that call us, their tokens, and what they say they can do."""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from taskhub.core.names import OAUTH_ISSUER, TASKS_EXTENSION
from taskhub.core.versions import is_stateless
from taskhub.queries._read import read
from taskhub.store import statements

PAGE_ROWS = 50
COUNT_CAP = 1_000
"""Tasks counted per client; beyond it the page says "1,000+"."""

LOOKED_AT = 50
"""Newest calls of a client that are read for what it declares."""

OWN_ISSUER = "taskhub"
"""Clients of this issuer get their tokens here; the others bring them from elsewhere."""

# What a client declares is read from its newest calls, because each call speaks for itself
# (T26-03): "never" means that none of them did.
_CLIENTS = f"""
    SELECT c.id, c.name, c.issuer, c.subject, c.client_id, c.created_at, c.disabled_at,
           tokens.live + signed.live, tokens.total + signed.live,
           greatest(tokens.used_at, c.last_seen_at, calls.newest_at), coalesce(tokens.address, ''),
           recent.n, running.n,
           coalesce(nullif(c.client_info, '{{}}'), calls.info, '{{}}')::text,
           calls.seen > 0 OR c.client_capabilities <> '{{}}',
           coalesce(calls.tasks, false) OR (c.client_capabilities #> %(tasks)s) IS NOT NULL,
           coalesce(calls.elicitation, false) OR c.client_capabilities ? 'elicitation',
           coalesce(calls.sampling, false) OR c.client_capabilities ? 'sampling',
           calls.revision
    FROM auth_context c
    CROSS JOIN LATERAL (
        SELECT count(*) FILTER (WHERE a.revoked_at IS NULL
                                  AND (a.expires_at IS NULL OR a.expires_at > clock_timestamp())) AS live,
               count(*) AS total, max(a.last_used_at) AS used_at,
               (array_agg(a.last_address ORDER BY a.last_used_at DESC NULLS LAST))[1] AS address
        FROM access_token a WHERE a.context_id = c.id) tokens
    CROSS JOIN LATERAL (
        SELECT count(*) AS live FROM oauth2_provider_accesstoken t
        JOIN oauth2_provider_application r ON r.id = t.application_id AND r.client_id = c.client_id
        WHERE c.issuer = '{OAUTH_ISSUER}' AND t.user_id::text = substr(c.subject, 6)
          AND t.expires > clock_timestamp()) signed
    CROSS JOIN LATERAL (
        -- the limit inside: of an older client, all history would be looked at for a recent task
        SELECT count(*) FILTER (WHERE newest.created_at > statement_timestamp() - interval '30 days') AS n FROM (
            SELECT t.created_at FROM task t WHERE t.context_id = c.id
            ORDER BY t.id DESC LIMIT {COUNT_CAP + 1}) newest) recent
    CROSS JOIN LATERAL (
        SELECT count(*) AS n FROM (
            SELECT 1 FROM task t WHERE t.context_id = c.id AND t.ended_at IS NULL LIMIT {COUNT_CAP + 1}) counted
        ) running
    CROSS JOIN LATERAL (
        SELECT count(*) AS seen, max(n.created_at) AS newest_at,
               (array_agg(n.client_info ORDER BY n.id DESC) FILTER (WHERE n.client_info <> '{{}}'))[1] AS info,
               (array_agg(n.revision ORDER BY n.id DESC))[1] AS revision,
               bool_or((n.client_capabilities #> %(tasks)s) IS NOT NULL) AS tasks,
               bool_or(n.client_capabilities ? 'elicitation') AS elicitation,
               bool_or(n.client_capabilities ? 'sampling') AS sampling
        FROM (SELECT t.id, t.created_at, t.client_info, t.client_capabilities, t.revision FROM task t
              WHERE t.context_id = c.id ORDER BY t.id DESC LIMIT {LOOKED_AT}) n) calls
    WHERE c.tenant_id = %(tenant)s
"""
# The window of clients comes first: the laterals above are run for one page only.
_PAGE = (
    _CLIENTS
    + """ AND c.id IN (
        SELECT p.id FROM auth_context p
        WHERE p.tenant_id = %(tenant)s AND (%(state)s = '' OR (p.disabled_at IS NOT NULL) = (%(state)s = 'disabled'))
          AND (%(text)s = '' OR concat_ws(' ', p.name, p.issuer, p.subject, p.client_id) ILIKE %(like)s)
          AND (%(after_id)s = 0 OR (lower(p.name), p.id) > (lower(%(after_name)s), %(after_id)s))
        ORDER BY lower(p.name), p.id LIMIT %(limit)s)
      ORDER BY lower(c.name), c.id"""
)


@dataclass(frozen=True, slots=True)
class ClientRow:
    """A client. `seen` says whether it ever called, so that what it declares means something."""

    id: int
    name: str
    issuer: str
    subject: str
    client_id: str
    created_at: datetime
    disabled_at: datetime | None
    live_tokens: int
    tokens: int
    last_used_at: datetime | None
    last_address: str
    tasks_30_days: int
    live_tasks: int
    client_info: str
    seen: bool
    declares_tasks: bool
    declares_elicitation: bool
    declares_sampling: bool
    revision: str | None

    @property
    def sdk(self) -> str:
        """Name and version the client gave of itself."""
        info = _object(self.client_info)
        words = [str(info.get(part, "")) for part in ("name", "version")]
        return " ".join(word for word in words if word)[:120]

    @property
    def own(self) -> bool:
        """Whether its tokens are issued here."""
        return self.issuer == OWN_ISSUER

    @property
    def by_oauth(self) -> bool:
        """Whether a person signed it in through our authorization server."""
        return self.issuer == OAUTH_ISSUER

    @property
    def tasks_text(self) -> str:
        """The count of tasks, with a plus sign where counting stopped."""
        return _counted(self.tasks_30_days)

    @property
    def live_text(self) -> str:
        """As `tasks_text`, of those that have not ended."""
        return _counted(self.live_tasks)

    @property
    def warns(self) -> bool:
        """A client of 2026-07-28 that called and never declared the tasks extension."""
        return self.seen and not self.declares_tasks and (self.revision is None or is_stateless(self.revision))


@dataclass(frozen=True, slots=True)
class ClientPage:
    """Ordered by name; `after` is the last client's id when there are more."""

    rows: tuple[ClientRow, ...]
    after: int | None


@dataclass(frozen=True, slots=True)
class TokenRow:
    """A token as it can be shown: never the token itself, its digest neither."""

    id: int
    prefix: str
    scopes: tuple[str, ...]
    created_at: datetime
    expires_at: datetime | None
    last_used_at: datetime | None
    last_address: str
    revoked_at: datetime | None

    @property
    def state(self) -> str:
        """`live`, `expired` or `revoked`."""
        if self.revoked_at is not None:
            return "revoked"
        if self.expires_at is not None and self.expires_at <= datetime.now(UTC):
            return "expired"
        return "live"


_LIVE_TASKS = statements.many("live_task_ids", int)


def client_page(
    tenant_id: int, *, text: str = "", state: str = "", after: int | None = None, limit: int = PAGE_ROWS
) -> ClientPage:
    """Clients whose name, issuer or subject holds `text`; `state` is `active`, `disabled` or empty."""
    after_name = ""
    if after is not None:
        found = read("SELECT name FROM auth_context WHERE id = %(id)s AND tenant_id = %(tenant)s",
                       {"id": after, "tenant": tenant_id})  # fmt: skip
        after_name = str(found[0][0]) if found else ""
        after = after if found else None
    like = text.replace("\\", "\\\\").replace("%", r"\%").replace("_", r"\_")
    rows = read(
        _PAGE,
        {
            "tenant": tenant_id,
            "tasks": ["extensions", TASKS_EXTENSION],
            "text": text,
            "like": f"%{like}%",
            "state": state,
            "after_id": after or 0,
            "after_name": after_name,
            "limit": limit + 1,
        },
    )
    clients = tuple(ClientRow(*row) for row in rows)
    more = len(clients) > limit
    clients = clients[:limit]
    return ClientPage(clients, clients[-1].id if more else None)


def client_detail(tenant_id: int, context_id: int) -> ClientRow | None:
    """One client of the tenant."""
    rows = read(
        _CLIENTS + " AND c.id = %(id)s",
        {"tenant": tenant_id, "id": context_id, "tasks": ["extensions", TASKS_EXTENSION]},
    )
    return ClientRow(*rows[0]) if rows else None


def client_tokens(tenant_id: int, context_id: int) -> tuple[TokenRow, ...]:
    """The client's tokens, live ones first, at most 200."""
    rows = read(
        """
        SELECT a.id, a.prefix, a.scopes, a.created_at, a.expires_at, a.last_used_at, a.last_address, a.revoked_at
        FROM access_token a JOIN auth_context c ON c.id = a.context_id
        WHERE a.context_id = %(id)s AND c.tenant_id = %(tenant)s
        ORDER BY (a.revoked_at IS NOT NULL), (a.expires_at < clock_timestamp()), a.id DESC LIMIT 200
        """,
        {"id": context_id, "tenant": tenant_id},
    )
    return tuple(TokenRow(row[0], row[1], tuple(row[2]), *row[3:]) for row in rows)


def live_task_ids(tenant_id: int, context_id: int, limit: int = 1_000) -> tuple[int, ...]:
    """Tasks of the client that have not ended and whose end was not asked for."""
    return tuple(_LIVE_TASKS(context=context_id, tenant=tenant_id, most=limit))


def _counted(number: int) -> str:
    return f"{COUNT_CAP:,}+" if number > COUNT_CAP else f"{number:,}"


def _object(text: str) -> dict[str, Any]:
    value = json.loads(text)
    return value if isinstance(value, dict) else {}

"""Clients as pages show them: auth contexts, their tokens, and what they declare."""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

from taskhub.core.names import CONSOLE_ISSUER, OAUTH_ISSUER, TASKS_EXTENSION
from taskhub.core.versions import is_stateless
from taskhub.store import statements
from taskhub.store.likes import escaped_like
from taskhub.store.models import AuthContext

PAGE_ROWS = 50
COUNT_CAP = 1_000
"""The most tasks that are counted for a client; beyond it the page shows "1,000+"."""

LOOKED_AT = 50
"""How many of a client's newest calls are read to find what it declares."""

OWN_ISSUER = "taskhub"
"""The issuer of clients whose tokens are issued here. Clients of other issuers bring their tokens."""


@dataclass(frozen=True, slots=True)
class ClientRow:
    """A client. `seen`: whether it ever called or opened a session; if not, it is not known what it declares."""

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
        """The name and version that the client reported."""
        info = _object(self.client_info)
        words = [str(info.get(part, "")) for part in ("name", "version")]
        return " ".join(word for word in words if word)[:120]

    @property
    def own(self) -> bool:
        """Whether the client's tokens are issued here."""
        return self.issuer == OWN_ISSUER

    @property
    def by_oauth(self) -> bool:
        """Whether a person signed the client in through TaskHub's authorization server."""
        return self.issuer == OAUTH_ISSUER

    @property
    def by_console(self) -> bool:
        """Whether the client stands for a person who makes calls in the console."""
        return self.issuer == CONSOLE_ISSUER

    @property
    def tasks_text(self) -> str:
        """The count of tasks in the last 30 days, with a plus sign if counting stopped at the cap."""
        return _counted(self.tasks_30_days)

    @property
    def live_text(self) -> str:
        """The count of tasks that have not ended, with a plus sign if counting stopped at the cap."""
        return _counted(self.live_tasks)

    @property
    def warns(self) -> bool:
        """Whether pages warn that the client gets no handles. They do if it has called, its revision has no sessions or
        is not known, and it never declared the tasks extension."""
        stateless = self.revision is None or is_stateless(self.revision)
        return self.seen and stateless and not self.declares_tasks and not self.by_console


@dataclass(frozen=True, slots=True)
class ClientPage:
    """Clients ordered by name. `after`: the id of the last of them if there are more clients, otherwise `None`."""

    rows: tuple[ClientRow, ...]
    after: int | None


@dataclass(frozen=True, slots=True)
class TokenRow:
    """A token as it can be shown: neither the token itself nor its digest."""

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


_LOOKS: Final[dict[str, object]] = {
    "tasks": ["extensions", TASKS_EXTENSION],
    "issuer": OAUTH_ISSUER,
    "counted": COUNT_CAP + 1,
    "looked_at": LOOKED_AT,
}
_PAGE = statements.many("client_page", ClientRow)
_DETAIL = statements.maybe("client_detail", ClientRow)
_TOKENS = statements.many("client_tokens", TokenRow)
_LIVE_TASKS = statements.many("live_task_ids", int)


def client_page(
    tenant_id: int, *, text: str = "", state: str = "", after: int | None = None, limit: int = PAGE_ROWS
) -> ClientPage:
    """Clients whose name, issuer, subject or client id contains `text`; `state` is `active`, `disabled` or empty.
    `after` is the id of the last client of the previous page."""
    after_name = None
    if after is not None:
        after_name = AuthContext.objects.filter(pk=after, tenant_id=tenant_id).values_list("name", flat=True).first()
        after = None if after_name is None else after
    rows = _PAGE(
        tenant=tenant_id,
        **_LOOKS,
        state=state or None,
        text=f"%{escaped_like(text)}%" if text else None,
        after=after,
        after_name=after_name,
        most=limit + 1,
    )
    clients = tuple(rows[:limit])
    return ClientPage(clients, clients[-1].id if len(rows) > limit else None)


def client_detail(tenant_id: int, context_id: int) -> ClientRow | None:
    """The client with this id; `None` if the tenant has none."""
    return _DETAIL(tenant=tenant_id, context=context_id, **_LOOKS)


def client_tokens(tenant_id: int, context_id: int) -> tuple[TokenRow, ...]:
    """The client's tokens, live ones first, at most 200."""
    return tuple(_TOKENS(tenant=tenant_id, context=context_id))


def live_task_ids(tenant_id: int, context_id: int, limit: int = 1_000) -> tuple[int, ...]:
    """The ids of the client's tasks that have not ended and whose cancellation was not requested, at most `limit`,
    oldest first."""
    return tuple(_LIVE_TASKS(context=context_id, tenant=tenant_id, most=limit))


def _counted(number: int) -> str:
    return f"{COUNT_CAP:,}+" if number > COUNT_CAP else f"{number:,}"


def _object(text: str) -> dict[str, Any]:
    value = json.loads(text)
    return value if isinstance(value, dict) else {}

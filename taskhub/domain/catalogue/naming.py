"""Exposed names of tools and prompts. A name belongs to one server until that server is removed.

While a rule of the tenant hides tools, it does not matter for a name which names are taken
(docs/decisions/0025-names-that-tell-nothing.md). Otherwise a client that sees `SERVER__tool` and no `tool` would know
that there is a `tool` which is hidden from it."""

from __future__ import annotations

from collections.abc import Container
from datetime import datetime, timedelta
from typing import Any, Final

from django.db.models import QuerySet

from taskhub.core.names import exposed_name
from taskhub.core.states import OfferKind
from taskhub.domain.rules.reads import present
from taskhub.store.models import Offer, Server, Tenant, Tool

SETTLE_SECONDS: Final = 60
"""Seconds after the first listing of a tool or prompt in which its name may still pass to another server, which was
added earlier and is now listed for the first time. Workers list the servers of a new hub in any order; if names
collide, the server that was added first gets the name."""


def locked_with_names(server_id: int) -> Server:
    """Lock the tenant and the server for a transaction that may give names; returns the server. Such transactions of a
    tenant run one at a time, so that two servers are not given the same name."""
    list(Tenant.objects.select_for_update(no_key=True).filter(server=server_id))
    return Server.objects.select_for_update().get(pk=server_id)


class Names:
    """The exposed names of all tools of a tenant, or of all its prompts. Names of tools and prompts that are gone count
    too: if such a name passed to another server, a client that still uses it would call that server. Used in a
    transaction of `locked_with_names`."""

    def __init__(self, server: Server, rows: QuerySet[Any], now: datetime) -> None:
        self._server = server
        self._hides: bool | None = None
        self._settled = set(rows.values_list("exposed_name", flat=True))
        self._unsettled: dict[str, Any] = {}
        if server.catalogue_at is None:
            since = now - timedelta(seconds=SETTLE_SECONDS)
            later = rows.filter(server_id__gt=server.pk, first_seen_at__gt=since).select_related("server")
            self._unsettled = {row.exposed_name: row for row in later}
            self._settled -= self._unsettled.keys()

    def __contains__(self, name: object) -> bool:
        return name in self._settled or name in self._unsettled

    def give(self, name: str) -> str:
        """Choose the exposed name of a new tool or prompt of the server. If a server that was added later has just got
        that name, its tool or prompt is renamed."""
        given = self._chosen(self._server, name, self._settled)
        self._settled.add(given)
        row = self._unsettled.pop(given, None)
        if row is not None:
            own = row.name if isinstance(row, Tool) else row.key
            row.exposed_name = self._chosen(row.server, own, self)
            row.save(update_fields=["exposed_name"])
            self._unsettled[row.exposed_name] = row
        return given

    def _chosen(self, server: Server, name: str, taken: Container[str]) -> str:
        if self._hides is None:
            self._hides = present(server.tenant_id).hides
        prefix = "" if self._hides and _is_shared(server) else server.prefix
        return exposed_name(server.name, name, prefix=prefix, taken=taken, full=self._hides)


def _is_shared(server: Server) -> bool:
    """Whether names with the prefix of this server may be the same as names with the prefix of another server."""
    others = Server.objects.filter(tenant_id=server.tenant_id, removed_at=None).exclude(pk=server.pk).exclude(prefix="")
    own = server.prefix
    return bool(own) and any(
        one.startswith(own) or own.startswith(one) for one in others.values_list("prefix", flat=True)
    )


def tool_names(server: Server, now: datetime) -> Names:
    """The names of tools of the server's tenant."""
    rows = Tool.objects.filter(server__tenant_id=server.tenant_id, server__removed_at=None)
    return Names(server, rows, now)


def prompt_names(server: Server, now: datetime) -> Names:
    """The names of prompts of the server's tenant."""
    here = Offer.objects.filter(server__tenant_id=server.tenant_id, server__removed_at=None)
    return Names(server, here.filter(kind=OfferKind.PROMPT), now)

"""Prompts, resources and templates of a server, as the console shows them."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.db.models import F, OuterRef, Subquery

from taskhub.core.states import OfferKind
from taskhub.lib.signs import visible_json
from taskhub.store.models import Offer

MAX_ROWS = 2_000


@dataclass(frozen=True, slots=True)
class OfferRow:
    """A prompt, resource or template. `rejected` and `hidden` say why clients do not see it: it is invalid, or an
    earlier server offers the same URI."""

    id: int
    kind: str
    key: str
    exposed_name: str
    definition: dict[str, Any]
    rejected: str
    hidden: str
    changed_at: datetime
    gone_at: datetime | None

    @property
    def title(self) -> str:
        """The title or name that the server gave the offer, shown beside its key; may be empty."""
        own = "" if self.kind == OfferKind.PROMPT else self.definition.get("name")
        return str(self.definition.get("title") or own or "")

    @property
    def description(self) -> str:
        """The description that the server gave the offer; may be empty."""
        return str(self.definition.get("description") or "")

    @property
    def details(self) -> str:
        """The arguments of a prompt, those that are not required with a question mark; or the type and size of a
        resource."""
        if self.kind == OfferKind.PROMPT:
            listed = self.definition.get("arguments")
            names = [_argument(item) for item in listed if isinstance(item, dict)] if isinstance(listed, list) else []
            return ", ".join(names)
        size = self.definition.get("size")
        words = [str(self.definition.get("mimeType") or ""), f"{size:,} bytes" if isinstance(size, int) else ""]
        return ", ".join(word for word in words if word)

    @property
    def raw(self) -> str:
        """The definition as the server sent it, indented."""
        return visible_json(self.definition)


def _argument(item: dict[str, Any]) -> str:
    return str(item.get("name", "")) + ("" if item.get("required") is True else "?")


def server_offers(tenant_id: int, server_id: int) -> tuple[OfferRow, ...]:
    """The server's prompts, resources and templates, in the server's order and with those that are gone last; at most
    `MAX_ROWS`."""
    earlier = Offer.objects.filter(
        server__tenant_id=tenant_id,
        server__enabled=True,
        server_id__lt=OuterRef("server_id"),
        kind=OuterRef("kind"),
        exposed_name=OuterRef("exposed_name"),
        gone_at__isnull=True,
        rejected="",
    ).order_by("server_id")
    rows = (
        Offer.objects.filter(server_id=server_id, server__tenant_id=tenant_id)
        .annotate(earlier=Subquery(earlier.values("server__name")[:1]))
        .order_by(F("gone_at").asc(nulls_first=True), "position", "id")
    )
    return tuple(_row(row) for row in rows.select_related("server")[:MAX_ROWS])


def _row(row: Any) -> OfferRow:
    uri = row.kind != OfferKind.PROMPT
    collides = uri and bool(row.earlier) and not row.rejected and row.gone_at is None
    return OfferRow(
        id=row.pk,
        kind=row.kind,
        key=row.key,
        exposed_name=row.exposed_name,
        definition=row.definition if isinstance(row.definition, dict) else {},
        rejected=row.rejected,
        hidden=f"{row.earlier} offers the same" if collides else "",
        changed_at=row.changed_at,
        gone_at=row.gone_at,
    )

"""Prompts, resources and templates of a server, as workers list and store them."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from taskhub.core.records import Actor
from taskhub.core.states import Door, OfferKind
from taskhub.domain.audit.record import record_event
from taskhub.domain.catalogue.naming import prompt_names
from taskhub.store.models import Offer, Server

SEEN = ("position", "definition", "digest", "rejected", "changed_at", "gone_at")
NAMED_IN_EVENT = 20
"""The most URIs in one event `resources.changed`."""

KEPT_GONE = timedelta(days=1)

WORKER = Actor(name="worker", door=Door.WORKER)


@dataclass(frozen=True, slots=True)
class ListedOffer:
    """A prompt, resource or template as a server lists it. `rejected` says why clients do not see it; empty if they
    do."""

    kind: OfferKind
    key: str
    definition: dict[str, Any]
    digest: str
    rejected: str = ""


def store_offers(server: Server, listed: Sequence[ListedOffer], unread: Collection[str], now: datetime) -> bool:
    """Store what the server lists now; kinds in `unread` could not be listed and stay as they are. Returns whether
    clients could see a difference.

    Call it in a transaction of `locked_with_names`. An offer that is no longer listed is kept for a day with `gone_at`,
    so that the server's page can show it; a prompt is kept for good, because an exposed name that was given stays with
    its server. If several servers offer the same URI, `view` decides which of them counts.
    """
    Offer.objects.filter(server=server, gone_at__lt=now - KEPT_GONE).exclude(kind=OfferKind.PROMPT).delete()
    names = prompt_names(server, now)
    known = {(OfferKind(row.kind), row.key): row for row in Offer.objects.filter(server=server)}
    made: list[Offer] = []
    changed: list[Offer] = []
    redefined: list[tuple[OfferKind, str, str, str]] = []
    for position, item in enumerate(listed):
        old = known.pop((item.kind, item.key), None)
        if old is None:
            exposed = names.give(item.key) if item.kind is OfferKind.PROMPT else item.key
            old = Offer(server=server, kind=item.kind, key=item.key, exposed_name=exposed, first_seen_at=now)
            made.append(old)
        elif (old.digest, old.position, old.gone_at) == (item.digest, position, None):
            continue
        else:
            changed.append(old)
            if old.digest != item.digest:
                redefined.append((item.kind, item.key, old.digest, item.digest))
        old.position, old.definition = position, item.definition
        old.digest, old.rejected, old.changed_at, old.gone_at = item.digest, item.rejected, now, None
    gone = [row for (kind, _), row in known.items() if row.gone_at is None and kind not in unread]
    for row in gone:
        row.gone_at = now
    Offer.objects.bulk_create(made, batch_size=500)
    Offer.objects.bulk_update(changed, SEEN, batch_size=500)
    Offer.objects.bulk_update(gone, ("gone_at",), batch_size=500)
    _record(server, redefined)
    return bool(made or changed or gone)


def _record(server: Server, redefined: Sequence[tuple[OfferKind, str, str, str]]) -> None:
    """Record an event for each changed prompt, since models follow prompts, but only one for all changed resources,
    which may change with every listing (a size, a date)."""
    others = []
    for kind, key, before, after in redefined:
        if kind is OfferKind.PROMPT:
            record_event(
                "prompt.changed",
                tenant_id=server.tenant_id,
                target=f"{server.name}/{key}"[:255],
                actor=WORKER,
                before={"digest": before},
                after={"digest": after},
            )
        else:
            others.append(key)
    if others:
        record_event(
            "resources.changed",
            tenant_id=server.tenant_id,
            target=server.name,
            actor=WORKER,
            after={"count": len(others), "uris": others[:NAMED_IN_EVENT]},
        )

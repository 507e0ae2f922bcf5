"""Confirmations by people of the definitions of a server's tools, and the tools that wait to be confirmed.

A tool is new or changed while nobody has confirmed its definition, and gone while nobody has confirmed that the server
does not offer it any more. If a server's tools wait for a person (`Server.review`), a new or changed tool is neither
listed nor called until it is confirmed: `view` leaves it out, and a claim holds back calls that were made before
(`th_hold_back`).
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime

from django.db import transaction
from django.db.models import F

from taskhub.core.errors import NotFound, Refused
from taskhub.core.hints import CatalogueChanged
from taskhub.core.records import Actor
from taskhub.domain.audit.record import record_event
from taskhub.domain.catalogue.reads import news_of
from taskhub.domain.hints.announce import notify
from taskhub.store.models import Server, Tool


def confirm_tools(*, tenant_id: int, server_id: int, seen: Mapping[int, str], actor: Actor) -> int:
    """Confirm tools of a server that are new, changed or gone: all of them, or none. Returns how many were confirmed.
    `seen`: for the id of each tool, what `shown_as` gave for the tool that the person was shown. A tool that another
    person has confirmed meanwhile is left as it is. Raises `NotFound`, or `Refused` for a tool that has changed since,
    or is gone or back."""
    now = datetime.now(UTC)
    with transaction.atomic():
        server = Server.objects.select_for_update().filter(pk=server_id, tenant_id=tenant_id, removed_at=None).first()
        # Locked in one order: another person may be confirming the same tools.
        tools = list(Tool.objects.select_for_update().filter(server=server, pk__in=seen).order_by("pk"))
        if server is None or len(tools) < len(seen):
            raise NotFound("No such tool.")
        done = 0
        for tool in tools:
            if seen[tool.pk] != shown_as(tool.digest, gone=tool.gone_at is not None):
                raise Refused(
                    f"The server has changed {tool.exposed_name} again meanwhile. This is how it is now; nothing was"
                    " confirmed."
                )
            news = news_of(tool)
            if not news:
                continue
            before = {"digest": tool.confirmed_digest}
            if news != "gone":
                tool.confirmed_digest = tool.digest
            tool.confirmed_at, tool.confirmed_by = now, actor.name
            tool.save(update_fields=["confirmed_digest", "confirmed_at", "confirmed_by"])
            record_event(
                "tool.confirmed",
                tenant_id=tenant_id,
                target=f"{server.name}/{tool.name}",
                actor=actor,
                before=before,
                after={"digest": tool.digest, "as": news},
            )
            done += 1
        if done:
            notify(CatalogueChanged())
    return done


def shown_as(digest: str, *, gone: bool) -> str:
    """A text that identifies the state of a tool that a person is shown, for `confirm_tools`."""
    return f"{digest}-gone" if gone else digest


def set_review(server: Server, review: bool, actor: Actor) -> None:
    """Set whether new and changed tools of a server, whose row is locked, wait for a person, in the caller's
    transaction. If switched on, the tools that the server offers now count as confirmed."""
    if server.review == review:
        return
    server.review = review
    server.save(update_fields=["review"])
    confirmed = 0
    if review:
        offered = Tool.objects.filter(server=server, gone_at=None, rejected="")
        new = offered.exclude(confirmed_digest=F("digest"))
        confirmed = new.update(confirmed_digest=F("digest"), confirmed_at=datetime.now(UTC), confirmed_by=actor.name)
    record_event(
        "server.review.changed",
        tenant_id=server.tenant_id,
        target=server.name,
        actor=actor,
        before={"review": not review},
        after={"review": review, "confirmed": confirmed},
    )
    notify(CatalogueChanged())

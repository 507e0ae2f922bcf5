"""The breaker of a server, which keeps calls from one that cannot be reached.

*Closed* is how it should be. When `OPENS_AFTER` calls in a row could not connect, with no sign of life from the server
in between, it is *open*: workers pass over its tasks, which stay queued and cost neither slot nor run time. After a
while one call of all workers may try (`take_probe`: *half-open*). Where that cannot connect either, the breaker stays
open for twice as long; any sign of life closes it.

What is in the row of the server is what counts. Workers are told that it changed, and what they know of it may be
late: then a call fails that would have waited, or one waits a little longer.
"""

from __future__ import annotations

import math
import random
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from django.db import transaction
from django.db.models.functions import Now

from taskhub.core.errors import NotFound
from taskhub.core.hints import CatalogueChanged, ServerStale
from taskhub.core.records import Actor
from taskhub.domain.audit.record import record_event
from taskhub.domain.catalogue.offers import WORKER
from taskhub.domain.catalogue.reads import without_its_secrets
from taskhub.domain.hints.announce import notify
from taskhub.lib import jsonx
from taskhub.store.models import Server

OPENS_AFTER: Final = 5
"""Calls in a row that could not connect."""

FIRST_SECONDS: Final = 5.0
"""How long the breaker is open before a call tries the server; then twice as long each time."""

LONGEST_SECONDS: Final = 60.0
"""But never longer than this."""

JITTER_PERCENT: Final = 20
"""By so much of it at most it is longer or shorter: servers that went away together are not tried together."""

PROBE_SECONDS: Final = 60.0
"""How long one worker alone may try: more than two tries to connect take. One that died meanwhile is waited for so."""

FIELDS: Final = ("failures", "open_since", "retry_at", "probe_until")
"""The columns of a server that are its breaker."""


@dataclass(frozen=True, slots=True)
class Troubled:
    """A server whose last call could not connect. `seconds` is when one may try it, from now on; `None` while its
    calls go to it as ever."""

    server_id: int
    seconds: float | None


def troubled_servers() -> list[Troubled]:
    """All of them, of all tenants."""
    rows = Server.objects.filter(enabled=True, failures__gt=0).annotate(moment=Now()).order_by("id")
    return [Troubled(row.pk, _seconds(row, row.moment)) for row in rows.only("retry_at", "probe_until")]


def _seconds(server: Server, moment: datetime) -> float | None:
    if server.retry_at is None:
        return None
    return max(0.0, (max(server.retry_at, server.probe_until or server.retry_at) - moment).total_seconds())


def take_probe(server_id: int) -> bool:
    """Whether it is for the caller alone to try the server, with one call, for `PROBE_SECONDS`."""
    until = Now() + timedelta(seconds=PROBE_SECONDS)
    due = Server.objects.filter(pk=server_id, retry_at__lte=Now())
    with transaction.atomic():
        if due.filter(probe_until__isnull=True).update(probe_until=until):
            notify(CatalogueChanged())
            return True
    # Nobody has called meanwhile, or whoever had it is no more: no news.
    return due.filter(probe_until__lte=Now()).update(probe_until=until) == 1


def leave_probe(server_id: int) -> None:
    """The try came to nothing, in neither way: anybody may have the next."""
    Server.objects.filter(pk=server_id, probe_until__isnull=False).update(probe_until=None)


def store_failure(server_id: int, problem: str, *, probing: bool) -> bool:
    """A call could not connect to the server; `probing`: it was the one to try. Returns whether the breaker was open,
    so that the call waits with the others and has not failed. What was under way when it opened says nothing new."""
    with transaction.atomic():
        server = Server.objects.select_for_update().get(pk=server_id)
        waits = server.open_since is not None
        if waits and not probing:
            return True
        server.failures += 1
        if server.failures >= OPENS_AFTER:
            mark_unreachable(server, problem)
            now = datetime.now(UTC)
            if server.open_since is None:
                server.open_since = now
                after = {"failures": server.failures, "problem": _told(server, problem)}
                _record(server, "server.breaker.opened", after=after)
            server.retry_at, server.probe_until = now + timedelta(seconds=_pause(server.failures)), None
            notify(CatalogueChanged())
        server.save(update_fields=FIELDS)
    return waits


def _pause(failures: int) -> float:
    """How long nobody tries."""
    doubled = math.ldexp(FIRST_SECONDS, min(failures - OPENS_AFTER, 20))
    jitter = random.uniform(-JITTER_PERCENT, JITTER_PERCENT)  # noqa: S311 - to spread, not to hide
    return min(doubled, LONGEST_SECONDS) * (1 + jitter / 100)


def store_reached(server_id: int) -> None:
    """The server gave a sign of life."""
    with transaction.atomic():
        server = Server.objects.select_for_update().get(pk=server_id)
        if close_breaker(server):
            notify(CatalogueChanged(), ServerStale(server_id))


def close_breaker(server: Server, actor: Actor = WORKER) -> bool:
    """The calls of this server, which is locked, go to it again. Returns whether they did not."""
    was_open, before = server.open_since, {"failures": server.failures}
    if server.failures:
        server.failures, server.open_since, server.retry_at, server.probe_until = 0, None, None, None
        server.save(update_fields=FIELDS)
    if was_open is not None:
        _record(server, "server.breaker.closed", before={**before, "since": was_open.isoformat()}, actor=actor)
    return was_open is not None


def request_probe(*, tenant_id: int, server_id: int, actor: Actor) -> bool:
    """Let the next call try the server now, and have all workers look at it. `False`: its calls go to it as they are.
    Raises `NotFound`."""
    with transaction.atomic():
        server = Server.objects.select_for_update().filter(pk=server_id, tenant_id=tenant_id).first()
        if server is None:
            raise NotFound("No such server.")
        if server.open_since is None:
            return False
        server.retry_at = datetime.now(UTC)
        server.save(update_fields=["retry_at"])
        _record(server, "server.probe.requested", actor=actor)
        notify(CatalogueChanged(), ServerStale(server_id))
    return True


def mark_unreachable(server: Server, problem: str) -> bool:
    """Record that this server, which is locked, cannot be reached, and why. Returns whether that is news."""
    problem = without_its_secrets(server, jsonx.repaired(problem))
    if server.state == "unreachable" and server.problem == problem[:1000]:
        return False
    if server.state != "unreachable":
        after = {"problem": _told(server, problem)}
        _record(server, "server.unreachable", before={"state": server.state}, after=after)
    server.state, server.problem = "unreachable", problem[:1000]
    server.save(update_fields=["state", "problem"])
    return True


def _told(server: Server, problem: str) -> str:
    """As the log may have it for ever."""
    return without_its_secrets(server, jsonx.repaired(problem))[:500]


def _record(
    server: Server,
    action: str,
    before: dict[str, Any] | None = None,
    after: dict[str, Any] | None = None,
    actor: Actor = WORKER,
) -> None:
    record_event(action, tenant_id=server.tenant_id, target=server.name, actor=actor, before=before, after=after)

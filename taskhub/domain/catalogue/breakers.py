"""The breaker of a server, which keeps calls from a server that cannot be reached.

Normally it is *closed*. When `OPENS_AFTER` calls in a row could not connect, with no sign of life from the server in
between, it is *open*: workers pass over its tasks, which stay queued and take neither slot nor run time. After a while
one call of one worker may try (`take_probe`: *half-open*). If that cannot connect either, the breaker stays open for
twice as long; any sign of life closes it.

The row of the server has the truth. Workers are told of changes, and may hear of them late: then a call fails that
should have waited, or one waits a little longer.
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
"""The longest that it is open before the next try."""

JITTER_PERCENT: Final = 20
"""The pause is longer or shorter by up to this much, so that servers that went away together are not tried together."""

PROBE_SECONDS: Final = 60.0
"""How long one worker alone may try: longer than two tries to connect take. If it dies, others wait for this long."""

FIELDS: Final = ("failures", "open_since", "retry_at", "probe_until")
"""The columns of a server that are its breaker."""


@dataclass(frozen=True, slots=True)
class Troubled:
    """A server whose last call could not connect. `seconds`: how long until it may be tried; `None` while its breaker
    is closed."""

    server_id: int
    seconds: float | None


def troubled_servers() -> list[Troubled]:
    """The troubled servers of all tenants."""
    rows = Server.objects.filter(enabled=True, failures__gt=0).annotate(moment=Now()).order_by("id")
    return [Troubled(row.pk, _seconds(row, row.moment)) for row in rows.only("retry_at", "probe_until")]


def _seconds(server: Server, moment: datetime) -> float | None:
    if server.retry_at is None:
        return None
    return max(0.0, (max(server.retry_at, server.probe_until or server.retry_at) - moment).total_seconds())


def take_probe(server_id: int) -> bool:
    """Take the probe: the right to try the server with one call, alone for `PROBE_SECONDS`. `False`: not taken."""
    until = Now() + timedelta(seconds=PROBE_SECONDS)
    due = Server.objects.filter(pk=server_id, retry_at__lte=Now())
    with transaction.atomic():
        if due.filter(probe_until__isnull=True).update(probe_until=until):
            notify(CatalogueChanged())
            return True
    # Nobody had called meanwhile, or the worker that had the probe is gone: not worth a hint.
    return due.filter(probe_until__lte=Now()).update(probe_until=until) == 1


def leave_probe(server_id: int) -> None:
    """The probe ended without telling whether the server can be reached: any worker may take the next."""
    Server.objects.filter(pk=server_id, probe_until__isnull=False).update(probe_until=None)


def store_failure(server_id: int, problem: str, *, probing: bool) -> bool:
    """A call could not connect to the server; `probing`: it was the probe. Returns whether the breaker was open
    already, so that the call goes back to wait and has not failed. A call that was under way when it opened is not
    counted."""
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
    """Seconds until the next try."""
    doubled = math.ldexp(FIRST_SECONDS, min(failures - OPENS_AFTER, 20))
    jitter = random.uniform(-JITTER_PERCENT, JITTER_PERCENT)  # noqa: S311 - to spread, not to hide
    return min(doubled, LONGEST_SECONDS) * (1 + jitter / 100)


def store_reached(server_id: int) -> None:
    """The server gave a sign of life: close its breaker."""
    with transaction.atomic():
        server = Server.objects.select_for_update().get(pk=server_id)
        if close_breaker(server):
            notify(CatalogueChanged(), ServerStale(server_id))


def close_breaker(server: Server, actor: Actor = WORKER) -> bool:
    """Close the breaker of this server, which is locked. Returns whether it was open."""
    was_open, before = server.open_since, {"failures": server.failures}
    if server.failures:
        server.failures, server.open_since, server.retry_at, server.probe_until = 0, None, None, None
        server.save(update_fields=FIELDS)
    if was_open is not None:
        _record(server, "server.breaker.closed", before={**before, "since": was_open.isoformat()}, actor=actor)
    return was_open is not None


def request_probe(*, tenant_id: int, server_id: int, actor: Actor) -> bool:
    """Let the next call try the server now, and have all workers read its lists. `False`: its breaker is closed. Raises
    `NotFound`."""
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
    """Record that this server, which is locked, cannot be reached, and why. Returns whether anything changed."""
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
    """The problem as it may stay in the audit log: without secrets, and short."""
    return without_its_secrets(server, jsonx.repaired(problem))[:500]


def _record(
    server: Server,
    action: str,
    before: dict[str, Any] | None = None,
    after: dict[str, Any] | None = None,
    actor: Actor = WORKER,
) -> None:
    record_event(action, tenant_id=server.tenant_id, target=server.name, actor=actor, before=before, after=after)

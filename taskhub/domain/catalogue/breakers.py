"""The breaker of a server, which keeps calls from a server that cannot be reached.

Normally it is *closed*. When `OPENS_AFTER` calls in a row could not connect, with no sign of life from the server in
between, it is *open*: workers pass over its tasks, which stay queued and take neither slot nor run time. After a while
one call of one worker may try the server (`take_probe`: *half-open*). If that call cannot connect either, the breaker
stays open for twice as long; any sign of life closes it.

The state of the breaker is in the server's row. Workers learn of changes by hints, perhaps late. A call may then fail
although it should have waited, or wait a little longer than it has to.
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
"""After this many calls in a row that could not connect, the breaker opens."""

FIRST_SECONDS: Final = 5.0
"""Seconds from the opening of the breaker to the first probe; after each failed probe the pause is twice as long."""

LONGEST_SECONDS: Final = 60.0
"""The most seconds between two probes, before jitter."""

JITTER_PERCENT: Final = 20
"""Percent by which a pause is randomly longer or shorter, so that servers that failed together are probed apart."""

PROBE_SECONDS: Final = 60.0
"""Seconds for which only the worker that took the probe may make it: longer than two attempts to connect take. If that
worker dies, other workers wait for this long."""

FIELDS: Final = ("failures", "open_since", "retry_at", "probe_until")
"""The columns of a server that hold the state of its breaker."""


@dataclass(frozen=True, slots=True)
class Troubled:
    """A server whose last call could not connect. `seconds`: the time until its probe is due; `None` if its breaker is
    closed."""

    server_id: int
    seconds: float | None


def troubled_servers() -> list[Troubled]:
    """The servers of all tenants whose last call could not connect."""
    rows = Server.objects.filter(enabled=True, failures__gt=0).annotate(moment=Now()).order_by("id")
    return [Troubled(row.pk, _seconds(row, row.moment)) for row in rows.only("retry_at", "probe_until")]


def _seconds(server: Server, moment: datetime) -> float | None:
    if server.retry_at is None:
        return None
    return max(0.0, (max(server.retry_at, server.probe_until or server.retry_at) - moment).total_seconds())


def take_probe(server_id: int) -> bool:
    """Take the probe: the right to try the server with one call, within `PROBE_SECONDS`. Returns `False` if the probe
    is not due yet, or another worker has it."""
    until = Now() + timedelta(seconds=PROBE_SECONDS)
    due = Server.objects.filter(pk=server_id, retry_at__lte=Now())
    with transaction.atomic():
        if due.filter(probe_until__isnull=True).update(probe_until=until):
            notify(CatalogueChanged())
            return True
    # Another worker may have had the probe and not used it in time, because no call came or the worker is gone. The
    # state is half-open as before, so no hint is sent.
    return due.filter(probe_until__lte=Now()).update(probe_until=until) == 1


def leave_probe(server_id: int) -> None:
    """Give the probe back: it did not show whether the server can be reached, so another worker may take it."""
    Server.objects.filter(pk=server_id, probe_until__isnull=False).update(probe_until=None)


def store_failure(server_id: int, problem: str, *, probing: bool) -> bool:
    """Record that a call could not connect to the server; `probing`: that call was the probe. Opens the breaker after
    `OPENS_AFTER` failures. Returns whether the breaker was open already: then the call goes back to the queue instead
    of failing. Calls that were under way when the breaker opened are not counted, nor are calls to a removed server."""
    with transaction.atomic():
        server = Server.objects.select_for_update().get(pk=server_id)
        if server.removed_at is not None:
            return True  # the next claim ends the call
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
    """Seconds until the next probe."""
    doubled = math.ldexp(FIRST_SECONDS, min(failures - OPENS_AFTER, 20))
    jitter = random.uniform(-JITTER_PERCENT, JITTER_PERCENT)  # noqa: S311 - jitter, not a secret
    return min(doubled, LONGEST_SECONDS) * (1 + jitter / 100)


def store_reached(server_id: int) -> None:
    """Close the breaker of a server that accepted a connection or answered."""
    with transaction.atomic():
        server = Server.objects.select_for_update().get(pk=server_id)
        if server.removed_at is None and close_breaker(server):
            notify(CatalogueChanged(), ServerStale(server_id))


def close_breaker(server: Server, actor: Actor = WORKER) -> bool:
    """Close the breaker of a server whose row is locked. Returns whether it was open."""
    was_open, before = server.open_since, {"failures": server.failures}
    if server.failures:
        server.failures, server.open_since, server.retry_at, server.probe_until = 0, None, None, None
        server.save(update_fields=FIELDS)
    if was_open is not None:
        _record(server, "server.breaker.closed", before={**before, "since": was_open.isoformat()}, actor=actor)
    return was_open is not None


def request_probe(*, tenant_id: int, server_id: int, actor: Actor) -> bool:
    """Let the next call probe the server now, and ask all workers to list it. Returns `False` if its breaker is closed.
    Raises `NotFound`."""
    with transaction.atomic():
        server = Server.objects.select_for_update().filter(pk=server_id, tenant_id=tenant_id, removed_at=None).first()
        if server is None:
            raise NotFound("No such server.")
        if server.open_since is None:
            return False
        server.retry_at = datetime.now(UTC)
        server.save(update_fields=["retry_at"])
        _record(server, "server.probe.requested", actor=actor)
        notify(CatalogueChanged(), ServerStale(server_id))
    return True


def mark_unreachable(server: Server, problem: str, *, state: str = "unreachable") -> bool:
    """Record that a server, whose row is locked, cannot be reached, and why; or with the state `unauthorized`, that it
    has to be authorized. Returns whether anything changed."""
    problem = without_its_secrets(server, jsonx.repaired(problem))
    if server.state == state and server.problem == problem[:1000]:
        return False
    if server.state != state:
        after = {"problem": _told(server, problem)}
        before = {"state": server.state}
        _record(server, "server.unreachable" if state == "unreachable" else "server.unauthorized", before, after)
    server.state, server.problem = state, problem[:1000]
    server.save(update_fields=["state", "problem"])
    return True


def _told(server: Server, problem: str) -> str:
    """The problem as text for the audit log: without the server's secrets, 500 characters at most."""
    return without_its_secrets(server, jsonx.repaired(problem))[:500]


def _record(
    server: Server,
    action: str,
    before: dict[str, Any] | None = None,
    after: dict[str, Any] | None = None,
    actor: Actor = WORKER,
) -> None:
    record_event(action, tenant_id=server.tenant_id, target=server.name, actor=actor, before=before, after=after)

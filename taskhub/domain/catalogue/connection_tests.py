"""Tests of the connection to a server. People request them; a worker makes them, because only workers connect to
servers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from django.db import transaction

from taskhub.core.errors import NotFound, Refused
from taskhub.core.hints import CatalogueChanged
from taskhub.core.records import Actor
from taskhub.domain.audit.record import record_event
from taskhub.domain.catalogue.sync import SyncedServer, synced
from taskhub.domain.hints.announce import notify
from taskhub.store.models import ConnectionTest, Server

WAITS_SECONDS: Final = 60
"""Seconds after which a test that no worker has taken is given up."""

TEST_SECONDS: Final = 330
"""The most seconds that a test may take. After that its worker counts as lost."""


@dataclass(frozen=True, slots=True)
class TakenTest:
    """A test that a worker has taken."""

    id: int
    taken_at: datetime
    server: SyncedServer


@dataclass(frozen=True, slots=True)
class LatestTest:
    """The latest test of a server, for its page. `steps` have `name`, `ok`, `seconds` and `says`."""

    requested_at: datetime
    ended_at: datetime | None
    worker: str
    steps: Sequence[dict[str, Any]]
    lost: bool
    """Whether the test will never have an outcome: no worker took it, or its worker was lost."""


def request_test(*, tenant_id: int, server_id: int, actor: Actor) -> None:
    """Have a worker test the connection to an enabled server, unless a test is under way. Raises `NotFound`, or
    `Refused` for a disabled server."""
    with transaction.atomic():
        server = Server.objects.select_for_update().filter(pk=server_id, tenant_id=tenant_id, removed_at=None).first()
        if server is None:
            raise NotFound("No such server.")
        if not server.enabled:
            raise Refused(f"{server.name} is disabled; enable it first.")
        now = datetime.now(UTC)
        known = ConnectionTest.objects.select_for_update().filter(server=server).first()
        if known is not None and known.ended_at is None and not _lost(known, now):
            return
        blank: dict[str, Any] = {"requested_at": now, "taken_at": None, "ended_at": None, "worker": "", "steps": []}
        ConnectionTest.objects.update_or_create(server=server, defaults=blank)
        record_event("server.tested", tenant_id=tenant_id, target=server.name, actor=actor)
        notify(CatalogueChanged())


def take_tests(worker: str) -> list[TakenTest]:
    """Take tests that wait for a worker, at most 10. Another worker that does this at the same time takes other
    tests."""
    now = datetime.now(UTC)
    since = now - timedelta(seconds=WAITS_SECONDS)
    with transaction.atomic():
        waiting = ConnectionTest.objects.filter(taken_at=None, requested_at__gt=since, server__enabled=True)
        rows = list(waiting.select_for_update(skip_locked=True, of=("self",)).select_related("server")[:10])
        for row in rows:
            row.taken_at, row.worker = now, worker
            row.save(update_fields=["taken_at", "worker"])
    return [TakenTest(row.pk, now, synced(row.server)) for row in rows]


def store_steps(test: TakenTest, steps: Sequence[dict[str, Any]], *, ended: bool) -> None:
    """Store the steps that have ended so far, and whether the test has. Stores nothing if another test was requested
    meanwhile."""
    ended_at = datetime.now(UTC) if ended else None
    rows = ConnectionTest.objects.filter(pk=test.id, taken_at=test.taken_at, ended_at=None)
    with transaction.atomic():
        if rows.update(steps=list(steps), ended_at=ended_at):
            notify(CatalogueChanged())


def latest_test(server_id: int) -> LatestTest | None:
    """The latest test of the server, under way or ended; `None` if it was never tested."""
    row = ConnectionTest.objects.filter(server_id=server_id).first()
    if row is None:
        return None
    lost = row.ended_at is None and _lost(row, datetime.now(UTC))
    return LatestTest(row.requested_at, row.ended_at, row.worker, row.steps, lost)


def _lost(row: ConnectionTest, now: datetime) -> bool:
    if row.taken_at is None:
        return bool(row.requested_at < now - timedelta(seconds=WAITS_SECONDS))
    return bool(row.taken_at < now - timedelta(seconds=TEST_SECONDS))

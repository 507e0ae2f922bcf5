"""Checks of the installation, for probes and metrics."""

from __future__ import annotations

from datetime import UTC, datetime

from django.db import connection, transaction
from django.db.migrations.executor import MigrationExecutor
from django.db.models import Count

from taskhub.core.errors import DiskFull
from taskhub.core.states import TERMINAL, State
from taskhub.domain.feed.reading import feed_lag
from taskhub.domain.notices import people
from taskhub.domain.notices.outbox import backlog as notices
from taskhub.domain.workers.reads import live_workers, queue
from taskhub.store import room, session, statements
from taskhub.store.models import Server, Task, Tenant

_migrated = False
_FAILED = statements.many("failed_chores", str)
_CONNECTIONS = statements.one("connections", tuple[int, int])
_LITTLE_MEMORY = statements.one("little_memory", tuple[str, str])
_SPILL = statements.one("spill", int)
_SEAL_LAG = statements.one("seal_lag", float)


def failed_chores() -> list[str]:
    """The names of the scheduled chores whose last run failed."""
    return _FAILED()


def disk_is_full() -> bool:
    """Whether the database has no room for new data; tries to write. Raises `Unavailable` if it cannot be reached."""
    try:
        with transaction.atomic():
            _LITTLE_MEMORY()
            _SPILL()
    except DiskFull:  # whoever raised it has called room.note_full()
        return True
    room.note_room()
    return False


def only_reads() -> bool:
    """Whether the database accepts no writes, because it is a standby or configured in that way."""
    return session.found(["transaction_read_only"])["transaction_read_only"] == "on"


def disk_known_full() -> bool:
    """Whether this process knows that the disk is full. As long as it is, the process checks again every
    `room.LOOK_SECONDS`."""
    return disk_is_full() if room.due() else room.full()


def ready() -> list[str]:
    """Reasons why this process cannot serve, as text for people; empty if it can. Raises `DatabaseError` if the
    database cannot be reached."""
    global _migrated
    if _migrated:
        Tenant.objects.exists()
    else:
        executor = MigrationExecutor(connection)
        if executor.migration_plan(executor.loader.graph.leaf_nodes()):
            return ["migrations are pending: run manage.py migrate"]
        _migrated = True
    return []


def all_ready() -> list[str]:
    """Reasons why the hub cannot answer calls, as text for people: those of `ready`; a full or read-only disk; no
    worker; servers that were not contacted yet. Raises what `ready` raises."""
    problems = ready()
    if problems:
        return problems
    if disk_is_full():
        problems.append(room.FULL)
    if only_reads():
        problems.append(room.ONLY_READS)
    if not live_workers():
        problems.append("no worker is alive: run manage.py worker")
    unseen = Server.objects.filter(enabled=True, state="unknown").count()
    if unseen:
        problems.append(f"{unseen} {'server has' if unseen == 1 else 'servers have'} not been contacted yet")
    return problems


def backlog() -> list[tuple[str, str, list[tuple[dict[str, str], float]]]]:
    """Gauges for `/metrics`, as (name, help, [(labels, value)])."""
    live = Task.objects.filter(ended_at__isnull=True).values_list("state").annotate(n=Count("id")).order_by("state")
    states = {state.value: 0 for state in State if state not in TERMINAL} | dict(live)
    waiting = queue(None)
    age = max(0.0, (datetime.now(UTC) - waiting.oldest_at).total_seconds()) if waiting.oldest_at else 0.0
    connections, most = _CONNECTIONS()
    waiting_notices = notices()
    return [
        ("taskhub_tasks_live", "Live tasks by state", [({"state": state}, count) for state, count in states.items()]),
        ("taskhub_oldest_queued_seconds", "How long the oldest call that could run waits for a worker", [({}, age)]),
        ("taskhub_tasks_paused", "Queued tasks whose server is disabled", [({}, waiting.paused)]),
        ("taskhub_workers_alive", "Workers alive", [({}, live_workers())]),
        ("taskhub_chores_failed", "Chores of every hour or night whose last run failed", [({}, len(failed_chores()))]),
        (
            "taskhub_servers",
            "Servers by state",
            [
                ({"state": state}, count)
                for state, count in Server.objects.filter(removed_at=None).values_list("state").annotate(n=Count("id"))
            ],
        ),
        (
            "taskhub_breakers_open",
            "Servers whose calls wait, since none could connect",
            [({}, Server.objects.filter(enabled=True, open_since__isnull=False).count())],
        ),
        ("taskhub_seal_lag_seconds", "Age of the oldest audit event that no seal holds", [({}, _SEAL_LAG())]),
        ("taskhub_feed_lag_seconds", "Age of the oldest event whose news was not queued yet", [({}, feed_lag())]),
        ("taskhub_messages_due", "Messages to webhooks that wait, counted to 10,000", [({}, waiting_notices.due)]),
        ("taskhub_webhooks_failing", "Webhooks that do not answer", [({}, waiting_notices.failing)]),
        *_to_people(),
        ("taskhub_database_connections", "Sessions at the database", [({}, connections)]),
        ("taskhub_database_connections_most", "Sessions its server takes, for all databases", [({}, most)]),
    ]


def _to_people() -> list[tuple[str, str, list[tuple[dict[str, str], float]]]]:
    waits = [({"channel": one.channel}, one) for one in people.backlog()]
    if not waits:  # this hub has no channel to people
        return []
    return [
        (
            "taskhub_people_messages_due",
            "Messages to people that wait, counted to 10,000",
            [(labels, one.due) for labels, one in waits],
        ),
        (
            "taskhub_people_messages_failing",
            "Messages to people that were tried and not taken",
            [(labels, one.failing) for labels, one in waits],
        ),
        (
            "taskhub_people_messages_oldest_seconds",
            "Age of the oldest message to a person that may leave or was tried",
            [(labels, one.oldest_seconds) for labels, one in waits],
        ),
    ]

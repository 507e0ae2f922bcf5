"""Workers, the tasks that they hold, and the queue, as the console shows them."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta

from taskhub.store import statements
from taskhub.store.models import Worker

SILENT_SECONDS = 30
"""Seconds without a heartbeat after which a worker counts as silent (`th_alive` in functions.sql)."""

COUNT_CAP = 10_000
HELD_LOOKED_AT = 10_000
"""The most held tasks that are read, of all tenants together."""

RUNNING_SHOWN = 100
"""The most running tasks that are listed for a worker."""


@dataclass(frozen=True, slots=True)
class RunningTask:
    """A task that a worker holds. `overdue`: its lease has run out, and the sweep will release it."""

    public_id: str
    tool_name: str
    state: str
    since: datetime
    overdue: bool


@dataclass(frozen=True, slots=True)
class WorkerRow:
    """A worker process. `state` is `alive`, `silent` (no heartbeat for `SILENT_SECONDS`) or `stopped`."""

    id: int
    name: str
    host: str
    pid: int
    version: str
    slots: int
    busy: int
    started_at: datetime
    heartbeat_at: datetime
    stopped_at: datetime | None
    state: str
    in_place: bool
    """Whether the worker is a web process, which runs calls in place and takes no task from the queue."""
    processes: int
    """How many processes of commands run in this worker for clients."""
    memory: int
    """Bytes of memory of these processes together, as far as that is known."""
    running: tuple[RunningTask, ...] = ()
    others: int = 0
    """How many tasks the worker holds that are not in `running`, because they are other tenants' or too many to
    list."""


@dataclass(frozen=True, slots=True)
class Queue:
    """The queue. `depth` counts queued tasks; `paused` counts those whose server is disabled, which no worker may run.
    Both counts stop above `COUNT_CAP`. `oldest` is the public id of the runnable task that has waited longest for a
    worker, since `oldest_at`. `lost` counts tasks whose lease has run out and that the sweep has not released yet.
    """

    depth: int
    paused: int
    oldest_at: datetime | None
    oldest: str | None
    lost: int

    @property
    def depth_text(self) -> str:
        """The depth, with a plus sign where counting stopped."""
        return _capped(self.depth)

    @property
    def paused_text(self) -> str:
        """The number of paused tasks, with a plus sign where counting stopped."""
        return _capped(self.paused)


@dataclass(frozen=True, slots=True)
class Fleet:
    """The workers and the queue, for the page of the console."""

    workers: tuple[WorkerRow, ...]
    queue: Queue

    @property
    def alive(self) -> tuple[WorkerRow, ...]:
        """The workers with a recent heartbeat that take tasks from the queue."""
        return tuple(worker for worker in self.workers if worker.state == "alive" and not worker.in_place)

    @property
    def in_place(self) -> tuple[WorkerRow, ...]:
        """The web processes with a recent heartbeat that run calls in place."""
        return tuple(worker for worker in self.workers if worker.state == "alive" and worker.in_place)

    @property
    def slots(self) -> int:
        """Slots of all workers that are alive."""
        return sum(worker.slots for worker in self.alive)

    @property
    def busy(self) -> int:
        """Busy slots of all workers that are alive."""
        return sum(worker.busy for worker in self.alive)


_WORKERS = statements.many("workers", WorkerRow, without=("running", "others"))
_HELD = statements.many("held_tasks", tuple[str, bool, RunningTask])
_QUEUE = statements.one("queue", Queue)


def fleet(tenant_id: int) -> Fleet:
    """Workers that are alive or ended within a day, and the tenant's queue. Workers serve all tenants; of the tasks
    that they hold, only those of the tenant are named.
    """
    running: dict[str, list[RunningTask]] = {}
    others: Counter[str] = Counter()
    for worker, own, task in _HELD(tenant=tenant_id, most=HELD_LOOKED_AT):
        mine = running.setdefault(worker, [])
        if own and len(mine) < RUNNING_SHOWN:
            mine.append(task)
        else:
            others[worker] += 1
    return Fleet(
        workers=tuple(
            replace(row, running=tuple(running.get(row.name, ())), others=others[row.name]) for row in _WORKERS()
        ),
        queue=queue(tenant_id),
    )


def live_workers(host: str | None = None) -> int:
    """The number of workers that are alive, on all machines or on `host`. Raises `DatabaseError`."""
    since = datetime.now(UTC) - timedelta(seconds=SILENT_SECONDS)
    found = Worker.objects.filter(heartbeat_at__gt=since, stopped_at__isnull=True, in_place=False)
    return (found if host is None else found.filter(host=host)).count()


def queue(tenant_id: int | None) -> Queue:
    """The queue of a tenant, or of all tenants if `None`: for the overview, the workers' page and `/metrics`."""
    return _QUEUE(tenant=tenant_id, counted=COUNT_CAP + 1)


def _capped(count: int) -> str:
    return f"{COUNT_CAP:,}+" if count > COUNT_CAP else f"{count:,}"

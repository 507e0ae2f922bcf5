"""Who runs tasks right now, what waits, and for how long."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.conf import settings

from taskhub.queries._read import read

COUNT_CAP = 10_000
RUNNING_SHOWN = 100
"""Running tasks listed per worker."""


@dataclass(frozen=True, slots=True)
class RunningTask:
    """A task a worker holds. `overdue`: its lease ran out and the sweep takes it back."""

    public_id: str
    tool_name: str
    state: str
    since: datetime
    overdue: bool


@dataclass(frozen=True, slots=True)
class WorkerRow:
    """A worker process. `state` is `alive`, `silent` (no heartbeat for a lease's time) or `stopped`."""

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
    running: tuple[RunningTask, ...]
    others: int
    """Tasks it holds beyond the ones listed: of other tenants, or too many to list."""


@dataclass(frozen=True, slots=True)
class Queue:
    """What waits for a worker. `depth` is counted up to `COUNT_CAP`; `lost` are tasks whose
    lease ran out and that nobody has taken back yet.
    """

    depth: int
    oldest_at: datetime | None
    lost: int

    @property
    def depth_text(self) -> str:
        """The depth, with a plus sign where counting stopped."""
        return f"{COUNT_CAP:,}+" if self.depth > COUNT_CAP else f"{self.depth:,}"


@dataclass(frozen=True, slots=True)
class Fleet:
    """Everything the page shows, from one moment."""

    workers: tuple[WorkerRow, ...]
    queue: Queue

    @property
    def alive(self) -> tuple[WorkerRow, ...]:
        """The workers with a recent heartbeat."""
        return tuple(worker for worker in self.workers if worker.state == "alive")

    @property
    def slots(self) -> int:
        """Slots of all that are alive."""
        return sum(worker.slots for worker in self.alive)

    @property
    def busy(self) -> int:
        """Busy slots of all that are alive."""
        return sum(worker.busy for worker in self.alive)


def fleet(tenant_id: int) -> Fleet:
    """Workers that are alive or ended within a day, and the tenant's queue. Workers serve all
    tenants; of the tasks they hold only the tenant's own are named.
    """
    return Fleet(workers=_workers(tenant_id), queue=_queue(tenant_id))


def _workers(tenant_id: int) -> tuple[WorkerRow, ...]:
    found = read(
        """
        SELECT w.id, w.name, w.host, w.pid, w.version, w.slots, w.busy, w.started_at, w.heartbeat_at, w.stopped_at,
               CASE WHEN w.stopped_at IS NOT NULL THEN 'stopped'
                    WHEN w.heartbeat_at < clock_timestamp() - make_interval(secs => %(silent)s) THEN 'silent'
                    ELSE 'alive' END AS state
        FROM worker w
        WHERE greatest(w.heartbeat_at, w.stopped_at) > clock_timestamp() - interval '1 day'
        ORDER BY state, w.started_at DESC, w.id LIMIT 200
        """,
        {"silent": settings.TASKHUB_LEASE_SECONDS},
    )
    held = read(
        """
        SELECT t.worker, t.public_id, t.tool_name, t.state, coalesce(a.started_at, t.updated_at),
               t.lease_until < clock_timestamp(), t.tenant_id = %(tenant)s
        FROM task t LEFT JOIN attempt a ON a.task_id = t.id AND a.number = t.lease_epoch
        WHERE t.lease_until IS NOT NULL
        ORDER BY t.lease_until LIMIT 10000
        """,
        {"tenant": tenant_id},
    )
    running: dict[str, list[RunningTask]] = {}
    others: dict[str, int] = {}
    for worker, public_id, tool_name, state, since, overdue, own in held:
        mine = running.setdefault(worker, [])
        if own and len(mine) < RUNNING_SHOWN:
            mine.append(RunningTask(public_id, tool_name, state, since, overdue))
        else:
            others[worker] = others.get(worker, 0) + 1
    return tuple(_worker(row, tuple(running.get(row[1], ())), others.get(row[1], 0)) for row in found)


def _worker(row: tuple[Any, ...], running: tuple[RunningTask, ...], others: int) -> WorkerRow:
    values: Any = (*row, running, others)
    return WorkerRow(*values)


def _queue(tenant_id: int) -> Queue:
    row = read(
        f"""
        SELECT (SELECT count(*) FROM (SELECT 1 FROM task WHERE tenant_id = %(tenant)s AND state = 'queued'
                                      LIMIT {COUNT_CAP + 1}) waiting),
               (SELECT min(runnable_at) FROM (SELECT runnable_at FROM task
                                              WHERE tenant_id = %(tenant)s AND state = 'queued'
                                              ORDER BY runnable_at, id LIMIT 1) oldest),
               (SELECT count(*) FROM task WHERE tenant_id = %(tenant)s AND lease_until < clock_timestamp())
        """,
        {"tenant": tenant_id},
    )[0]
    return Queue(*row)

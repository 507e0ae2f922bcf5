"""What the lifecycle's tests share: a client with a tool, workers, clocks that are turned, threads."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, TypeVar

import psycopg
from django.db import connection

from taskhub.core.records import Actor, Claim, NewQuestion, NewTask, OpenQuestion, TaskRecord, ToolRecord, UpstreamTask
from taskhub.core.states import Door
from taskhub.domain.tasks import deferred, run
from taskhub.domain.tasks.create import create_task
from taskhub.domain.tasks.reads import task_by_id
from taskhub.store.models import AuthContext, Event, Task
from tests import factories
from tests.factories import WORKER
from tests.store.flushing import superuser

T = TypeVar("T")
FINAL = {"content": [{"type": "text", "text": "done"}]}
BOUND = 5.0


@dataclass(frozen=True)
class World:
    """One client of one tenant, and a tool it calls."""

    context: AuthContext
    tool: ToolRecord

    @property
    def actor(self) -> Actor:
        return Actor(name=self.context.name, door=Door.CLIENT, address="192.0.2.7", context_id=self.context.pk)


def make_world(**policy: Any) -> World:
    context = factories.make_context(factories.make_tenant())
    return World(context, factories.make_tool(factories.make_server(context.tenant), **policy))


def another_client(world: World) -> World:
    """Of the same tenant, calling the same tool."""
    return World(factories.make_context(world.context.tenant), world.tool)


def new_task(world: World, **fields: Any) -> NewTask:
    given: dict[str, Any] = {
        "tenant_id": world.context.tenant_id,
        "context_id": world.context.pk,
        "tool": world.tool,
        "arguments": {"text": "hello"},
        "revision": "2026-07-28",
        **fields,
    }
    if "verdict" not in given:
        given["verdict"] = factories.verdict_on(world.context, given["tool"], given["arguments"])
    return NewTask(**given)


def create(world: World, **fields: Any) -> TaskRecord:
    return create_task(new_task(world, **fields), world.actor).task


def claim(worker: str = "worker-1", limit: int = 1, lease: float = 60.0, per_context: int = 1_000) -> list[Claim]:
    claims, _ = claim_and_more(worker, limit, lease, per_context)
    return claims


def claim_and_more(
    worker: str = "worker-1", limit: int = 1, lease: float = 60.0, per_context: int = 1_000
) -> tuple[list[Claim], bool]:
    taken = run.claim_tasks(worker=worker, limit=limit, lease_seconds=lease, per_context=per_context, actor=WORKER)
    return taken.tasks, taken.more


def claim_one(worker: str = "worker-1", lease: float = 60.0) -> Claim:
    (taken,) = claim(worker, lease=lease)
    return taken


def ask(taken: Claim, *questions: NewQuestion, live: bool = False) -> bool:
    return run.ask(taken, questions, upstream_state="s", message="Waiting", live=live, actor=WORKER)


def finish(taken: Claim, result: dict[str, Any] | None = None) -> bool:
    return run.finish(taken, result or FINAL, actor=WORKER)


def fault(taken: Claim) -> bool:
    return run.fault(taken, {"code": -32603, "message": "boom"}, actor=WORKER)


def defer(taken: Claim, **fields: Any) -> bool:
    """Its server runs the call as a task of its own, which is due to be polled at once."""
    task = UpstreamTask(
        **{"id": "up-1", "revision": "2026-07-28", "status": "working", "message": "", "poll_ms": None, **fields}
    )
    return deferred.defer(taken, task, poll_ms=1_000, ran_seconds=0.0, home="", delay_ms=0, actor=WORKER)


def look(task_id: int) -> TaskRecord:
    task = task_by_id(task_id)
    assert task is not None
    return task


def opened(task_id: int, key: str | None = None) -> OpenQuestion:
    """The open question with that key, or the only one."""
    found = [q for q in look(task_id).questions if key is None or q.key == key]
    (question,) = found
    return question


def approver(task_id: int, name: str = "") -> Actor:
    """Somebody who may approve the task's call, in the group of its open approval."""
    task = Task.objects.select_related("tenant").get(pk=task_id)
    groups = [group for group in [opened(task_id).group] if group]
    person = factories.make_person("approver", task.tenant, username=name, groups=groups)
    return Actor(name=person.username, door=Door.WEB, user_id=person.user_id)


def column(task_id: int, name: str) -> Any:
    """A column the record leaves out."""
    with connection.cursor() as cursor:
        cursor.execute(f"SELECT {name} FROM task WHERE id = %s", [task_id])
        return cursor.fetchone()[0]


def turn_back(task_id: int, name: str, seconds: float, *, table: str = "task") -> None:
    """Make a moment lie `seconds` in the past, as if that time had gone by."""
    key = {"task": "id", "deferred": "poll_at IS NOT NULL AND task_id"}.get(table, "task_id")
    with connection.cursor() as cursor:
        cursor.execute(
            f"UPDATE {table} SET {name} = clock_timestamp() - make_interval(secs => %s) WHERE {key} = %s",
            [seconds, task_id],
        )


def actions(task_id: int) -> list[str]:
    """The names of the task's events, oldest first."""
    return list(Event.objects.filter(task_id=task_id).order_by("id").values_list("action", flat=True))


def wake_ups() -> int:
    """Wake-up jobs that wait for a worker."""
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT count(*) FROM procrastinate_jobs"
            " WHERE status = 'todo' AND queue_name = 'taskhub' AND task_name = 'taskhub.run'"
        )
        return int(cursor.fetchone()[0])


def wait_until(condition: Callable[[], bool]) -> None:
    """Wait for what another connection brings about; fails after `BOUND` seconds."""
    end = time.monotonic() + BOUND
    while not condition():
        assert time.monotonic() < end, "it never happened"
        threading.Event().wait(0.005)


class Crew:
    """Threads that stay, each with its own connection, and start every round together."""

    def __init__(self, size: int) -> None:
        self._gate = threading.Barrier(size + 1)
        self._work: list[Callable[[], Any] | None] = [None] * size
        self._outcomes: list[Any] = [None] * size
        self._threads = [threading.Thread(target=self._run, args=(n,), name=f"crew-{n}") for n in range(size)]
        for thread in self._threads:
            thread.start()

    def race(self, *work: Callable[[], T]) -> list[T]:
        """Run all at once; what each returned, or the exception it raised."""
        assert len(work) == len(self._threads)
        self._work[:] = work
        self._gate.wait(BOUND)
        self._gate.wait(BOUND)
        return list(self._outcomes)

    def close(self) -> None:
        self._work[:] = [None] * len(self._threads)
        self._gate.wait(BOUND)
        for thread in self._threads:
            thread.join(BOUND)

    def _run(self, n: int) -> None:
        connection.ensure_connection()
        while True:
            self._gate.wait(60)
            work = self._work[n]
            if work is None:
                break
            try:
                self._outcomes[n] = work()
            except Exception as error:  # noqa: BLE001 - an outcome like any other
                self._outcomes[n] = error
            self._gate.wait(BOUND)
        connection.close()


def count_rows(sql: str, params: Sequence[Any] = ()) -> int:
    with connection.cursor() as cursor:
        cursor.execute(sql, params)
        return int(cursor.fetchone()[0])


@contextmanager
def superuser_past_the_guards() -> Iterator[psycopg.Connection[Any]]:
    """What only a superuser can do: statements that no trigger sees."""
    with superuser() as raw:
        raw.execute("SET session_replication_role = replica")
        yield raw

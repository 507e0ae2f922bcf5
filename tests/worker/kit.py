"""What the worker's tests share: an engine in a thread of its own, and somebody who calls tools."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from typing import Any, Final

import psycopg
from django.db import connection

from taskhub.core.records import TaskRecord
from taskhub.core.states import State
from taskhub.domain.catalogue.view import tool_by_id
from taskhub.lib.lanes import Lanes
from taskhub.lib.loops import run as run_loop
from taskhub.store.models import Attempt, Server, Tool
from taskhub.upstream.pool import ABLE, Pool
from taskhub.upstream.target import Target
from taskhub.worker.engine import Engine
from tests import factories
from tests.domain import kit
from tests.domain.kit import World
from tests.store.flushing import superuser
from tests.support import hub
from tests.upstream.kit import WORKSHOP

BOUND: Final = 15.0
ENDED: Final = (State.FINISHED, State.FAULTED, State.CANCELLED)


wait_until = partial(hub.wait_until, seconds=BOUND)


class Hall:
    """One tenant with a client; its servers; a worker."""

    def __init__(self) -> None:
        self.context = factories.make_context(factories.make_tenant())
        self.engine: Engine | None = None
        self._thread: threading.Thread | None = None
        self._failed: list[BaseException] = []

    # The worker

    def start(self, *, slots: int = 8) -> Engine:
        """A worker that is connected to every server there is."""
        ready = threading.Event()
        self.engine = engine = Engine(slots=slots)

        async def work() -> None:
            self._loop = asyncio.get_running_loop()
            self._loop.call_soon(ready.set)
            await engine.run()

        def run() -> None:
            try:
                run_loop(work())
            except BaseException as error:  # noqa: BLE001 - told to the test
                self._failed.append(error)

        self._thread = threading.Thread(target=run, name="engine")
        self._thread.start()
        assert ready.wait(BOUND)
        wait_until(
            lambda: not Server.objects.filter(enabled=True, state="unknown").exists(), "a first look at every server"
        )
        return engine

    def ask_to_stop(self) -> None:
        """What SIGTERM does."""
        assert self.engine is not None
        self._loop.call_soon_threadsafe(self.engine.stop)

    def stop(self) -> None:
        """Stop the worker and prove that it has ended well."""
        if self._thread is None:
            return
        thread, self._thread = self._thread, None
        if thread.is_alive():
            self.ask_to_stop()
        thread.join(BOUND)
        assert not thread.is_alive(), "the worker does not stop"
        assert self._failed == []

    @contextmanager
    def borrowed(self, pool: Pool) -> Iterator[None]:
        """Hold a connection of this server, as long as the block lasts."""
        taken, left = threading.Event(), asyncio.Event()

        async def hold() -> None:
            async with pool.borrow(ABLE, self.context.pk):
                taken.set()
                await left.wait()

        held = asyncio.run_coroutine_threadsafe(hold(), self._loop)
        try:
            assert taken.wait(BOUND)
            yield
        finally:
            self._loop.call_soon_threadsafe(left.set)
            held.result(BOUND)

    def break_connections(self) -> None:
        """End every session that the worker itself has with the database."""
        assert self.engine is not None
        pids = [
            pid for lanes, size in ((self.engine.lanes, 4), (self.engine.pulse, 1)) for pid in self._pids(lanes, size)
        ]
        with superuser(autocommit=True) as raw:
            ended = raw.execute(
                "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity"
                " WHERE pid = ANY (%s) OR (application_name = 'taskhub-hints' AND datname = current_database())",
                (pids,),
            ).fetchone()
        assert ended == (6,)

    def _pids(self, lanes: Lanes, size: int) -> list[int]:
        together = threading.Barrier(size)

        def own() -> int:
            together.wait(BOUND)  # so that each lane takes one
            with connection.cursor() as cursor:
                cursor.execute("SELECT pg_backend_pid()")
                return int(cursor.fetchone()[0])

        waiting = [asyncio.run_coroutine_threadsafe(lanes.run(own), self._loop) for _ in range(size)]
        return [found.result(BOUND) for found in waiting]

    # Servers and calls

    def server(self, target: Target = WORKSHOP, **fields: Any) -> Server:
        """A server nobody has looked at yet."""
        name = f"server-{Server.objects.count() + 1}"
        given = {"transport": target.transport, "target": target.target, "state": "unknown", **fields}
        return Server.objects.create(tenant=self.context.tenant, name=name, prefix=f"{name}_", **given)

    def tool(self, server: Server, name: str, *, asks: Mapping[str, Any] | None = None, **policy: Any) -> World:
        """The client and a tool it may call, whether or not anybody has listed it yet. With `asks` a rule asks about
        its calls."""
        row = Tool.objects.filter(server=server, name=name).first()
        if row is None:
            exposed = server.prefix + name
            return World(self.context, factories.make_tool(server, name, asks=asks, exposed_name=exposed, **policy))
        Tool.objects.filter(pk=row.pk).update(**policy, definition=row.definition)
        found = tool_by_id(row.pk)
        assert found is not None
        if asks is not None:
            factories.add_rules(server.tenant_id, factories.asking_about(found, **asks))
        return World(self.context, found)


def call(world: World, **arguments: Any) -> int:
    """Call the tool; the task's internal id."""
    return kit.create(world, arguments=arguments).id


def ended(task_id: int) -> TaskRecord:
    """The task once it has come to an end."""

    def look() -> TaskRecord | None:
        task = kit.look(task_id)
        return task if task.state in ENDED else None

    return wait_until(look, f"the end of {kit.look(task_id)}")


def in_state(task_id: int, state: State) -> TaskRecord:
    """The task once it is in that state."""

    def look() -> TaskRecord | None:
        task = kit.look(task_id)
        return task if task.state is state else None

    return wait_until(look, f"{state}, not {kit.look(task_id)}")


def attempts(task_id: int) -> list[str]:
    """How its runs ended, oldest first; the one that still runs is empty."""
    return list(Attempt.objects.filter(task_id=task_id).order_by("number").values_list("outcome", flat=True))


class Ear:
    """Hears the hints of the database."""

    def __init__(self, raw: psycopg.Connection[Any]) -> None:
        self._raw = raw
        self._heard: list[str] = []

    def about(self, task_id: int, word: str) -> int:
        """How many hints of that kind named the task so far."""
        for notify in self._raw.notifies(timeout=0.02):
            self._heard += notify.payload.split(";")
        parts = [hint.split(" ") for hint in self._heard]
        return sum(part[0] == word and part[3:4] == [str(task_id)] for part in parts)


@contextmanager
def listening() -> Iterator[Ear]:
    with superuser(autocommit=True) as raw:
        raw.execute("LISTEN taskhub")
        yield Ear(raw)


def hint(word: str) -> None:
    """Tell the workers: `w` to claim, `c` to read the table of servers again."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_notify('taskhub', %s)", [word])

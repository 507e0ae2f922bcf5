"""Each step of a task reads the task's own rows, however many other tasks there are, and whatever the statistics said
when a connection made its plans, which it keeps."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from django.db import connection

from taskhub.core.records import LogLine
from taskhub.domain.tasks import run
from taskhub.domain.tasks.cancel import request_cancel
from taskhub.domain.tasks.create import forget_counts
from tests.domain import kit
from tests.domain.kit import World
from tests.factories import WORKER, make_question
from tests.store.touched import rows_looked_at

FEW, OTHERS = 200, 3_000
TABLES = ("task", "attempt", "question", "decision", "deferred")
MOST = {"claim": 80}
"""Rows of one table that a step may look at, of two tasks; 30 if it is not named here. A claim looks more than once at
what is queued and at what runs."""


def _crowd(world: World, name: str, count: int) -> None:
    """Tasks that ran and ended, and tasks that wait for an answer, each with its attempt and its question."""
    with kit.superuser_past_the_guards() as raw:
        columns = "tenant_id, context_id, tool_id, tool_name, revision, arguments, arguments_digest, lease_epoch"
        # Another client's at first, and those that have not ended stay so: how many live tasks a client has is counted
        # once a second, by looking at them and at what the index of live tasks keeps of those that ended just now.
        raw.execute(
            f"INSERT INTO task (public_id, state, {columns})"
            " SELECT %s || '-' || n, 'input_required', tenant_id, %s, tool_id, tool_name, revision, arguments,"
            "        sha256(n::text::bytea), 1"
            " FROM generate_series(1, %s) n, (SELECT * FROM task WHERE context_id = %s ORDER BY id LIMIT 1) t",
            (name, kit.another_client(world).context.pk, count, world.context.pk),
        )
        # Changed and not made so, because an index of live tasks keeps entries of those that ended.
        raw.execute(
            "UPDATE task SET state = 'finished', ended_at = now(), result = '{}'"
            " WHERE public_id LIKE %s AND id %% 3 > 0",
            (f"{name}-%",),
        )
        raw.execute(
            "UPDATE task SET context_id = %s WHERE public_id LIKE %s AND ended_at IS NOT NULL",
            (world.context.pk, f"{name}-%"),
        )
        raw.execute(
            "INSERT INTO attempt (task_id, number, worker, outcome, ended_at)"
            " SELECT id, 1, 'w', 'finished', now() FROM task WHERE public_id LIKE %s",
            (f"{name}-%",),
        )
        raw.execute(
            "INSERT INTO question (task_id, tenant_id, key, kind, params, audience, state, response, closed_at)"
            " SELECT id, tenant_id, 'q', 'elicitation', '{}', 'operator',"
            "        CASE WHEN ended_at IS NULL THEN 'open' ELSE 'answered' END,"
            "        CASE WHEN ended_at IS NOT NULL THEN '{}' END, ended_at"
            " FROM task WHERE public_id LIKE %s",
            (f"{name}-%",),
        )
        raw.execute("SELECT setval('task_id_seq', (SELECT max(id) FROM task))")


def _steps(world: World) -> dict[str, Callable[[], object]]:
    """What happens to tasks from their call to their end, in two of each kind, in this order."""
    held: list[run.Claimed] = []

    def claim() -> None:
        held.append(
            run.claim_tasks(worker="w1", limit=2, lease_seconds=60, per_context=1_000, share=1_000, actor=WORKER)
        )
        assert len(held[-1].tasks) == 2

    def each(work: Callable[[run.Claim], object]) -> None:
        for task in held[-1].tasks:
            assert work(task)

    def finish() -> None:
        assert run.finish_tasks([run.Result(task, kit.FINAL) for task in held[-1].tasks], actor=WORKER) == [True, True]

    def settle(task: run.Claim) -> bool:
        request_cancel(task.task_id, actor=world.actor)
        return run.settle_cancel(task, message="Stopped", actor=WORKER)

    def create(**fields: Any) -> None:
        for _ in range(2):
            kit.create(world, **fields)

    def join() -> None:
        """A plain call, an equal one, which joins it, and another."""
        texts = [str(len(held)), str(len(held)), "another"]
        made = [kit.create(world, arguments={"text": text}, join_seconds=300, waiter="web-1.1") for text in texts]
        assert len({task.id for task in made}) == 2

    def renew() -> None:
        leases = [(task.task_id, task.epoch) for task in held[-1].tasks]
        assert len(run.renew_leases(worker="w1", held=leases, lease_seconds=60)) == 2

    return {
        "create": create,
        "claim": claim,
        "renew": renew,
        "note": lambda: each(lambda task: run.note(task, [LogLine("info", "line")])),
        "ask": lambda: each(lambda task: kit.ask(task, make_question(), live=True)),
        "finish": finish,
        "create, to fail": create,
        "claim, to fail": claim,
        "fault": lambda: each(kit.fault),
        "create or join": join,
        "claim, to be cancelled": claim,
        "settle a cancellation": lambda: each(settle),
        "create, to be released": create,
        "claim, to be released": claim,
        "release": lambda: each(
            lambda task: run.release(task, started=False, delay_seconds=0, reason="Away", actor=WORKER)
        ),
        "claim, to be lost": claim,
        "lose": lambda: each(lambda task: run.lose(task, told="Lost", actor=WORKER)),
    }


def _with_its_checks(work: Callable[[], object]) -> Callable[[], None]:
    """The work, and the checks that the database makes when it is committed."""

    def done() -> None:
        work()
        with connection.cursor() as cursor:
            cursor.execute("SET CONSTRAINTS ALL IMMEDIATE")

    return done


@pytest.mark.parametrize("counted", ["never", "while there were few tasks", "with all of them"])
def test_a_step_of_a_task_reads_no_rows_of_others(world: World, counted: str) -> None:
    connection.close()
    _forget_counts()
    with connection.cursor() as cursor:
        cursor.execute("SET plan_cache_mode = force_generic_plan")
    kit.create(world)
    kit.finish(kit.claim_one())
    _crowd(world, "few", FEW)
    for work in _steps(world).values():
        work()
    if counted == "while there were few tasks":
        _analyze()
    _crowd(world, "others", OTHERS)
    if counted == "with all of them":
        _analyze()
    looked = {}
    for name, work in _steps(world).items():
        most = MOST.get(name.partition(",")[0], 30)
        forget_counts()  # so that each creation counts the client's live tasks, which it else does once a second
        found = _looked(_with_its_checks(work))
        looked.update({(name, table): rows for table, rows in found.items() if rows > most})
    connection.close()
    assert looked == {}


def _looked(work: Callable[[], object]) -> dict[str, int]:
    """Rows that the work looked at, by table."""
    found: dict[str, int] = {}

    def within(tables: tuple[str, ...]) -> None:
        if not tables:
            work()
            return
        found[tables[0]] = rows_looked_at(tables[0], lambda: within(tables[1:]))

    within(TABLES)
    return found


def _forget_counts() -> None:
    """As before the first ANALYZE: what earlier tests have counted, perhaps of no rows, stays when their rows go."""
    with kit.superuser_past_the_guards() as raw:
        raw.execute(
            "DELETE FROM pg_statistic s USING pg_class c"
            " WHERE c.oid = s.starelid AND c.relnamespace = 'public'::regnamespace"
        )
        raw.execute(
            "UPDATE pg_class SET reltuples = -1, relpages = 0 WHERE relnamespace = 'public'::regnamespace"
            " AND relkind IN ('r', 'i')"
        )


def _analyze() -> None:
    """Count what there is, as autovacuum does at some moment of its own."""
    with connection.cursor() as cursor:
        cursor.execute("ANALYZE task, attempt, question, decision, deferred, tool, auth_context")

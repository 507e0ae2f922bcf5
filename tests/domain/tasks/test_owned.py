"""What a client reads of its tasks: many at once, in the order asked for, and nothing that is not its own."""

from __future__ import annotations

import random
import time
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.db import connection, transaction
from psycopg.errors import UndefinedColumn

from taskhub.core.errors import Unavailable
from taskhub.core.records import LogLine
from taskhub.core.states import State
from taskhub.domain.tasks import run
from taskhub.domain.tasks.detail import task_detail
from taskhub.domain.tasks.reads import PAGE, lines_after, owned_task, owned_tasks, task_by_id
from taskhub.store import call
from taskhub.store.models import AuthContext, Task
from tests.domain.cost import statements
from tests.factories import (
    WORKER,
    claim_task,
    make_context,
    make_question,
    make_server,
    make_task,
    make_tenant,
    make_tool,
)
from tests.store import raw as sql


@pytest.fixture
def context(db: None) -> AuthContext:
    return make_context(make_tenant())


def expire(task_id: int, *, ago: float) -> None:
    Task.objects.filter(pk=task_id).update(expires_at=datetime.now(UTC) - timedelta(seconds=ago))


def test_answers_stand_in_the_order_of_the_questions_whatever_that_is(context: AuthContext) -> None:
    other = make_context(context.tenant)
    tool = make_tool(make_server(context.tenant))
    mine = [make_task(context, tool) for _ in range(8)]
    theirs = [make_task(other, tool) for _ in range(4)]
    pairs = [(context.pk, task.public_id) for task in mine] + [(other.pk, task.public_id) for task in theirs]
    answers = dict(zip(pairs, [task.public_id for task in mine + theirs], strict=True))
    dice = random.Random(3)
    for _ in range(5):
        wanted = dice.choices(pairs, k=20)  # some more than once
        found = owned_tasks(wanted)
        assert [task.public_id if task else None for task in found] == [answers[pair] for pair in wanted]


def test_foreign_unknown_and_expired_ids_are_holes_in_the_answer(context: AuthContext) -> None:
    tool = make_tool(make_server(context.tenant))
    stranger = make_context(make_tenant())
    fresh, old = make_task(context, tool, state="finished"), make_task(context, tool, state="finished")
    late = make_task(context, tool, state="faulted")
    live = make_task(context, tool)
    expire(old.id, ago=1)
    expire(late.id, ago=0.001)
    expire(live.id, ago=3_600)
    foreign = make_task(stranger)
    wanted = [
        (context.pk, foreign.public_id),
        (context.pk, old.public_id),
        (context.pk, fresh.public_id),
        (stranger.pk, fresh.public_id),
        (context.pk, late.public_id),
        (context.pk, ""),
        (context.pk, "%"),
        (context.pk, live.public_id),
        (context.pk, fresh.public_id[:-1]),
        (0, live.public_id),
    ]
    assert [task.id if task else None for task in owned_tasks(wanted)] == [
        None, None, fresh.id, None, None, None, None, live.id, None, None,
    ]  # fmt: skip
    assert owned_tasks(wanted) == [owned_task(*pair) for pair in wanted]


def test_a_task_that_never_expires_and_one_whose_hour_is_not_over_are_there(context: AuthContext) -> None:
    tool = make_tool(make_server(context.tenant))
    kept = make_task(context, tool, state="finished", ttl_ms=None)
    soon = make_task(context, tool, state="finished")
    expire(soon.id, ago=-5)
    assert [task is not None for task in owned_tasks([(context.pk, t.public_id) for t in (kept, soon)])] == [True, True]


def test_many_are_read_in_one_statement_whatever_state_they_are_in(context: AuthContext) -> None:
    tool = make_tool(make_server(context.tenant))
    states = ("queued", "working", "input_required", "finished", "finished-error", "faulted", "cancelled")
    made = [make_task(context, tool, state=state) for state in states]
    wanted = [(context.pk, task.public_id) for task in made]
    assert statements(lambda: owned_tasks(wanted)) == 1
    assert owned_tasks(wanted) == made
    assert [task.state for task in made[:3]] == [State.QUEUED, State.WORKING, State.INPUT_REQUIRED]
    assert [len(task.questions) for task in made] == [0, 0, 1, 0, 0, 0, 0]


def test_all_open_questions_of_a_task_come_with_it_in_order(context: AuthContext) -> None:
    task = make_task(context)
    asked = [make_question(key=key) for key in ("b", "a", "c")]
    run.ask(claim_task(task), asked, upstream_state=None, message="m", live=False, actor=WORKER)
    (found,) = owned_tasks([(context.pk, task.public_id)])
    assert found is not None
    assert [(q.key, q.kind, q.params) for q in found.questions] == [(q.key, q.kind, q.params) for q in asked]


def test_the_console_reads_a_task_by_its_tenant_also_when_its_client_cannot(context: AuthContext) -> None:
    task = make_task(context, state="finished")
    expire(task.id, ago=1)
    assert owned_task(context.pk, task.public_id) is None
    kept = task_detail(context.tenant_id, task.public_id)
    assert kept is not None
    assert kept.task == task_by_id(task.id)
    assert task_detail(make_tenant().pk, task.public_id) is None


def test_log_lines_are_read_on_from_the_last_one_seen(context: AuthContext) -> None:
    task, other = make_task(context), make_task(context)
    for of, words in ((task, "mine"), (other, "theirs")):
        run.note(claim_task(of), [LogLine("info", f"{words} {n}") for n in range(PAGE + 5)])
    first = lines_after(task.id, 0)
    rest = lines_after(task.id, first[-1].id)
    assert [line.text for line in (*first, *rest)] == [f"mine {n}" for n in range(PAGE + 5)]
    assert (len(first), len(rest)) == (PAGE, 5)
    assert lines_after(task.id, rest[-1].id) == []
    assert [line.text for line in lines_after(task.id, 0, 2)] == ["mine 0", "mine 1"]


# --- the database goes away


def kill_my_connection() -> None:
    connection.ensure_connection()
    with sql.connect(autocommit=True) as other:
        other.execute("SELECT pg_terminate_backend(%s)", (connection.connection.info.backend_pid,))


def test_a_reader_does_not_notice_that_its_connection_was_lost(transactional_db: None) -> None:
    context = make_context(make_tenant())
    task = make_task(context)
    kill_my_connection()
    assert owned_tasks([(context.pk, task.public_id)]) == [task]
    kill_my_connection()
    assert lines_after(task.id, 0) == []


def test_within_a_transaction_a_lost_connection_is_told_and_not_papered_over(transactional_db: None) -> None:
    """Read again on another connection, the first half of the transaction would silently be missing."""

    def half() -> None:
        with transaction.atomic():
            kill_my_connection()
            task_by_id(1)

    with pytest.raises(Unavailable, match="away"):
        half()
    assert task_by_id(1) is None


def ask(sql: str, *, again: bool = False) -> list[tuple[Any, ...]]:
    return call.run(sql.encode(), (), lambda cursor: cursor.fetchall(), again=again, prepare=False)


def test_what_takes_too_long_is_not_tried_again(transactional_db: None) -> None:
    ask("SELECT set_config('statement_timeout', '1s', false)")
    began = time.monotonic()
    with pytest.raises(Unavailable, match="busy"):
        ask("SELECT pg_sleep(10)", again=True)
    assert time.monotonic() - began < 1.9, "twice takes two seconds"
    connection.close()


@pytest.mark.parametrize("again", [True, False])
def test_a_broken_statement_is_not_taken_for_an_absent_database(transactional_db: None, again: bool) -> None:
    with pytest.raises(UndefinedColumn, match="nonsense"):
        ask("SELECT nonsense", again=again)

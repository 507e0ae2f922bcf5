"""In a hub with a history of every kind, what is done again and again looks at what it is about and at nothing else.

Counted are the rows that Postgres looks at, as in `test_long_history`; the history has questions, failures and many
clients, which that one has not.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import pytest

from taskhub.domain.audit.reads import WINDOW, EventFilter, event_page
from taskhub.domain.clients.principals import default_tenant
from taskhub.domain.seeding.history import DAYS, seed_history
from taskhub.domain.tasks import run
from taskhub.domain.tasks.listing import TEXT_WINDOW, TaskFilter, tab_counts, task_list, task_page
from taskhub.domain.tasks.stats import day
from taskhub.domain.tasks.sweep import sweep
from taskhub.store.models import AuthContext, Event, Question, Server, Task
from tests.factories import WORKER, make_context, make_server, make_task, make_tenant, make_tool
from tests.store.flushing import superuser
from tests.store.touched import rows_looked_at

pytestmark = [pytest.mark.long, pytest.mark.django_db(transaction=True)]

TASKS = 20_000


def claim_and_release() -> None:
    """Two tasks, and given back."""
    taken = run.claim_tasks(worker="w", limit=2, lease_seconds=60, per_context=1_000, actor=WORKER)
    assert len(taken.tasks) == 2
    for task in taken.tasks:
        run.release(task, started=False, delay_seconds=0, reason="", actor=WORKER)


def test_each_looks_at_its_own_rows_and_at_no_others() -> None:
    home = int(default_tenant().pk)
    seed_history(home, TASKS, report=lambda done, events: None)
    Server.objects.update(enabled=True)  # calls of disabled servers are not claimed
    context = AuthContext.objects.order_by("-id")[0].pk
    own = Task.objects.filter(context_id=context).count()
    assert TEXT_WINDOW < TASKS / 3
    assert Event.objects.count() / 3 > WINDOW
    hour = TASKS // (DAYS * 24)
    assert Question.objects.count() > TASKS // 50
    works: dict[str, tuple[Callable[[], object], str, int]] = {
        "a claim: questions of its tasks": (claim_and_release, "question", 10),
        "the overview's day": (partial(day, home), "task", hour + 100),
        "a text that stands nowhere": (partial(task_list, home, TaskFilter(text="zebra")), "task", TEXT_WINDOW + 100),
        "the same in the log": (partial(event_page, home, EventFilter(text="zebra")), "event", 2 * WINDOW + 100),
        "the tabs of a client": (lambda: tab_counts(home, TaskFilter(context_id=context)), "task", own + 200),
        **{
            f"the list of a client, {tab}": (
                partial(task_page, home, TaskFilter(tab=tab, context_id=context)),
                "task",
                60,
            )
            for tab in ("", "finished", "error", "faulted", "cancelled")
        },
    }
    for work, _, _ in works.values():
        for _ in range(6):
            work()  # from the sixth time on Postgres may plan a statement without its values
    looked = {name: rows_looked_at(table, work) for name, (work, table, _) in works.items()}
    assert {name: rows for name, rows in looked.items() if rows > works[name][2]} == {}


def test_a_sweep_looks_at_what_has_expired_and_not_at_the_whole_queue() -> None:
    context, tool = make_context(make_tenant()), make_tool(make_server(make_tenant()))
    task = make_task(context, tool)
    with superuser(autocommit=True) as raw:
        raw.execute("SET session_replication_role = replica")
        raw.execute(_QUEUE, [task.id])
        raw.execute("ANALYZE task")
    for _ in range(6):
        assert sweep() == 0
    assert rows_looked_at("task", sweep) <= 20
    with superuser(autocommit=True) as raw:
        raw.execute("SET session_replication_role = replica")
        raw.execute("UPDATE task SET expires_at = now() - interval '1 second' WHERE public_id IN ('q7', 'q8')")
    assert sweep() == 2
    assert Task.objects.filter(state="faulted").count() == 2


def test_a_sweep_of_a_lost_worker_reads_its_tasks_only() -> None:
    context, tool = make_context(make_tenant()), make_tool(make_server(make_tenant()))
    held = [make_task(context, tool, state="working") for _ in range(3)]
    with superuser(autocommit=True) as raw:
        raw.execute("SET session_replication_role = replica")
        raw.execute(_QUEUE, [held[0].id])
        raw.execute("UPDATE task SET lease_until = now() - interval '1 second' WHERE state = 'working'")
        raw.execute("ANALYZE task")
    swept: list[int] = []
    assert rows_looked_at("task", lambda: swept.append(sweep())) <= 200
    assert swept == [3]


# Older than every other task.
_QUEUE = """
    INSERT INTO task (id, public_id, tenant_id, context_id, tool_id, tool_name, revision, arguments, arguments_digest,
                      ttl_ms, expires_at, runnable_at)
    SELECT -n, 'q' || n, tenant_id, context_id, tool_id, tool_name, revision, arguments, arguments_digest, 86400000,
           now() + interval '1 day', now()
    FROM task, generate_series(1, 5000) n WHERE id = %s
"""

"""`seed --tasks`: a made-up history is what a month of calls would have left, down to its seals."""

from __future__ import annotations

from collections import Counter
from datetime import UTC, datetime, timedelta

import pytest
from django.core.management.base import CommandError
from django.db import connection

from taskhub.domain.audit.verify import verify_audit
from taskhub.domain.clients.principals import default_tenant
from taskhub.domain.seeding import history as seeding
from taskhub.domain.tasks.sweep import sweep
from taskhub.store.models import Attempt, AuthContext, Decision, Event, Question, Server, Task, TaskLog
from tests.cli.shell import run
from tests.domain import kit
from tests.store import raw as sql

pytestmark = pytest.mark.django_db(transaction=True)

TASKS = 3_000


def count(query: str) -> int:
    with connection.cursor() as cursor:
        cursor.execute(query)
        return int(cursor.fetchone()[0])


def test_a_made_up_history_is_as_a_month_of_calls_would_have_left_it() -> None:
    code, out, _ = run("seed", "--tasks", str(TASKS))
    assert code == 0
    assert out.startswith(f"{TASKS:,} tasks and ")

    states = Counter(Task.objects.values_list("state", flat=True))
    assert sum(states.values()) == TASKS
    assert [states[live] for live in ("queued", "working", "input_required")] == [seeding.LIVE // 3] * 3
    assert 0.9 < states["finished"] / TASKS < 0.98
    assert 0.01 < states["faulted"] / TASKS < 0.04
    assert 0.01 < states["cancelled"] / TASKS < 0.04
    assert 0.03 < Task.objects.filter(is_error=True).count() / TASKS < 0.07

    clients = Counter(Task.objects.values_list("context__name", flat=True))
    assert len(clients) == len(seeding.CLIENTS)
    assert 0.25 < clients[f"{seeding.MADE_UP}{seeding.CLIENTS[0]}"] / TASKS < 0.35
    assert Task.objects.values("tool_id").distinct().count() == sum(map(len, seeding.TOOLS.values()))
    assert Task.objects.values("message").distinct().count() > TASKS // 2
    assert not Server.objects.filter(enabled=True).exists(), "no worker could connect to them"

    now = datetime.now(UTC)
    made = list(Task.objects.order_by("id").values_list("created_at", flat=True))
    assert made == sorted(made)
    assert timedelta(days=29) < now - made[0] < timedelta(days=31)
    assert now - made[-1] < timedelta(hours=1)
    assert sweep() == 0, "nothing has expired, and no lease ran out"


def test_its_events_attempts_and_answers_fit_its_tasks() -> None:
    run("seed", "--tasks", str(TASKS))
    # Every version of a task has left one event, the last of which tells its state.
    assert count("SELECT count(*) FROM task") == TASKS
    assert (
        count(
            "SELECT count(*) FROM task t WHERE t.version <> (SELECT count(*) FROM event e WHERE e.task_id = t.id"
            " AND e.task_version IS NOT NULL AND e.action LIKE 'task.%')"
        )
        == 0
    )
    assert (
        count(
            "SELECT count(*) FROM task t JOIN event e ON e.task_id = t.id AND e.task_version = t.version"
            " WHERE e.after ->> 'state' <> t.state OR (e.after ->> 'epoch')::int <> t.lease_epoch"
        )
        == 0
    )
    # Each event goes on from the state that the one before had led to.
    assert (
        count(
            "SELECT count(*) FROM (SELECT before ->> 'state' AS was, lag(after ->> 'state') OVER w AS led FROM event"
            " WHERE task_version IS NOT NULL WINDOW w AS (PARTITION BY task_id ORDER BY id)) e WHERE was <> led"
        )
        == 0
    )
    assert count("SELECT count(*) FROM (SELECT at < lag(at) OVER (ORDER BY id) - interval '10 minutes' AS back"
                 " FROM event WHERE task_id IS NOT NULL) e WHERE back") == 0  # fmt: skip
    assert count("SELECT count(*) FROM event WHERE at > clock_timestamp()") == 0
    assert (
        count(
            "SELECT count(*) FROM task t WHERE t.lease_epoch <> (SELECT count(*) FROM attempt a WHERE a.task_id = t.id)"
        )
        == 0
    )
    assert Attempt.objects.filter(ended_at=None).count() == Task.objects.filter(state="working").count()
    assert TaskLog.objects.count() > TASKS // 2
    asked = Counter(Question.objects.values_list("kind", flat=True))
    assert asked.keys() == {"approval", "elicitation"}
    assert Question.objects.filter(state="answered").count() == Decision.objects.count() > TASKS // 50
    assert Event.objects.filter(action__in=["question.approve", "question.accept"]).count() == Decision.objects.count()


def test_its_audit_log_is_sealed_and_intact_and_a_second_run_adds() -> None:
    run("seed", "--tasks", str(TASKS))
    first = verify_audit()
    assert (first.problem, first.unsealed) == ("", 0)
    assert first.events == Event.objects.count()
    assert first.seals >= TASKS // seeding.CHUNK
    newest = Task.objects.order_by("-id").values_list("created_at", flat=True)[0]

    run("seed", "--tasks", "500")
    assert Task.objects.count() == TASKS + 500
    assert AuthContext.objects.count() == len(seeding.CLIENTS)
    assert Server.objects.count() == len(seeding.TOOLS)
    assert Task.objects.order_by("id").values_list("created_at", flat=True)[TASKS] >= newest
    second = verify_audit()
    assert (second.problem, second.unsealed) == ("", 0)
    assert second.events == Event.objects.count() > first.events
    assert run("audit", "verify")[0] == 0


def test_the_guards_are_on_again_afterwards() -> None:
    run("seed", "--tasks", "20")
    task = Task.objects.filter(state="finished")[0]
    with sql.connect() as raw, sql.refused("TH002"):
        raw.execute("UPDATE task SET state = 'queued' WHERE id = %s", [task.pk])
    assert count("SELECT count(*) FROM pg_trigger WHERE NOT tgisinternal AND tgenabled <> 'O'") == 0


def test_a_hub_that_somebody_uses_is_refused_and_stays_as_it_is() -> None:
    context = kit.factories.make_context(default_tenant(), "mia's agent")
    kit.factories.make_task(context)
    before = (Task.objects.count(), Event.objects.count())
    with pytest.raises(CommandError, match="tasks of its own, of the client mia's agent"):
        run("seed", "--tasks", "20")
    assert (Task.objects.count(), Event.objects.count()) == before


@pytest.mark.parametrize("given", ["0", "-1", "many", "10000001"])
def test_a_number_that_is_none_is_refused(given: str) -> None:
    with pytest.raises(CommandError, match=r"expected a number from 1 to 10,000,000"):
        run("seed", "--tasks", given)


def test_whoever_waits_for_it_is_told_how_far_it_is() -> None:
    told: list[tuple[int, int]] = []
    tasks = seeding.CHUNK + 100
    done, events = seeding.seed_history(default_tenant().pk, tasks, report=lambda *found: told.append(found))
    assert [count for count, _ in told] == [seeding.CHUNK, tasks - seeding.LIVE, tasks]
    assert told[-1] == (done, events) == (tasks, Event.objects.filter(task_id__isnull=False).count())

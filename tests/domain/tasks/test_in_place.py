"""Calls that a web process runs in place: they are born with its lease, if a worker could claim them at once."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import pytest
from django.db import DatabaseError, connection, transaction
from django.utils import timezone

from taskhub.core.records import Actor, Claim, Created, Place
from taskhub.core.states import Door, State
from taskhub.domain.tasks import run
from taskhub.domain.tasks.create import create_task, create_tasks
from taskhub.domain.tasks.sweep import sweep
from taskhub.domain.workers.writes import heartbeat
from taskhub.store.models import Attempt, AuthContext, Event, Server, Task, Tool, UpstreamSession
from tests import factories
from tests.domain import kit
from tests.domain.kit import World
from tests.domain.tasks.mutants import Mutant, cut
from tests.domain.tasks.test_decided_again import ALLOW, save
from tests.domain.tasks.test_fair_claims import analyze, heap_up
from tests.store.touched import rows_looked_at

pytestmark = pytest.mark.django_db

WEB = "web:1"
WEB_ACTOR = Actor(name=WEB, door=Door.WORKER)


def made(world: World, *, share: int = 10, **fields: Any) -> Created:
    return create_task(kit.new_task(world, place=Place(WEB, share), **fields), world.actor)


def claim_of(world: World, created: Created) -> Claim:
    """The claim as the web process makes it."""
    tool, task = world.tool, created.task
    return Claim(
        task_id=task.id,
        public_id=task.public_id,
        epoch=1,
        tenant_id=world.context.tenant_id,
        context_id=world.context.pk,
        server_id=tool.server_id,
        server_name=tool.server_name,
        tool_id=tool.id,
        tool_name=tool.name,
        arguments={"text": "hello"},
        answers=None,
        upstream_state=None,
        client_capabilities={},
        trace={},
        question_audience=None,
        run_seconds=tool.run_seconds,
    )


def test_a_call_with_a_place_is_born_with_its_lease_and_no_worker_is_woken(world: World) -> None:
    created = made(world)
    assert created.in_place
    assert created.task.state is State.WORKING
    row = Task.objects.get(pk=created.task.id)
    assert (row.state, row.worker, row.lease_epoch) == ("working", WEB, 1)
    assert row.lease_until is not None
    assert row.lease_until > timezone.now()
    assert Attempt.objects.values_list("number", "worker", "ended_at").get(task=row) == (1, WEB, None)
    with connection.cursor() as cursor:
        cursor.execute("SELECT count(*) FROM procrastinate_jobs WHERE status = 'todo' AND task_name = 'taskhub.run'")
        assert cursor.fetchone() == (0,)
    assert kit.claim(limit=50) == []
    assert run.finish(claim_of(world, created), kit.FINAL, actor=WEB_ACTOR)
    assert kit.look(row.pk).state is State.FINISHED
    events = list(Event.objects.filter(task_id=row.pk).order_by("id").values_list("action", "actor", "after__state"))
    assert events == [("task.created", world.context.name, "working"), ("task.finished", WEB, "finished")]


def test_a_call_without_a_place_goes_through_the_queue(world: World) -> None:
    created = create_task(kit.new_task(world), world.actor)
    assert not created.in_place
    assert created.task.state is State.QUEUED
    assert [claim.task_id for claim in kit.claim(limit=50)] == [created.task.id]


# ------------------------------------------------------------------ what a worker would not claim


def server(**fields: Any) -> Callable[[World], object]:
    return lambda world: Server.objects.filter(pk=world.tool.server_id).update(**fields)


def tool(**fields: Any) -> Callable[[World], object]:
    return lambda world: Tool.objects.filter(pk=world.tool.id).update(**fields)


def waits_at_the_server(world: World) -> None:
    kit.create(kit.another_client(world))


def many_wait_elsewhere(world: World) -> None:
    other = World(world.context, factories.make_tool(factories.make_server(world.context.tenant)))
    for _ in range(20):
        kit.create(other)


def session_elsewhere(world: World) -> None:
    heartbeat("w2", slots=1, busy=0)
    UpstreamSession.objects.create(server_id=world.tool.server_id, context=world.context, worker="w2")


def confirmed_no_more(world: World) -> None:
    server(review=True)(world)
    tool(confirmed_digest="")(world)


@dataclass(frozen=True)
class Obstacle:
    """What stands in the way of a call's place, and the check without which it would have the place all the same."""

    happens: Callable[[World], object]
    check: Mutant
    past: tuple[Mutant, ...] = ()


def of_create(part: str, put: str = "") -> Mutant:
    return Mutant("create_tasks", part, put)


ENABLED = of_create(r"AND s\.enabled AND", "AND")
OBSTACLES = {
    "a disabled server": Obstacle(server(enabled=False), ENABLED),
    "a removed server": Obstacle(
        server(removed_at=timezone.now(), enabled=False, state="disabled"),
        Mutant("th_why_not", r"WHEN s\.removed_at.*?'server_removed'\s+WHEN", "WHEN"),
        (ENABLED,),
    ),
    "an open breaker": Obstacle(
        server(open_since=timezone.now(), retry_at=timezone.now(), failures=3), of_create(r"AND s\.open_since IS NULL")
    ),
    "a tool that is off": Obstacle(
        tool(enabled=False), Mutant("th_why_not", r"WHEN NOT o\.enabled THEN 'tool_turned_off'")
    ),
    "a rejected tool": Obstacle(
        tool(rejected="x"), Mutant("th_why_not", r"WHEN o\.rejected <> '' THEN 'tool_rejected'")
    ),
    "a tool that is gone": Obstacle(tool(gone_at=timezone.now()), of_create(r"AND o\.gone_at IS NULL")),
    "a tool that nobody has confirmed": Obstacle(confirmed_no_more, of_create(r"AND NOT th_unconfirmed\(s, o\)")),
    "a client that is locked out": Obstacle(
        lambda world: AuthContext.objects.filter(pk=world.context.pk).update(disabled_at=timezone.now()),
        Mutant("th_why_not", r"c\.disabled_at IS NULL END", "true END"),
    ),
    "rules that are newer than the verdict": Obstacle(
        lambda world: save(world, ALLOW), of_create(r"AND NOT th_to_decide\(.*?o\.digest\)")
    ),
    "a call that waits at the server": Obstacle(
        waits_at_the_server, of_create(r"AND NOT EXISTS \(SELECT FROM before b WHERE b\.server_id = s\.id\)")
    ),
    "a long queue": Obstacle(many_wait_elsewhere, of_create(r"AND \(SELECT count\(\*\) FROM before\) < look")),
    "a session in another worker": Obstacle(
        session_elsewhere, of_create(r"AND NOT EXISTS \(SELECT FROM upstream_session u.*?th_lives\(u\.worker\)\)")
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", OBSTACLES)
def test_a_call_that_a_worker_would_not_claim_at_once_has_no_place(name: str) -> None:
    obstacle = OBSTACLES[name]

    def has_place() -> bool:
        world = kit.make_world()
        new = kit.new_task(world, place=Place(WEB, 10))  # with a verdict of before
        obstacle.happens(world)
        created = create_task(new, world.actor)
        assert created.task.state is (State.WORKING if created.in_place else State.QUEUED)
        with transaction.atomic():
            Task.objects.filter(state="queued").update(state="working")  # so that the next world finds an empty queue
        return created.in_place

    with cut(*obstacle.past):
        assert not has_place()
    with cut(*obstacle.past, obstacle.check):
        assert has_place()


def test_a_call_that_a_rule_asks_about_has_no_place(world: World) -> None:
    factories.add_rules(world.context.tenant_id, factories.asking_about(world.tool))
    created = made(world)
    assert not created.in_place
    assert created.task.state is State.INPUT_REQUIRED


def test_a_queue_of_other_servers_is_in_nobodys_way(world: World) -> None:
    other = World(world.context, factories.make_tool(factories.make_server(world.context.tenant)))
    for _ in range(19):
        kit.create(other)
    assert made(world).in_place


def test_a_call_that_waits_for_its_time_is_in_nobodys_way(world: World) -> None:
    kit.create(world)
    taken = kit.claim_one()
    assert run.release(taken, started=False, delay_seconds=60, reason="later", actor=factories.WORKER)
    assert made(world).in_place


# ------------------------------------------------------------------ fairness


def test_a_client_has_its_share_of_the_places_and_the_next_call_is_queued(world: World) -> None:
    other = kit.another_client(world)
    wanted = [(kit.new_task(of, place=Place(WEB, 2)), of.actor) for of in (world, world, world, other)]
    first = [one for one in create_tasks(wanted) if isinstance(one, Created)]
    assert [one.in_place for one in first] == [True, True, False, True]
    # Now a call waits at the server, so a further call does not overtake it.
    assert not made(other).in_place
    (queued,) = kit.claim(limit=50)[:1]
    assert queued.task_id == first[2].task.id


@pytest.mark.parametrize("held_by", ["w1", WEB])
def test_tasks_that_other_workers_hold_count_against_the_limit_of_the_client(
    world: World, held_by: str, settings: Any
) -> None:
    settings.TASKHUB_CONTEXT_RUNNING = 2
    for _ in range(2):
        kit.create(world)
    assert len(kit.claim(held_by, limit=2)) == 2
    assert not made(world).in_place
    assert made(kit.another_client(world)).in_place is False  # a call of the same server waits now


def test_claims_count_calls_in_place(world: World) -> None:
    assert made(world).in_place
    kit.create(world)
    assert kit.claim(limit=5, per_context=1) == []
    assert len(kit.claim(limit=5, per_context=2)) == 1


# ------------------------------------------------------------------ the same call again, and a process that is lost


def test_a_call_with_a_known_key_finds_its_task_and_no_place(world: World) -> None:
    first = made(world, idempotency_key="k")
    again = made(world, idempotency_key="k")
    assert first.in_place
    assert (again.task.id, again.existed, again.in_place) == (first.task.id, True, False)


def test_an_equal_call_joins_the_one_that_runs_in_place(world: World) -> None:
    first = made(world, join_seconds=60, waiter="a.1")
    again = made(world, join_seconds=60, waiter="b.1")
    assert first.in_place
    assert (again.task.id, again.existed, again.in_place) == (first.task.id, True, False)


@pytest.mark.parametrize("repeats", [False, True])
def test_a_call_whose_web_process_was_killed_is_lost_like_that_of_a_worker(repeats: bool) -> None:
    world = kit.make_world()
    created = made(world)
    Task.objects.filter(pk=created.task.id).update(at_least_once=repeats)
    Task.objects.filter(pk=created.task.id).update(lease_until=timezone.now() - timedelta(seconds=1))
    assert sweep() > 0
    assert kit.look(created.task.id).state is (State.QUEUED if repeats else State.INPUT_REQUIRED)
    assert Attempt.objects.get(task_id=created.task.id).outcome == "lost"


def test_a_late_result_of_a_lost_place_does_not_overwrite(world: World) -> None:
    created = made(world)
    late = claim_of(world, created)
    Task.objects.filter(pk=created.task.id).update(at_least_once=True)
    Task.objects.filter(pk=created.task.id).update(lease_until=timezone.now() - timedelta(seconds=1))
    sweep()
    assert kit.finish(kit.claim_one())
    assert not run.finish(late, {"content": [{"type": "text", "text": "late"}]}, actor=WEB_ACTOR)
    assert "done" in (kit.look(created.task.id).result_json or "")


# ------------------------------------------------------------------ the guard

TWIN = (
    "CREATE TEMP TABLE twin ON COMMIT DROP AS SELECT * FROM task LIMIT 1;"
    " UPDATE twin SET id = nextval('task_id_seq'), public_id = repeat('x', 22);"
)


@pytest.mark.parametrize(
    "change",
    [
        "worker = ''",
        "lease_until = NULL",
        "lease_until = 'infinity'",
        "lease_epoch = 0",
        "lease_epoch = 2",
        "state = 'queued'",
        "state = 'finished'",
    ],
)
def test_a_task_is_born_working_with_a_first_lease_or_not_at_all(world: World, change: str) -> None:
    made(world)
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute(TWIN + f" UPDATE twin SET {change}")
        with pytest.raises(DatabaseError) as refused, transaction.atomic():
            cursor.execute("INSERT INTO task SELECT * FROM twin")
    assert getattr(refused.value.__cause__, "sqlstate", "") in ("TH003", "TH004")


def test_a_task_may_be_born_working(world: World) -> None:
    made(world)
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute(TWIN + " INSERT INTO task SELECT * FROM twin")


def test_what_a_process_holds_without_knowing_goes_back_to_the_queue(world: World) -> None:
    """As after a creation that was stored, and whose answer was lost."""
    created = made(world)
    assert run.held_by(WEB) == [(created.task.id, 1)]
    assert run.held_by("worker-1") == []
    assert run.give_back(created.task.id, 1, actor=WEB_ACTOR)
    assert run.held_by(WEB) == []
    taken = kit.claim_one()
    assert (taken.task_id, taken.epoch) == (created.task.id, 2)
    assert not run.give_back(created.task.id, 1, actor=WEB_ACTOR), "it is another's now"
    assert list(Attempt.objects.filter(task_id=created.task.id).order_by("id").values_list("worker", "outcome")) == [
        (WEB, "released"),
        ("worker-1", ""),
    ]


@pytest.mark.parametrize("counted", ["while there were few tasks", "with all of them"])
@pytest.mark.parametrize("joins", [None, 60])
def test_a_call_with_a_place_looks_at_the_front_of_the_queue_only(
    world: World, counted: str, joins: int | None
) -> None:
    """Whatever the statistics said when a connection made its plans, which it keeps."""
    connection.close()
    other = World(world.context, factories.make_tool(factories.make_server(world.context.tenant)))
    kit.create(other)
    assert made(world, join_seconds=joins).in_place
    if counted == "while there were few tasks":
        analyze()
    heap_up(other, 2_000)
    if counted == "with all of them":
        analyze()
    found: list[Created] = []
    another = {"text": "another"}
    looked = rows_looked_at("task", lambda: found.append(made(world, join_seconds=joins, arguments=another)))
    assert not found[0].in_place
    assert looked < 60

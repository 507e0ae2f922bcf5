"""No client takes all of a worker: its share ends, and what it has beyond that hides nobody else's."""

from __future__ import annotations

from collections import Counter
from datetime import timedelta
from typing import Any

import pytest
from django.db import connection, transaction
from django.utils import timezone

from taskhub.core.records import Claim
from taskhub.domain.tasks import run
from taskhub.domain.tasks.cancel import request_cancel
from taskhub.domain.tasks.sweep import sweep
from taskhub.domain.workers.writes import heartbeat
from taskhub.store.models import Server, Task, Tool, UpstreamSession, Worker
from tests.domain import kit
from tests.domain.kit import World
from tests.factories import WORKER, make_server, make_tool
from tests.store import raw as sql
from tests.store.touched import rows_looked_at

BACKLOG = 3_000
NO_ROOMS: dict[int, int] = {}


def claim(
    worker: str = "w1", *, limit: int = 8, share: int = 4, per_context: int = 1_000, rooms: dict[int, int] = NO_ROOMS
) -> run.Claimed:
    return run.claim_tasks(
        worker=worker,
        limit=limit,
        lease_seconds=60,
        per_context=per_context,
        share=share,
        scarce=rooms,
        actor=WORKER,
    )


def owners(tasks: list[Claim]) -> Counter[int]:
    """How many of them each context has."""
    ids = [taken.task_id for taken in tasks]
    return Counter(Task.objects.filter(pk__in=ids).values_list("context_id", flat=True))


def at_another_server(world: World) -> World:
    """The same client, calling a tool of another server of its tenant."""
    return World(world.context, make_tool(make_server(world.context.tenant)))


def server_of(world: World) -> int:
    return Tool.objects.get(pk=world.tool.id).server_id


def heap_up(world: World, count: int = BACKLOG) -> None:
    """That many more tasks like the client's first one, each a moment older than the one before."""
    columns = "tenant_id, context_id, tool_id, tool_name, revision, arguments, arguments_digest"
    with kit.superuser_past_the_guards() as raw:
        raw.execute(
            f"INSERT INTO task (public_id, runnable_at, state, {columns})"
            " SELECT 'heap-' || context_id || '-' || n, runnable_at - make_interval(secs => n * 0.001), 'queued',"
            f" {columns}"
            " FROM generate_series(1, %s) n, (SELECT * FROM task WHERE context_id = %s ORDER BY id LIMIT 1) t",
            (count, world.context.pk),
        )
        raw.execute("SELECT setval('task_id_seq', (SELECT max(id) FROM task))")


def analyze() -> None:
    """Count what there is, as autovacuum does at some moment of its own."""
    with connection.cursor() as cursor:
        cursor.execute("ANALYZE task, tool, auth_context, question")


def test_a_client_gets_no_more_of_one_worker_than_its_share_also_while_nobody_waits(world: World) -> None:
    for _ in range(12):
        kit.create(world)
    first = claim("w1")
    assert (len(first.tasks), first.more) == (4, True)
    assert (claim("w1").tasks, claim("w1").more) == ([], True)
    assert len(claim("w2").tasks) == 4, "a share is of one worker"
    assert len(claim("w3", per_context=10).tasks) == 2, "and what a client may run in all still counts"
    kit.finish(first.tasks[0])
    assert len(claim("w1").tasks) == 1


def test_the_share_holds_within_one_claim_and_the_rest_goes_to_who_comes_later(world: World) -> None:
    other, third = kit.another_client(world), kit.another_client(world)
    for _ in range(40):
        kit.create(world)
    for _ in range(3):
        kit.create(other)
    kit.create(third)
    taken = claim(limit=8, share=4)
    assert owners(taken.tasks) == {world.context.pk: 4, other.context.pk: 3, third.context.pk: 1}


def test_between_those_that_are_not_full_the_oldest_goes_first(world: World) -> None:
    early, late = kit.another_client(world), kit.another_client(world)
    for _ in range(4):
        kit.create(world)
    claim(limit=2, share=2)  # the first client is full
    young, old = kit.create(early), kit.create(late)
    kit.turn_back(old.id, "runnable_at", 30)
    assert [taken.task_id for taken in claim(limit=1, share=2).tasks] == [old.id]
    assert [taken.task_id for taken in claim(limit=1, share=2).tasks] == [young.id]


def test_a_claim_locks_no_more_than_it_takes(world: World) -> None:
    """Also where its client has room for some of what stands first, and the worker for more."""
    for _ in range(8):
        kit.create(world)
    assert len(claim("w1", limit=8, share=6).tasks) == 6
    with transaction.atomic(), sql.connect() as other:
        assert len(claim("w2", limit=8, share=1).tasks) == 1
        free = other.execute("SELECT id FROM task WHERE state = 'queued' FOR UPDATE SKIP LOCKED").fetchall()
        assert len(free) == 1


@pytest.mark.parametrize("place", ["before", "between", "after"])
def test_clients_on_every_side_of_a_full_one_are_found(world: World, place: str) -> None:
    """Contexts are stepped through by their ids, around those that are full."""
    clients = [world, *(kit.another_client(world) for _ in range(4))]
    full = {"before": clients[1:3], "between": clients[2:3], "after": [clients[0], clients[4]]}[place]
    for client in full:
        for _ in range(3):
            kit.create(client)
    assert len(claim(limit=len(full) * 2, share=2).tasks) == len(full) * 2
    rest = {kit.create(client).id for client in clients if client not in full}
    for _ in range(20):  # wherever the claim begins its round
        with connection.cursor() as cursor:
            cursor.execute("BEGIN")
            assert {taken.task_id for taken in claim(limit=50, share=2).tasks} == rest
            cursor.execute("ROLLBACK")


def test_a_claim_says_so_where_a_client_was_cut_off_after_others_were_served(world: World) -> None:
    other = kit.another_client(world)
    for _ in range(3):
        kit.create(world)
    assert claim(limit=8, share=2).more is True
    for _ in range(3):
        kit.create(other)
    taken = claim(limit=8, share=2)
    assert (owners(taken.tasks), taken.more, taken.since) == ({other.context.pk: 2}, True, None)
    assert (claim(limit=8, share=2).tasks, claim(limit=8, share=2).more) == ([], True)


def test_a_lock_that_somebody_holds_is_told_of_also_beside_a_full_client(world: World) -> None:
    other = kit.another_client(world)
    for _ in range(3):
        kit.create(world)
    claim(limit=8, share=2)
    mine = kit.create(other)
    with sql.connect() as holder:
        holder.execute("SELECT 1 FROM task WHERE id = %s FOR NO KEY UPDATE", [mine.id])
        assert (claim(share=2).tasks, claim(share=2).skipped) == ([], True)
    assert [taken.task_id for taken in claim(share=2).tasks] == [mine.id]
    assert claim(share=2).skipped is False


@pytest.mark.parametrize("counted", ["while there were few tasks", "with all of them"])
def test_the_backlog_of_a_full_client_is_not_walked_over(world: World, counted: str) -> None:
    """Whatever the statistics said when a connection made its plans, which it keeps."""
    connection.close()
    other = kit.another_client(world)
    kit.create(world)
    if counted == "while there were few tasks":
        analyze()
    heap_up(world)
    if counted == "with all of them":
        analyze()
    assert len(claim(limit=8, share=4).tasks) == 4
    mine = kit.create(other)
    taken: list[run.Claimed] = []
    looked = rows_looked_at("task", lambda: taken.append(claim(limit=8, share=4)))
    assert [found.task_id for found in taken[0].tasks] == [mine.id]
    assert looked < 60
    # Nothing to take: the same, and it says that something waits.
    looked = rows_looked_at("task", lambda: taken.append(claim(limit=8, share=4)))
    assert (taken[1].tasks, taken[1].more, taken[1].skipped) == ([], True, False)
    assert looked < 60


def test_what_is_for_a_server_without_room_stays_queued_and_lets_others_pass(world: World) -> None:
    elsewhere = at_another_server(world)
    waiting = [kit.create(world).id for _ in range(3)]
    mine = kit.create(elsewhere).id
    taken = claim(rooms={server_of(world): 0})
    assert ([found.task_id for found in taken.tasks], taken.more, taken.skipped) == ([mine], True, False)
    taken = claim(rooms={server_of(world): 0})
    assert (taken.tasks, taken.more, taken.skipped) == ([], True, False)
    for task_id in waiting:
        assert (kit.look(task_id).state, kit.actions(task_id)) == ("queued", ["task.created"])
    assert [found.task_id for found in claim().tasks] == waiting[:3]


def test_a_server_gets_no_more_than_it_has_room_for_and_clients_take_turns(world: World) -> None:
    other, third = kit.another_client(world), kit.another_client(world)
    for _ in range(5):
        kit.create(world)
    kit.create(other)
    for _ in range(2):
        kit.create(third)
    taken = claim(rooms={server_of(world): 3})
    assert owners(taken.tasks) == {world.context.pk: 1, other.context.pk: 1, third.context.pk: 1}
    assert taken.more is True
    taken = claim(rooms={server_of(world): 2})
    assert owners(taken.tasks) == {world.context.pk: 1, third.context.pk: 1}


def test_who_came_first_does_not_have_every_turn_at_a_command(world: World) -> None:
    """One call at a time, and a backlog that is older: claims are drawn by lot, so one in two is the other's."""
    other = kit.another_client(world)
    for _ in range(24):
        kit.create(world)
    theirs = kit.create(other).id
    served: list[int] = []
    while theirs not in served:
        (taken,) = claim(rooms={server_of(world): 1}).tasks
        kit.finish(taken)
        served.append(taken.task_id)
    assert len(served) <= 24


def test_clients_take_turns_also_at_the_last_free_slots(world: World) -> None:
    """Of a scarce server beside them, or none: the oldest tasks are all of one client."""
    other, late = kit.another_client(world), at_another_server(world)
    for _ in range(6):
        kit.create(world)
    for _ in range(2):
        kit.create(other)
    taken = claim(limit=4, share=8, rooms={server_of(late): 1})
    assert owners(taken.tasks) == {world.context.pk: 2, other.context.pk: 2}


def test_a_server_is_no_way_around_a_clients_share(world: World) -> None:
    elsewhere = at_another_server(world)
    for _ in range(3):
        kit.create(world)
        kit.create(elsewhere)
    taken = claim(limit=8, share=4, rooms={server_of(world): 1})
    assert len(taken.tasks) == 4
    assert sum(found.server_id == server_of(world) for found in taken.tasks) == 1
    assert (claim(limit=8, share=4).tasks, claim(limit=8, share=4).more) == ([], True)


def test_a_lock_that_somebody_holds_is_told_of_also_beside_a_scarce_server(world: World) -> None:
    elsewhere = at_another_server(world)
    kit.create(world)
    mine = kit.create(elsewhere)
    with sql.connect() as holder:
        holder.execute("SELECT 1 FROM task WHERE id = %s FOR NO KEY UPDATE", [mine.id])
        taken = claim(rooms={server_of(world): 0})
        assert (taken.tasks, taken.skipped) == ([], True)
    assert [found.task_id for found in claim(rooms={server_of(world): 0}).tasks] == [mine.id]


def test_calls_of_a_disabled_server_are_taken_by_nobody_and_hold_up_nobody(world: World) -> None:
    elsewhere = at_another_server(world)
    Server.objects.filter(pk=server_of(world)).update(enabled=False)
    paused = [kit.create(world).id for _ in range(10)]
    mine = kit.create(elsewhere).id
    taken = claim(limit=8, share=8)
    assert ([found.task_id for found in taken.tasks], taken.more, taken.skipped) == ([mine], False, False)
    for rooms in (NO_ROOMS, {server_of(world): 1}, {server_of(elsewhere): 1}):
        assert claim(rooms=rooms) == run.Claimed([], False, None), "nothing for a worker to come back for"
    for task_id in paused:
        assert (kit.look(task_id).state, kit.actions(task_id)) == ("queued", ["task.created"])
    assert request_cancel(paused[0], actor=world.actor) == "cancelled"
    kit.turn_back(paused[1], "expires_at", 1)
    sweep()
    assert kit.look(paused[1]).state == "faulted"
    Server.objects.filter(pk=server_of(world)).update(enabled=True)
    assert [found.task_id for found in claim(limit=8, share=9).tasks] == paused[2:]  # it still runs another one


def test_who_waits_behind_more_tools_than_one_look_has_time_for_is_found_by_another(world: World) -> None:
    """All of one client's, and the tools of a server without room stand before the one of another."""
    crowded = make_server(world.context.tenant)
    for number in range(400):
        kit.create(World(world.context, make_tool(crowded, name=f"tool-{number}")))
    wanted = kit.create(at_another_server(world))
    looks = (claim(rooms={crowded.pk: 0}).tasks for _ in range(60))
    assert [taken.task_id for taken in next(filter(None, looks))] == [wanted.id]


@pytest.mark.parametrize("counted", ["while there were few tasks", "with all of them"])
def test_the_backlog_of_a_server_is_not_walked_over(world: World, counted: str) -> None:
    connection.close()
    elsewhere = at_another_server(world)
    kit.create(world)
    if counted == "while there were few tasks":
        analyze()
    heap_up(world)
    if counted == "with all of them":
        analyze()
    mine = kit.create(elsewhere)
    taken: list[run.Claimed] = []
    looked = rows_looked_at("task", lambda: taken.append(claim(rooms={server_of(world): 1})))
    assert {found.server_id for found in taken[0].tasks} == {server_of(world), server_of(elsewhere)}
    assert (len(taken[0].tasks), taken[0].more) == (2, True)
    assert mine.id in [found.task_id for found in taken[0].tasks]
    assert looked < 60


@pytest.mark.parametrize("counted", ["while there were few tasks", "with all of them"])
def test_the_backlog_of_a_disabled_server_is_not_walked_over(world: World, counted: str) -> None:
    connection.close()
    elsewhere = at_another_server(world)
    Server.objects.filter(pk=server_of(world)).update(enabled=False)
    kit.create(world)
    if counted == "while there were few tasks":
        analyze()
    heap_up(world)
    if counted == "with all of them":
        analyze()
    mine = kit.create(elsewhere)
    taken: list[run.Claimed] = []
    looked = rows_looked_at("task", lambda: taken.append(claim()))
    assert [found.task_id for found in taken[0].tasks] == [mine.id]
    assert looked < 60


# --- clients with a session in another worker


def session(world: World, worker: str, **fields: Any) -> UpstreamSession:
    """The client's session at the server of its tool, in this worker, which is alive."""
    heartbeat(worker, slots=8, busy=0)
    return UpstreamSession.objects.create(server_id=server_of(world), context=world.context, worker=worker, **fields)


@pytest.mark.parametrize("full", [False, True], ids=["first look", "second look"])
def test_calls_go_to_the_worker_that_has_the_clients_session_while_it_lives(world: World, full: bool) -> None:
    there = session(world, "w1")
    elsewhere, mine, theirs = at_another_server(world), kit.create(world), kit.create(kit.another_client(world))
    other = kit.create(elsewhere)
    rooms = {server_of(elsewhere): 3} if full else NO_ROOMS
    found = claim("w2", rooms=rooms)
    assert {taken.task_id for taken in found.tasks} == {other.id, theirs.id}
    assert not found.skipped
    assert claim("w2", rooms=rooms).tasks == []
    assert [taken.task_id for taken in claim("w1", rooms=rooms).tasks] == [mine.id]
    next_one = kit.create(world)
    UpstreamSession.objects.filter(pk=there.pk).update(ended_at=timezone.now(), why="it ended")
    assert [taken.task_id for taken in claim("w2", rooms=rooms).tasks] == [next_one.id]


def test_calls_do_not_wait_for_a_worker_that_is_gone(world: World) -> None:
    session(world, "w1")
    kit.create(world)
    Worker.objects.filter(name="w1").update(heartbeat_at=timezone.now() - timedelta(seconds=61))
    assert len(claim("w2").tasks) == 1
    kit.create(world)
    Worker.objects.filter(name="w1").update(heartbeat_at=timezone.now(), stopped_at=timezone.now())
    assert len(claim("w2").tasks) == 1

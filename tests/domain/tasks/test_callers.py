"""A call that its client makes again joins the earlier one; callers leave, come back, and are waited for no longer."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from typing import Any

import pytest

from taskhub.core.errors import LimitReached
from taskhub.core.records import Actor, Created
from taskhub.core.states import State
from taskhub.domain.tasks import callers
from taskhub.domain.tasks.create import create_task, create_tasks
from taskhub.domain.tasks.reads import Read, store_reads
from taskhub.lib import ids
from taskhub.store.models import Event, Session, Task
from tests import factories
from tests.domain import kit
from tests.domain.kit import World
from tests.store import raw as sql


def call(world: World, **fields: Any) -> Created:
    """A plain call, which joins an earlier one for five minutes."""
    return create_task(kit.new_task(world, **{"join_seconds": 300, "waiter": "w", **fields}), world.actor)


def session(world: World) -> int:
    made = Session.objects.create(
        tenant=world.context.tenant, context=world.context, public_id=ids.public_id(), version="2025-11-25"
    )
    return int(made.pk)


def leave(world: World, task_id: int) -> None:
    assert callers.leave(task_id, "w", actor=replace(world.actor, reason="The connection closed")) is not None


def test_the_same_call_joins_the_live_task(world: World) -> None:
    first = call(world)
    again = call(world)
    assert (first.existed, again.existed) == (False, True)
    assert again.task.id == first.task.id
    assert kit.actions(first.task.id) == ["task.created", "task.joined"]
    joined = Event.objects.get(action="task.joined")
    assert (joined.actor, joined.door, joined.after) == (world.context.name, "client", {"state": "queued"})


@pytest.mark.parametrize(
    "other",
    [
        {"arguments": {"text": "goodbye"}},
        {"revision": "2025-11-25"},
        {"client_info": {"name": "another"}},
        {"client_capabilities": {"elicitation": {}}},
        {"join_seconds": None},
        {"join_seconds": None, "idempotency_key": "k"},
    ],
    ids=["arguments", "revision", "program", "capabilities", "switched off", "a key of its own"],
)
def test_another_call_is_a_task_of_its_own(world: World, other: dict[str, Any]) -> None:
    first = call(world)
    assert call(world, **other).task.id != first.task.id
    assert call(world).task.id == first.task.id


def test_at_the_limit_of_live_tasks_the_same_call_joins_and_another_is_refused(world: World, settings: Any) -> None:
    settings.TASKHUB_CONTEXT_LIVE = 1
    first = call(world)
    assert call(world).task.id == first.task.id
    with pytest.raises(LimitReached):
        call(world, arguments={"text": "another"})
    joins, refused = create_tasks(
        [(kit.new_task(world, arguments={"text": text}, join_seconds=300), world.actor) for text in ("hello", "other")]
    )
    assert isinstance(joins, Created)
    assert joins.task.id == first.task.id
    assert isinstance(refused, LimitReached)
    assert Task.objects.count() == 1


def test_calls_that_join_count_as_no_task(world: World, settings: Any) -> None:
    settings.TASKHUB_CONTEXT_LIVE = 3
    first = call(world)
    for _ in range(5):
        assert call(world).task.id == first.task.id
    assert not call(world, arguments={"text": "another"}).existed


def test_another_clients_call_and_another_tools_are_never_joined(world: World) -> None:
    call(world)
    assert not call(kit.another_client(world)).existed
    tool = factories.make_tool(factories.make_server(world.context.tenant))
    assert not call(World(world.context, tool)).existed


def test_a_task_that_was_not_made_by_a_plain_call_is_not_joined(world: World) -> None:
    kit.create(world, handle=True)
    kit.create(world, idempotency_key="k")
    assert not call(world).existed


def test_callers_without_a_token_join_within_their_session_only(world: World) -> None:
    mine, theirs = session(world), session(world)
    first = call(world, session_id=mine, join_session=mine)
    assert not call(world, session_id=theirs, join_session=theirs).existed
    assert call(world, session_id=mine, join_session=mine).task.id == first.task.id


def test_what_ended_is_joined_while_its_caller_has_not_had_the_result(world: World) -> None:
    first = call(world)
    leave(world, first.task.id)
    kit.finish(kit.claim_one())
    again = call(world)
    assert again.task.id == first.task.id
    assert again.task.state is State.FINISHED
    # It was joined, so its caller waits: once that has the result, the same call is a new one.
    assert not call(world).existed


def test_a_result_that_was_given_is_not_given_again(world: World) -> None:
    first = call(world)
    leave(world, first.task.id)
    kit.finish(kit.claim_one())
    callers.fetched(first.task.id)
    assert not call(world).existed


def test_an_old_result_is_joined_no_more(world: World) -> None:
    first = call(world)
    leave(world, first.task.id)
    kit.finish(kit.claim_one())
    Task.objects.filter(pk=first.task.id).update(join_seconds=0)
    assert not call(world).existed


@contextmanager
def living(process: str) -> Iterator[None]:
    """A web process of this name, for the block."""
    with sql.connect() as its:
        its.execute("SELECT pg_advisory_lock_shared(7225, hashtext(%s))", [process])
        yield
        its.execute("SELECT pg_advisory_unlock_all()")  # at once, and not when the session has ended at the server


def test_what_ended_is_joined_if_its_caller_waited_in_a_process_that_is_gone(world: World) -> None:
    first = call(world, waiter="one.w")
    kit.finish(kit.claim_one())
    call(kit.another_client(world), waiter="one.w")
    assert not call(world, arguments={"text": "another"}, waiter="two.w").existed
    assert not call(world, client_info={"name": "another"}, waiter="two.w").existed
    with living("one"):
        pass
    assert call(world, waiter="two.w").task.id == first.task.id
    assert kit.actions(first.task.id)[-1] == "task.joined"
    # Now it waits in a process of its own, which gives it the result.
    assert not call(world, waiter="two.v").existed


def test_what_a_living_process_gave_is_not_given_again(world: World) -> None:
    call(world, waiter="one.w")
    kit.finish(kit.claim_one())
    with living("one"):
        again = call(world, waiter="two.w")
    assert not again.existed
    kit.finish(kit.claim_one())
    assert call(world, waiter="three.w").task.id == again.task.id


def test_what_a_process_gave_before_it_was_killed_is_not_given_again(world: World) -> None:
    first = call(world, waiter="one.w")
    kit.finish(kit.claim_one())
    now = time.time()
    store_reads({(first.task.id, world.context.pk): Read(now, now)})
    assert not call(world, waiter="two.w").existed


def test_a_cancelled_call_is_made_anew(world: World) -> None:
    first = call(world)
    leave(world, first.task.id)
    left_at = kit.look(first.task.id).left_at
    assert left_at is not None
    assert callers.cancel_left(first.task.id, left_at, actor=world.actor)
    assert kit.look(first.task.id).state is State.CANCELLED
    assert not call(world).existed


def test_who_came_back_is_not_cancelled(world: World) -> None:
    first = call(world)
    leave(world, first.task.id)
    left_at = kit.look(first.task.id).left_at
    assert left_at is not None
    call(world)
    assert not callers.cancel_left(first.task.id, left_at, actor=world.actor)
    leave(world, first.task.id)
    assert not callers.cancel_left(first.task.id, left_at, actor=world.actor)
    callers.wait(first.task.id, "w")
    assert kit.look(first.task.id).left_at is None
    assert kit.look(first.task.id).state is State.QUEUED
    assert kit.actions(first.task.id) == ["task.created", "task.left", "task.joined", "task.left"]


def test_what_a_person_was_asked_about_goes_on(db: None) -> None:
    world = kit.make_world(asks={})
    first = call(world)
    leave(world, first.task.id)
    left_at = kit.look(first.task.id).left_at
    assert left_at is not None
    assert not callers.cancel_left(first.task.id, left_at, actor=world.actor)
    assert kit.look(first.task.id).state is State.INPUT_REQUIRED


def test_the_caller_before_leaves_nothing_once_another_waits(world: World) -> None:
    first = call(world)
    call(world, waiter="another")
    assert callers.leave(first.task.id, "w", actor=world.actor) is None
    assert kit.look(first.task.id).left_at is None


def test_nobody_leaves_a_task_with_a_handle_or_twice(world: World) -> None:
    handed = kit.create(world, handle=True)
    assert callers.leave(handed.id, "w", actor=world.actor) is None
    first = call(world)
    leave(world, first.task.id)
    assert callers.leave(first.task.id, "w", actor=world.actor) is None


def test_equal_calls_in_one_batch_are_one_task(world: World) -> None:
    wanted = [(kit.new_task(world, join_seconds=300), world.actor) for _ in range(3)]
    other = Actor(name="somebody else", door=world.actor.door, context_id=world.context.pk)
    made = create_tasks([*wanted, (kit.new_task(world, arguments={"text": "x"}, join_seconds=300), other)])
    assert all(isinstance(one, Created) for one in made)
    ids = [one.task.id for one in made if isinstance(one, Created)]
    assert len(set(ids)) == 2
    assert ids[0] == ids[1] == ids[2]
    assert kit.actions(ids[0]) == ["task.created", "task.joined", "task.joined"]


def test_equal_calls_at_the_same_moment_are_one_task(transactional_db: None) -> None:
    world = kit.make_world()
    crew = kit.Crew(4)
    try:
        for n in range(5):
            made = crew.race(*[partial(call, world, arguments={"n": n})] * 4)
            assert len({one.task.id for one in made}) == 1
            assert sorted(one.existed for one in made) == [False, True, True, True]
    finally:
        crew.close()

"""Creation: durable when it returns, once per key, approved first where the policy says so."""

from __future__ import annotations

from typing import Any

import psycopg
import pytest
from django.db import connection, transaction

from taskhub.core.errors import KeyReused, LimitReached, NotFound, Refused
from taskhub.core.records import Created
from taskhub.core.states import Audience, QuestionKind, State
from taskhub.domain.questions.answer import decide_approval
from taskhub.domain.tasks.create import create_task, create_tasks, forget_counts
from taskhub.domain.tasks.reads import owned_task, owned_tasks
from taskhub.domain.tasks.rerun import rerun_task
from taskhub.store.models import Event, Question, Server, Task, Tool
from tests import factories
from tests.domain import kit
from tests.domain.kit import World
from tests.domain.sessions.test_sessions import start
from tests.domain.tasks.test_edit_races import together


def test_a_created_task_is_queued_with_the_arguments_it_came_with(world: World) -> None:
    arguments = {"z": 1, "a": [True, None, "\U0001f600"], "n": 2**70, "x": [-0.5, -0.0, 1e22, 1e308], "\0": "\0"}
    task = kit.create(world, arguments=arguments, client_info={"name": "cli"}, trace={"traceparent": "00-1"})
    assert (task.state, task.version, task.questions) == (State.QUEUED, 1, ())
    taken = kit.claim_one()
    assert repr(taken.arguments) == repr(arguments)
    assert (taken.answers, taken.upstream_state, taken.trace) == (None, None, {"traceparent": "00-1"})


def test_a_task_asks_to_be_polled_each_second_and_is_kept_for_a_day_where_nothing_else_was_said(world: World) -> None:
    task = kit.create(world)
    assert (task.poll_interval_ms, task.ttl_ms) == (1_000, 86_400_000)


@pytest.mark.parametrize("policy", [{}, {"asks": {"group": "ops", "when": {"z": 1, "a": "x"}}}])
def test_what_creation_answers_is_what_a_reader_finds(transactional_db: None, policy: dict[str, Any]) -> None:
    task = kit.create(kit.make_world(**policy), arguments={"a": "x", "z": 1}, ttl_ms=5, poll_interval_ms=700)
    assert task == kit.look(task.id)


def test_many_tasks_read_at_once_are_the_same_as_one_by_one(world: World) -> None:
    other = kit.another_client(world)
    mine, theirs, gone = kit.create(world), kit.create(other), kit.create(world)
    while taken := kit.claim():
        (ended,) = taken
        if ended.task_id == gone.id:
            kit.finish(ended)
            kit.turn_back(gone.id, "expires_at", 1)
    wanted = [
        (world.context.pk, mine.public_id),
        (world.context.pk, theirs.public_id),
        (world.context.pk, gone.public_id),
        (other.context.pk, theirs.public_id),
        (world.context.pk, "no-such-task-anywhere-at-all"),
        (world.context.pk, mine.public_id),
    ]
    found = owned_tasks(wanted)
    assert found == [owned_task(*pair) for pair in wanted]
    assert [task is not None for task in found] == [True, False, False, True, False, True]
    assert owned_tasks([]) == []


def test_a_task_belongs_to_its_client_alone(world: World) -> None:
    task = kit.create(world)
    assert owned_task(world.context.pk, task.public_id) == task
    assert owned_task(kit.another_client(world).context.pk, task.public_id) is None


def test_the_same_key_and_arguments_find_the_same_task(world: World) -> None:
    first = create_task(kit.new_task(world, idempotency_key="k"), world.actor)
    again = create_task(kit.new_task(world, idempotency_key="k"), world.actor)
    assert (first.existed, again.existed) == (False, True)
    assert again.task.public_id == first.task.public_id
    assert Task.objects.count() == 1
    assert kit.actions(first.task.id) == ["task.created"]


def test_the_order_of_arguments_does_not_matter_to_a_key(world: World) -> None:
    first = kit.create(world, idempotency_key="k", arguments={"a": 1, "b": {"c": 2, "d": 3}})
    again = kit.create(world, idempotency_key="k", arguments={"b": {"d": 3, "c": 2}, "a": 1})
    assert again.id == first.id


def test_a_key_finds_its_task_also_when_that_has_ended(world: World) -> None:
    first = kit.create(world, idempotency_key="k")
    kit.finish(kit.claim_one())
    again = create_task(kit.new_task(world, idempotency_key="k"), world.actor)
    assert (again.existed, again.task.id, again.task.state) == (True, first.id, State.FINISHED)


def test_a_key_with_other_arguments_is_refused_and_stores_nothing(world: World) -> None:
    kit.create(world, idempotency_key="k")
    with pytest.raises(KeyReused):
        kit.create(world, idempotency_key="k", arguments={"text": "other"})
    assert Task.objects.count() == 1


def test_a_key_with_another_tool_is_refused(world: World) -> None:
    kit.create(world, idempotency_key="k")
    other = World(world.context, factories.make_tool(factories.make_server(world.context.tenant)))
    with pytest.raises(KeyReused):
        kit.create(other, idempotency_key="k")
    assert Task.objects.count() == 1


def test_one_refused_creation_does_not_touch_the_others_of_its_batch(world: World) -> None:
    earlier = kit.create(world, idempotency_key="k", arguments={"n": 1})
    batch = [
        kit.new_task(world, arguments={"n": 7}),
        kit.new_task(world, idempotency_key="k", arguments={"n": 2}),
        kit.new_task(world, idempotency_key="k", arguments={"n": 1}),
        kit.new_task(world, idempotency_key="a", arguments={"n": 8}),
    ]
    plain, refused, known, keyed = create_tasks([(new, world.actor) for new in batch])
    assert isinstance(refused, KeyReused)
    assert isinstance(known, Created)
    assert (known.existed, known.task.id) == (True, earlier.id)
    assert isinstance(plain, Created)
    assert isinstance(keyed, Created)
    assert Task.objects.get(pk=plain.task.id).arguments == {"n": 7}
    assert Task.objects.get(pk=keyed.task.id).idempotency_key == "a"
    assert Task.objects.count() == 3


def test_one_that_the_database_refuses_does_not_touch_the_others_of_its_batch(world: World) -> None:
    batch = [kit.new_task(world), kit.new_task(world, idempotency_key="k" * 1_000), kit.new_task(world)]
    first, refused, last = create_tasks([(new, world.actor) for new in batch])
    assert isinstance(refused, psycopg.errors.StringDataRightTruncation)
    assert isinstance(first, Created)
    assert isinstance(last, Created)
    assert set(Task.objects.values_list("id", flat=True)) == {first.task.id, last.task.id}
    (alone,) = create_tasks([(batch[1], world.actor)])
    assert type(alone) is type(refused)


def test_a_batch_stops_at_the_clients_limit_and_keeps_what_came_before(world: World, settings: Any) -> None:
    settings.TASKHUB_CONTEXT_LIVE = 2
    forget_counts()
    made = create_tasks([(kit.new_task(world), world.actor) for _ in range(3)])
    assert [type(outcome) for outcome in made] == [Created, Created, LimitReached]
    assert Task.objects.count() == 2


def test_a_key_means_nothing_to_another_client(world: World) -> None:
    mine = kit.create(world, idempotency_key="k")
    theirs = create_task(kit.new_task(kit.another_client(world), idempotency_key="k"), world.actor)
    assert theirs.existed is False
    assert theirs.task.public_id != mine.public_id


@pytest.mark.parametrize(
    ("asked", "stored"), [(None, None), (1, 1_000), (60_000, 60_000), (10**12, 2_592_000_000), (-5, 1_000)]
)
def test_a_time_to_live_is_kept_within_its_range(world: World, asked: int | None, stored: int | None) -> None:
    task = kit.create(world, ttl_ms=asked)
    assert task.ttl_ms == stored
    assert (kit.column(task.id, "expires_at") is None) == (asked is None)


# --- approval


@pytest.mark.parametrize(
    ("when", "arguments", "asked"),
    [
        ({}, {"env": "test"}, True),
        ({"env": "prod"}, {"env": "prod"}, True),
        ({"env": "prod"}, {"env": "test"}, False),
        ({"env": "prod"}, {}, True),
        ({"env": "prod"}, {"env": None}, True),
        ({"env": "prod"}, {"env": "PROD"}, True),
        ({"force": False}, {"force": "false"}, True),
        ({"force": False}, {"force": True}, False),
        ({"count": 100}, {"count": "100"}, True),
        ({"count": 100}, {"count": 99}, False),
        ({"env": "prod", "force": True}, {"env": "prod", "force": True}, True),
        ({"env": "prod", "force": True}, {"env": "prod", "force": False}, False),
    ],
)
def test_a_rule_says_for_which_arguments_people_are_asked(
    transactional_db: None, when: dict[str, Any], arguments: dict[str, Any], asked: bool
) -> None:
    world = kit.make_world(asks={"when": when})
    task = kit.create(world, arguments=arguments)
    assert (task.state is State.INPUT_REQUIRED) == asked
    assert len(kit.claim()) == (0 if asked else 1)


def test_a_task_that_needs_approval_says_who_is_waited_for(transactional_db: None) -> None:
    world = kit.make_world(asks={"group": "ops", "quorum": 2})
    task = kit.create(world)
    (question,) = task.questions
    assert task.message == "Waiting for approval by ops, 0 of 2"
    assert (question.kind, question.audience, question.group, question.quorum, question.approvals) == (
        QuestionKind.APPROVAL,
        Audience.OPERATOR,
        "ops",
        2,
        0,
    )
    assert kit.wake_ups() == 0


# --- limits


def test_a_client_at_its_limit_is_refused_and_nothing_is_stored(world: World, settings: Any) -> None:
    settings.TASKHUB_CONTEXT_LIVE = 2
    kit.create(world)
    kit.create(world)
    with pytest.raises(LimitReached) as caught:
        kit.create(world)
    assert caught.value.data["retry_after"] > 0
    assert Task.objects.count() == 2


def test_a_client_has_a_limit_of_calls_that_wait_for_approval(transactional_db: None, settings: Any) -> None:
    settings.TASKHUB_CONTEXT_APPROVALS = 2
    world = kit.make_world(asks={"when": {"env": "prod"}})
    prod: dict[str, Any] = {"arguments": {"env": "prod"}}
    first, _ = kit.create(world, idempotency_key="k", **prod), kit.create(world, **prod)
    with pytest.raises(LimitReached, match="2 calls of this client wait for approval already, the most allowed"):
        kit.create(world, **prod)
    assert Task.objects.count() == 2
    assert kit.create(world, arguments={"env": "test"}).state is State.QUEUED, "which needs none"
    assert kit.create(kit.another_client(world), **prod).state is State.INPUT_REQUIRED
    again = create_task(kit.new_task(world, idempotency_key="k", **prod), world.actor)
    assert (again.existed, again.task.id) == (True, first.id)
    decide_approval(first.id, kit.opened(first.id), approve=True, actor=kit.approver(first.id))
    assert kit.create(world, **prod).state is State.INPUT_REQUIRED


def test_a_conversation_has_a_limit_of_its_own(transactional_db: None, settings: Any) -> None:
    settings.TASKHUB_CONVERSATION_APPROVALS = 2
    world = kit.make_world(asks={"when": {"env": "prod"}})
    prod: dict[str, Any] = {"arguments": {"env": "prod"}}
    ours, other = (f"00-{digit * 32}-{'b' * 16}-01" for digit in "ac")
    for of in ({"trace": {"traceparent": ours}}, {"session_id": start(world.context).pk}):
        for _ in range(2):
            kit.create(world, **prod, **of)
        said = r"2 calls of this (session|trace \(traceparent\)) wait for approval already"
        with pytest.raises(LimitReached, match=said):
            kit.create(world, **prod, **of)
    sibling = f"00-{'a' * 32}-{'d' * 16}-00"
    with pytest.raises(LimitReached, match="this trace"):
        kit.create(world, **prod, trace={"traceparent": sibling})
    for trace in ({}, {"traceparent": other}, {"traceparent": "no trace"}, {"traceparent": 7}):
        for _ in range(2 if trace.get("traceparent") == other else 3):
            kit.create(world, **prod, trace=trace)
    assert kit.create(world, arguments={"env": "test"}, trace={"traceparent": ours}).state is State.QUEUED


@pytest.mark.parametrize("of", ["a client", "a session", "a trace"])
def test_calls_at_the_same_moment_do_not_exceed_the_limit(transactional_db: None, settings: Any, of: str) -> None:
    """Neither those of one batch nor those of other processes; and who repeats a call joins its task still."""
    limit = "TASKHUB_CONTEXT_APPROVALS" if of == "a client" else "TASKHUB_CONVERSATION_APPROVALS"
    setattr(settings, limit, 3)
    world = kit.make_world(asks={"when": {"env": "prod"}})
    where: dict[str, Any] = {"trace": {"traceparent": f"00-{'a' * 32}-{'b' * 16}-01"}}
    if of == "a session":
        where = {"session_id": start(world.context).pk}
    several = [
        [(kit.new_task(world, arguments={"env": "prod", "n": n, "of": part}, **where), world.actor) for n in range(4)]
        for part in range(4)
    ]
    plain = (kit.new_task(world, arguments={"env": "test"}, **where), world.actor)
    found = together(*[lambda part=part: create_tasks([plain, *part]) for part in several])
    kinds = [type(one).__name__ for part in found for one in part]
    assert (kinds.count("Created"), kinds.count("LimitReached")) == (4 + 3, 13), found
    assert Question.objects.filter(kind="approval", state="open").count() == 3
    assert Task.objects.count() == 7


def test_the_limit_counts_each_client_for_itself_and_live_tasks_only(world: World, settings: Any) -> None:
    settings.TASKHUB_CONTEXT_LIVE = 1
    kit.create(world)
    kit.create(kit.another_client(world))
    with pytest.raises(LimitReached):
        kit.create(world)
    kit.finish(kit.claim_one())
    forget_counts()
    kit.create(world)


def test_a_replay_of_a_key_is_answered_also_at_the_limit(world: World, settings: Any) -> None:
    settings.TASKHUB_CONTEXT_LIVE = 1
    task = kit.create(world, idempotency_key="k")
    assert create_task(kit.new_task(world, idempotency_key="k"), world.actor).task.id == task.id
    with pytest.raises(LimitReached):
        kit.create(world, idempotency_key="other")


# --- the wake-up job


def test_a_burst_of_creations_makes_one_wake_up_job(world: World) -> None:
    for _ in range(5):
        kit.create(world)
    assert kit.wake_ups() == 1


def test_the_wake_up_job_commits_with_its_task(world: World) -> None:
    with transaction.atomic():
        kit.create(world)
        assert kit.wake_ups() == 1
        transaction.set_rollback(True)
    assert (kit.wake_ups(), Task.objects.count(), Event.objects.count()) == (0, 0, 0)
    with transaction.atomic():
        kit.create(world)
    assert (kit.wake_ups(), Task.objects.count(), Event.objects.count()) == (1, 1, 1)


def test_a_job_that_runs_already_is_not_relied_on(world: World) -> None:
    kit.create(world)
    with connection.cursor() as cursor:
        cursor.execute("UPDATE procrastinate_jobs SET status = 'doing'")
    kit.create(world)
    assert kit.wake_ups() == 1


def test_the_wake_up_job_has_the_names_both_sides_agreed_on(world: World) -> None:
    kit.create(world)
    with connection.cursor() as cursor:
        cursor.execute("SELECT queue_name, task_name, lock, queueing_lock, args::text FROM procrastinate_jobs")
        assert cursor.fetchall() == [("taskhub", "taskhub.run", None, None, "{}")]


# --- running again


def test_a_rerun_is_a_new_task_with_the_present_policy(transactional_db: None) -> None:
    world = kit.make_world()
    old = kit.create(world, idempotency_key="k", arguments={"text": "again"})
    with pytest.raises(Refused):
        rerun_task(world.context.tenant_id, old.public_id, world.actor)
    kit.fault(kit.claim_one())
    with pytest.raises(NotFound):
        rerun_task(factories.make_tenant().pk, old.public_id, world.actor)
    new = rerun_task(world.context.tenant_id, old.public_id, world.actor)
    assert new.id != old.id
    assert (kit.column(new.id, "rerun_of_id"), kit.column(new.id, "idempotency_key")) == (old.id, None)
    assert kit.claim_one().arguments == {"text": "again"}
    assert kit.look(old.id).state is State.FAULTED


@pytest.mark.parametrize("of", ["tool", "server"])
def test_a_task_whose_tool_is_not_offered_is_not_run_again(world: World, of: str) -> None:
    old = kit.create(world)
    kit.finish(kit.claim_one())
    if of == "tool":
        Tool.objects.filter(pk=world.tool.id).update(enabled=False)
    else:
        Server.objects.filter(tools=world.tool.id).update(enabled=False)
    with pytest.raises(Refused, match=f"{world.tool.exposed_name} is not offered at present"):
        rerun_task(world.context.tenant_id, old.public_id, world.actor)
    assert Task.objects.count() == 1

"""Permits: what they say, and that each is redeemed once, in its time, for its call, by its client."""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import partial
from typing import Any

import pytest

from taskhub.console.actions import ACTIONS
from taskhub.core.errors import Refused
from taskhub.core.records import Actor, TaskRecord
from taskhub.core.rules import Otherwise, Rule, Then, Verdict
from taskhub.core.states import Door, State
from taskhub.core.versions import DECIDED_ONLY
from taskhub.domain.permits.records import KEPT_HOURS, Permit, Redemption
from taskhub.domain.permits.signatures import arguments_digest, is_signed, signed
from taskhub.domain.permits.writes import issue_permit, owned_permit, purge_permits, record_refusal, redeem_permit
from taskhub.domain.questions.answer import AnswerOutcome, decide_approval
from taskhub.domain.tasks.cancel import request_cancel
from taskhub.domain.tasks.rerun import rerun_task
from taskhub.domain.tasks.run import claim_tasks
from taskhub.domain.tasks.sweep import sweep
from taskhub.store.models import Event, Membership, Server, Tool
from tests.domain import kit
from tests.domain.kit import Crew, World
from tests.factories import WORKER, make_person

ARGUMENTS = {"text": "hello"}


@pytest.fixture
def world(transactional_db: None) -> World:
    return kit.make_world(asks={})


def issued(world: World, seconds: int = 60) -> Permit:
    return issue_permit(
        tenant_id=world.context.tenant_id,
        context_id=world.context.pk,
        tool=world.tool,
        arguments_sha256=arguments_digest(ARGUMENTS),
        verdict=Verdict(Then.ALLOW, version=3),
        seconds=seconds,
        actor=world.actor,
    )


def redeem(world: World, permit: Permit, arguments: dict[str, Any] | None = None) -> Redemption:
    digest = arguments_digest(ARGUMENTS if arguments is None else arguments)
    return redeem_permit(permit.public_id, context_id=world.context.pk, arguments_sha256=digest, actor=world.actor)


def asked(world: World) -> TaskRecord:
    return kit.create(world, revision=DECIDED_ONLY, arguments=ARGUMENTS, permit_seconds=60, wanted_seconds=120)


def decide(world: World, task: TaskRecord, *, approve: bool = True, name: str = "ada") -> AnswerOutcome:
    person = make_person("approver", world.context.tenant)
    actor = Actor(name=name, door=Door.WEB, user_id=person.user_id, reason="" if approve else "no")
    return decide_approval(task.id, kit.opened(task.id), approve=approve, actor=actor)


def turned_back(permit: Permit, seconds: float) -> None:
    """As if so much time had gone by."""
    with kit.superuser_past_the_guards() as raw:
        raw.execute(
            "UPDATE permit SET issued_at = issued_at - make_interval(secs => %s),"
            " expires_at = expires_at - make_interval(secs => %s) WHERE public_id = %s",
            (seconds, seconds, permit.public_id),
        )


def test_it_is_redeemed_once(world: World) -> None:
    permit = issued(world)
    assert [redeem(world, permit) for _ in range(2)] == [Redemption.REDEEMED, Redemption.USED]
    found = owned_permit(permit.public_id, world.context.pk)
    assert found is not None
    assert found.redeemed_at is not None
    events = Event.objects.filter(after__permit=permit.public_id).order_by("id")
    assert [(event.action, event.actor) for event in events] == [
        ("permit.issued", world.context.name),
        ("permit.redeemed", world.context.name),
    ]


@pytest.fixture
def crew() -> Iterator[Crew]:
    made = Crew(2)
    yield made
    made.close()


def test_of_two_connections_at_once_one_redeems_it(world: World, crew: Crew) -> None:
    for _ in range(20):
        permit = issued(world)
        outcomes = crew.race(*[partial(redeem, world, permit)] * 2)
        assert sorted(outcomes) == [Redemption.REDEEMED, Redemption.USED]


def test_it_is_for_its_client_and_its_arguments(world: World) -> None:
    permit, other = issued(world), kit.another_client(world)
    assert redeem(other, permit) == Redemption.UNKNOWN
    assert owned_permit(permit.public_id, other.context.pk) is None
    assert redeem(world, permit, {"text": "hello "}) == Redemption.OTHER_ARGUMENTS
    assert redeem(world, permit, {}) == Redemption.OTHER_ARGUMENTS
    assert redeem(world, permit) == Redemption.REDEEMED


def test_it_is_for_its_time(world: World) -> None:
    permit = issued(world)
    turned_back(permit, 60)
    assert redeem(world, permit) == Redemption.EXPIRED
    found = owned_permit(permit.public_id, world.context.pk)
    assert found is not None
    assert (found.expired, found.redeemed_at) == (True, None)


@pytest.mark.parametrize(
    ("change", "outcome"),
    [
        ({"enabled": False}, Redemption.WITHDRAWN),
        ({"rejected": "bad"}, Redemption.WITHDRAWN),
        ({"digest": "1" * 64}, Redemption.TOOL_CHANGED),
    ],
)
def test_it_is_for_the_tool_as_it_was(world: World, change: dict[str, Any], outcome: Redemption) -> None:
    permit = issued(world)
    Tool.objects.filter(pk=world.tool.id).update(**change)
    assert redeem(world, permit) == outcome


def test_it_is_not_for_a_server_that_is_off(world: World) -> None:
    permit = issued(world)
    Server.objects.filter(pk=world.tool.server_id).update(enabled=False)
    assert redeem(world, permit) == Redemption.WITHDRAWN


def test_it_is_kept_for_a_time_after_its_end(world: World) -> None:
    lasting, ended = issued(world), issued(world)
    turned_back(ended, 60 + KEPT_HOURS * 3_600 + 5)
    turned_back(lasting, KEPT_HOURS * 3_600)
    assert purge_permits() == 1
    assert owned_permit(ended.public_id, world.context.pk) is None
    assert owned_permit(lasting.public_id, world.context.pk) is not None


# The task in which people decide ----------------------------------------------------------


def test_approving_it_issues_a_permit_and_runs_nothing(world: World) -> None:
    task = asked(world)
    assert task.state is State.INPUT_REQUIRED
    assert decide(world, task) == AnswerOutcome.ANSWERED
    assert kit.look(task.id).state is State.FINISHED
    assert claim_tasks(worker="w", limit=1, lease_seconds=60, per_context=1, actor=WORKER).tasks == []
    permit = owned_permit(task.public_id, world.context.pk)
    assert permit is not None
    assert (permit.asked, permit.arguments_sha256) == (True, arguments_digest(ARGUMENTS))
    assert redeem(world, permit) == Redemption.REDEEMED
    (event,) = Event.objects.filter(action="permit.issued")
    assert (event.actor, event.door, event.task_id) == ("ada", "web", task.id)


def test_what_becomes_of_it_is_in_the_history_of_the_call(world: World) -> None:
    task = asked(world)
    decide(world, task)
    permit = owned_permit(task.public_id, world.context.pk)
    assert permit is not None
    assert redeem(world, permit) == Redemption.REDEEMED
    record_refusal(permit, "used", tenant_id=world.context.tenant_id, actor=WORKER)
    told = [action for action in kit.actions(task.id) if action.startswith("permit.")]
    assert told == ["permit.issued", "permit.redeemed", "permit.refused"]
    assert set(told) <= ACTIONS.keys(), "they have words on the page of the task"


def test_its_quorum_counts(transactional_db: None) -> None:
    world = kit.make_world(asks={"quorum": 2})
    task = asked(world)
    assert decide(world, task) == AnswerOutcome.COUNTED
    assert owned_permit(task.public_id, world.context.pk) is None
    assert decide(world, task, name="bob") == AnswerOutcome.ANSWERED
    assert owned_permit(task.public_id, world.context.pk) is not None


@pytest.mark.parametrize("how", ["rejected", "cancelled", "late"])
def test_without_an_approval_there_is_no_permit(world: World, how: str) -> None:
    task = asked(world)
    if how == "rejected":
        decide(world, task, approve=False)
    elif how == "cancelled":
        request_cancel(task.id, actor=world.actor)
    else:
        kit.turn_back(task.id, "due_at", 1, table="question")
        sweep()
    ended = kit.look(task.id)
    assert ended.state == {"rejected": "finished", "cancelled": "cancelled", "late": "faulted"}[how]
    assert ended.is_error is (how == "rejected")
    assert owned_permit(task.public_id, world.context.pk) is None


def test_it_waits_as_long_as_it_is_wanted(world: World) -> None:
    task = asked(world)
    seconds = "SELECT extract(epoch FROM due_at - opened_at)::int FROM question WHERE task_id = %s"
    assert kit.count_rows(seconds, [task.id]) == 120


@pytest.mark.parametrize("hurry", [False, True])
def test_a_rule_that_lets_it_through_does_so_after_its_own_time(world: World, hurry: bool) -> None:
    rule = Rule(name="all", when="", then=Then.ASK, expires_minutes=30, otherwise=Otherwise.ALLOW)
    task = kit.create(
        world,
        revision=DECIDED_ONLY,
        arguments=ARGUMENTS,
        permit_seconds=60,
        wanted_seconds=60 if hurry else 3_600,
        verdict=Verdict(Then.ASK, rule, 1),
    )
    kit.turn_back(task.id, "due_at", 61 if hurry else 1_801, table="question")
    assert sweep() == 1
    ended, permit = kit.look(task.id), owned_permit(task.public_id, world.context.pk)
    assert (ended.state, permit is None) == (State.FAULTED if hurry else State.FINISHED, hurry)
    if permit is not None:
        assert redeem(world, permit) == Redemption.REDEEMED


def test_there_is_none_where_the_tool_has_changed_since_people_were_asked(world: World) -> None:
    task = asked(world)
    Tool.objects.filter(pk=world.tool.id).update(digest="1" * 64)
    assert decide(world, task) == AnswerOutcome.ANSWERED
    ended = kit.look(task.id)
    assert (ended.state, ended.message) == (
        State.FAULTED,
        "No permit: the tool has changed since the call was approved",
    )
    assert owned_permit(task.public_id, world.context.pk) is None


def test_it_is_for_the_address_that_was_approved(world: World) -> None:
    task = asked(world)
    decide(world, task)
    permit = owned_permit(task.public_id, world.context.pk)
    assert permit is not None
    Server.objects.filter(pk=world.tool.server_id).update(target="elsewhere:server")
    assert redeem(world, permit) == Redemption.CALL_CHANGED
    Server.objects.filter(pk=world.tool.server_id).update(target="demo:server")
    assert redeem(world, permit) == Redemption.REDEEMED


def test_it_is_good_while_those_who_approved_it_may(world: World) -> None:
    task = asked(world)
    decide(world, task)
    permit = owned_permit(task.public_id, world.context.pk)
    assert permit is not None
    Membership.objects.filter(tenant=world.context.tenant, role="approver").update(role="viewer")
    assert redeem(world, permit) == Redemption.APPROVER_LEFT


def test_its_task_is_not_run_again(world: World) -> None:
    task = asked(world)
    decide(world, task)
    with pytest.raises(Refused, match="only decided here"):
        rerun_task(world.context.tenant_id, task.public_id, world.actor)


# Signatures -------------------------------------------------------------------------------


def test_the_same_permit_has_one_text(world: World) -> None:
    permit = issued(world)
    found = owned_permit(permit.public_id, world.context.pk)
    assert found is not None
    assert signed(found) == signed(permit)
    assert is_signed(found, signed(permit))
    assert not is_signed(found, signed(issued(world)))
    assert not is_signed(found, "\ud800")


def test_another_secret_makes_another_key(world: World, settings: Any) -> None:
    permit = issued(world)
    before = signed(permit)
    settings.SECRET_KEY = "x" * 50
    assert not is_signed(permit, before)


def test_equal_arguments_have_equal_digests() -> None:
    assert arguments_digest({"b": 1, "a": [1, 2]}) == arguments_digest(json.loads('{"a":[1,2],"b":1}'))
    assert arguments_digest({"a": 1}) != arguments_digest({"a": "1"})
    assert arguments_digest({"a": 1}) != arguments_digest({"a": True})

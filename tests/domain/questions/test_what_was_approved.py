"""An approval is for one exact call, by people who may approve it: after any change it is asked again."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import pytest
from django.contrib.auth.models import User

from taskhub.core.permissions import PERMISSIONS
from taskhub.core.states import Role, State
from taskhub.domain.questions.answer import AnswerOutcome, decide_approval
from taskhub.domain.tasks.sweep import sweep
from taskhub.store.models import Membership, Question, Server
from tests.domain import kit
from tests.domain.kit import World

pytestmark = pytest.mark.django_db(transaction=True)

CALL: Final = "the call or its server's address has changed since it was approved"
APPROVER: Final = "somebody who approved it may not approve it any more"


def approved(world: World, quorum: int = 1) -> int:
    """A call that people have approved, and no worker has taken."""
    task_id = kit.create(world).id
    for _ in range(quorum):
        decide_approval(task_id, kit.opened(task_id), approve=True, actor=kit.approver(task_id))
    return task_id


def held_back(task_id: int, why: str, key: str = "approval-2") -> None:
    """A worker does not get it, and people are asked (again), and told why."""
    assert kit.claim() == []
    now = kit.look(task_id)
    assert (now.state, kit.opened(task_id).key) == (State.INPUT_REQUIRED, key)
    assert now.message.endswith(f": {why}")


def server(**columns: Any) -> Callable[[World], None]:
    return lambda world: change(Server.objects.filter(pk=world.tool.server_id), columns)


def membership(**columns: Any) -> Callable[[World], None]:
    return lambda world: change(Membership.objects.all(), columns)


def change(rows: Any, columns: dict[str, Any]) -> None:
    assert rows.update(**columns) >= 1


def by_hand(statement: str) -> Callable[[World], None]:
    """As somebody who can write to the database past its guards."""

    def tamper(world: World) -> None:
        with kit.superuser_past_the_guards() as raw:
            raw.execute(statement)

    return tamper


ATTACKS: dict[str, tuple[Callable[[World], None], str]] = {
    "another address": (server(target="http://elsewhere.example/mcp"), CALL),
    "another secret address": (server(sealed_target=b"x"), CALL),
    "a command in another directory": (server(transport="stdio", directory="/elsewhere"), CALL),
    "other arguments": (by_hand('UPDATE task SET arguments = \'{"text": "other"}\''), CALL),
    "other answers": (by_hand("UPDATE task SET answers = '{\"ask\": {}}'"), CALL),
    "another rule": (by_hand("UPDATE question SET params = '{}'"), CALL),
    "a lower quorum": (by_hand("UPDATE question SET quorum = 0"), CALL),
    "another group": (by_hand("UPDATE question SET \"group\" = ''"), CALL),
    "another role": (membership(role="viewer"), APPROVER),
    "out of the group": (membership(groups=["other"]), APPROVER),
    "not a member any more": (lambda world: leave(), APPROVER),
    "locked out": (lambda world: change(User.objects.all(), {"is_active": False}), APPROVER),
}


def leave() -> None:
    Membership.objects.all().delete()


@pytest.mark.parametrize("attack", ATTACKS)
def test_what_changes_between_the_decision_and_the_run_is_asked_again(attack: str) -> None:
    world = kit.make_world(asks={"group": "ops"})
    task_id = approved(world)
    happens, why = ATTACKS[attack]
    happens(world)
    held_back(task_id, why)


@pytest.mark.parametrize("attack", [name for name, (_, why) in ATTACKS.items() if why == CALL])
def test_what_changes_while_people_decide_is_asked_again(attack: str) -> None:
    world = kit.make_world(asks={"group": "ops"})
    task_id = kit.create(world).id
    approver, question = kit.approver(task_id), kit.opened(task_id)
    happens, why = ATTACKS[attack]
    happens(world)
    outcome = decide_approval(task_id, question, approve=True, actor=approver)
    assert outcome is AnswerOutcome.ANSWERED
    held_back(task_id, why)


def test_the_new_approval_is_for_the_call_as_it_is_now() -> None:
    world = kit.make_world(asks={})
    task_id = approved(world)
    server(target="http://elsewhere.example/mcp")(world)
    held_back(task_id, CALL)
    first, second = Question.objects.order_by("id").values_list("call_digest", flat=True)
    assert bytes(first or b"") != bytes(second or b"")
    decide_approval(task_id, kit.opened(task_id), approve=True, actor=kit.approver(task_id))
    assert kit.claim_one().task_id == task_id


@pytest.mark.parametrize("role", list(Role))
def test_an_approval_stands_while_the_role_of_who_gave_it_may_approve(role: Role) -> None:
    task_id = approved(kit.make_world(asks={}))
    change(Membership.objects.all(), {"role": str(role)})
    assert bool(kit.claim()) is ("question.approve" in PERMISSIONS[role])
    assert kit.look(task_id).state is (
        State.WORKING if "question.approve" in PERMISSIONS[role] else State.INPUT_REQUIRED
    )


def test_one_of_two_approvers_is_not_enough() -> None:
    world = kit.make_world(asks={"quorum": 2})
    task_id = approved(world, quorum=2)
    first = Membership.objects.order_by("id").first()
    assert first is not None
    change(Membership.objects.filter(pk=first.pk), {"role": "operator"})
    held_back(task_id, APPROVER)


def test_an_address_that_comes_back_is_the_one_that_was_approved() -> None:
    world = kit.make_world(asks={})
    task_id, target = approved(world), Server.objects.get(pk=world.tool.server_id).target
    server(target="http://elsewhere.example/mcp")(world)
    server(target=target)(world)
    assert kit.claim_one().task_id == task_id


def test_a_call_that_nobody_had_to_approve_follows_its_server_to_another_address() -> None:
    world = kit.make_world()
    task_id = kit.create(world).id
    server(target="http://elsewhere.example/mcp")(world)
    assert kit.claim_one().task_id == task_id
    assert sweep() == 0


def test_the_digest_of_what_is_asked_stays() -> None:
    world = kit.make_world(asks={})
    question = Question.objects.get(task_id=kit.create(world).id)
    with pytest.raises(Exception, match="stays as it is"):
        Question.objects.filter(pk=question.pk).update(call_digest=b"x" * 32)

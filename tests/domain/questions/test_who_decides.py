"""Whose word on an approval does not count: of whoever made the call, where the rule says so."""

from __future__ import annotations

import pytest

from taskhub.control import questions
from taskhub.control.caller import Caller, of_person
from taskhub.core.errors import Forbidden
from taskhub.core.names import OAUTH_ISSUER
from taskhub.core.records import Person, TaskRecord
from taskhub.core.rules import Rule, Then, Verdict
from taskhub.core.states import Door, State
from taskhub.domain.clients.principals import default_tenant
from taskhub.domain.questions import inbox
from taskhub.domain.questions.answer import AnswerOutcome, decide_approval
from taskhub.domain.questions.inbox import Obstacle
from taskhub.domain.tasks.create import create_task
from taskhub.store.models import AuthContext, Decision, Event, Tenant, Tool
from tests.domain import kit
from tests.factories import make_context, make_person, make_server, make_tool

pytestmark = pytest.mark.django_db
RULE = Rule(name="Production", when="", then=Then.ASK, not_requester=True)


def by(person: Person) -> Caller:
    return of_person(person, door=Door.WEB)


def obstacle(person: Person, task: TaskRecord) -> Obstacle:
    found = inbox.question_of_task(person.tenant_id, task.public_id, "approval")
    assert found is not None
    return questions.find_question(by(person), found).obstacle


def decide(person: Person, task: TaskRecord, *, approve: bool = True) -> AnswerOutcome:
    found = inbox.question_of_task(person.tenant_id, task.public_id, "approval")
    assert found is not None
    item = questions.find_question(by(person), found)
    return questions.decide_approval(by(person), item, approve=approve, reason="seen")


def past_the_pages(person: Person, task: TaskRecord, *, approve: bool = True) -> AnswerOutcome:
    """As a program would that does not look at obstacles first."""
    actor = by(person).because("seen")
    return decide_approval(task.id, kit.opened(task.id), approve=approve, actor=actor)


@pytest.fixture
def tenant() -> Tenant:
    return default_tenant()


def call(tenant: Tenant, of: Person | None = None, rule: Rule = RULE) -> TaskRecord:
    """A call that the rule asks about, by an application of this person or by a client of nobody."""
    context = make_context(tenant)
    if of is not None:
        AuthContext.objects.filter(pk=context.pk).update(issuer=OAUTH_ISSUER, subject=f"user:{of.user_id}")
    world = kit.World(context, make_tool(make_server(tenant)))
    return kit.create(world, verdict=Verdict(Then.ASK, rule, 3))


@pytest.mark.parametrize("approve", [True, False])
def test_whoever_made_the_call_through_an_application_does_not_decide_it(tenant: Tenant, approve: bool) -> None:
    mia, ben = (make_person("admin", tenant) for _ in range(2))
    task = call(tenant, mia)
    assert obstacle(mia, task) is Obstacle.REQUESTER
    assert (inbox.open_count(mia), inbox.open_count(ben)) == (0, 1)
    with pytest.raises(Forbidden, match="You made this call, through agent-"):
        decide(mia, task, approve=approve)
    assert Event.objects.filter(action="access.denied", user_id=mia.user_id).count() == 1
    assert past_the_pages(mia, task, approve=approve) is AnswerOutcome.BARRED
    assert not Decision.objects.exists()
    assert kit.look(task.id).state is State.INPUT_REQUIRED
    assert decide(ben, task, approve=approve) is AnswerOutcome.ANSWERED


def test_an_approval_by_two_is_not_by_the_requester_and_another(tenant: Tenant) -> None:
    mia, ben, eva = (make_person("approver", tenant) for _ in range(3))
    task = call(tenant, mia, Rule(name="Two", when="", then=Then.ASK, not_requester=True, quorum=2))
    assert decide(ben, task) is AnswerOutcome.COUNTED
    assert past_the_pages(mia, task) is AnswerOutcome.BARRED
    assert decide(eva, task) is AnswerOutcome.ANSWERED


def ran_again(tenant: Tenant, person: Person) -> TaskRecord:
    world = kit.World(make_context(tenant), make_tool(make_server(tenant)))
    return create_task(kit.new_task(world, verdict=Verdict(Then.ASK, RULE, 3)), by(person).actor).task


def test_whoever_ran_the_call_again_does_not_decide_it(tenant: Tenant) -> None:
    mia, ben = (make_person("admin", tenant) for _ in range(2))
    task = ran_again(tenant, mia)
    assert obstacle(mia, task) is Obstacle.RERAN
    with pytest.raises(Forbidden, match="You ran this call again"):
        decide(mia, task)
    assert past_the_pages(mia, task) is AnswerOutcome.BARRED
    assert decide(ben, task) is AnswerOutcome.ANSWERED


def test_where_the_tool_changes_after_the_approval_the_requester_does_not_decide_either(tenant: Tenant) -> None:
    mia, ben = (make_person("admin", tenant) for _ in range(2))
    task = ran_again(tenant, mia)
    decide(ben, task)
    Tool.objects.update(digest="1" * 64)
    assert kit.claim() == []
    assert kit.opened(task.id).key == "approval-2"
    assert past_the_pages(mia, task) is AnswerOutcome.BARRED
    assert past_the_pages(ben, task) is AnswerOutcome.ANSWERED


def test_without_the_rule_saying_so_whoever_made_the_call_may_decide_it(tenant: Tenant) -> None:
    mia = make_person("approver", tenant)
    assert decide(mia, call(tenant, mia, Rule(name="Any", when="", then=Then.ASK))) is AnswerOutcome.ANSWERED


def test_only_the_issuer_of_the_hub_says_for_whom_an_application_acts(tenant: Tenant) -> None:
    """Another issuer may call its subjects anything."""
    mia = make_person("approver", tenant)
    task = call(tenant, mia)
    AuthContext.objects.update(issuer="https://issuer.example")
    assert obstacle(mia, task) is Obstacle.NONE
    AuthContext.objects.update(issuer=OAUTH_ISSUER, subject=f"user:{mia.user_id}0")
    assert decide(mia, task) is AnswerOutcome.ANSWERED

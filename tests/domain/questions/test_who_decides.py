"""Whose word on an approval does not count: of whoever made the call, where the rule says so; of whoever got or gave
rights, or changed the rules, since the call was made."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
from django.db import connection

from taskhub.control import questions
from taskhub.control.caller import Caller, of_person
from taskhub.core.errors import Forbidden
from taskhub.core.names import OAUTH_ISSUER
from taskhub.core.records import Actor, Person, TaskRecord
from taskhub.core.rules import Rule, Then, Verdict
from taskhub.core.states import Door, State
from taskhub.domain.clients.principals import default_tenant, person_of
from taskhub.domain.people import writes
from taskhub.domain.questions import inbox
from taskhub.domain.questions.answer import AnswerOutcome, decide_approval
from taskhub.domain.questions.inbox import Obstacle
from taskhub.domain.rules.changes import save_rules
from taskhub.domain.rules.reads import present
from taskhub.domain.tasks.create import create_task
from taskhub.store.models import AuthContext, Decision, Event, Membership, Tenant, Tool
from tests.domain import kit
from tests.domain.tasks.mutants import Mutant, cut
from tests.factories import make_context, make_person, make_server, make_task, make_tenant, make_tool

pytestmark = pytest.mark.django_db
RULE = Rule(name="Production", when="", then=Then.ASK, not_requester=True)
SHELL = Actor(name="manage.py", door=Door.CLI)


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
    assert (inbox.waiting(mia).mine, inbox.waiting(ben).mine) == (0, 1)
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


# --- rights that came, or were given, after the call


def set_role(person: Person, role: str = "approver", groups: list[str] | None = None, *, actor: Actor = SHELL) -> None:
    writes.set_role(tenant_id=person.tenant_id, user_id=person.user_id, role=role, groups=groups, actor=actor)


def fresh(person: Person) -> Person:
    """The person as the next request finds them."""
    found = person_of(person.user_id, person.username)
    assert found is not None
    return found


GRANTS: dict[str, tuple[str, Callable[[Person, Actor], object]]] = {
    "a role": ("viewer", lambda one, actor: set_role(one, actor=actor)),
    "a higher role": ("approver", lambda one, actor: set_role(one, "admin", actor=actor)),
    "groups": ("approver", lambda one, actor: set_role(one, groups=["ops"], actor=actor)),
    "a password": (
        "approver",
        lambda one, actor: writes.give_password(tenant_id=one.tenant_id, user_id=one.user_id, actor=actor),
    ),
}


@pytest.mark.parametrize("rule", [RULE, None], ids=["asked by a rule", "asked by a policy"])
@pytest.mark.parametrize("what", GRANTS)
def test_who_gets_rights_between_asking_and_deciding_does_not_count_nor_who_gives_them(
    tenant: Tenant, what: str, rule: Rule | None
) -> None:
    role, grant = GRANTS[what]
    mia, ben, eva = make_person("admin", tenant), make_person(role, tenant), make_person("approver", tenant)
    if rule is None:
        world = kit.World(make_context(tenant), make_tool(make_server(tenant), asks={}))
        task = kit.create(world)
    else:
        task = call(tenant, rule=rule)
    assert obstacle(mia, task) is Obstacle.NONE
    grant(ben, by(mia).actor)
    ben = fresh(ben)
    assert obstacle(ben, task) is Obstacle.FRESH
    with pytest.raises(Forbidden, match="You got your role, groups, password or access after this call was made"):
        decide(ben, task)
    assert past_the_pages(ben, task) is AnswerOutcome.BARRED
    assert obstacle(mia, task) is Obstacle.GOVERNED
    with pytest.raises(Forbidden, match="You changed the rules, or somebody’s role"):
        decide(mia, task)
    assert past_the_pages(mia, task) is AnswerOutcome.BARRED
    assert (inbox.waiting(mia).mine, inbox.waiting(ben).mine, inbox.waiting(eva).mine) == (0, 0, 1)
    assert not Decision.objects.exists()
    assert decide(eva, task) is AnswerOutcome.ANSWERED
    for person in (mia, ben):
        assert decide(person, call(tenant)) is AnswerOutcome.ANSWERED, "a call that was made afterwards"


def test_a_password_that_is_given_once_more_before_it_was_changed_is_given_again(tenant: Tenant) -> None:
    ben = make_person("approver", tenant)
    writes.give_password(tenant_id=tenant.pk, user_id=ben.user_id, actor=SHELL)
    task = call(tenant)
    assert obstacle(ben, task) is Obstacle.NONE
    writes.give_password(tenant_id=tenant.pk, user_id=ben.user_id, actor=SHELL)
    assert obstacle(ben, task) is Obstacle.FRESH


def test_a_new_person_and_one_who_is_let_in_again_do_not_count(tenant: Tenant) -> None:
    mia, ben = make_person("admin", tenant), make_person("approver", tenant)
    writes.disable(tenant_id=tenant.pk, user_id=ben.user_id, actor=SHELL)
    task = call(tenant)
    user_id, _ = writes.add_person(tenant_id=tenant.pk, username="new", role="approver", actor=by(mia).actor)
    new = person_of(user_id, "new")
    assert new is not None
    assert obstacle(new, task) is Obstacle.FRESH
    assert obstacle(mia, task) is Obstacle.GOVERNED
    eva = make_person("admin", tenant)
    writes.enable(tenant_id=tenant.pk, user_id=ben.user_id, actor=by(eva).actor)
    assert obstacle(ben, task) is Obstacle.FRESH
    assert obstacle(eva, task) is Obstacle.GOVERNED


def test_a_row_that_is_changed_by_hand_counts_as_well(tenant: Tenant) -> None:
    ben = make_person("viewer", tenant)
    task = call(tenant)
    with connection.cursor() as cursor:
        cursor.execute("UPDATE membership SET role = 'approver', granted_at = '2020-01-01' WHERE user_id = %s", [
            ben.user_id
        ])  # fmt: skip
    assert past_the_pages(fresh(ben), task) is AnswerOutcome.BARRED


def test_whoever_saves_the_rules_does_not_decide_on_earlier_calls(tenant: Tenant) -> None:
    mia, ben = (make_person("admin", tenant) for _ in range(2))
    task = call(tenant)
    save_rules(tenant.pk, [RULE], expected=0, actor=by(mia).actor)
    save_rules(tenant.pk, [RULE], expected=1, actor=by(ben).actor)  # nothing differs
    assert obstacle(mia, task) is Obstacle.GOVERNED
    assert past_the_pages(mia, task) is AnswerOutcome.BARRED
    assert decide(mia, call(tenant)) is AnswerOutcome.ANSWERED
    assert decide(ben, task) is AnswerOutcome.ANSWERED


def test_what_somebody_changed_in_another_tenant_does_not_matter(tenant: Tenant) -> None:
    other = make_tenant()
    ben = make_person("approver", tenant)
    task = call(tenant)
    Membership.objects.create(tenant=other, user_id=ben.user_id, role="admin")
    save_rules(other.pk, [RULE], expected=0, actor=by(ben).actor)
    assert obstacle(ben, task) is Obstacle.NONE


def test_a_role_that_stays_a_new_password_of_ones_own_and_a_question_of_a_tool_bar_nobody(tenant: Tenant) -> None:
    mia, ben = make_person("admin", tenant), make_person("approver", tenant, groups=["ops"])
    task = call(tenant)
    set_role(ben, groups=["ops"], actor=by(mia).actor)
    Membership.objects.filter(user_id=ben.user_id).update(password_due=False)
    assert obstacle(ben, task) is Obstacle.NONE
    assert obstacle(mia, task) is Obstacle.NONE
    form = make_task(make_context(tenant), state="input_required")
    set_role(ben, groups=["db"])
    found = inbox.question_of_task(tenant.pk, form.public_id, "")
    assert found is not None
    assert questions.find_question(by(fresh(ben)), found).obstacle is Obstacle.NONE


# --- each attack, with the guard and without it


def by_ones_own_application(tenant: Tenant, mia: Person) -> tuple[TaskRecord, Person]:
    return call(tenant, mia), mia


def by_running_it_again(tenant: Tenant, mia: Person) -> tuple[TaskRecord, Person]:
    return ran_again(tenant, mia), mia


def by_a_fresh_approver(tenant: Tenant, mia: Person) -> tuple[TaskRecord, Person]:
    ben, task = make_person("viewer", tenant), call(tenant, mia)
    set_role(ben, actor=by(mia).actor)
    return task, fresh(ben)


def by_another_password(tenant: Tenant, mia: Person) -> tuple[TaskRecord, Person]:
    ben, task = make_person("approver", tenant), call(tenant, mia)
    writes.give_password(tenant_id=tenant.pk, user_id=ben.user_id, actor=by(mia).actor)
    return task, ben


def by_other_rules(tenant: Tenant, mia: Person) -> tuple[TaskRecord, Person]:
    task = call(tenant)
    number = present(tenant.pk).version
    save_rules(tenant.pk, [RULE][number:], expected=number, actor=by(mia).actor)
    return task, mia


def after_the_time(tenant: Tenant, mia: Person) -> tuple[TaskRecord, Person]:
    task = call(tenant)
    kit.turn_back(task.id, "due_at", 1, table="question")
    return task, mia


SINCE = Mutant("membership_granted", r"NEW\.granted_at := clock_timestamp\(\);")
ATTACKS: dict[str, tuple[Callable[[Tenant, Person], tuple[TaskRecord, Person]], Mutant]] = {
    "one's own application": (by_ones_own_application, Mutant("th_barred", "'requester'", "''")),
    "one's own application, asked of nobody": (
        by_ones_own_application,
        Mutant("answer", r"IF th_barred\(.*?END IF;"),
    ),
    "a call that one ran again": (by_running_it_again, Mutant("th_barred", "'reran'", "''")),
    "an approver made by the requester": (by_a_fresh_approver, Mutant("th_barred", "'fresh'", "''")),
    "an approver whose new role is not noted": (by_a_fresh_approver, SINCE),
    "an approver whose password the requester has set": (by_another_password, SINCE),
    "somebody who changed the rules": (by_other_rules, Mutant("th_barred", "'governed'", "''")),
    "somebody who comes too late": (after_the_time, Mutant("th_barred", "'overdue'", "''")),
}


@pytest.mark.parametrize("name", ATTACKS)
def test_an_attack_succeeds_without_its_guard_alone(tenant: Tenant, name: str) -> None:
    attack, guard = ATTACKS[name]
    task, person = attack(tenant, make_person("admin", tenant))
    assert past_the_pages(person, task) is AnswerOutcome.BARRED
    with cut(guard):
        task, person = attack(tenant, make_person("admin", tenant))
        assert past_the_pages(person, task) is AnswerOutcome.ANSWERED


def test_a_decision_before_the_rules_were_saved_stands(tenant: Tenant) -> None:
    mia, ben = make_person("admin", tenant), make_person("admin", tenant)
    task = call(tenant, rule=replace(RULE, quorum=2))
    assert past_the_pages(mia, task) is AnswerOutcome.COUNTED
    save_rules(tenant.pk, [RULE], expected=present(tenant.pk).version, actor=by(mia).actor)
    assert past_the_pages(ben, task) is AnswerOutcome.ANSWERED

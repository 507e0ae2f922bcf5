"""Approvals for which a rule wants a second factor, below the pages: by whatever program, with somebody else's, with
one that is gone, by the shell; and how each attack succeeds once its guard is cut out."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.db import transaction

from taskhub.control import absences, questions
from taskhub.control.caller import CONFIRMED_SECONDS, Caller, of_person, of_shell
from taskhub.core.errors import Invalid, Refused
from taskhub.core.records import Actor, Confirmed, Person, TaskRecord
from taskhub.core.rules import Otherwise, Rule, Then, Verdict
from taskhub.core.states import Door, State
from taskhub.core.versions import DECIDED_ONLY
from taskhub.domain.clients.principals import default_tenant
from taskhub.domain.people import factors
from taskhub.domain.questions import inbox, news
from taskhub.domain.questions.answer import AnswerOutcome, EditOutcome, decide_approval
from taskhub.domain.questions.inbox import InboxItem
from taskhub.domain.questions.reads import approvers_left
from taskhub.domain.rules.changes import save_rules
from taskhub.domain.rules.reads import present
from taskhub.domain.tasks import edits
from taskhub.domain.tasks.sweep import sweep
from taskhub.store.models import Decision, Event, Question, Tenant
from tests.domain import kit
from tests.domain.tasks.mutants import Mutant, cut
from tests.factories import make_context, make_person, make_server, make_tool
from tests.support.factors import Phone

pytestmark = pytest.mark.django_db
WANTS = Rule(name="Production", when="", then=Then.ASK, second_factor=True)
UNLOCKED = Mutant("answer", r"IF asked\.needs_factor AND p_verdict = 'approve' THEN", "IF false THEN")
UNGUARDED = Mutant("decision_has_factor", r"IF EXISTS \(.*?\) THEN", "IF false THEN")
ANYBODYS = Mutant("th_confirmed", r" AND a\.user_id = person", "")


@pytest.fixture
def tenant() -> Tenant:
    return default_tenant()


def call(tenant: Tenant, rule: Rule = WANTS, **fields: Any) -> TaskRecord:
    save_rules(tenant.pk, [rule], expected=present(tenant.pk).version, actor=Actor(name="root", door=Door.CLI))
    world = kit.World(make_context(tenant), make_tool(make_server(tenant)))
    return kit.create(world, verdict=Verdict(Then.ASK, rule, present(tenant.pk).version), **fields)


def actor(person: Person, factor: int | None = None) -> Actor:
    return Actor(name=person.username, door=Door.WEB, user_id=person.user_id, reason="seen", factor=factor)


def past_the_pages(person: Person, task: TaskRecord, factor: int | None, *, approve: bool = True) -> AnswerOutcome:
    """As a program would that does not ask first."""
    return decide_approval(task.id, kit.opened(task.id), approve=approve, actor=actor(person, factor))


def by(person: Person, factor: int | None = None, *, ago: float = 0) -> Caller:
    """The person, who confirmed this factor so many seconds ago."""
    confirmed = None if factor is None else Confirmed(factor, time.time() - ago)
    return of_person(person, door=Door.WEB, confirmed=confirmed)


def item(caller: Caller, task: TaskRecord) -> InboxItem:
    question = Question.objects.filter(task_id=task.id).latest("id")
    return questions.find_question(caller, question.pk)


def decide(caller: Caller, task: TaskRecord, *, approve: bool = True) -> AnswerOutcome:
    return questions.decide_approval(caller, item(caller, task), approve=approve, reason="seen")


def test_who_has_just_confirmed_it_approves_and_that_is_on_record(tenant: Tenant) -> None:
    mia = make_person("approver", tenant)
    phone = Phone(mia)
    task = call(tenant)
    assert decide(by(mia, phone.factor), task) is AnswerOutcome.ANSWERED
    assert Decision.objects.get().second_factor == "totp"
    assert Event.objects.get(action="question.approve").after["second_factor"] == "totp"
    (vote,) = inbox.votes(Question.objects.get().pk)
    assert vote.second_factor == "totp"


def test_where_no_rule_wants_it_nothing_is_said_of_it(tenant: Tenant) -> None:
    mia = make_person("approver", tenant)
    task = call(tenant, Rule(name="Plain", when="", then=Then.ASK))
    assert decide(by(mia, Phone(mia).factor), task) is AnswerOutcome.ANSWERED
    assert Decision.objects.get().second_factor == ""
    assert "second_factor" not in Event.objects.get(action="question.approve").after
    assert "second_factor" not in Question.objects.get().params["decided"]


def test_rejecting_does_not_need_it(tenant: Tenant) -> None:
    mia = make_person("approver", tenant)
    for who in (by(mia), of_shell()):
        task = call(tenant)
        assert decide(who, task, approve=False) is AnswerOutcome.ANSWERED
        assert kit.look(task.id).state is State.FINISHED


def test_each_who_may_not_is_told_why(tenant: Tenant) -> None:
    mia, ben = (make_person("approver", tenant) for _ in range(2))
    phone = Phone(mia)
    task = call(tenant)
    late = by(mia, phone.factor, ago=CONFIRMED_SECONDS)
    for who, told in (
        (of_shell(), "a second factor of whoever approves, which a command does not have"),
        (by(ben), "you have none. Set one up under your account"),
        (by(ben, phone.factor), "you have none. Set one up under your account"),
        (by(mia), "To approve this call, type a code of your second factor."),
        (late, "To approve this call, type a code of your second factor."),
        (by(mia, phone.factor, ago=-3_600), "To approve this call, type a code of your second factor."),
    ):
        with pytest.raises(Invalid, match=told) as caught:
            decide(who, task)
        assert caught.value.data["field"] == "code"
    assert not Decision.objects.exists()
    assert decide(by(mia, phone.factor, ago=CONFIRMED_SECONDS - 5), task) is AnswerOutcome.ANSWERED


def of_nobody(tenant: Tenant) -> tuple[Person, int | None]:
    return make_person("approver", tenant), None


def of_somebody_else(tenant: Tenant) -> tuple[Person, int | None]:
    return make_person("approver", tenant), Phone(make_person("admin", tenant)).factor


def of_before(tenant: Tenant) -> tuple[Person, int | None]:
    """Confirmed, and then removed and set up anew."""
    mia = make_person("approver", tenant)
    phone = Phone(mia)
    factors.remove_own(tenant_id=tenant.pk, user_id=mia.user_id, actor=actor(mia))
    return mia, phone.factor


ATTACKS: dict[str, tuple[Callable[[Tenant], tuple[Person, int | None]], tuple[Mutant, ...]]] = {
    "without any": (of_nobody, (UNLOCKED, UNGUARDED)),
    "with that of somebody else": (of_somebody_else, (ANYBODYS,)),
    "with one that is gone": (of_before, (UNLOCKED, UNGUARDED)),
}


@pytest.mark.parametrize("name", ATTACKS)
def test_an_attack_succeeds_without_its_guard_alone(tenant: Tenant, name: str) -> None:
    attack, guards = ATTACKS[name]
    person, factor = attack(tenant)
    task = call(tenant)
    assert past_the_pages(person, task, factor) is AnswerOutcome.UNCONFIRMED
    assert not Decision.objects.exists()
    if UNLOCKED in guards:  # then the database refuses the row
        with (
            cut(UNLOCKED),
            pytest.raises(Refused, match="with a second factor only"),
            transaction.atomic(),
        ):
            past_the_pages(person, task, factor)
    task = call(tenant)
    with cut(*guards):
        assert past_the_pages(person, task, factor) is AnswerOutcome.ANSWERED


def test_a_permit_is_not_approved_without_it(tenant: Tenant) -> None:
    mia = make_person("approver", tenant)
    phone = Phone(mia)
    task = call(tenant, revision=DECIDED_ONLY, permit_seconds=60, wanted_seconds=120)
    assert past_the_pages(mia, task, None) is AnswerOutcome.UNCONFIRMED
    assert decide(by(mia, phone.factor), task) is AnswerOutcome.ANSWERED
    assert Event.objects.filter(action="permit.issued").count() == 1


EDITABLE = Rule(name="Production", when="", then=Then.ASK, second_factor=True, editable=("*",))


def test_an_edited_call_is_not_approved_without_it(tenant: Tenant) -> None:
    mia = make_person("approver", tenant)
    phone = Phone(mia)
    task = call(tenant, EDITABLE, arguments={"text": "hello"})
    asked = item(by(mia), task)
    proposed = questions.check_edit(by(mia), asked, {"text": "bye"})
    assert proposed.asking.second_factor
    with pytest.raises(Invalid, match="type a code of your second factor"):
        questions.edit_call(by(mia), asked, {"text": "bye"}, mark=proposed.mark)
    assert edits.edit_call(task.id, asked.question, proposed, votes=True, actor=actor(mia)) is EditOutcome.UNCONFIRMED
    assert Question.objects.count() == 1
    done = questions.edit_call(by(mia, phone.factor), asked, {"text": "bye"}, mark=proposed.mark)
    assert done is EditOutcome.ANSWERED
    assert Decision.objects.get().second_factor == "totp"


def test_an_edit_after_which_the_rules_want_it_needs_it(tenant: Tenant) -> None:
    mia = make_person("approver", tenant)
    plain = Rule(name="Production", when="", then=Then.ASK, editable=("*",))
    task = call(tenant, plain, arguments={"text": "hello"})
    save_rules(
        tenant.pk,
        [Rule(name="Bye", when='args.text == "bye"', then=Then.ASK, second_factor=True), plain],
        expected=present(tenant.pk).version,
        actor=Actor(name="root", door=Door.CLI),
    )
    asked = item(by(mia), task)
    proposed = questions.check_edit(by(mia), asked, {"text": "bye"})
    assert proposed.asking.second_factor
    with pytest.raises(Invalid, match="you have none"):
        questions.edit_call(by(mia), asked, {"text": "bye"}, mark=proposed.mark)
    assert edits.edit_call(task.id, asked.question, proposed, votes=True, actor=actor(mia)) is EditOutcome.UNCONFIRMED
    assert Question.objects.count() == 1


def test_the_group_that_is_asked_next_needs_it_too(tenant: Tenant) -> None:
    mia = make_person("approver", tenant, groups=["leads"])
    rule = Rule(
        name="Production",
        when="",
        then=Then.ASK,
        second_factor=True,
        otherwise=Otherwise.ESCALATE,
        escalate_to="leads",
    )
    task = call(tenant, rule)
    Question.objects.update(due_at=datetime.now(UTC) - timedelta(seconds=1))
    sweep()
    assert Question.objects.filter(task_id=task.id).count() == 2
    assert past_the_pages(mia, task, None) is AnswerOutcome.UNCONFIRMED
    assert past_the_pages(mia, task, Phone(mia).factor) is AnswerOutcome.ANSWERED


def test_who_has_none_is_not_counted_among_those_who_may_approve(tenant: Tenant) -> None:
    ann = make_person("approver", tenant)
    make_person("approver", tenant)
    task = call(tenant, Rule(name="Two", when="", then=Then.ASK, second_factor=True, quorum=2))
    question = Question.objects.get(task_id=task.id).pk
    assert approvers_left(question) == 0
    Phone(ann)
    assert approvers_left(question) == 1


def test_of_who_is_away_the_deputy_counts_and_needs_it_too(tenant: Tenant) -> None:
    boss = make_person("admin", tenant)
    paul, olga = (make_person("approver", tenant, groups=["ops"]) for _ in range(2))
    dora = make_person("approver", tenant)
    paul_phone, _ = Phone(paul), Phone(olga)
    task = call(tenant, replace(WANTS, group="ops", quorum=2))
    question = Question.objects.get(task_id=task.id)
    until = datetime.now(UTC) + timedelta(days=1)

    def counted() -> tuple[int | None, list[bool]]:
        """How many are left, and whether the administrator reads in the news that they are too few."""
        return approvers_left(question.pk), [one.stuck for one in news.news(boss)]

    assert counted() == (2, [])
    absences.go_away(by(paul), until, dora.username)
    assert counted() == (1, [True])
    with pytest.raises(Invalid, match="you have none"):
        decide(by(dora), task)
    dora_phone = Phone(dora)
    assert counted() == (2, [])
    absences.go_away(by(olga), until, dora.username)
    assert counted() == (1, [True])  # one person does not decide twice
    absences.come_back(by(paul))
    assert counted() == (2, [])
    assert decide(by(dora, dora_phone.factor), task) is AnswerOutcome.COUNTED
    assert decide(by(paul, paul_phone.factor), task) is AnswerOutcome.ANSWERED

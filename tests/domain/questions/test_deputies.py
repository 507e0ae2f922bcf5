"""Deputies: who decides for somebody who is away, how that is on record, and what keeps it from being more than one
vote, or anybody else's."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.db import DatabaseError, connection, transaction

from taskhub.control import absences, questions
from taskhub.control.caller import Caller, of_person, of_shell
from taskhub.core.errors import Forbidden, Invalid, Refused
from taskhub.core.names import OAUTH_ISSUER
from taskhub.core.records import Actor, Person, TaskRecord
from taskhub.core.rules import Rule, Then, Verdict
from taskhub.core.states import Door, State
from taskhub.domain.clients.principals import person_of
from taskhub.domain.people import writes
from taskhub.domain.questions import inbox, remarks
from taskhub.domain.questions.answer import AnswerOutcome, EditOutcome, decide_approval
from taskhub.domain.questions.inbox import InboxItem, Obstacle, UndoOutcome
from taskhub.domain.rules.changes import save_rules
from taskhub.domain.rules.reads import present
from taskhub.domain.tasks.create import create_task
from taskhub.store.models import Absence, AuthContext, Decision, Event, Membership, Question, Tenant
from tests.domain import kit
from tests.domain.kit import World
from tests.domain.tasks.mutants import Mutant, cut
from tests.domain.tasks.test_edits import OTHER
from tests.domain.tasks.test_edits import called as called_by_rules
from tests.factories import make_context, make_person, make_server, make_tenant, make_tool

pytestmark = pytest.mark.django_db(transaction=True)

RULE = Rule(name="Production", when="", then=Then.ASK, group="ops")
SHELL = Actor(name="manage.py", door=Door.CLI)
TWO = replace(RULE, quorum=2)


def by(person: Person, door: Door = Door.WEB) -> Caller:
    return of_person(person, door=door)


def later(hours: float = 24) -> datetime:
    return datetime.now(UTC) + timedelta(hours=hours)


def away(person: Person, deputy: Person | None = None, hours: float = 24) -> None:
    absences.go_away(by(person), later(hours), deputy.username if deputy else "")


@dataclass(frozen=True)
class Team:
    """Paul of the group ops, who is away, with dora as his deputy, who belongs to no group; and olga of ops."""

    tenant: Tenant
    paul: Person
    dora: Person
    olga: Person

    def person(self, role: str = "approver", *groups: str) -> Person:
        return make_person(role, self.tenant, groups=list(groups))

    def call(self, rule: Rule = RULE, of: Person | None = None, again: Person | None = None) -> TaskRecord:
        """A call that the rule asks about, by an application of this person, or run again by that one."""
        context = make_context(self.tenant)
        if of is not None:
            AuthContext.objects.filter(pk=context.pk).update(issuer=OAUTH_ISSUER, subject=f"user:{of.user_id}")
        world = World(context, make_tool(make_server(self.tenant)))
        save_rules(self.tenant.pk, [rule], expected=present(self.tenant.pk).version, actor=SHELL)
        verdict = Verdict(Then.ASK, rule, present(self.tenant.pk).version)
        if again is not None:
            return create_task(kit.new_task(world, verdict=verdict), by(again).actor).task
        return kit.create(world, verdict=verdict)


def make_team() -> Team:
    tenant = make_tenant()
    return Team(tenant, *(make_person("approver", tenant, groups=groups) for groups in (["ops"], [], ["ops"])))


@pytest.fixture
def team(transactional_db: None) -> Team:
    made = make_team()
    away(made.paul, made.dora)
    return made


def item(person: Person, task: TaskRecord) -> InboxItem:
    newest = Question.objects.filter(task_id=task.id).latest("id").pk
    return questions.find_question(by(person), newest)


def decide(
    person: Person, task: TaskRecord | None = None, *, approve: bool = True, of: InboxItem | None = None
) -> AnswerOutcome:
    if of is None:
        assert task is not None
        of = item(person, task)
    return questions.decide_approval(by(person), of, approve=approve, reason="seen")


def past_the_pages(person: Person, task: TaskRecord, absent: Person) -> AnswerOutcome:
    """As a program would that does not look at obstacles first, and says that it decides for somebody."""
    actor = replace(by(person).because("seen"), for_user_id=absent.user_id)
    return decide_approval(task.id, kit.opened(task.id), approve=True, actor=actor)


def hand_over(task: TaskRecord, by_whom: Person, to: Person) -> None:
    asked = item(by_whom, task)
    remarks.hand_over(task.id, asked.id, "", person=to.user_id, group="", actor=by(by_whom).actor)


# --- what comes to a deputy, and what is on record


def test_what_waits_for_the_group_of_who_is_away_waits_for_the_deputy(team: Team) -> None:
    before = team.call()
    absences.come_back(by(team.paul))
    assert item(team.dora, before).obstacle is Obstacle.GROUP
    assert inbox.waiting(team.dora).mine == 0
    with pytest.raises(Forbidden, match="for the group ops, and you are not in it"):
        decide(team.dora, before)
    away(team.paul, team.dora)
    since = team.call()
    for task in (before, since):
        asked = item(team.dora, task)
        assert (asked.obstacle, asked.acts_for, asked.acts_for_name) == (
            Obstacle.NONE,
            team.paul.user_id,
            team.paul.username,
        )
    assert [one.acts_for_name for one in inbox.questions(team.dora, "mine")] == [team.paul.username] * 2
    assert inbox.waiting(team.dora).mine == 2
    assert item(team.olga, since).acts_for is None
    other = team.call(replace(RULE, group="finance"))
    assert item(team.dora, other).obstacle is Obstacle.GROUP


@pytest.mark.parametrize("approve", [True, False])
def test_a_decision_of_a_deputy_is_on_record_as_one_for_who_is_away(team: Team, approve: bool) -> None:
    task = team.call()
    assert decide(team.dora, task, approve=approve) is AnswerOutcome.ANSWERED
    name = f"{team.dora.username} for {team.paul.username}"
    decision = Decision.objects.get()
    assert (decision.actor, decision.user_id, decision.for_user_id) == (name, team.dora.user_id, team.paul.user_id)
    event = Event.objects.get(action=f"question.{'approve' if approve else 'reject'}")
    assert (event.actor, event.user_id, event.after["for"]) == (name, team.dora.user_id, team.paul.username)
    closed = item(team.olga, task)
    assert (closed.last_actor, closed.obstacle) == (name, Obstacle.CLOSED)
    if approve:
        assert kit.claim_one().task_id == task.id
    else:
        assert f"not approved by {name}: seen" in str(kit.look(task.id).result_json)


def test_it_counts_as_one_vote_of_both(team: Team) -> None:
    task = team.call(TWO)
    assert decide(team.dora, task) is AnswerOutcome.COUNTED
    assert decide(team.dora, task) is AnswerOutcome.TWICE
    asked = item(team.paul, task)
    assert asked.obstacle is Obstacle.DEPUTY
    assert "Your deputy has decided this for you. 1 of 2" in questions.why_not(by(team.paul), asked)
    assert decide(team.paul, task) is AnswerOutcome.TWICE
    absences.come_back(by(team.paul))
    assert decide(team.paul, task) is AnswerOutcome.TWICE
    assert decide(team.olga, task) is AnswerOutcome.ANSWERED
    assert kit.claim_one().task_id == task.id


def test_who_has_voted_is_not_voted_for(team: Team) -> None:
    task = team.call(TWO)
    assert decide(team.paul, task) is AnswerOutcome.COUNTED
    assert item(team.dora, task).obstacle is Obstacle.GROUP
    assert past_the_pages(team.dora, task, team.paul) is AnswerOutcome.BARRED


def test_a_deputy_of_the_same_group_has_their_own_vote_and_no_other(team: Team) -> None:
    away(team.paul, team.olga)
    task = team.call(TWO)
    assert item(team.olga, task).acts_for is None
    assert decide(team.olga, task) is AnswerOutcome.COUNTED
    assert decide(team.olga, task) is AnswerOutcome.TWICE
    assert past_the_pages(team.olga, task, team.paul) is AnswerOutcome.TWICE
    assert Decision.objects.get().for_user_id is None


def test_the_deputy_of_two_has_one_vote_and_so_have_two_deputies_of_one(team: Team) -> None:
    away(team.olga, team.dora)
    task = team.call(TWO)
    assert decide(team.dora, task) is AnswerOutcome.COUNTED
    (absent,) = Decision.objects.values_list("for_user_id", flat=True)
    other = team.olga if absent == team.paul.user_id else team.paul
    assert past_the_pages(team.dora, task, other) is AnswerOutcome.TWICE
    second = team.person()
    away(team.paul, second)
    away(team.olga, second)
    assert item(second, task).acts_for == other.user_id
    assert past_the_pages(second, task, team.paul if absent == team.paul.user_id else team.olga) is AnswerOutcome.BARRED
    assert decide(second, task) is AnswerOutcome.ANSWERED
    assert Decision.objects.count() == 2


def test_what_was_handed_over_to_who_is_away_is_decided_for_them(team: Team) -> None:
    task = team.call(replace(RULE, group=""))
    assert item(team.dora, task).acts_for is None
    hand_over(task, team.olga, team.paul)
    assert item(team.dora, task).acts_for == team.paul.user_id
    assert decide(team.dora, task) is AnswerOutcome.ANSWERED
    assert Decision.objects.get().actor == f"{team.dora.username} for {team.paul.username}"


def test_what_is_handed_over_does_not_widen_what_a_deputy_may(team: Team) -> None:
    task = team.call(replace(RULE, group="finance"))
    Question.objects.update(handed_to=team.paul.user_id)
    assert item(team.dora, task).obstacle is Obstacle.GROUP
    assert past_the_pages(team.dora, task, team.paul) is AnswerOutcome.BARRED


def test_a_decision_stands_when_the_absence_is_over_and_not_when_a_right_is(team: Team) -> None:
    stands, gone, left = team.call(), team.call(), team.call()
    for task in (stands, gone, left):
        assert decide(team.dora, task) is AnswerOutcome.ANSWERED
    absences.come_back(by(team.paul))
    assert kit.claim_one().task_id == stands.id
    Membership.objects.filter(user_id=team.paul.user_id).update(groups=[])
    assert kit.claim() == []
    assert kit.look(gone.id).state is State.INPUT_REQUIRED
    Membership.objects.filter(user_id=team.paul.user_id).update(groups=["ops"])
    Membership.objects.filter(user_id=team.dora.user_id).update(role="viewer")
    assert kit.claim() == []
    assert kit.look(left.id).state is State.INPUT_REQUIRED


def test_a_deputy_undoes_their_decision(team: Team, settings: Any) -> None:
    settings.TASKHUB_UNDO_SECONDS = 60
    task = team.call()
    decide(team.dora, task)
    asked = item(team.dora, task)
    assert questions.undo_decisions(by(team.paul), [asked.id]) == {UndoOutcome.UNKNOWN: 1}
    assert questions.undo_decisions(by(team.dora), [asked.id]) == {UndoOutcome.UNDONE: 1}
    assert item(team.paul, task).obstacle is Obstacle.NONE
    assert decide(team.paul, task) is AnswerOutcome.ANSWERED


def test_a_deputy_edits_arguments_and_approves_for_who_is_away() -> None:
    world, task = called_by_rules(replace(RULE, name="asks", editable=("text",)))
    paul, dora = (make_person("approver", world.context.tenant, groups=groups) for groups in (["ops"], []))
    away(paul, dora)
    asked = item(dora, task)
    mark = questions.check_edit(by(dora), asked, OTHER).mark
    assert questions.edit_call(by(dora), asked, OTHER, mark=mark) is EditOutcome.ANSWERED
    name = f"{dora.username} for {paul.username}"
    assert Event.objects.get(action="question.edited").after["for"] == paul.username
    assert list(Decision.objects.values_list("actor", flat=True)) == [name]
    assert kit.claim_one().arguments == OTHER


def test_two_who_approve_for_others_decide_calls_that_are_alike(team: Team) -> None:
    world = World(make_context(team.tenant), make_tool(make_server(team.tenant)))
    tasks = [
        kit.create(world, verdict=Verdict(Then.ASK, RULE, 3), arguments={"text": str(number)}) for number in range(3)
    ]
    asked = [item(team.dora, task).id for task in tasks]
    assert len(questions.find_alike(by(team.dora), item(team.dora, tasks[0]))) == 3
    assert questions.decide_alike(by(team.dora), asked, approve=True) == {AnswerOutcome.ANSWERED: 3}
    assert set(Decision.objects.values_list("for_user_id", flat=True)) == {team.paul.user_id}


def test_an_absence_ends_by_itself_and_by_a_word(team: Team) -> None:
    task = team.call()
    Absence.objects.update(until=datetime.now(UTC) - timedelta(seconds=1))
    assert absences.own_absence(by(team.paul)) is None
    assert absences.stands_in_for(by(team.dora)) == ()
    assert item(team.dora, task).obstacle is Obstacle.GROUP
    with pytest.raises(Refused, match="You are not away"):
        absences.come_back(by(team.paul))
    away(team.paul, team.dora)
    seen = item(team.dora, task)
    absences.come_back(by(team.paul))
    with pytest.raises(Forbidden):
        decide(team.dora, task, of=seen)
    assert not Decision.objects.exists()
    assert [event.after for event in Event.objects.filter(action="person.back")] == [None]


# --- who may be named, and what cannot be


def test_who_may_be_named(team: Team) -> None:
    for other in (team.person("viewer"), team.person("operator"), team.person("auditor"), team.paul):
        assert other.username not in absences.possible_deputies(by(team.paul))
        with pytest.raises(Invalid, match="somebody else who may approve"):
            away(team.paul, other)
    stranger = make_person("approver", make_tenant())
    disabled = team.person()
    writes.disable(tenant_id=team.tenant.pk, user_id=disabled.user_id, actor=by(team.olga).actor)
    for nobody in (stranger.username, disabled.username, "no'body", "\0"):
        with pytest.raises(Invalid, match="somebody else who may approve"):
            absences.go_away(by(team.paul), later(), nobody)
    for until in (later(-1), later(24 * 367)):
        with pytest.raises(Invalid, match="a time in the future"):
            absences.go_away(by(team.paul), until, team.dora.username)
    viewer = team.person("viewer")
    with pytest.raises(Invalid, match="Your role does not approve calls"):
        away(viewer, team.dora)
    away(viewer)
    with pytest.raises(Refused, match="a person's own"):
        absences.go_away(of_shell(), later())
    assert Absence.objects.get(membership__user_id=team.paul.user_id).deputy is not None


def test_what_happens_to_absences_is_on_record(team: Team) -> None:
    away(team.paul, team.olga, 48)
    absences.come_back(by(team.paul))
    began, changed, ended = Event.objects.filter(action__in=("person.away", "person.back")).order_by("id")
    assert (began.actor, began.before, began.after["deputy"]) == (
        team.paul.username,
        {"until": "", "deputy": ""},
        team.dora.username,
    )
    assert changed.before["deputy"] == team.dora.username
    assert changed.after["deputy"] == ended.before["deputy"] == team.olga.username


def grant(person: Person, **given: Any) -> None:
    Membership.objects.filter(user_id=person.user_id).update(**given)


def requester_of_the_rule(team: Team) -> TaskRecord:
    return team.call(replace(RULE, not_requester=True), of=team.paul)


def reran_by_who_is_away(team: Team) -> TaskRecord:
    return team.call(replace(RULE, not_requester=True), again=team.paul)


def named_after_their_own_call(team: Team) -> TaskRecord:
    absences.come_back(by(team.paul))
    task = team.call(of=team.paul)
    away(team.paul, team.dora)
    return task


def named_after_running_it_again(team: Team) -> TaskRecord:
    absences.come_back(by(team.paul))
    task = team.call(again=team.paul)
    away(team.paul, team.dora)
    return task


def a_new_absence_with_the_same_deputy(team: Team) -> TaskRecord:
    Absence.objects.update(until=datetime.now(UTC) - timedelta(seconds=1))
    task = team.call(of=team.paul)
    away(team.paul, team.dora)
    return task


def requested_by_the_deputy(team: Team) -> TaskRecord:
    return team.call(replace(RULE, not_requester=True), of=team.dora)


def who_is_away_is_fresh(team: Team) -> TaskRecord:
    task = team.call()
    grant(team.paul, groups=["ops", "db"])
    return task


def the_deputy_is_fresh(team: Team) -> TaskRecord:
    task = team.call()
    grant(team.dora, groups=["db"])
    return task


def who_is_away_governed(team: Team) -> TaskRecord:
    task = team.call()
    grant(team.paul, governed_at=datetime.now(UTC))
    return task


def who_is_away_left_the_group(team: Team) -> TaskRecord:
    grant(team.paul, groups=[])
    return team.call()


def who_is_away_approves_no_more(team: Team) -> TaskRecord:
    grant(team.paul, role="operator")
    return team.call()


def who_is_away_is_disabled(team: Team) -> TaskRecord:
    task = team.call()
    writes.disable(tenant_id=team.tenant.pk, user_id=team.paul.user_id, actor=by(team.olga).actor)
    return task


def the_time_is_over(team: Team) -> TaskRecord:
    Absence.objects.update(until=datetime.now(UTC) - timedelta(seconds=1))
    return team.call()


def another_is_named(team: Team) -> TaskRecord:
    away(team.paul, team.person())
    return team.call()


def the_deputy_of_the_deputy(team: Team) -> TaskRecord:
    """Paul is away with another, whose deputy dora is."""
    other = team.person()
    away(team.paul, other)
    away(other, team.dora)
    return team.call()


STANDS = "th_stands_in"
BOTH = ("th_stands_in", r"AND NOT th_voted\(q\.id, absent\) AND th_barred\(q\.id, absent\) = ''")
ATTACKS: dict[str, tuple[Callable[[Team], TaskRecord], Mutant]] = {
    "a call of who is away": (requester_of_the_rule, Mutant(*BOTH)),
    "a call that who is away ran again": (reran_by_who_is_away, Mutant(*BOTH)),
    "named by the requester": (named_after_their_own_call, Mutant(STANDS, r"AND NOT \(s\.named_at.*?absent\)\)\)")),
    "named by who ran it again": (
        named_after_running_it_again,
        Mutant(STANDS, r"OR EXISTS \(SELECT FROM event.*?absent\)"),
    ),
    "named again by the requester": (
        a_new_absence_with_the_same_deputy,
        Mutant("absence_guard", r"OR OLD\.until <= clock_timestamp\(\)"),
    ),
    "a call of the deputy": (requested_by_the_deputy, Mutant("th_barred", "'requester'", "''")),
    "fresh rights of who is away": (who_is_away_is_fresh, Mutant(*BOTH)),
    "fresh rights of the deputy": (the_deputy_is_fresh, Mutant("th_barred", "'fresh'", "''")),
    "changed by who is away": (who_is_away_governed, Mutant(*BOTH)),
    "who is away is not in the group": (who_is_away_left_the_group, Mutant(STANDS, r"AND \(q\.\"group\".*?groups\)\)")),
    "who is away may not approve": (
        who_is_away_approves_no_more,
        Mutant(STANDS, r"AND p\.role IN \('approver', 'admin'\)"),
    ),
    "who is away may not sign in": (who_is_away_is_disabled, Mutant(STANDS, r"AND u\.is_active")),
}
NEVER: dict[str, Callable[[Team], TaskRecord]] = {
    "the absence is over": the_time_is_over,
    "another deputy is named": another_is_named,
    "a deputy's deputy": the_deputy_of_the_deputy,
}


def attacked(attack: Callable[[Team], TaskRecord]) -> tuple[TaskRecord, Team]:
    team = make_team()
    away(team.paul, team.dora)
    return attack(team), team


def test_an_attack_succeeds_without_its_guard_alone(transactional_db: None) -> None:
    for name, (attack, guard) in ATTACKS.items():
        task, team = attacked(attack)
        assert item(team.dora, task).obstacle is not Obstacle.NONE, name
        assert past_the_pages(team.dora, task, team.paul) is AnswerOutcome.BARRED, name
        with pytest.raises(Forbidden):
            decide(team.dora, task)
        assert not Decision.objects.filter(question__task_id=task.id).exists(), name
        assert kit.look(task.id).state is State.INPUT_REQUIRED, name
        with cut(guard):
            task, team = attacked(attack)
            assert past_the_pages(team.dora, task, team.paul) is AnswerOutcome.ANSWERED, name


def test_what_no_deputy_may_is_refused_by_the_table_too(transactional_db: None) -> None:
    for name, attack in NEVER.items():
        task, team = attacked(attack)
        assert item(team.dora, task).obstacle is Obstacle.GROUP, name
        assert past_the_pages(team.dora, task, team.paul) is AnswerOutcome.BARRED, name
        with (
            cut(Mutant("answer", r" OR NOT th_as_deputy\([^)]*\)")),
            pytest.raises(Refused, match="deputy of somebody who is away"),
        ):
            past_the_pages(team.dora, task, team.paul)


def test_who_may_not_approve_by_their_role_does_not_as_a_deputy(team: Team) -> None:
    task = team.call()
    grant(team.dora, role="operator")
    dora = person_of(team.dora.user_id, team.dora.username)
    assert dora is not None
    assert item(dora, task).obstacle is Obstacle.ROLE
    assert inbox.waiting(dora).mine == 0
    assert absences.stands_in_for(by(dora)) == ()
    with pytest.raises(Forbidden):
        decide(dora, task)


def insert(task: TaskRecord, user: Person, absent: Person | None) -> None:
    with connection.cursor() as cursor:
        cursor.execute(
            "INSERT INTO decision (question_id, actor, user_id, for_user_id, verdict, arguments_digest, door)"
            " SELECT id, 'x', %s, %s, 'approve', '\\x00', 'sql' FROM question WHERE task_id = %s",
            [user.user_id, absent and absent.user_id, task.id],
        )


def refused(work: Callable[[], Any]) -> str | None:
    try:
        with transaction.atomic():
            work()
    except DatabaseError as error:
        return str(getattr(error.__cause__, "sqlstate", ""))
    return None


def test_the_table_refuses_a_second_vote_and_a_decision_for_who_is_here(team: Team) -> None:
    task = team.call(TWO)
    assert refused(lambda: insert(task, team.dora, team.olga)) == "TH019", "olga is not away"
    assert refused(lambda: insert(task, team.olga, team.paul)) == "TH019", "not his deputy"
    assert refused(lambda: insert(task, team.dora, team.dora)) in ("TH019", "23514")
    insert(task, team.dora, team.paul)
    assert refused(lambda: insert(task, team.paul, None)) == "TH019"
    away(team.olga, team.dora)
    assert refused(lambda: insert(task, team.dora, team.olga)) == "23505"
    other = team.call(TWO)
    insert(other, team.paul, None)
    assert refused(lambda: insert(other, team.dora, team.paul)) == "TH019"
    stranger = Membership.objects.get(user_id=make_person("approver", make_tenant()).user_id)
    assert refused(lambda: Absence.objects.update(deputy=stranger)) == "TH019"
    own = Absence.objects.get(membership__user_id=team.paul.user_id)
    assert refused(lambda: Absence.objects.filter(pk=own.pk).update(deputy=own.membership_id)) == "23514"
    named = own.named_at
    Absence.objects.filter(pk=own.pk).update(named_at=datetime(2020, 1, 1, tzinfo=UTC))
    assert Absence.objects.get(pk=own.pk).named_at == named

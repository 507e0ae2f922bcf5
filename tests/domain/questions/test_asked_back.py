"""What an approver asks the requester of a call: it waits beside the approval, and changes nothing about the call."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import psycopg
import pytest
from django.db import DatabaseError, connection

from taskhub.control import asked_back, questions
from taskhub.control.caller import Caller, of_person
from taskhub.core.errors import Forbidden, Invalid, LimitReached, NotFound, Refused
from taskhub.core.records import Person, TaskRecord
from taskhub.core.rules import Otherwise, Rule, Then, Verdict
from taskhub.core.states import Audience, Door, QuestionState, State
from taskhub.core.versions import DECIDED_ONLY
from taskhub.domain.questions import inbox
from taskhub.domain.questions.answer import AnswerOutcome, answer_question
from taskhub.domain.questions.asked_back import MAX_ASKED, MOST_ASKED, MOST_OPEN, AskedBack, Way, WithdrawOutcome
from taskhub.domain.questions.inbox import InboxItem, UndoOutcome
from taskhub.domain.sessions.writes import refuse_request
from taskhub.domain.tasks.cancel import request_cancel
from taskhub.domain.tasks.sweep import sweep
from taskhub.store.models import AuthContext, Event, Question, Tool
from tests.domain import kit
from tests.domain.kit import World
from tests.domain.tasks.test_edit_races import together
from tests.factories import make_person

pytestmark = pytest.mark.django_db(transaction=True)

FORMS = {"elicitation": {}}
BECAUSE = {"action": "accept", "content": {"answer": "because"}}


def by(person: Person) -> Caller:
    return of_person(person, door=Door.WEB)


def approver(world: World, role: str = "approver") -> Person:
    return make_person(role, world.context.tenant)


def card(who: Person, task: TaskRecord) -> InboxItem:
    found = Question.objects.filter(task_id=task.id, kind="approval").latest("id")
    return questions.find_question(by(who), found.pk)


def ask(who: Person, task: TaskRecord, text: str = "why now?") -> None:
    asked_back.ask(by(who), card(who, task), text)


def told(who: Person, task: TaskRecord) -> tuple[AskedBack, ...]:
    return asked_back.told(by(who), card(who, task))


def answered(world: World, task: TaskRecord, key: str = "asked-back-1", response: Any = None) -> AnswerOutcome:
    return answer_question(task.id, kit.opened(task.id, key), response or BECAUSE, actor=world.actor)


def open_keys(task: TaskRecord) -> list[str]:
    return [question.key for question in kit.look(task.id).questions]


@pytest.fixture
def world() -> World:
    return kit.make_world(asks={})


@pytest.fixture
def task(world: World) -> TaskRecord:
    return kit.create(world, client_capabilities=FORMS)


def test_the_answer_stands_with_the_approval_and_the_call_goes_on_waiting(world: World, task: TaskRecord) -> None:
    ann, before = approver(world), kit.look(task.id)
    ask(ann, task, "why\nnow?")
    asked = kit.opened(task.id, "asked-back-1")
    assert asked.audience is Audience.CLIENT
    assert f"{ann.username}, who is asked to approve your call" in asked.params["message"]
    assert "\n\nwhy\nnow?\n\n" in asked.params["message"]
    assert kit.look(task.id).version > before.version
    assert answered(world, task) is AnswerOutcome.ANSWERED
    after = kit.look(task.id)
    assert (after.state, after.message, open_keys(task)) == (State.INPUT_REQUIRED, before.message, ["approval"])
    assert kit.claim() == []
    (found,) = told(ann, task)
    assert (found.asker, found.text, found.verdict, found.answer, found.answered_by) == (
        ann.username,
        "why\nnow?",
        "accept",
        "because",
        world.context.name,
    )
    questions.decide_approval(by(ann), card(ann, task), approve=True)
    claim = kit.claim_one()
    assert (claim.arguments, claim.answers, claim.given) == ({"text": "hello"}, None, None)
    assert list(Event.objects.filter(task_id=task.id, action__contains=".back").values_list("action", "reason")) == [
        ("question.asked.back", "why\nnow?"),
        ("question.answered.back", ""),
    ]
    (event,) = Event.objects.filter(action="question.answered.back")
    assert "because" not in str(event.after)


@pytest.mark.parametrize("response", [{"action": "decline"}, {"action": "cancel"}, None])
def test_a_client_that_does_not_answer_loses_nothing(world: World, task: TaskRecord, response: Any) -> None:
    """`None`: it answers with an error, which would end a call whose tool asked."""
    Tool.objects.update(people_after_program=True)
    ann = approver(world)
    ask(ann, task)
    if response is None:
        error = {"code": -32603, "message": "no form here"}
        refuse_request(0, task.id, kit.opened(task.id, "asked-back-1"), error, actor=world.actor)
    else:
        answered(world, task, response=response)
    assert (kit.look(task.id).state, open_keys(task)) == (State.INPUT_REQUIRED, ["approval"])
    (found,) = told(ann, task)
    assert found.verdict == ("" if response is None else response["action"])
    assert found.refused == ("no form here" if response is None else "")
    assert (found.answer, found.state is QuestionState.OPEN) == ("", False)


def test_it_is_closed_with_the_approval_however_that_ends(world: World) -> None:
    ann = approver(world)

    def decides(task: TaskRecord, *, approve: bool) -> None:
        questions.decide_approval(by(ann), card(ann, task), approve=approve, reason="so")

    def overdue(task: TaskRecord) -> None:
        late = datetime.now(UTC) - timedelta(seconds=1)
        Question.objects.filter(task_id=task.id, kind="approval").update(due_at=late)
        assert sweep() == 1

    ends = {
        "approved": lambda task: decides(task, approve=True),
        "rejected": lambda task: decides(task, approve=False),
        "cancelled": lambda task: request_cancel(task.id, actor=world.actor),
        "overdue": overdue,
    }
    for otherwise in (None, *Otherwise):
        group = "leads" if otherwise is Otherwise.ESCALATE else ""
        rule = Rule(name="r", when="", then=Then.ASK, otherwise=otherwise or Otherwise.DENY, escalate_to=group)
        for name, end in ends.items():
            if otherwise is not None and name != "overdue":
                continue
            verdict = {} if otherwise is None else {"verdict": Verdict(Then.ASK, rule, 1)}
            task = kit.create(world, client_capabilities=FORMS, **verdict)
            ask(ann, task)
            end(task)
            asked = Question.objects.get(task_id=task.id, about__isnull=False)
            assert asked.state == "superseded", (name, otherwise)
            with pytest.raises(ValueError, match="not enough values"):
                answered(world, task)
            kit.claim(limit=10)


def test_an_undone_decision_does_not_ask_again(world: World, task: TaskRecord, settings: Any) -> None:
    settings.TASKHUB_UNDO_SECONDS = 60
    ann = approver(world)
    ask(ann, task)
    item = card(ann, task)
    questions.decide_approval(by(ann), item, approve=True)
    assert questions.undo_decisions(by(ann), [item.id]) == {UndoOutcome.UNDONE: 1}
    assert open_keys(task) == ["approval"]


def test_who_asked_may_take_it_back(world: World, task: TaskRecord) -> None:
    ann, bea = approver(world), approver(world)
    ask(ann, task)
    (asked,) = told(ann, task)
    with pytest.raises(NotFound):
        asked_back.withdraw(by(bea), card(bea, task), asked.id)
    with pytest.raises(Forbidden):
        asked_back.withdraw(by(approver(world, "operator")), card(ann, task), asked.id)
    assert asked_back.withdraw(by(ann), card(ann, task), asked.id) is WithdrawOutcome.WITHDRAWN
    assert asked_back.withdraw(by(ann), card(ann, task), asked.id) is WithdrawOutcome.LATE
    assert (open_keys(task), told(bea, task)[0].withdrawn) == (["approval"], True)


def test_how_many_and_how_long_is_bounded(world: World, task: TaskRecord) -> None:
    ann = approver(world)
    for text in ("", " \u200b", "x" * (MAX_ASKED + 1), "a\0b"):
        with pytest.raises(Invalid):
            ask(ann, task, text)
    for number in range(1, MOST_ASKED + 1):
        ask(ann, task)
        if number == MOST_OPEN:
            with pytest.raises(LimitReached, match="are open"):
                ask(ann, task)
        if number >= MOST_OPEN:
            answered(world, task, open_keys(task)[-1])
    with pytest.raises(LimitReached, match="at most 10 times"):
        ask(ann, task)
    with pytest.raises(Invalid):
        answered(world, task, open_keys(task)[-1], {"action": "accept", "content": {"answer": "x" * 5_000}})
    assert Event.objects.filter(action="question.asked.back").count() == MOST_ASKED


def test_only_who_may_decide_asks_and_only_while_it_is_open(world: World, task: TaskRecord) -> None:
    ann = approver(world)
    with pytest.raises(Forbidden):
        ask(approver(world, "operator"), task)
    questions.decide_approval(by(ann), card(ann, task), approve=True)
    with pytest.raises(Refused):
        ask(ann, task)


def test_whom_it_reaches(world: World) -> None:
    ann, ben, vic = approver(world), approver(world, "operator"), approver(world, "viewer")
    forms, waits = {"client_capabilities": FORMS}, {"waiter": "w", "join_seconds": 300}
    for made, of, way in (
        (forms, None, Way.CLIENT),
        (forms | waits, ben, Way.CLIENT),
        ({}, None, Way.NONE),
        ({"client_capabilities": {"elicitation": {"url": {}}}}, None, Way.NONE),
        (waits, None, Way.MODEL),
        (waits, ben, Way.PERSON),
        (waits, vic, Way.MODEL),
        ({}, vic, Way.NONE),
        (forms | {"revision": DECIDED_ONLY, "permit_seconds": 60}, None, Way.NONE),
        ({"revision": DECIDED_ONLY, "permit_seconds": 60}, ben, Way.PERSON),
    ):
        subject = {"issuer": "taskhub/oauth", "subject": f"user:{of.user_id}"} if of else {"issuer": "taskhub"}
        AuthContext.objects.filter(pk=world.context.pk).update(**{"subject": "bot", **subject})
        task = kit.create(world, **made)
        item = card(ann, task)
        to = asked_back.requester(by(ann), item)
        assert (to.way, asked_back.unreachable(to) == "") == (way, way is not Way.NONE), (made, of)
        if way is Way.NONE:
            with pytest.raises(Refused):
                ask(ann, task)
            continue
        ask(ann, task)
        audience = kit.opened(task.id, "asked-back-1").audience
        assert audience is (Audience.OPERATOR if way is Way.PERSON else Audience.CLIENT)
        mine = [one.about for one in inbox.questions(ben, "mine") if one.about]
        assert mine == ([item.id] if way is Way.PERSON else [])
        assert [one for one in inbox.questions(ann, "all") if one.about] == []
        if way is Way.PERSON:
            (asked,) = (one for one in inbox.questions(ben, "mine") if one.about)
            with pytest.raises(Forbidden):
                questions.answer_question(by(ann), questions.find_question(by(ann), asked.id), BECAUSE)
            questions.answer_question(by(ben), asked, BECAUSE)
            assert told(ann, task)[0].answered_by == ben.username
        request_cancel(task.id, actor=world.actor)


def test_the_database_refuses_what_does_not_fit(world: World, task: TaskRecord) -> None:
    ann, other = approver(world), kit.create(world)
    approval = card(ann, task).id
    values = "VALUES (%s, %s, 'k', %s, '{}', %s, %s)"
    insert = f"INSERT INTO question (task_id, tenant_id, key, kind, params, audience, about_id) {values}"
    tenant = world.context.tenant_id
    for row, code in (
        ((other.id, tenant, "elicitation", "client", approval), "TH020"),
        ((task.id, tenant, "sampling", "client", approval), "23514"),
        ((task.id, tenant, "elicitation", "either", approval), "23514"),
    ):
        with pytest.raises(DatabaseError) as refused, connection.cursor() as cursor:
            cursor.execute(insert, row)
        cause = refused.value.__cause__
        assert isinstance(cause, psycopg.Error)
        assert cause.sqlstate == code
    ask(ann, task)
    for change in ("about_id = NULL", "person_id = 1"):
        with pytest.raises(DatabaseError, match="stays as it is"), connection.cursor() as cursor:
            cursor.execute(f"UPDATE question SET {change} WHERE about_id IS NOT NULL")


def test_an_answer_and_a_decision_at_once_are_an_order(world: World) -> None:
    ann = approver(world)
    for _ in range(6):
        task = kit.create(world, client_capabilities=FORMS)
        ask(ann, task)
        question, item = kit.opened(task.id, "asked-back-1"), card(ann, task)
        outcomes = together(
            lambda task=task, question=question: answer_question(task.id, question, BECAUSE, actor=world.actor),
            lambda item=item: questions.decide_approval(by(ann), item, approve=True),
        )
        assert outcomes[1] is AnswerOutcome.ANSWERED
        (found,) = told(ann, task)
        assert (outcomes[0], found.answer) in (
            (AnswerOutcome.ANSWERED, "because"),
            (AnswerOutcome.LATE, ""),
        )
        assert kit.claim_one().task_id == task.id


def test_asking_and_a_decision_at_once_leave_no_open_question(world: World) -> None:
    ann, bea = approver(world), approver(world)
    for _ in range(6):
        task = kit.create(world, client_capabilities=FORMS)
        item, asking = card(bea, task), card(ann, task)

        def asks(asking: InboxItem = asking) -> str:
            try:
                asked_back.ask(by(ann), asking, "why?")
            except Refused:
                return "late"
            return "asked"

        outcomes = together(asks, lambda item=item: questions.decide_approval(by(bea), item, approve=True))
        assert outcomes[1] is AnswerOutcome.ANSWERED
        states = list(Question.objects.filter(task_id=task.id, about__isnull=False).values_list("state", flat=True))
        assert states == ([] if outcomes[0] == "late" else ["superseded"])
        assert kit.claim_one().task_id == task.id

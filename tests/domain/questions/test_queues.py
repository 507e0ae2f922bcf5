"""The queues of the inbox: filters, pages, and approvals that differ in their arguments only."""

from __future__ import annotations

from typing import Any

import pytest
from django.db import DatabaseError, connection, transaction

from taskhub.control import caller, questions
from taskhub.core import calls
from taskhub.core.errors import Invalid
from taskhub.core.records import Person, TaskRecord
from taskhub.core.rules import Otherwise, Preview
from taskhub.core.states import Door, QuestionKind, State
from taskhub.domain.questions import inbox
from taskhub.domain.questions.answer import AnswerOutcome
from taskhub.domain.questions.inbox import InboxFilter, Sort
from taskhub.domain.sessions.writes import start_session
from taskhub.domain.tasks.reads import task_by_id
from taskhub.store.models import Question, Session
from tests.factories import make_context, make_person, make_question, make_server, make_task, make_tenant, make_tool

pytestmark = pytest.mark.django_db


def waiting(context: Any, tool: Any, *arguments: dict[str, Any]) -> list[int]:
    """The ids of the questions about calls with these arguments."""
    made = [make_task(context, tool, arguments=each) for each in arguments]
    return [Question.objects.get(task_id=task.id).pk for task in made]


def ids(person: Person, **options: Any) -> list[int]:
    return [item.id for item in inbox.questions(person, options.pop("queue", "mine"), **options)]


def test_calls_that_are_alike_stand_in_one_row_and_bury_no_other() -> None:
    tenant = make_tenant()
    server, busy, other = make_server(tenant), make_context(tenant, "busy"), make_context(tenant, "other")
    deploy = make_tool(server, "deploy", asks={})
    many = waiting(busy, deploy, *({"service": f"s{n}"} for n in range(5)))
    (late,) = waiting(other, deploy, {"service": "s1"})
    person = make_person("approver", tenant)
    assert [(item.id, item.alike, item.folded) for item in inbox.questions(person, "mine")] == [
        (many[0], 5, True), (late, 1, False),
    ]  # fmt: skip
    assert inbox.waiting(person).mine == 6
    assert [item.id for item in inbox.alike(person, many[3])] == many
    assert [(item.id, item.alike) for item in inbox.alike(person, many[3], limit=1)] == [(many[0], 5)]
    # One by one, nothing is folded, and after the last comes the first.
    following = [inbox.following(person, "mine", after=each) for each in (many[1], many[4], late)]
    assert [item and item.id for item in following] == [many[2], late, many[0]]
    # Of two, each has its row.
    acting = caller.of_person(person, door=Door.WEB)
    questions.decide_alike(acting, many[:3], approve=True)
    assert ids(person) == [*many[3:], late]


def test_what_is_decided_by_itself_is_alike_to_nothing() -> None:
    tenant = make_tenant()
    server, context = make_server(tenant), make_context(tenant)
    person = make_person("approver", tenant)
    for name, asks, arguments in (
        ("critical", {"risk": "critical"}, {}),
        ("previewed", {"preview": Preview(arguments='{"dry_run":true}')}, {}),
        ("long", {}, {"text": "x" * 5_000}),
    ):
        tool = make_tool(server, name, asks=asks)
        found = waiting(context, tool, *({"n": n, **arguments} for n in range(3)))
        assert set(found) <= set(ids(person)), name
        assert [inbox.alike(person, each) for each in found] == [()] * 3, name
    tool = make_tool(server, "answered", asks={})
    for n in range(3):
        make_task(context, tool, arguments={"n": n}, answers={"ask": {"action": "decline"}})
    found = list(Question.objects.filter(task__tool_name="answered").values_list("pk", flat=True))
    assert [inbox.alike(person, each) for each in found] == [()] * 3
    for one in range(3):
        make_task(context, state="input_required", question=make_question(QuestionKind.ELICITATION, key=f"k{one}"))
    assert len(ids(person)) == 15
    assert not inbox.alike(make_person("approver"), ids(person)[0])


def test_arguments_are_compared_up_to_the_length_that_a_list_reads() -> None:
    tenant = make_tenant()
    server, context, person = make_server(tenant), make_context(tenant), make_person("approver", tenant)
    for over in (0, 1):
        tool = make_tool(server, f"deploy{over}", asks={})
        length = calls.BEGINNING - len('{"n":0,"text":""}') + over
        found = waiting(context, tool, *({"n": n, "text": "x" * length} for n in range(2)))
        assert len(inbox.alike(person, found[0])) == (0 if over else 2)


def test_what_a_question_is_alike_to_stays() -> None:
    tenant = make_tenant()
    (one,) = waiting(make_context(tenant), make_tool(make_server(tenant), asks={}), {})
    with pytest.raises(DatabaseError, match="stays as it is"), transaction.atomic():
        Question.objects.filter(pk=one).update(alike=None)


def test_a_queue_is_narrowed_by_tool_client_kind_risk_and_words() -> None:
    tenant = make_tenant()
    server = make_server(tenant, "demo")
    # No name that hexadecimal digits can spell: the words are looked for in the ids of tasks too.
    olga, bob = make_context(tenant, "olga"), make_context(tenant, "bob")
    deploy = make_tool(server, "deploy", asks={"risk": "high", "sentence": "Deploy {args.service}"})
    (one,) = waiting(olga, deploy, {"service": "Billing", "version": "2.1.6"})
    (two,) = waiting(bob, deploy, {"service": "checkout", "version": "2.1.6"})
    (low,) = waiting(bob, make_tool(server, "restart", asks={}), {"service": "billing"})
    asked = make_question(QuestionKind.ELICITATION, params={"message": "Which region?", "requestedSchema": {}})
    make_task(bob, make_tool(server, "pick"), state="input_required", question=asked)
    form = Question.objects.get(key=asked.key).pk
    person = make_person("admin", tenant)
    for wanted, found in (
        (InboxFilter(), [one, two, low, form]),
        (InboxFilter(tool="deploy"), [one, two]),
        (InboxFilter(client="bob"), [two, low, form]),
        (InboxFilter(tool="deploy", client="bob"), [two]),
        (InboxFilter(kind="elicitation"), [form]),
        (InboxFilter(risk="high"), [one, two]),
        (InboxFilter(risk="low"), [low]),
        (InboxFilter(words=("BILLING",)), [one, low]),
        (InboxFilter(words=("deploy", "2.1.6", "olga")), [one]),
        (InboxFilter(words=("region",)), [form]),
        (InboxFilter(words=("100%", "_")), []),
        (InboxFilter(tool="nothing"), []),
    ):
        assert ids(person, wanted=wanted) == found, wanted
        assert ids(person, queue="all", wanted=wanted) == found, wanted
        first = inbox.following(person, "mine", wanted=wanted, after=0)
        assert (first.id if first else None) == (found[0] if found else None), wanted


def test_filters_by_age_group_and_conversation() -> None:
    tenant = make_tenant()
    tool, olga = make_tool(make_server(tenant), asks={"group": "ops"}), make_context(tenant, "olga")
    plain = make_tool(make_server(tenant), asks={})
    trace = {"traceparent": f"00-{'a' * 32}-{'b' * 16}-01"}
    of_trace = [make_task(olga, tool, trace=trace, arguments={"n": n}) for n in range(2)]
    odd = make_task(olga, make_tool(make_server(tenant), asks={"group": "ops"}), trace={"traceparent": "x"})
    other = make_task(make_context(tenant, "bob"), plain, trace=trace)
    one, two, lone, foreign = (Question.objects.get(task_id=t.id).pk for t in (*of_trace, odd, other))
    with connection.cursor() as cursor:
        cursor.execute("SET CONSTRAINTS ALL IMMEDIATE")
        cursor.execute("ALTER TABLE question DISABLE TRIGGER question_guard")  # the time never changes otherwise
        for question, hours in ((one, 30), (two, 2)):
            aged = "UPDATE question SET opened_at = now() - make_interval(hours => %s) WHERE id = %s"
            cursor.execute(aged, [hours, question])
        cursor.execute("ALTER TABLE question ENABLE TRIGGER question_guard")
    person = make_person("admin", tenant, groups=["ops"])
    first, public = of_trace[0].public_id, odd.public_id
    for wanted, found in (
        (InboxFilter(group="ops"), [one, two, lone]),
        (InboxFilter(group="dev"), []),
        (InboxFilter(age="1h"), [lone, foreign]),
        (InboxFilter(age="over-1h"), [one, two]),
        (InboxFilter(age="over-1d"), [one]),
        (InboxFilter(conversation=first), [one, two]),
        (InboxFilter(conversation=public), []),
        (InboxFilter(conversation="unknown"), []),
        (InboxFilter(conversation=first, age="over-1d"), [one]),
    ):
        assert ids(person, queue="all", wanted=wanted) == found, wanted
    assert [inbox.others_of_conversation(task.id) for task in (*of_trace, odd, other)] == [1, 1, 0, 0]
    # Of another tenant nothing is told.
    assert ids(make_person("admin"), queue="all", wanted=InboxFilter(conversation=first)) == []


def test_calls_of_one_session_are_a_conversation() -> None:
    tenant = make_tenant()
    tool, olga = make_tool(make_server(tenant), asks={}), make_context(tenant, "olga")
    trace = {"traceparent": f"00-{'a' * 32}-{'b' * 16}-01"}
    who = {"tenant_id": tenant.pk, "context_id": olga.pk, "version": "2025-11-25", "client_info": {}}
    started = [start_session(**who, capabilities={}) for _ in range(2)]
    sessions = [Session.objects.get(public_id=public_id).pk for public_id in started]
    tasks = [
        make_task(olga, tool, arguments={"n": n}, trace=trace, session_id=session, revision="2025-11-25")
        for n, session in enumerate((sessions[0], sessions[0], sessions[1], None))
    ]
    assert [inbox.others_of_conversation(task.id) for task in tasks] == [1, 1, 0, 0]


def test_every_order_reaches_every_question_once() -> None:
    tenant = make_tenant()
    server, context = make_server(tenant), make_context(tenant)
    made = {}
    for name, asks in (
        ("low", {"otherwise": Otherwise.DENY, "expires_minutes": 600}),
        ("critical", {"risk": "critical", "otherwise": Otherwise.DENY, "expires_minutes": 900}),
        ("high", {"risk": "high"}),
        ("soon", {"otherwise": Otherwise.DENY, "expires_minutes": 10}),
    ):
        (made[name],) = waiting(context, make_tool(server, name, asks=asks), {"n": 1})
    person = make_person("approver", tenant)
    for sort, names in (
        (Sort.OLDEST, "low critical high soon"),
        (Sort.NEWEST, "soon high critical low"),
        (Sort.DUE, "soon low critical high"),
        (Sort.RISK, "critical high low soon"),
    ):
        wanted = [made[name] for name in names.split()]
        assert ids(person, sort=sort) == wanted, sort
        found, after = [], 0
        while page := ids(person, sort=sort, after=after, limit=1):
            found += page
            after = page[-1]
        assert found == wanted, sort
        for here, there in zip(wanted, [*wanted[1:], wanted[0]], strict=True):
            following = inbox.following(person, "mine", sort=sort, after=here)
            assert following is not None
            assert following.id == there, sort


def test_every_question_can_be_reached_page_by_page() -> None:
    tenant = make_tenant()
    tool = make_tool(make_server(tenant))
    made = []
    for number in range(7):
        asked = make_question(key=f"page-{number}")
        make_task(make_context(tenant), tool, state="input_required", question=asked)
        made.append(Question.objects.get(key=asked.key).pk)
    person = make_person("admin", tenant)
    for queue, order in (("mine", made), ("all", made), ("decided", [])):
        seen, after = [], 0
        while page := ids(person, queue=queue, after=after, limit=3):
            seen += page
            after = page[-1]
        assert seen == order, queue
    acting = caller.of_person(person, door=Door.WEB)
    for each in made:
        questions.answer_question(acting, questions.find_question(acting, each), {"action": "decline"})
    first = ids(person, queue="decided", limit=4)
    assert first + ids(person, queue="decided", after=first[-1]) == made[::-1]


def state_of(question_id: int) -> TaskRecord:
    found = task_by_id(Question.objects.get(pk=question_id).task_id)
    assert found is not None
    return found


def test_alike_calls_are_decided_one_by_one_and_each_is_on_record() -> None:
    tenant = make_tenant()
    server, context = make_server(tenant), make_context(tenant)
    tool = make_tool(server, "deploy", asks={})
    one, two, three, four = waiting(context, tool, *({"n": n} for n in range(4)))
    (other,) = waiting(context, make_tool(server, "drop", asks={}), {})
    mia, bob = (make_person("approver", tenant) for _ in range(2))
    acting, faster = (caller.of_person(person, door=Door.WEB) for person in (mia, bob))
    for wrong, words in (
        ([], "Select at least one call."),
        ([one, other], "These calls are not all alike: decide each by itself."),
        (list(range(1, 102)), "At most 100 calls are decided at once."),
    ):
        with pytest.raises(Invalid, match=words):
            questions.decide_alike(acting, wrong, approve=True)
    with pytest.raises(Invalid, match="Enter a reason"):
        questions.decide_alike(acting, [one, two], approve=False)
    assert [vote for each in (one, two, three, four, other) for vote in inbox.votes(each)] == []
    questions.decide_alike(faster, [two], approve=True)
    outcomes = questions.decide_alike(acting, [one, two, two, three], approve=True, reason="release day")
    assert outcomes == {AnswerOutcome.ANSWERED: 2, AnswerOutcome.LATE: 1}
    assert [vote.actor for each in (one, two, three) for vote in inbox.votes(each)] == [
        mia.username, bob.username, mia.username,
    ]  # fmt: skip
    assert [vote.reason for vote in inbox.votes(three)] == ["release day"]
    assert questions.decide_alike(acting, [four], approve=False, reason="not today") == {AnswerOutcome.ANSWERED: 1}
    assert state_of(four).state is State.FINISHED
    assert questions.decide_alike(acting, [one, four], approve=True) == {AnswerOutcome.LATE: 2}
    assert inbox.votes(other) == ()


def test_approvals_that_need_two_people_are_counted() -> None:
    tenant = make_tenant()
    tool = make_tool(make_server(tenant), asks={"quorum": 2})
    both = waiting(make_context(tenant), tool, {"n": 1}, {"n": 2})
    first, second = (caller.of_person(make_person("approver", tenant), door=Door.WEB) for _ in range(2))
    assert questions.decide_alike(first, both, approve=True) == {AnswerOutcome.COUNTED: 2}
    assert questions.decide_alike(first, both, approve=True) == {AnswerOutcome.TWICE: 2}
    assert questions.decide_alike(second, both, approve=True) == {AnswerOutcome.ANSWERED: 2}

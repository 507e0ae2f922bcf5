"""Calls that are approved with other arguments than their client sent."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from typing import Any

import pytest
from django.db import DatabaseError, connection, transaction

from taskhub.control import questions
from taskhub.control.caller import Caller, of_person
from taskhub.core.errors import Forbidden, Invalid
from taskhub.core.records import Actor, Person, TaskRecord
from taskhub.core.rules import Otherwise, Risk, Rule, Then, Verdict
from taskhub.core.states import Door, State
from taskhub.core.versions import DECIDED_ONLY
from taskhub.domain.questions import inbox
from taskhub.domain.questions.answer import AnswerOutcome, EditOutcome
from taskhub.domain.questions.inbox import InboxItem, Obstacle
from taskhub.domain.rules.changes import save_rules
from taskhub.domain.rules.reads import present
from taskhub.domain.tasks import edits, run
from taskhub.domain.tasks.cancel import cancel_now, request_cancel
from taskhub.domain.tasks.rerun import rerun_task
from taskhub.domain.tasks.sweep import sweep
from taskhub.store.models import Decision, Event, Question, Server, Task, Tool
from tests.domain import kit
from tests.domain.kit import World
from tests.domain.tasks.mutants import Mutant, cut
from tests.domain.tasks.test_decided_again import create as create_plain
from tests.factories import WORKER, make_person

pytestmark = pytest.mark.django_db(transaction=True)

ADA = Actor(name="ada", door=Door.WEB)
SENT = {"text": "hello"}
OTHER = {"text": "bye"}
ASK = Rule(name="asks", when="", then=Then.ASK, editable=("text",))
SCHEMA = {
    "type": "object",
    "properties": {"text": {"type": "string", "maxLength": 100_000}, "note": {"type": "string"}},
}


def save(world: World, *rules: Rule) -> None:
    tenant = world.context.tenant_id
    save_rules(tenant, rules, expected=present(tenant).version, actor=ADA)


def called(*rules: Rule) -> tuple[World, TaskRecord]:
    """A call that the rules ask about."""
    world = kit.make_world()
    Tool.objects.update(definition={"name": "t", "inputSchema": SCHEMA})
    save(world, *(rules or (ASK,)))
    return world, create_plain(world)


def by(person: Person) -> Caller:
    return of_person(person, door=Door.WEB)


def person(world: World, *groups: str, role: str = "approver") -> Person:
    return make_person(role, world.context.tenant, groups=list(groups))


def item(who: Person, task: TaskRecord, key: str | None = None) -> InboxItem:
    found = inbox.question_of_task(who.tenant_id, task.public_id, key or kit.opened(task.id).key)
    assert found is not None
    return questions.find_question(by(who), found)


def edit(
    who: Person, task: TaskRecord, arguments: dict[str, Any], *, of: InboxItem | None = None, **given: str
) -> EditOutcome:
    asked = of or item(who, task)
    mark = questions.check_edit(by(who), asked, arguments).mark
    return questions.edit_call(by(who), asked, arguments, mark=mark, **given)


def decide(who: Person, task: TaskRecord, *, approve: bool = True, of: InboxItem | None = None) -> AnswerOutcome:
    return questions.decide_approval(by(who), of or item(who, task), approve=approve, reason="seen")


def edited(task: TaskRecord) -> Any:
    return Task.objects.values_list("edited", flat=True).get(pk=task.id)


def nothing_changed(task: TaskRecord) -> None:
    assert not Decision.objects.exists()
    assert kit.opened(task.id).key == "approval"
    assert not Event.objects.filter(action="question.edited").exists()


# --- what runs, and what is kept


def test_what_was_approved_runs_and_what_was_asked_stays() -> None:
    world, task = called()
    assert edit(person(world), task, OTHER, reason="politer") is EditOutcome.ANSWERED
    claim = kit.claim_one()
    assert claim.arguments == OTHER
    kept = Task.objects.get(pk=task.id)
    assert kept.arguments == SENT
    assert bytes(kept.arguments_digest) == hashlib.sha256(b'{"text":"hello"}').digest()
    assert kept.edited is not None
    assert (kept.edited["arguments"], kept.edited["names"], kept.edited["removed"]) == (OTHER, ["text"], [])


def test_the_log_names_the_arguments_and_the_digests_of_what_was_approved() -> None:
    world, task = called()
    who = person(world)
    edit(who, task, OTHER, reason="politer")
    first, second = Question.objects.order_by("id")
    assert (first.state, second.state) == ("superseded", "answered")
    digest = hashlib.sha256(b'{"text":"bye"}').hexdigest()
    call = bytes(second.call_digest or b"").hex()
    assert call != bytes(first.call_digest or b"").hex()
    told = Event.objects.filter(task_id=task.id, action__startswith="question.").order_by("id")
    before, asked, change, approval = told
    assert [(event.action, (event.after or {})["key"]) for event in (before, asked)] == [
        ("question.asked", "approval"),
        ("question.asked", "approval-2"),
    ]
    shown = {"arguments_sha256": digest, "call_sha256": call, "definition_sha256": "0" * 64}
    assert change.action == "question.edited"
    assert change.after == {"key": "approval", "kind": "approval", "asked": "approval-2", "edited": ["text"], **shown}
    assert (change.actor, change.user_id, change.reason) == (who.username, who.user_id, "politer")
    assert approval.after == {"key": "approval-2", "kind": "approval", "edited": ["text"], **shown}
    decision = Decision.objects.get()
    assert (bytes(decision.arguments_digest).hex(), bytes(decision.call_digest or b"").hex()) == (digest, call)


def test_the_client_is_told_while_it_runs_and_in_the_result() -> None:
    world, task = called()
    who = person(world)
    edit(who, task, OTHER)
    assert kit.look(task.id).message == "An approver changed text"
    claim = kit.claim_one()
    assert kit.look(task.id).message == "An approver changed text"
    kit.finish(
        claim, {"content": [{"type": "text", "text": "done"}], "structuredContent": {"n": 1.50}, "_meta": {"a": 1}}
    )
    found = kit.look(task.id)
    assert found.message == ""
    result = json.loads(found.result_json or "")
    told = f'An approver ({who.username}) changed arguments of this call before approving it: text = "bye".'
    assert result["content"] == [{"type": "text", "text": "done"}, {"type": "text", "text": told}]
    assert result["structuredContent"] == {"n": 1.5}
    assert '"n":1.5' in (found.result_json or "")
    note = {"by": who.username, "arguments": OTHER, "removed": []}
    assert result["_meta"] == {"a": 1, "taskhub/edited": note}


@pytest.mark.parametrize("data", [None, {"why": "so"}])
def test_the_client_is_told_in_an_error_too(data: dict[str, Any] | None) -> None:
    world, task = called()
    edit(person(world), task, OTHER)
    error: dict[str, Any] = {"code": -32603, "message": "boom"}
    run.fault(kit.claim_one(), error if data is None else {**error, "data": data}, actor=WORKER)
    found = json.loads(kit.look(task.id).error_json or "")
    assert found["message"].startswith("boom (An approver (")
    assert found["data"]["taskhub/edited"]["arguments"] == OTHER
    assert {name: found["data"].get(name) for name in data or {}} == (data or {})
    assert kit.look(task.id).message == "boom"


@pytest.mark.parametrize("claimed", [False, True])
def test_the_client_of_a_cancelled_call_is_told_too(claimed: bool) -> None:
    world, task = called()
    edit(person(world), task, OTHER)
    if claimed:
        kit.claim_one()
        cancel_now(task.id, actor=ADA)
    else:
        request_cancel(task.id, actor=ADA)
    found = kit.look(task.id)
    assert found.state is State.CANCELLED
    assert found.message.startswith("An approver changed text. Cancelled ")


def test_an_argument_may_be_added_and_taken_away() -> None:
    world, task = called(Rule(name="asks", when="", then=Then.ASK, editable=("*",)))
    edit(person(world), task, {"note": 'a "b"'})
    assert kit.claim_one().arguments == {"note": 'a "b"'}
    assert 'note = "a \\"b\\""; text was removed.' in edited(task)["told"]


def test_a_run_that_is_repeated_has_the_edited_arguments_and_so_has_a_rerun() -> None:
    world, task = called()
    edit(person(world), task, OTHER)
    kit.claim_one()
    kit.turn_back(task.id, "lease_until", 1)
    Task.objects.filter(pk=task.id).update(at_least_once=True)
    sweep()
    claim = kit.claim_one()
    assert claim.arguments == OTHER
    kit.finish(claim)
    again = rerun_task(world.context.tenant_id, task.public_id, ADA)
    assert Task.objects.get(pk=again.id).arguments == OTHER
    assert again.state is State.INPUT_REQUIRED


# --- what may be edited


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (SENT, "Nothing is changed"),
        ({**SENT, "note": "x"}, "does not let anybody edit note"),
        ({}, ""),
        ({"text": 1}, "do not fit the tool’s schema"),
        ({"text": "\0"}, "cannot be edited"),
        ({"text": "\ud800"}, "cannot be"),
        ({"text": "x" * edits.MAX_EDITED}, "at most 65,536 bytes"),
    ],
)
def test_only_what_the_rule_names_may_differ_and_it_has_to_fit(arguments: dict[str, Any], why: str) -> None:
    world, task = called()
    who = person(world)
    if not why:
        assert edit(who, task, arguments) is EditOutcome.ANSWERED
        return
    with pytest.raises(Invalid, match=why):
        edit(who, task, arguments)
    with pytest.raises(Invalid, match=why):
        questions.edit_call(by(who), item(who, task), arguments, mark="")
    nothing_changed(task)


@pytest.mark.parametrize(("before", "after"), [(1, True), (1, "1"), (0, False), (None, 0)])
def test_what_looks_equal_is_not(before: Any, after: Any) -> None:
    assert edits.differing({"n": before}, {"n": after}) == ("n",)


def test_a_rule_that_names_no_arguments_lets_nobody_edit() -> None:
    world, task = called(Rule(name="asks", when="", then=Then.ASK))
    with pytest.raises(Invalid, match="does not let anybody edit"):
        edit(person(world), task, OTHER)
    nothing_changed(task)


def test_whoever_edits_may_decide() -> None:
    world, task = called(Rule(name="asks", when="", then=Then.ASK, editable=("text",), group="ops"))
    for who in (person(world), person(world, "ops", role="operator")):
        with pytest.raises(Forbidden):
            edit(who, task, OTHER)
    nothing_changed(task)


def test_who_got_their_rights_since_the_call_does_not_edit_it_past_the_pages() -> None:
    world, task = called()
    who = person(world)
    asked = item(who, task)
    proposed = edits.proposal(task.id, asked.question, OTHER, by="x")
    with connection.cursor() as cursor:
        cursor.execute("UPDATE membership SET granted_at = clock_timestamp() WHERE user_id = %s", [who.user_id])
    actor = by(who).because("")
    assert edits.edit_call(task.id, asked.question, proposed, votes=True, actor=actor) is EditOutcome.BARRED
    nothing_changed(task)


def test_a_critical_call_is_confirmed_by_its_name() -> None:
    world, task = called(Rule(name="asks", when="", then=Then.ASK, editable=("text",), risk=Risk.CRITICAL))
    who = person(world)
    with pytest.raises(Invalid, match="type the name of its tool"):
        edit(who, task, OTHER, confirmed="yes")
    nothing_changed(task)
    assert edit(who, task, OTHER, confirmed=world.tool.exposed_name) is EditOutcome.ANSWERED


def test_a_call_that_its_client_makes_itself_is_not_edited() -> None:
    world = kit.make_world()
    save(world, ASK)
    verdict = _verdict(world)
    task = kit.create(world, verdict=verdict, revision=DECIDED_ONLY, permit_seconds=60)
    who = person(world)
    asked = item(who, task)
    assert not questions.may_edit(asked)
    assert asked.asking.editable == ()
    with pytest.raises(Invalid, match="does not let anybody edit"):
        edit(who, task, OTHER)
    nothing_changed(task)


def _verdict(world: World) -> Verdict:
    (rule,) = present(world.context.tenant_id).rules
    return Verdict(Then.ASK, rule, 1)


# --- the rules decide the edited call at once


def test_what_the_rules_deny_or_hide_is_refused_in_the_words_of_the_rule() -> None:
    deny = Rule(name="denies", when='args.text == "bye"', then=Then.DENY, words="Never say bye.")
    world, task = called(deny, ASK)
    with pytest.raises(Invalid, match="is denied: Never say bye"):
        edit(person(world), task, OTHER)
    nothing_changed(task)


def test_another_rule_that_asks_asks_now() -> None:
    leads = Rule(name="leads", when='args.text == "bye"', then=Then.ASK, group="leads", quorum=2)
    world, task = called(leads, ASK)
    editor, lead, other = person(world), person(world, "leads"), person(world, "leads")
    assert edit(editor, task, OTHER) is EditOutcome.PROPOSED
    now = kit.opened(task.id)
    assert (now.key, now.group, now.quorum, now.approvals) == ("approval-2", "leads", 2, 0)
    assert now.params["decided"]["rule"] == "leads"
    assert item(editor, task).obstacle is Obstacle.GROUP
    assert kit.look(task.id).message == "Waiting for approval by leads, 0 of 2"
    assert decide(lead, task) is AnswerOutcome.COUNTED
    assert kit.claim() == []
    assert decide(other, task) is AnswerOutcome.ANSWERED
    assert kit.claim_one().arguments == OTHER


def test_an_edit_gets_around_nobody_who_has_to_approve() -> None:
    """Where the rules would let the edited call run, as many people as before approve it."""
    allow = Rule(name="allows", when='args.text == "bye"', then=Then.ALLOW)
    two = Rule(name="two", when="", then=Then.ASK, quorum=2, editable=("text",), sentence="Say {args.text}")
    world, task = called(allow, two)
    assert edit(person(world), task, OTHER) is EditOutcome.COUNTED
    now = kit.opened(task.id)
    assert (now.quorum, now.approvals, now.params["decided"]["sentence"]) == (2, 1, ["Say ", "bye", ""])
    assert kit.claim() == []
    decide(person(world), task)
    assert kit.claim_one().arguments == OTHER


def test_rules_that_change_after_the_approval_decide_what_runs() -> None:
    world, task = called()
    edit(person(world), task, OTHER)
    save(world, Rule(name="denies", when='args.text == "bye"', then=Then.DENY, words="No."), ASK)
    assert kit.claim() == []
    assert kit.look(task.id).state is State.FAULTED


def test_an_approval_of_an_edited_call_stands_if_the_same_rule_asks() -> None:
    world, task = called()
    edit(person(world), task, OTHER)
    save(world, ASK, Rule(name="more", when="false", then=Then.DENY))
    assert kit.claim_one().arguments == OTHER


def test_what_is_asked_again_is_about_the_edited_call() -> None:
    world, task = called()
    edit(person(world), task, OTHER)
    save(world, Rule(name="other", when="", then=Then.ASK, editable=("text",)))
    assert kit.claim() == []
    who = person(world)
    assert item(who, task).runs_with == OTHER
    decide(who, task)
    assert kit.claim_one().arguments == OTHER


def test_an_edit_back_is_the_call_as_it_was_sent() -> None:
    world, task = called()
    edit(person(world), task, OTHER)
    Server.objects.update(target="http://elsewhere.example/mcp")
    assert kit.claim() == []
    assert item(person(world), task).runs_with == OTHER
    edit(person(world), task, SENT)
    assert edited(task) is None
    claim = kit.claim_one()
    assert claim.arguments == SENT
    kit.finish(claim)
    assert json.loads(kit.look(task.id).result_json or "") == kit.FINAL


# --- a quorum, time, and what changed meanwhile


def two() -> tuple[World, TaskRecord]:
    return called(Rule(name="two", when="", then=Then.ASK, quorum=2, editable=("text",)))


def time_is_over() -> None:
    with connection.cursor() as cursor:
        cursor.execute("UPDATE question SET due_at = clock_timestamp() - interval '1 s' WHERE state = 'open'")
    sweep()


def test_votes_on_the_call_as_it_was_do_not_count_for_the_edited_one() -> None:
    world, task = two()
    first, editor = person(world), person(world)
    assert decide(first, task) is AnswerOutcome.COUNTED
    assert edit(editor, task, OTHER) is EditOutcome.COUNTED
    now = kit.opened(task.id)
    assert (now.approvals, now.params["edited"]["by"]) == (1, editor.username)
    assert kit.look(task.id).message == "Waiting for approval, 1 of 2"
    assert (item(editor, task).obstacle, item(first, task).obstacle) == (Obstacle.DECIDED, Obstacle.NONE)
    assert edited(task) is None
    assert decide(first, task) is AnswerOutcome.ANSWERED
    assert kit.claim_one().arguments == OTHER


def test_whoever_has_voted_does_not_edit() -> None:
    world, task = two()
    who = person(world)
    decide(who, task)
    assert edit(who, task, OTHER) is EditOutcome.TWICE
    assert kit.opened(task.id).key == "approval"


def test_a_rejection_of_the_edited_call_ends_it() -> None:
    world, task = two()
    edit(person(world), task, OTHER)
    decide(person(world), task, approve=False)
    assert kit.look(task.id).state is State.FINISHED
    assert edited(task) is None


def test_an_edit_does_not_lengthen_the_time() -> None:
    world, task = two()
    before = Question.objects.get().due_at
    edit(person(world), task, OTHER)
    after = Question.objects.get(state="open").due_at
    assert before is not None
    assert after is not None
    assert abs((after - before).total_seconds()) < 1


def test_what_nobody_decides_does_not_run_edited_even_if_the_rule_lets_calls_run() -> None:
    rule = Rule(name="two", when="", then=Then.ASK, quorum=2, editable=("text",), otherwise=Otherwise.ALLOW)
    world, task = called(rule)
    edit(person(world), task, OTHER)
    time_is_over()
    assert kit.claim() == []
    assert kit.look(task.id).message == "Nobody decided within 1 d, so the rule denied it"


def test_a_group_that_is_asked_next_decides_on_the_edited_call() -> None:
    rule = Rule(
        name="two", when="", then=Then.ASK, quorum=2, editable=("text",), otherwise=Otherwise.ESCALATE, escalate_to="l"
    )
    world, task = called(rule)
    edit(person(world), task, OTHER)
    time_is_over()
    assert item(person(world, "l"), task).runs_with == OTHER
    for _ in range(2):
        decide(person(world, "l"), task)
    assert kit.claim_one().arguments == OTHER


def test_who_is_asked_after_the_first_group_decides_on_what_they_edit() -> None:
    rule = Rule(
        name="asks", when="", then=Then.ASK, group="ops", editable=("text",), otherwise=Otherwise.ESCALATE,
        escalate_to="leads", sentence="Say {args.text}",
    )  # fmt: skip
    world, task = called(rule)
    time_is_over()
    before = kit.opened(task.id)
    lead = person(world, "leads")
    assert edit(lead, task, OTHER) is EditOutcome.ANSWERED
    (after,) = Question.objects.filter(task_id=task.id, state="answered")
    assert (after.group, after.params["decided"]["otherwise"]) == ("leads", "deny")
    assert after.params["decided"]["sentence"] == ["Say ", "bye", ""]
    assert before.params["decided"].keys() == after.params["decided"].keys()
    save(world, rule, Rule(name="more", when="false", then=Then.DENY))
    assert kit.claim_one().arguments == OTHER


def test_a_tool_or_server_that_has_changed_is_not_approved_unseen() -> None:
    world, task = called()
    who = person(world)
    asked = item(who, task)
    mark = questions.check_edit(by(who), asked, OTHER).mark
    Server.objects.update(target="http://elsewhere.example/mcp")
    with pytest.raises(Invalid, match="has changed since people were asked"):
        questions.edit_call(by(who), asked, OTHER, mark=mark)
    nothing_changed(task)


def test_what_would_be_approved_otherwise_than_shown_is_shown_again() -> None:
    world, task = called()
    who = person(world)
    mark = questions.check_edit(by(who), item(who, task), OTHER).mark
    save(world, Rule(name="leads", when='args.text == "bye"', then=Then.ASK, group="leads"), ASK)
    with pytest.raises(Invalid, match="have changed meanwhile"):
        questions.edit_call(by(who), item(who, task), OTHER, mark=mark)
    nothing_changed(task)


# --- the guards of the database, and what they are for


def put(task: TaskRecord, value: dict[str, Any] | None) -> None:
    """What a program with a fault may try."""
    with connection.cursor() as cursor:
        cursor.execute("UPDATE task SET edited = %s::json WHERE id = %s", [value and json.dumps(value), task.id])


def refused(attempt: Callable[[], None]) -> None:
    with pytest.raises(DatabaseError, match="runs with the arguments that were approved"), transaction.atomic():
        attempt()


FORGED = {"arguments": {"text": "forged"}, "names": ["text"], "changed": {}, "removed": [], "by": "x", "told": ""}
NO_GUARD = Mutant("task_edited_guard", r"IF TG_OP = 'INSERT' OR.*?THEN", "IF false THEN")


def test_edited_arguments_come_from_an_approval_and_stay() -> None:
    world, task = called()
    refused(lambda: put(task, FORGED))
    edit(person(world), task, OTHER)
    refused(lambda: put(task, FORGED))
    refused(lambda: put(task, None))
    assert kit.claim_one().arguments == OTHER


@pytest.mark.parametrize("value", [FORGED, None], ids=["forged", "dropped"])
def test_without_the_guard_the_claim_still_asks_again(value: dict[str, Any] | None) -> None:
    world, task = called()
    edit(person(world), task, OTHER)
    with cut(NO_GUARD):
        put(task, value)
    assert kit.claim() == []
    assert kit.look(task.id).message.endswith("the call or its server's address has changed since it was approved")


def test_with_neither_guard_nor_claim_what_nobody_approved_would_run() -> None:
    world, task = called()
    edit(person(world), task, OTHER)
    unseen = Mutant("th_unfit", r"OR t\.edited::text IS DISTINCT FROM \(q\.params -> 'edited'\)::text", "")
    with cut(NO_GUARD, unseen):
        put(task, FORGED)
        assert kit.claim_one().arguments == FORGED["arguments"]


def test_a_call_without_an_approval_runs_with_nothing_else() -> None:
    world = kit.make_world()
    task = kit.create(world)
    with cut(NO_GUARD):
        put(task, FORGED)
    assert kit.claim() == []


def test_no_task_is_born_edited() -> None:
    _, task = called()
    row = Task.objects.get(pk=task.id)
    row.pk, row.public_id, row.edited = None, "b" * 24, FORGED
    refused(lambda: row.save(force_insert=True))

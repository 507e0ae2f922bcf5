"""Questions and answers: the first valid answer wins, people are counted, nobody waits for ever."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from psycopg.errors import UniqueViolation

from taskhub.core.errors import Invalid, Refused
from taskhub.core.records import Actor, OpenQuestion
from taskhub.core.states import Audience, Door, QuestionKind, State
from taskhub.domain.questions.answer import AnswerOutcome, answer_question, decide_approval
from taskhub.domain.questions.live import drop_question
from taskhub.domain.questions.reads import response_to
from taskhub.domain.tasks.cancel import request_cancel
from taskhub.domain.tasks.sweep import sweep
from taskhub.store.models import Decision, Event, Question, Tool
from tests import factories
from tests.domain import kit
from tests.domain.kit import World
from tests.factories import FORM, WORKER, make_question

ACCEPT = {"action": "accept", "content": {"name": "Ada"}}


def person(name: str, reason: str = "") -> Actor:
    """Somebody at the console."""
    return Actor(name=name, door=Door.WEB, address="192.0.2.9", user_id=factories.make_user(name).pk, reason=reason)


def asked(world: World, *questions: Any, live: bool = False) -> tuple[int, Any]:
    """A task that waits for answers, and its claim."""
    task = kit.create(world)
    taken = kit.claim_one()
    assert kit.ask(taken, *(questions or (make_question(key="q"),)), live=live) is True
    return task.id, taken


def answer(task_id: int, response: Any, *, key: str = "q", actor: Actor) -> AnswerOutcome:
    return answer_question(task_id, kit.opened(task_id, key), response, actor=actor)


# --- asking


def test_asking_parks_the_task_and_ends_the_lease(world: World) -> None:
    task_id, taken = asked(world)
    now = kit.look(task_id)
    assert (now.state, now.message) == (State.INPUT_REQUIRED, "Waiting")
    assert kit.opened(task_id) == OpenQuestion(
        key="q",
        kind=QuestionKind.ELICITATION,
        params={"message": "Who are you?", "requestedSchema": FORM},
        audience=Audience.OPERATOR,
        group="",
        quorum=1,
        approvals=0,
    )
    assert kit.column(task_id, "lease_until") is None
    assert kit.claim() == []
    assert kit.finish(taken) is False


def test_the_fields_of_a_form_keep_their_order(world: World) -> None:
    properties = {name: {"type": "string"} for name in ("zulu", "alpha", "mike")}
    params = {"message": "m", "requestedSchema": {"type": "object", "properties": properties}}
    task_id, _ = asked(world, make_question(key="q", params=params))
    assert list(kit.opened(task_id).params["requestedSchema"]["properties"]) == ["zulu", "alpha", "mike"]


def test_another_question_is_a_new_version_also_when_nothing_else_differs(world: World) -> None:
    task_id, taken = asked(world, make_question(key="a"), live=True)
    before = kit.look(task_id)
    kit.ask(taken, make_question(key="b"), live=True)
    now = kit.look(task_id)
    assert (now.state, now.message) == (before.state, before.message)
    assert [question.key for question in now.questions] == ["a", "b"]
    assert now.version == before.version + 1
    assert now.updated_at > before.updated_at


def test_asking_nothing_is_refused_and_changes_nothing(world: World) -> None:
    task = kit.create(world)
    taken = kit.claim_one()
    before = kit.look(task.id)
    with pytest.raises(Refused):
        kit.ask(taken)
    assert kit.look(task.id) == before
    assert kit.finish(taken) is True


def test_a_question_asked_while_a_cancellation_is_wanted_ends_the_task(world: World) -> None:
    """Parked, it would wait for answers that nobody acts on: it is never claimed again."""
    task = kit.create(world)
    taken = kit.claim_one()
    request_cancel(task.id, actor=world.actor)
    assert kit.ask(taken, make_question()) is True
    assert (kit.look(task.id).state, kit.look(task.id).questions) == (State.CANCELLED, ())


# --- answering


def test_the_answer_goes_back_to_the_tool_with_its_state(world: World) -> None:
    task_id, first = asked(world, make_question(key="q", upstream_key="who"))
    assert answer(task_id, ACCEPT, actor=world.actor) is AnswerOutcome.ANSWERED
    assert kit.look(task_id).state is State.QUEUED
    again = kit.claim_one()
    assert (again.task_id, again.epoch) == (task_id, first.epoch + 1)
    assert (again.answers, again.upstream_state) == ({"who": ACCEPT}, "s")


def test_an_answer_while_the_tool_waits_lets_the_same_lease_go_on(world: World) -> None:
    task_id, taken = asked(world, make_question(key="q", upstream_key=""), live=True)
    assert response_to(task_id, "q") is None
    assert answer(task_id, ACCEPT, actor=world.actor) is AnswerOutcome.ANSWERED
    assert kit.look(task_id).state is State.WORKING
    assert response_to(task_id, "q") == ACCEPT
    assert kit.claim() == []
    assert kit.finish(taken) is True


def test_a_live_question_that_the_tool_wants_no_answer_to_is_closed(world: World) -> None:
    task_id, taken = asked(world, make_question(key="q"), make_question(key="r"), live=True)
    assert drop_question(taken, "q", actor=WORKER) is True
    assert (kit.look(task_id).state, kit.opened(task_id).key) == (State.INPUT_REQUIRED, "r")
    assert drop_question(taken, "q", actor=WORKER) is False
    assert drop_question(taken, "r", actor=WORKER) is True
    now = kit.look(task_id)
    assert (now.state, now.message, now.questions) == (State.WORKING, "", ())
    assert response_to(task_id, "r") == {"action": "cancel"}
    assert kit.actions(task_id)[-2:] == ["task.asked", "task.answered"]
    assert kit.finish(taken)


def test_only_its_worker_closes_a_question_that_is_live(world: World) -> None:
    _, parked = asked(world)
    assert drop_question(parked, "q", actor=WORKER) is False
    task_id, taken = asked(world, live=True)
    assert drop_question(replace(taken, epoch=taken.epoch + 1), "q", actor=WORKER) is False
    assert kit.opened(task_id).key == "q"
    kit.finish(taken)
    assert drop_question(taken, "q", actor=WORKER) is False
    assert "task.write.stale" not in kit.actions(task_id)


def test_the_task_waits_until_every_question_has_its_answer(world: World) -> None:
    task_id, _ = asked(world, make_question(key="a"), make_question(key="b"))
    answer(task_id, ACCEPT, key="b", actor=world.actor)
    now = kit.look(task_id)
    assert (now.state, now.message, [q.key for q in now.questions]) == (
        State.INPUT_REQUIRED,
        "1 more answer needed",
        ["a"],
    )
    answer(task_id, ACCEPT, key="a", actor=world.actor)
    assert kit.look(task_id).state is State.QUEUED


@pytest.mark.parametrize(
    "response",
    [
        None,
        [],
        {},
        {"action": "maybe"},
        {"action": "accept"},
        {"action": "accept", "content": []},
        {"action": "accept", "content": None},
        {"action": "accept", "content": {"name": 7}},
        {"action": "accept", "content": {"sure": True}},
        {"action": "accept", "content": {"name": "Ada", "sure": "yes"}},
        {"action": "accept", "content": {"name": "A\0da"}},
    ],
)
def test_an_answer_that_does_not_fit_leaves_everything_as_it_was(world: World, response: Any) -> None:
    task_id, _ = asked(world)
    before, told = kit.look(task_id), kit.actions(task_id)
    with pytest.raises(Invalid):
        answer(task_id, response, actor=world.actor)
    assert kit.look(task_id) == before
    assert kit.actions(task_id) == told
    assert Decision.objects.count() == 0
    assert answer(task_id, ACCEPT, actor=world.actor) is AnswerOutcome.ANSWERED


def test_what_the_form_did_not_ask_for_is_dropped(world: World) -> None:
    task_id, _ = asked(world)
    response = {"action": "accept", "content": {"name": "Ada", "admin": True}, "_meta": {"x": 1}}
    answer(task_id, response, actor=world.actor)
    assert json.loads(Question.objects.get().response or "") == ACCEPT


@pytest.mark.parametrize("action", ["decline", "cancel"])
def test_declining_needs_no_form_and_carries_no_content(world: World, action: str) -> None:
    task_id, _ = asked(world, make_question(key="q", upstream_key="who"))
    assert answer(task_id, {"action": action, "content": {"name": 7}}, actor=world.actor) is AnswerOutcome.ANSWERED
    assert kit.claim_one().answers == {"who": {"action": action}}
    assert Decision.objects.get().verdict == action


def test_the_second_answer_is_late_and_changes_nothing(world: World) -> None:
    task_id, _ = asked(world)
    question = kit.opened(task_id)
    answer_question(task_id, question, ACCEPT, actor=world.actor)
    before = kit.look(task_id)
    other = {"action": "accept", "content": {"name": "Bob"}}
    assert answer_question(task_id, question, other, actor=world.actor) is AnswerOutcome.LATE
    assert kit.look(task_id) == before
    assert json.loads(Question.objects.get().response or "") == ACCEPT
    assert Decision.objects.count() == 1


def test_an_answer_to_nothing_is_unknown(world: World) -> None:
    task_id, _ = asked(world)
    question = kit.opened(task_id)
    stranger = OpenQuestion("other", question.kind, question.params, question.audience, "", 1, 0)
    assert answer_question(task_id, stranger, ACCEPT, actor=world.actor) is AnswerOutcome.UNKNOWN
    assert answer_question(task_id + 1_000, question, ACCEPT, actor=world.actor) is AnswerOutcome.UNKNOWN


def test_a_key_cannot_be_asked_twice_in_a_tasks_life(world: World) -> None:
    task_id, _ = asked(world)
    answer(task_id, ACCEPT, actor=world.actor)
    taken = kit.claim_one()
    before = kit.look(task_id)
    with pytest.raises(UniqueViolation):
        kit.ask(taken, make_question(key="q"))
    assert kit.look(task_id) == before
    assert kit.ask(taken, make_question(key="q2")) is True


def test_the_latest_answer_to_an_upstream_key_counts(world: World) -> None:
    task_id, _ = asked(world, make_question(key="q1", upstream_key="word"))
    answer(task_id, {"action": "accept", "content": {"name": "one"}}, key="q1", actor=world.actor)
    kit.ask(kit.claim_one(), make_question(key="q2", upstream_key="word"))
    answer(task_id, {"action": "accept", "content": {"name": "two"}}, key="q2", actor=world.actor)
    assert kit.claim_one().answers == {"word": {"action": "accept", "content": {"name": "two"}}}


@pytest.mark.parametrize(
    ("kind", "good", "bad"),
    [
        (
            QuestionKind.SAMPLING,
            {"role": "assistant", "content": {"type": "text", "text": "short"}, "model": "m"},
            {"role": "assistant"},
        ),
        (QuestionKind.ROOTS, {"roots": [{"uri": "file:///tmp"}]}, {"roots": [{"name": "x"}]}),
    ],
)
def test_other_kinds_of_questions_are_checked_too(world: World, kind: QuestionKind, good: Any, bad: Any) -> None:
    task_id, _ = asked(world, make_question(kind, key="q", upstream_key="up"))
    with pytest.raises(Invalid):
        answer(task_id, bad, actor=world.actor)
    assert answer(task_id, good, actor=world.actor) is AnswerOutcome.ANSWERED
    assert Decision.objects.get().verdict == "answer"
    assert kit.claim_one().answers == {"up": good}


def test_an_answer_is_recorded_with_who_and_through_which_door(world: World) -> None:
    task_id, _ = asked(world)
    ada = person("ada", reason="she asked me to")
    answer(task_id, ACCEPT, actor=ada)
    decision = Decision.objects.get()
    assert (decision.actor, decision.user_id, decision.door, decision.verdict, decision.reason) == (
        "ada",
        ada.user_id,
        "web",
        "accept",
        "she asked me to",
    )
    assert bytes(decision.arguments_digest) == bytes(kit.column(task_id, "arguments_digest"))
    event = Event.objects.get(action="question.accept")
    assert (event.actor, event.door, event.address, event.user_id) == ("ada", "web", "192.0.2.9", ada.user_id)


# --- approvals


def approvable(quorum: int = 1, group: str = "") -> tuple[World, int]:
    world = kit.make_world(asks={"quorum": quorum, "group": group})
    return world, kit.create(world).id


def decide(task_id: int, actor: Actor, *, approve: bool = True) -> AnswerOutcome:
    return decide_approval(task_id, kit.opened(task_id, "approval"), approve=approve, actor=actor)


def test_an_approved_task_runs(transactional_db: None) -> None:
    _, task_id = approvable()
    assert decide(task_id, kit.approver(task_id)) is AnswerOutcome.ANSWERED
    assert (kit.look(task_id).state, kit.look(task_id).message) == (State.QUEUED, "")
    assert kit.wake_ups() == 1
    taken = kit.claim_one()
    assert (taken.task_id, taken.answers) == (task_id, None)


def test_two_approvals_are_two_people(transactional_db: None) -> None:
    _, task_id = approvable(quorum=2, group="ops")
    ada, bob = person("ada"), person("bob")
    assert decide(task_id, ada) is AnswerOutcome.COUNTED
    now = kit.look(task_id)
    assert (now.state, now.message) == (State.INPUT_REQUIRED, "Waiting for approval by ops, 1 of 2")
    assert kit.opened(task_id).approvals == 1
    assert decide(task_id, ada) is AnswerOutcome.TWICE
    assert kit.opened(task_id).approvals == 1
    assert decide(task_id, bob) is AnswerOutcome.ANSWERED
    assert kit.look(task_id).state is State.QUEUED
    assert sorted(Decision.objects.values_list("actor", flat=True)) == ["ada", "bob"]


def test_one_person_cannot_take_an_approval_back(transactional_db: None) -> None:
    _, task_id = approvable(quorum=2)
    ada = person("ada")
    decide(task_id, ada)
    assert decide(task_id, ada, approve=False) is AnswerOutcome.TWICE
    assert kit.look(task_id).state is State.INPUT_REQUIRED


@pytest.mark.parametrize("approved_before", [False, True])
def test_one_rejection_ends_the_task_and_the_caller_reads_why(transactional_db: None, approved_before: bool) -> None:
    world, task_id = approvable(quorum=2)
    if approved_before:
        decide(task_id, person("bob"))
    assert decide(task_id, person("ada", reason="not on a Friday"), approve=False) is AnswerOutcome.ANSWERED
    now = kit.look(task_id)
    assert (now.state, now.is_error, now.message) == (State.FINISHED, True, "not on a Friday")
    result = json.loads(now.result_json or "")
    text = f"{world.tool.exposed_name} was not approved by ada: not on a Friday"
    assert result == {"content": [{"type": "text", "text": text}], "isError": True}
    assert kit.claim() == []
    assert kit.wake_ups() == 0


def test_a_rejection_without_a_reason_still_says_who(transactional_db: None) -> None:
    world, task_id = approvable()
    decide(task_id, person("ada"), approve=False)
    result = json.loads(kit.look(task_id).result_json or "")
    assert result["content"][0]["text"] == f"{world.tool.exposed_name} was not approved by ada."


def test_a_decision_after_the_decision_is_late(transactional_db: None) -> None:
    _, task_id = approvable()
    question = kit.opened(task_id)
    decide(task_id, person("ada"))
    assert decide_approval(task_id, question, approve=False, actor=person("bob")) is AnswerOutcome.LATE
    assert kit.look(task_id).state is State.QUEUED


def test_an_approval_is_not_answered_like_a_form(transactional_db: None) -> None:
    _, task_id = approvable()
    with pytest.raises(Invalid):
        answer_question(task_id, kit.opened(task_id), {"action": "accept"}, actor=person("ada"))
    assert kit.look(task_id).state is State.INPUT_REQUIRED


@pytest.mark.parametrize("action", ["decline", "cancel"])
def test_a_programs_no_is_not_put_on_record_as_a_persons(world: World, action: str) -> None:
    task_id, _ = asked(world, make_question(key="q"), make_question(key="later"))
    assert answer(task_id, {"action": action}, actor=world.actor) is AnswerOutcome.ANSWERED
    old = f"SELECT count(*) FROM question WHERE task_id = {task_id} AND opened_at < clock_timestamp() - interval '1 s'"
    kit.wait_until(lambda: kit.count_rows(old) == 2)
    assert answer(task_id, {"action": action}, key="later", actor=world.actor) is AnswerOutcome.ANSWERED
    reasons = dict(Decision.objects.filter(question__task_id=task_id).values_list("question__key", "reason"))
    assert reasons == {"q": "By the program itself, within a second of being asked", "later": ""}
    recorded = Event.objects.filter(task_id=task_id, action=f"question.{action}").order_by("id")
    assert [event.reason for event in recorded] == [reasons["q"], ""]


@pytest.mark.parametrize("audience", [Audience.EITHER, Audience.CLIENT])
@pytest.mark.parametrize("action", ["decline", "cancel"])
def test_by_policy_people_are_asked_after_a_programs_no(world: World, action: str, audience: Audience) -> None:
    Tool.objects.filter(pk=world.tool.id).update(people_after_program=True)
    other = make_question(key="other", audience=Audience.EITHER)
    task_id, _ = asked(world, make_question(key="q", audience=audience), other)
    due = Question.objects.get(task_id=task_id, key="q").due_at
    assert answer(task_id, {"action": action}, actor=world.actor) is AnswerOutcome.PASSED_ON
    now = kit.look(task_id)
    assert now.state is State.INPUT_REQUIRED
    assert {question.key: question.audience for question in now.questions} == {"q": "operator", "other": "either"}
    assert Question.objects.get(task_id=task_id, key="q").due_at == due, "it is due when it was"
    events = Event.objects.filter(task_id=task_id, action__startswith="question.").order_by("id")
    assert [(event.action, event.door, event.reason) for event in events] == [
        *[("question.asked", "worker", "")] * 2,
        (f"question.{action}", "client", "By the program itself, within a second of being asked"),
        ("question.passed.on", "policy", "The client's program declined by itself"),
    ]
    assert (events[3].before, events[3].after) == (
        {"audience": str(audience)},
        {"audience": "operator", "key": "q", "kind": "elicitation"},
    )
    answer(task_id, {"action": action}, key="other", actor=world.actor)
    assert kit.look(task_id).message == "Waiting for an answer by an operator"
    ada = person("ada")
    assert answer(task_id, ACCEPT, actor=ada) is AnswerOutcome.ANSWERED
    assert kit.look(task_id).state is State.INPUT_REQUIRED
    assert answer(task_id, ACCEPT, key="other", actor=ada) is AnswerOutcome.ANSWERED
    assert kit.look(task_id).state is State.QUEUED


def test_what_went_to_people_is_not_the_clients_any_more(world: World) -> None:
    Tool.objects.filter(pk=world.tool.id).update(people_after_program=True)
    task_id, _ = asked(world, make_question(key="q", audience=Audience.EITHER))
    question = kit.opened(task_id)
    assert answer(task_id, {"action": "decline"}, actor=world.actor) is AnswerOutcome.PASSED_ON
    for response in (ACCEPT, {"action": "decline"}):
        # Another session of the client had been asked as well.
        assert answer_question(task_id, question, response, actor=world.actor) is AnswerOutcome.LATE
    assert Decision.objects.filter(question__task_id=task_id).count() == 1
    assert kit.look(task_id).state is State.INPUT_REQUIRED


def test_a_programs_no_after_an_answer_is_late(world: World) -> None:
    Tool.objects.filter(pk=world.tool.id).update(people_after_program=True)
    task_id, _ = asked(world, make_question(key="q"))
    question = kit.opened(task_id)
    assert answer(task_id, ACCEPT, actor=person("ada")) is AnswerOutcome.ANSWERED
    assert answer_question(task_id, question, {"action": "decline"}, actor=world.actor) is AnswerOutcome.LATE
    assert not Event.objects.filter(task_id=task_id, action="question.passed.on").exists()


def test_a_no_that_took_its_time_is_an_answer_whatever_the_policy(world: World) -> None:
    Tool.objects.filter(pk=world.tool.id).update(people_after_program=True)
    task_id, _ = asked(world, make_question(key="q"))
    old = f"SELECT count(*) FROM question WHERE task_id = {task_id} AND opened_at < clock_timestamp() - interval '1 s'"
    kit.wait_until(lambda: kit.count_rows(old) == 1)
    assert answer(task_id, {"action": "decline"}, actor=world.actor) is AnswerOutcome.ANSWERED
    assert kit.look(task_id).state is State.QUEUED


def test_a_question_that_went_to_people_fails_when_it_is_due(world: World) -> None:
    Tool.objects.filter(pk=world.tool.id).update(people_after_program=True)
    task_id, _ = asked(world, make_question(key="q"))
    assert answer(task_id, {"action": "decline"}, actor=world.actor) is AnswerOutcome.PASSED_ON
    kit.turn_back(task_id, "due_at", 90_000, table="question")
    sweep()
    assert (kit.look(task_id).state, kit.look(task_id).message) == (State.FAULTED, "Nobody answered in time")


def test_a_quick_yes_and_a_persons_quick_no_are_what_they_are(world: World) -> None:
    task_id, _ = asked(world, make_question(key="q"), make_question(key="other"))
    answer(task_id, ACCEPT, actor=world.actor)
    answer(task_id, {"action": "decline"}, key="other", actor=person("ada"))
    assert set(Decision.objects.filter(question__task_id=task_id).values_list("reason", flat=True)) == {""}

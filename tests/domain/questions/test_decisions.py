"""What is decided is what runs: digests on record, a last look before a tool runs, and answers that
come with a call."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.db import connection
from oauth2_provider.models import Application as Registration

from taskhub.core.names import OAUTH_ISSUER
from taskhub.core.records import Actor
from taskhub.core.states import Audience, Door, QuestionKind, State
from taskhub.domain.questions.answer import AnswerOutcome, decide_approval
from taskhub.domain.tasks.sweep import sweep
from taskhub.store.models import Application, AuthContext, Consent, Decision, Event, Membership, Question, Server, Tool
from tests import factories
from tests.domain import kit
from tests.domain.kit import World
from tests.factories import make_question

ACCEPT = {"action": "accept", "content": {"name": "Ada"}}
FORMS = {"elicitation": {}}
OLD, NEW = "0" * 64, "1" * 64


def person(name: str) -> Actor:
    return Actor(name=name, door=Door.WEB, user_id=factories.make_user(name).pk)


def approve(task_id: int, name: str) -> AnswerOutcome:
    return decide_approval(task_id, kit.opened(task_id), approve=True, actor=kit.approver(task_id, name))


def change_tool(world: World, **columns: Any) -> None:
    """As the next listing of its server would."""
    assert Tool.objects.filter(pk=world.tool.id).update(**columns) == 1


def new_definition(world: World) -> None:
    definition = {"name": world.tool.name, "description": "Deletes", "inputSchema": {"type": "object"}}
    change_tool(world, definition=definition, digest=NEW, changed_at=datetime.now(UTC))


def event(task_id: int, action: str) -> Event:
    return Event.objects.filter(task_id=task_id, action=action).latest("id")


def sha(value: Any) -> str:
    return hashlib.sha256(json.dumps(value, separators=(",", ":"), sort_keys=True).encode()).hexdigest()


# --- answers that come with the call


def asked(world: World, given: dict[str, Any], *questions: Any, **fields: Any) -> int:
    """A task whose call came with answers, and whose tool has asked."""
    task = kit.create(world, answers=given, client_capabilities=FORMS, **fields)
    taken = kit.claim_one()
    assert (taken.given, taken.answers) == (given, None)
    assert kit.ask(taken, *questions) is True
    return task.id


def test_an_answer_that_came_with_the_call_is_a_decision_like_any_other(world: World) -> None:
    question = make_question(key="ask", audience=Audience.EITHER)
    task_id = asked(world, {"ask": {**ACCEPT, "content": {"name": "Ada", "more": 1}}}, question)
    assert kit.look(task_id).state is State.QUEUED
    (stored,) = Question.objects.filter(task_id=task_id)
    assert (stored.state, json.loads(stored.response or "")) == ("answered", ACCEPT)
    (decision,) = Decision.objects.all()
    assert (decision.actor, decision.door, decision.verdict, decision.context_id) == (
        world.context.name,
        Door.CLIENT,
        "accept",
        world.context.pk,
    )
    assert decision.reason == "Came with the call"
    answered = ["question.asked", "task.asked", "question.accept", "task.answered"]
    assert kit.actions(task_id) == ["task.created", "task.claimed", *answered]
    assert kit.wake_ups() == 1
    again = kit.claim_one()
    assert again.answers == {"ask": ACCEPT}
    assert again.upstream_state == "s"


@pytest.mark.parametrize(
    ("given", "audience"),
    [
        ({"ask": ACCEPT}, Audience.OPERATOR),
        ({"ask": {"action": "accept", "content": {"name": 7}}}, Audience.EITHER),
        ({"ask": {}}, Audience.EITHER),
        ({"other": ACCEPT}, Audience.EITHER),
    ],
    ids=["only people may answer", "does not fit", "no answer", "another question"],
)
def test_an_answer_that_does_not_count_asks(world: World, given: dict[str, Any], audience: Audience) -> None:
    task_id = asked(world, given, make_question(key="ask", audience=audience))
    assert kit.look(task_id).state is State.INPUT_REQUIRED
    assert kit.opened(task_id).key == "ask"
    assert not Decision.objects.exists()


def test_an_answer_counts_once(world: World) -> None:
    task_id = asked(world, {"ask": ACCEPT}, make_question(key="ask", audience=Audience.EITHER))
    kit.ask(kit.claim_one(), make_question(key="ask~2", upstream_key="ask", audience=Audience.EITHER))
    assert kit.look(task_id).state is State.INPUT_REQUIRED
    assert kit.opened(task_id).key == "ask~2"


def test_of_two_questions_one_answer_leaves_the_other(world: World) -> None:
    questions = [make_question(key=key, upstream_key=key, audience=Audience.EITHER) for key in ("one", "two")]
    task_id = asked(world, {"two": ACCEPT}, *questions)
    assert kit.look(task_id).state is State.INPUT_REQUIRED
    assert kit.opened(task_id).key == "one"


def test_a_question_in_the_middle_of_a_call_takes_none_of_them(world: World) -> None:
    kit.create(world, answers={"": ACCEPT, "live-1": ACCEPT}, client_capabilities=FORMS)
    taken = kit.claim_one()
    kit.ask(taken, make_question(key="live-1", upstream_key="", audience=Audience.EITHER), live=True)
    assert kit.look(taken.task_id).state is State.INPUT_REQUIRED


def test_answers_behind_an_approval_wait_for_it(transactional_db: None) -> None:
    world = kit.make_world(asks={})
    task = kit.create(world, answers={"approval": {"verdict": "approve"}, "ask": ACCEPT}, client_capabilities=FORMS)
    assert (task.state, kit.claim()) == (State.INPUT_REQUIRED, [])
    assert approve(task.id, "ana") is AnswerOutcome.ANSWERED
    taken = kit.claim_one()
    assert taken.answers is None
    kit.ask(taken, make_question(key="ask", audience=Audience.EITHER))
    assert kit.look(task.id).state is State.QUEUED
    assert list(Decision.objects.order_by("id").values_list("door", "verdict")) == [
        ("web", "approve"),
        ("client", "accept"),
    ]


def test_what_came_with_a_call_never_changes(world: World) -> None:
    task = kit.create(world, answers={"ask": ACCEPT})
    with pytest.raises(Exception, match="never change"), connection.cursor() as cursor:
        cursor.execute("UPDATE task SET answers = '{}' WHERE id = %s", [task.id])


# --- digests on record


def test_events_name_what_was_called_and_what_was_decided(transactional_db: None) -> None:
    world = kit.make_world(asks={})
    arguments, given = {"b": 1, "a": "x"}, {"ask": ACCEPT}
    task = kit.create(world, arguments=arguments, answers=given)
    created = event(task.id, "task.created").after
    assert created is not None
    assert (created["arguments_sha256"], created["definition_sha256"]) == (sha(arguments), OLD)
    assert len(created["answers_sha256"]) == 64
    assert approve(task.id, "ana") is AnswerOutcome.ANSWERED
    decided = event(task.id, "question.approve").after
    assert decided is not None
    assert decided == {
        "key": "approval",
        "kind": "approval",
        "arguments_sha256": sha(arguments),
        "definition_sha256": OLD,
        "call_sha256": bytes(Question.objects.get(task_id=task.id).call_digest or b"").hex(),
    }
    assert len(decided["call_sha256"]) == 64
    assert bytes(Decision.objects.get().call_digest or b"").hex() == decided["call_sha256"]


def test_an_approval_keeps_the_definition_it_is_about(transactional_db: None) -> None:
    world = kit.make_world(asks={})
    task = kit.create(world)
    before = Tool.objects.get(pk=world.tool.id).definition
    new_definition(world)
    question = Question.objects.get(task_id=task.id)
    assert (question.definition, bytes(question.definition_digest or b"").hex()) == (before, OLD)
    with pytest.raises(Exception, match="stays as it is"):
        Question.objects.filter(pk=question.pk).update(definition={"name": "x"})


# --- a last look before the tool runs


def lock_out(world: World) -> None:
    AuthContext.objects.filter(pk=world.context.pk).update(disabled_at=datetime.now(UTC))


REASONS: dict[str, tuple[Callable[[World], None], str, str]] = {
    "tool turned off": (lambda w: change_tool(w, enabled=False), "tool_turned_off", "the tool has been turned off"),
    "client locked out": (lock_out, "client_locked_out", "its client has been locked out"),
    "tool rejected": (
        lambda w: change_tool(w, rejected="bad schema"),
        "tool_not_offered",
        "the tool is not offered any more: bad schema",
    ),
}


@pytest.mark.parametrize("reason", REASONS)
def test_what_may_not_run_any_more_does_not_and_says_why(world: World, reason: str) -> None:
    happens, code, words = REASONS[reason]
    other = kit.another_client(kit.make_world()) if reason != "client locked out" else kit.another_client(world)
    task, neighbour = kit.create(world), kit.create(other)
    happens(world)
    (taken,) = kit.claim(limit=10)
    assert taken.task_id == neighbour.id
    now = kit.look(task.id)
    assert (now.state, now.message) == (State.FAULTED, f"Not run: {words}")
    assert json.loads(now.error_json or "") == {
        "code": -32603,
        "message": f"Not run: {words}",
        "data": {"reason": code},
    }
    assert kit.actions(task.id) == ["task.created", "task.faulted"]
    assert kit.claim(limit=10) == []


def test_a_call_that_waited_for_an_answer_is_not_continued(world: World) -> None:
    task_id = asked(world, {"ask": ACCEPT}, make_question(key="ask", audience=Audience.EITHER))
    change_tool(world, enabled=False)
    assert kit.claim() == []
    assert kit.look(task_id).message == "Not continued: the tool has been turned off"


def test_many_that_may_not_run_hide_nobody(world: World) -> None:
    blocked = [kit.create(world) for _ in range(5)]
    good = kit.create(kit.another_client(kit.make_world()))
    change_tool(world, enabled=False)
    found = [taken.task_id for _ in range(4) for taken in kit.claim(limit=2)]
    assert found == [good.id]
    assert {kit.look(task.id).state for task in blocked} == {State.FAULTED}


def test_a_changed_definition_asks_again_and_then_runs(transactional_db: None) -> None:
    world = kit.make_world(asks={"group": "ops", "quorum": 2})
    task = kit.create(world)
    assert (approve(task.id, "ana"), approve(task.id, "bo")) == (AnswerOutcome.COUNTED, AnswerOutcome.ANSWERED)
    new_definition(world)
    assert kit.claim() == []
    now = kit.look(task.id)
    why = "Waiting for approval by ops, 0 of 2: the tool has changed since the call was approved"
    assert (now.state, now.message) == (State.INPUT_REQUIRED, why)
    question = kit.opened(task.id)
    assert (question.key, question.kind, question.group, question.quorum) == (
        "approval-2",
        QuestionKind.APPROVAL,
        "ops",
        2,
    )
    assert kit.claim() == []
    assert sweep() == 0
    ana, bo = (kit.approver(task.id, f"{name}-2") for name in ("ana", "bo"))
    assert decide_approval(task.id, question, approve=True, actor=ana) is AnswerOutcome.COUNTED
    assert decide_approval(task.id, question, approve=True, actor=bo) is AnswerOutcome.ANSWERED
    decided = event(task.id, "question.approve").after
    assert decided is not None
    assert decided["definition_sha256"] == NEW
    assert kit.claim_one().task_id == task.id


def test_a_definition_that_changed_while_people_decided_asks_again(transactional_db: None) -> None:
    world = kit.make_world(asks={})
    task = kit.create(world)
    new_definition(world)
    assert approve(task.id, "ana") is AnswerOutcome.ANSWERED
    assert kit.claim() == []
    assert kit.opened(task.id).key == "approval-2"


def test_a_tool_that_changes_there_and_back_runs(transactional_db: None) -> None:
    world = kit.make_world(asks={})
    task = kit.create(world)
    assert approve(task.id, "ana") is AnswerOutcome.ANSWERED
    new_definition(world)
    change_tool(world, digest=OLD)
    assert kit.claim_one().task_id == task.id


def test_a_call_that_nobody_had_to_approve_runs_with_a_changed_definition(world: World) -> None:
    task = kit.create(world)
    new_definition(world)
    assert kit.claim_one().task_id == task.id


def test_where_changed_tools_wait_for_a_person_so_does_a_call_that_was_let_through(transactional_db: None) -> None:
    world = kit.make_world()
    Server.objects.update(review=True)
    task = kit.create(world)
    assert task.state is State.QUEUED
    new_definition(world)
    assert kit.claim() == []
    why = "Waiting for approval, 0 of 1: the tool has changed since it was called"
    assert (kit.look(task.id).state, kit.look(task.id).message) == (State.INPUT_REQUIRED, why)
    question = kit.opened(task.id)
    assert (question.key, question.group, question.quorum) == ("approval", "", 1)
    assert (question.params["tool"], question.params["changed"]) == (world.tool.exposed_name, True)
    assert approve(task.id, "ana") is AnswerOutcome.ANSWERED
    assert kit.claim_one().task_id == task.id


def test_what_was_approved_does_not_run_once_its_server_has_dropped_it(transactional_db: None) -> None:
    world = kit.make_world(asks={})
    task = kit.create(world)
    approve(task.id, "ana")
    change_tool(world, gone_at=datetime.now(UTC))
    assert kit.claim() == []
    assert kit.look(task.id).message == "Not run: the tool is not offered any more"


@pytest.mark.parametrize("what", ["nothing", "program", "person", "role", "consent"])
def test_a_program_calls_as_long_as_the_person_behind_it_may(transactional_db: None, what: str) -> None:
    world = kit.make_world()
    user = factories.make_user("ada")
    member = Membership.objects.create(tenant=world.context.tenant, user=user, role="operator")
    registration = Registration.objects.create(client_id="editor", name="Editor")
    application = Application.objects.create(tenant=world.context.tenant, registration=registration)
    consent = Consent.objects.create(application=application, user=user, scopes=["tasks:call"])
    AuthContext.objects.filter(pk=world.context.pk).update(
        issuer=OAUTH_ISSUER, subject=f"user:{user.pk}", client_id="editor"
    )
    task = kit.create(world)
    if what == "program":
        Application.objects.update(blocked_at=datetime.now(UTC))
    elif what == "person":
        User.objects.filter(pk=user.pk).update(is_active=False)
    elif what == "role":
        member.delete()
    elif what == "consent":
        consent.delete()
    taken = [one.task_id for one in kit.claim()]
    if what == "nothing":
        assert taken == [task.id]
    else:
        assert taken == []
        assert kit.look(task.id).message == "Not run: its client has been locked out"

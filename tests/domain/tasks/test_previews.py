"""When the preview that people approved is called again."""

from __future__ import annotations

from dataclasses import replace

import pytest

from taskhub.core.records import Actor, TaskRecord
from taskhub.core.rules import Preview, Rule, Then
from taskhub.core.states import Door
from taskhub.domain.questions.answer import EditOutcome, decide_approval
from taskhub.domain.questions.previews import failed
from taskhub.domain.tasks import edits, previews
from taskhub.domain.tasks.cancel import request_cancel
from taskhub.domain.tasks.previews import Compared
from taskhub.store.models import Question, Task, Tool
from tests.domain import kit
from tests.domain.tasks.test_decided_again import ALLOW, OTHER, approve, create, save
from tests.factories import WORKER

pytestmark = pytest.mark.django_db
SHOWS = Rule(name="shows", when="", then=Then.ASK, group="ops", preview=Preview(tool="plan"))


def approved() -> TaskRecord:
    """A call that people have approved with its preview, which did not answer."""
    world = kit.make_world()
    save(world, SHOWS)
    task = create(world)
    (call,) = previews.take_previews("worker-1", most=5)
    previews.end_preview(call, failed(call.problem), actor=WORKER)
    approve(task)
    return task


def rules_become(task: TaskRecord, *rules: Rule) -> None:
    found = Task.objects.get(pk=task.id)
    save(kit.World(found.context, kit.make_world().tool), *rules)


def test_the_same_rule_in_another_list_has_its_preview() -> None:
    task = approved()
    rules_become(task, OTHER, SHOWS)
    assert kit.claim_one().previewed
    assert previews.approved_preview(task.id) is not None


def test_where_another_rule_decides_by_then_nothing_is_called_again() -> None:
    rules_become(approved(), ALLOW)
    assert not kit.claim_one().previewed


def test_who_has_lost_the_call_compares_nothing() -> None:
    task = approved()
    taken, call = kit.claim_one(), previews.approved_preview(task.id)
    assert call is not None
    kit.finish(taken)
    assert previews.compare_preview(call, taken, failed("late"), actor=WORKER) is Compared.LOST


def test_what_is_to_be_cancelled_ends_and_is_not_asked_again() -> None:
    task = approved()
    taken, call = kit.claim_one(), previews.approved_preview(task.id)
    assert call is not None
    request_cancel(task.id, actor=Actor(name="ada", door=Door.WEB))
    assert previews.compare_preview(call, taken, failed("late"), actor=WORKER) is Compared.LOST
    assert kit.look(task.id).state == "cancelled"
    assert Question.objects.count() == 1


def test_the_preview_of_a_closed_question_is_not_called() -> None:
    world = kit.make_world()
    save(world, SHOWS)
    task = create(world)
    decide_approval(task.id, kit.opened(task.id), approve=False, actor=Actor(name="ada", door=Door.CLI, reason="no"))
    (call,) = previews.take_previews("worker-1", most=5)
    assert call.problem == "The question was closed before."
    previews.put_off(call, "away")
    assert previews.take_previews("worker-2", most=5) == []


def test_a_call_with_edited_arguments_has_a_preview_of_its_own_before_anybody_approves_it() -> None:
    world = kit.make_world()
    properties = {"text": {"type": "string"}, "dry": {"type": "boolean"}}
    Tool.objects.update(definition={"name": "t", "inputSchema": {"type": "object", "properties": properties}})
    save(world, replace(SHOWS, preview=Preview(arguments='{"dry":true}'), editable=("text",)))
    task = create(world)
    ada, question = Actor(name="ada", door=Door.CLI), kit.opened(task.id)
    proposed = edits.proposal(task.id, question, {"text": "bye"}, by="ada")
    assert edits.edit_call(task.id, question, proposed, votes=True, actor=ada) is EditOutcome.PROPOSED
    asked = kit.opened(task.id)
    assert (asked.key, asked.approvals) == ("approval-2", 0)
    calls = {call.claim.arguments["text"]: call for call in previews.take_previews("worker-1", most=5)}
    previews.end_preview(calls["bye"], failed("away"), actor=WORKER)
    approve(task)
    assert kit.claim_one().arguments == {"text": "bye"}
    approved = previews.approved_preview(task.id)
    assert approved is not None
    assert approved.claim.arguments == {"text": "bye", "dry": True}

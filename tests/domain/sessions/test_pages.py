"""What a client says to the request to open the page of a question for people: what is recorded, and what counts."""

from __future__ import annotations

from dataclasses import replace

import pytest

from taskhub.core.records import Actor, OpenQuestion, TaskRecord
from taskhub.core.states import State
from taskhub.domain.questions.answer import decide_approval
from taskhub.domain.sessions import writes as sessions
from taskhub.store.models import Decision, Event, Outbound
from tests.domain import kit
from tests.domain.audit.test_audit_events import ADA
from tests.domain.kit import World

pytestmark = pytest.mark.django_db


@pytest.fixture
def careful() -> World:
    """Its calls need an approval."""
    return kit.make_world(asks={})


def asked(world: World) -> tuple[TaskRecord, OpenQuestion]:
    """A call that waits for an approval, and whose client can open pages."""
    task = kit.create(world, client_capabilities={"elicitation": {"url": {}}})
    return task, kit.opened(task.id, "approval")


def says(task: TaskRecord, question: OpenQuestion, verdict: str, actor: Actor) -> None:
    assert question.id is not None
    sessions.answer_page(task.id, question.id, verdict, actor=actor)


def recorded(task: TaskRecord) -> list[tuple[str, str, str, str]]:
    found = Event.objects.filter(task_id=task.id, action__startswith="question.")
    found = found.exclude(action="question.asked").order_by("id")
    return [(event.action, event.actor, event.door, event.reason) for event in found]


@pytest.mark.parametrize("verdict", ["accept", "decline", "cancel", "refused"])
def test_the_first_answer_is_recorded_and_decides_nothing(careful: World, verdict: str) -> None:
    task, question = asked(careful)
    assert (question.page, question.offered) == (True, False)
    assert question.id is not None
    sessions.offer_page(task.id, question.id)
    kit.turn_back(task.id, "sent_at", 60, table="outbound")
    now = kit.opened(task.id, "approval")
    assert (now.page, now.offered) == (False, True)
    why = "No browser" if verdict == "refused" else ""
    actor = replace(careful.actor, reason=why)
    says(task, question, verdict, actor)
    says(task, question, "accept", actor)
    assert recorded(task) == [(f"question.page.{verdict}", actor.name, "client", why)]
    assert Event.objects.get(action=f"question.page.{verdict}").after == {"key": "approval", "kind": "approval"}
    now = kit.opened(task.id, "approval")
    assert (now.page, now.offered) == (False, False)
    assert not Decision.objects.exists()
    assert kit.look(task.id).state is State.INPUT_REQUIRED


@pytest.mark.parametrize("rounds", [True, False])
@pytest.mark.parametrize("verdict", ["decline", "cancel"])
def test_a_no_within_a_second_is_recorded_as_the_programs_own(careful: World, rounds: bool, verdict: str) -> None:
    task, question = asked(careful)
    assert question.id is not None
    if rounds:
        sessions.offer_page(task.id, question.id)
    says(task, question, verdict, careful.actor)
    own = "By the program itself, within a second of being asked"
    assert recorded(task) == [(f"question.page.{verdict}", careful.actor.name, "client", own)]
    assert not kit.opened(task.id, "approval").page


def test_an_answer_after_the_decision_is_not_recorded(careful: World) -> None:
    task, question = asked(careful)
    decide_approval(task.id, question, approve=True, actor=ADA)
    says(task, question, "accept", careful.actor)
    assert [action for action, *_ in recorded(task)] == ["question.approve"]
    assert not Outbound.objects.exists()

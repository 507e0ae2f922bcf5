"""The notice after a decision, and the button in it that undoes the decision."""

from __future__ import annotations

import re
from typing import Any

import pytest

from taskhub.console.forms.questions import PRESETS
from taskhub.core.states import QuestionState, Role, State
from taskhub.domain.workers.writes import heartbeat
from taskhub.store.models import Decision, Question, Task
from tests.console.conftest import Login
from tests.console.test_alike_page import deploys
from tests.factories import make_context, make_person, make_server, make_task, make_tool

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def time_to_undo(settings: Any) -> None:
    settings.TASKHUB_UNDO_SECONDS = 60
    heartbeat("worker-1", slots=8, busy=0)


def asked(tenant: Any, **asks: Any) -> Question:
    tool = make_tool(make_server(tenant, "demo"), "deploy", asks=asks)
    task = make_task(make_context(tenant, "ci-bot"), tool, arguments={"service": "web"})
    return Question.objects.get(task_id=task.id)


def offered(page: str) -> str:
    """What the button of the notice posts."""
    found = re.search(r'name="questions" value="([\d,]+)"', page)
    assert found, "no button to undo"
    return found[1]


def test_after_an_approval_the_notice_has_the_button_and_it_opens_the_question_again(
    tenant: Any, sign_in: Login
) -> None:
    question = asked(tenant)
    mia = sign_in(make_person(Role.APPROVER, tenant))
    page = mia.post(f"/inbox/{question.pk}/decide?tool=deploy", {"verdict": "approve"}, follow=True).content.decode()
    assert "Approved. The tool runs when you can no longer undo this." in page
    assert 'action="/inbox/undo?tool=deploy"' in page
    task = mia.get(f"/tasks/{Task.objects.get().public_id}/").content.decode()
    assert "the tool runs when that can no longer be undone" in task
    response = mia.post("/inbox/undo?tool=deploy", {"questions": offered(page)}, follow=True)
    assert response.redirect_chain == [(f"/inbox/{question.pk}/?tool=deploy", 302)]
    shown = response.content.decode()
    assert "Undone: it waits for a decision again." in shown
    assert 'value="approve"' in shown
    assert "data-undo" not in shown
    assert "next attempt in" not in shown  # the time that it would have waited is over with the decision
    question.refresh_from_db()
    assert question.state == QuestionState.OPEN
    assert "Undid the decision" in mia.get(f"/tasks/{Task.objects.get().public_id}/?view=timeline").content.decode()


def test_with_htmx_the_notice_comes_with_the_next_question(tenant: Any, sign_in: Login) -> None:
    question = asked(tenant)
    mia = sign_in(make_person(Role.APPROVER, tenant))
    page = mia.post(
        f"/inbox/{question.pk}/decide",
        {"verdict": "reject", "reason": "no"},
        headers={"HX-Request": "true", "HX-Target": "inbox"},
    ).content.decode()
    assert 'hx-swap-oob="true"' in page
    assert offered(page) == str(question.pk)
    task = mia.get(f"/tasks/{Task.objects.get().public_id}/").content.decode()
    assert "the caller is told when that can no longer be undone" in task


def test_the_first_of_two_approvals_can_be_undone(tenant: Any, sign_in: Login) -> None:
    question = asked(tenant, quorum=2)
    mia = sign_in(make_person(Role.APPROVER, tenant))
    page = mia.post(f"/inbox/{question.pk}/decide", {"verdict": "approve"}, follow=True).content.decode()
    mia.post("/inbox/undo", {"questions": offered(page)})
    assert not Decision.objects.exists()


def test_those_decided_together_are_undone_together(tenant: Any, sign_in: Login) -> None:
    questions = deploys(tenant, 5)
    mia = sign_in(make_person(Role.APPROVER, tenant))
    ids = [question.pk for question in questions]
    url = f"/inbox/{ids[0]}/alike"
    page = mia.post(url, {"verdict": "approve", "question": ids[:3]}, follow=True).content.decode()
    assert offered(page) == ",".join(map(str, ids[:3]))
    response = mia.post("/inbox/undo", {"questions": offered(page)}, follow=True)
    assert response.redirect_chain == [(url, 302)]
    assert "deploy: Undone for 3 of 3 calls." in response.content.decode()
    assert not Decision.objects.exists()


def test_too_late_is_said_and_changes_nothing(tenant: Any, sign_in: Login, settings: Any) -> None:
    settings.TASKHUB_UNDO_SECONDS = 0
    question = asked(tenant)
    mia = sign_in(make_person(Role.APPROVER, tenant))
    page = mia.post(f"/inbox/{question.pk}/decide", {"verdict": "approve"}, follow=True).content.decode()
    assert "Approved. The tool runs now." in page
    assert "data-undo" not in page
    shown = mia.post("/inbox/undo", {"questions": str(question.pk)}, follow=True).content.decode()
    assert "Too late to undo: the decision counts, and the call is queued." in shown
    assert Task.objects.get().state == State.QUEUED
    ben = sign_in(make_person(Role.APPROVER, tenant))
    shown = ben.post("/inbox/undo", {"questions": str(question.pk)}, follow=True).content.decode()
    assert "What you have not decided, you cannot undo." in shown
    assert ben.post("/inbox/undo", {"questions": "x"}).status_code == 400
    assert ben.post("/inbox/undo", {"questions": "99999"}).status_code == 404
    other = sign_in(make_person(Role.APPROVER))
    assert other.post("/inbox/undo", {"questions": str(question.pk)}).status_code == 404


def test_a_rejection_takes_the_reason_that_was_chosen_unless_one_is_typed(tenant: Any, sign_in: Login) -> None:
    questions = deploys(tenant, 5)
    ids = [question.pk for question in questions]
    mia = sign_in(make_person(Role.APPROVER, tenant))
    late, wrong = PRESETS[:2]
    mia.post(f"/inbox/{ids[0]}/decide", {"verdict": "reject", "preset": late})
    mia.post(f"/inbox/{ids[1]}/decide", {"verdict": "reject", "preset": late, "reason": "my own"})
    mia.post(f"/inbox/{ids[2]}/decide", {"verdict": "approve", "preset": late})
    mia.post(f"/inbox/{ids[3]}/alike", {"verdict": "reject", "preset": wrong, "question": ids[3:]})
    assert mia.post(f"/inbox/{ids[0]}/decide", {"verdict": "reject", "preset": "x"}).status_code in (302, 422)
    assert [decision.reason for decision in Decision.objects.order_by("question_id")] == [
        late, "my own", "", wrong, wrong,
    ]  # fmt: skip

"""Comments on a question, and its handover to others."""

from __future__ import annotations

from typing import Any

import pytest

from taskhub.core.states import Role
from taskhub.domain.workers.writes import heartbeat
from taskhub.store.models import Event, Membership, Question
from tests.console.conftest import Login
from tests.factories import make_context, make_person, make_server, make_task, make_tool

pytestmark = pytest.mark.django_db


def asked(tenant: Any, **asks: Any) -> Question:
    heartbeat("worker-1", slots=8, busy=0)
    tool = make_tool(make_server(tenant), asks=asks)
    task = make_task(make_context(tenant, "ci-bot"), tool, arguments={"service": "web"})
    return Question.objects.get(task_id=task.id)


def test_a_comment_stands_on_the_card_and_with_the_task_and_in_the_log(tenant: Any, sign_in: Login) -> None:
    question = asked(tenant)
    ann, ben = make_person(Role.APPROVER, tenant), make_person(Role.OPERATOR, tenant)
    response = sign_in(ben).post(f"/inbox/{question.pk}/comment?queue=all", {"text": "why <b>now</b>?"}, follow=True)
    assert response.redirect_chain == [(f"/inbox/{question.pk}/?queue=all", 302)]
    mia = sign_in(ann)
    for url in (
        f"/inbox/{question.pk}/",
        f"/inbox/{question.pk}/state",
        f"/tasks/{question.task.public_id}/?view=questions",
        f"/tasks/{question.task.public_id}/?view=timeline",
    ):
        page = mia.get(url).content.decode()
        assert "why &lt;b&gt;now&lt;/b&gt;?" in page, url
        assert ben.username in page, url
    (event,) = Event.objects.filter(action="question.commented")
    assert (event.actor, event.reason, event.after) == (
        ben.username,
        "why <b>now</b>?",
        {"key": question.key, "kind": "approval"},
    )


def test_what_is_no_comment_is_refused_and_stays_in_the_form(tenant: Any, sign_in: Login, monkeypatch: Any) -> None:
    question = asked(tenant)
    mia = sign_in(make_person(Role.APPROVER, tenant))
    url = f"/inbox/{question.pk}/comment"
    for text, words in (("  ", "Write a comment."), ("\u200b", "Write a comment."), ("x" * 1_001, "at most 1000")):
        response = mia.post(url, {"text": text})
        assert response.status_code == 422, text
        assert words in response.content.decode(), text
    monkeypatch.setattr("taskhub.domain.questions.remarks.MAX_REMARKS", 1)
    assert mia.post(url, {"text": "one"}).status_code == 302
    response = mia.post(url, {"text": "two"})
    assert response.status_code == 422
    assert "two</textarea>" in response.content.decode()
    mia.post(f"/inbox/{question.pk}/decide", {"verdict": "approve"})
    assert mia.post(url, {"text": "late"}).status_code == 409
    assert "Add the comment" not in mia.get(f"/inbox/{question.pk}/").content.decode()
    assert Event.objects.filter(action="question.commented").count() == 1


def test_handed_over_it_leaves_ones_queue_and_names_the_other(tenant: Any, sign_in: Login) -> None:
    question = asked(tenant)
    ann, bea, cy = (make_person(Role.APPROVER, tenant) for _ in range(3))
    as_ann = sign_in(ann)
    page = as_ann.get(f"/inbox/{question.pk}/hand-over").content.decode()
    assert f'value="person:{bea.username}"' in page
    assert f'value="person:{ann.username}"' not in page
    as_ann.post(f"/inbox/{question.pk}/hand-over", {"to": f"person:{bea.username}", "text": "you know it"})
    assert "Nothing waits for you." in as_ann.get("/inbox/").content.decode()
    assert f"handed to {bea.username}" in as_ann.get("/inbox/?queue=all").content.decode()
    as_bea = sign_in(bea)
    assert "handed to you" in as_bea.get("/inbox/").content.decode()
    card = as_bea.get(f"/inbox/{question.pk}/").content.decode()
    assert "<b>you</b>" in card
    assert "you know it" in card
    (event,) = Event.objects.filter(action="question.handed.over")
    assert event.after == {"key": question.key, "kind": "approval", "person": bea.username}
    # Others may decide it as before, and so may whoever handed it over.
    assert f"question-{question.pk}" in sign_in(cy).get("/inbox/").content.decode()
    as_ann = sign_in(ann)
    assert 'value="approve"' in as_ann.get(f"/inbox/{question.pk}/").content.decode()
    # The right is that of the moment in which they decide.
    Membership.objects.filter(user_id=bea.user_id).update(role="viewer")
    assert sign_in(bea).post(f"/inbox/{question.pk}/decide", {"verdict": "approve"}).status_code == 403


def test_only_those_who_may_decide_are_offered_and_taken(tenant: Any, sign_in: Login) -> None:
    question = asked(tenant, group="ops")
    ann, bea = (make_person(Role.APPROVER, tenant, groups=groups) for groups in (["ops"], ["ops", "leads"]))
    cy, dan = make_person(Role.APPROVER, tenant, groups=["dev"]), make_person(Role.VIEWER, tenant, groups=["ops"])
    mia = sign_in(ann)
    url = f"/inbox/{question.pk}/hand-over"
    page = mia.get(url).content.decode()
    assert [f'value="{to}"' in page for to in (f"person:{bea.username}", "group:ops", "group:leads")] == [True] * 3
    for to in ("", f"person:{cy.username}", f"person:{dan.username}", f"person:{ann.username}", "group:dev", "x"):
        assert mia.post(url, {"to": to}).status_code == 422, to
    assert not Event.objects.filter(action="question.handed.over").exists()
    mia.post(url, {"to": "group:leads"})
    assert "handed to group leads" in sign_in(bea).get("/inbox/").content.decode()

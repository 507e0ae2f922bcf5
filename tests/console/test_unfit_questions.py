"""Questions that no page can draw: each spoils itself and nothing else, also where it is stored already."""

from __future__ import annotations

import html
import json
from typing import Any

import pytest
from django.db import connection

from taskhub.console import questions as asking
from taskhub.core.records import TaskRecord
from taskhub.core.states import Audience, Role
from taskhub.domain.changes import questions, who
from taskhub.domain.tasks.reads import task_by_id
from taskhub.lib import jsonx
from taskhub.protocol.stateless.shapes import input_requests
from taskhub.store.models import Question
from tests.console.conftest import Login
from tests.factories import (
    WORKER,
    claim_task,
    make_context,
    make_person,
    make_question,
    make_server,
    make_task,
    make_tool,
)

pytestmark = pytest.mark.django_db


def _deep(levels: int) -> Any:
    value: Any = "x"
    for _ in range(levels):
        value = [value]
    return value


def _form(**rule: Any) -> dict[str, Any]:
    return {"message": "How many?", "requestedSchema": {"type": "object", "properties": {"n": rule}}}


STORED = {
    "a minimum beyond every float": json.dumps(_form(type="number", minimum=10**400)),
    "a maximum of so many digits": json.dumps(_form(type="integer", maximum=-(10**4000))),
    "a number that is infinite": json.dumps(_form(type="number", minimum=0)).replace(": 0", ": 1e400"),
    "more digits than are read": json.dumps(_form(type="integer", minimum=7)).replace("7", "7" * 5000),
    "a default nested too deep": json.dumps(_form(type="string", default=_deep(300))),
    "nested beyond every reader": json.dumps(_form(type="string", default="@")).replace('"@"', "[" * 3000 + "]" * 3000),
    "a moment before all others": json.dumps(
        _form(type="string", format="date-time", default="0001-01-01T00:00:00+14:00")
    ),
    "a title that is no text": json.dumps(_form(type="string", title={"a": ["b"]}, description=[1], format={})),
    "a length beyond everything": json.dumps(_form(type="string", maxLength=10**30, minLength=10**29)),
    "a field that is no schema": json.dumps(_form(type=["string", {"a": 1}])),
    "a message that is no text": json.dumps({"message": {"a": 10**400}, "requestedSchema": [1]}),
    "no object at all": "[1, 2]",
    "an address that is none": json.dumps({"mode": "url", "url": {"a": 10**400}, "message": 5}),
}

UNANSWERABLE = {
    "a minimum beyond every float": "It cannot be read: a number is out of range.",
    "a number that is infinite": "It cannot be read: a number is out of range.",
    "more digits than are read": "It cannot be read: Exceeds the limit",
    "a default nested too deep": "It cannot be read: nested deeper than 64.",
    "nested beyond every reader": "It is nested too deep.",
    "a length beyond everything": "Field 'n' wants more than an answer can have.",
    "a field that is no schema": "Field 'n' has type",
    "no object at all": "It is no object.",
}
"""Of those above, in the words of the page."""

NEVER_STORED = {"more digits than are read", "nested beyond every reader"}
"""Our own encoder has always refused them."""


@pytest.fixture
def operator(tenant: Any, sign_in: Login) -> Any:
    return sign_in(make_person(Role.OPERATOR, tenant))


def stored(tenant: Any, params: str, **changes: Any) -> tuple[TaskRecord, Question]:
    """A question as an earlier version let it in."""
    task = make_task(make_context(tenant, "agent-a"), make_tool(make_server(tenant, "demo")))
    claim = claim_task(task)
    question = make_question(params="@", **changes)
    asked = jsonx.encode(questions([question])).decode().replace('"@"', params)
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT ask(%s, %s::int, %s::json, 's', 'Waiting', false, NULL, %s)",
            (claim.task_id, claim.epoch, asked, who(WORKER)),
        )
    return task, Question.objects.defer("params").get(task_id=task.id)


@pytest.mark.parametrize("what", STORED)
def test_a_stored_question_that_cannot_be_drawn_leaves_the_inbox_to_the_others(
    operator: Any, tenant: Any, what: str
) -> None:
    _, question = stored(tenant, STORED[what])
    context = make_context(tenant, "agent-b")
    make_task(context, make_tool(make_server(tenant, "other")), state="input_required", question=make_question())
    for path in ("/inbox/", "/inbox/?queue=all", f"/inbox/{question.pk}/", f"/inbox/{question.pk}/state", "/"):
        response = operator.get(path)
        assert response.status_code == 200, path
    assert "Who are you?" in operator.get("/inbox/").content.decode()
    response = operator.post(f"/inbox/{question.pk}/answer", {"action": "decline"})
    assert response.status_code == 302
    assert Question.objects.defer("params").get(pk=question.pk).state == "answered"
    assert operator.get("/inbox/?queue=decided").status_code == 200


@pytest.mark.parametrize("what", UNANSWERABLE)
def test_a_stored_question_that_nobody_can_answer_says_why(operator: Any, tenant: Any, what: str) -> None:
    _, question = stored(tenant, STORED[what])
    page = operator.get(f"/inbox/{question.pk}/").content.decode()
    assert f"What the tool asks cannot be shown. {UNANSWERABLE[what]}" in html.unescape(page).replace("<bdi>", "")
    assert 'value="accept"' not in page
    assert 'value="decline"' in page
    response = operator.post(f"/inbox/{question.pk}/answer", {"action": "accept", "f0": "1"})
    assert response.status_code == 400
    assert Question.objects.defer("params").get(pk=question.pk).state == "open"


@pytest.mark.parametrize("what", set(STORED) - NEVER_STORED)
def test_the_page_and_the_wire_of_a_task_with_such_a_question(operator: Any, tenant: Any, what: str) -> None:
    task, _ = stored(tenant, STORED[what], audience=Audience.EITHER)
    for view in ("summary", "timeline", "questions", "log", "wire"):
        assert operator.get(f"/tasks/{task.public_id}/?view={view}").status_code == 200, view
    found = task_by_id(task.id)
    assert found is not None
    assert json.loads(jsonx.encode(input_requests(found.questions)))


def test_a_page_that_fails_for_a_reason_nobody_foresaw_shows_the_other_questions(
    operator: Any, tenant: Any, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    _, question = stored(tenant, json.dumps(_form(type="string")))

    def fail(*_: object) -> Any:
        raise ArithmeticError("a new one")

    monkeypatch.setattr(asking, "AnswerForm", fail)
    page = operator.get("/inbox/").content.decode()
    assert "What the tool asks cannot be shown. The reason is in the log of the web process." in page
    assert f"question {question.pk} cannot be shown" in caplog.text


def test_a_moment_that_no_calendar_has_in_utc_is_passed_on_as_it_was_written(operator: Any, tenant: Any) -> None:
    _, question = stored(tenant, json.dumps(_form(type="string", format="date-time")))
    given = "0001-01-01T00:00:00+14:00"
    assert operator.post(f"/inbox/{question.pk}/answer", {"action": "accept", "f0": given}).status_code == 302
    question.refresh_from_db()
    assert json.loads(question.response or "")["content"] == {"n": given}

"""What an approver sees besides the arguments, and what is asked when the tool has changed."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from taskhub.console.changes import LONGEST, SHOWN, Change, changes
from taskhub.core.records import ToolRecord
from taskhub.core.states import Role
from taskhub.store.models import Question, Tool
from tests.console.conftest import Login
from tests.domain import kit
from tests.factories import make_context, make_person, make_server, make_task, make_tenant, make_tool

pytestmark = pytest.mark.django_db


@pytest.fixture
def tool() -> ToolRecord:
    return make_tool(make_server(make_tenant(), "demo"), "deploy", approval=True, approval_when={"env": "prod"})


def text_of(page: Any) -> str:
    return " ".join(page.content.decode().split())


def asked(sign_in: Login, tool: ToolRecord, arguments: dict[str, Any], **new: Any) -> tuple[Any, Any]:
    tenant = Tool.objects.get(pk=tool.id).server.tenant
    task = make_task(make_context(tenant), tool, arguments=arguments, **new)
    return task, sign_in(make_person(Role.APPROVER, tenant, username="mia"))


def test_the_page_shows_the_definition_and_the_digests_that_go_on_record(sign_in: Login, tool: ToolRecord) -> None:
    Tool.objects.filter(pk=tool.id).update(definition={"name": "deploy", "description": "Ships it"}, digest="a1" * 32)
    _, mia = asked(sign_in, tool, {"env": "prod"})
    page = text_of(mia.get("/inbox/"))
    assert "Ships it" in page
    assert "a1" * 32 in page
    assert "the match is in doubt" not in page
    assert "Answers that came with the call" not in page


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({}, "is missing"),
        ({"env": None}, "is null"),
        ({"env": ["prod"]}, "has another type"),
        ({"env": "PROD"}, "is written differently"),
    ],
)
def test_a_call_that_was_held_in_doubt_says_why(
    sign_in: Login, tool: ToolRecord, arguments: dict[str, Any], words: str
) -> None:
    _, mia = asked(sign_in, tool, arguments)
    assert f"Approval was required because the match is in doubt: <code>env</code> {words}" in text_of(
        mia.get("/inbox/")
    )


def test_answers_that_came_with_the_call_are_shown_before_it_is_approved(sign_in: Login, tool: ToolRecord) -> None:
    given = {"confirm": {"action": "accept", "content": {"sure": "yes-by-the-agent"}}}
    _, mia = asked(sign_in, tool, {"env": "prod"}, answers=given)
    page = text_of(mia.get("/inbox/"))
    assert "Answers that came with the call" in page
    assert "<code>confirm</code>" in page
    assert "yes-by-the-agent" in page


def test_a_changed_tool_is_asked_about_again_with_what_changed(sign_in: Login, tool: ToolRecord) -> None:
    task, mia = asked(sign_in, tool, {"env": "prod"})
    question = Question.objects.get(task_id=task.id)
    mia.post(f"/inbox/{question.pk}/decide", {"verdict": "approve"})
    new = {"name": "deploy", "description": "Now deletes", "inputSchema": {"type": "object"}}
    Tool.objects.filter(pk=tool.id).update(definition=new, digest="1" * 64, changed_at=datetime.now(UTC))
    assert kit.claim() == []
    page = text_of(mia.get("/inbox/"))
    assert "The tool has changed since mia approved this call." in page
    assert "description" in page
    assert "<ins>Now deletes</ins>" in page
    again = Question.objects.get(task_id=task.id, state="open")
    mia.post(f"/inbox/{again.pk}/decide", {"verdict": "approve"})
    assert [taken.task_id for taken in kit.claim()] == [task.id]


def test_a_call_that_was_let_through_before_the_tool_changed_says_so(sign_in: Login, tool: ToolRecord) -> None:
    _, mia = asked(sign_in, tool, {"env": "test"})
    Tool.objects.filter(pk=tool.id).update(definition={"name": "deploy"}, digest="1" * 64)
    assert kit.claim() == []
    assert "The tool has changed since this call was made." in text_of(mia.get("/inbox/"))


def test_differences_are_values_in_the_order_of_the_new_definition_and_bounded() -> None:
    found = changes({"a": {"b": [1, "x"]}, "gone": {}}, {"new": None, "a": {"b": [1, "y"], "c": True}})
    assert found.shown == (
        Change("new", "", "null"),
        Change("a › b › [1]", "x", "y"),
        Change("a › c", "", "true"),
        Change("gone", "{}", ""),
    )
    many = changes({}, {str(n): "v" * (LONGEST + 1) for n in range(SHOWN + 5)})
    assert (len(many.shown), many.more, len(many.shown[0].after)) == (SHOWN, 5, LONGEST + 1)
    assert changes(None, None).shown == ()


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ({"d": "false"}, {"d": False}),
        ({"d": "null"}, {"d": None}),
        ({"d": "[]"}, {"d": []}),
        ({"d": ["a"]}, {"d": {"0": "a"}}),
        ({"a": {"b": "harmless"}}, {"a": {"b": "evil"}, "a › b": "harmless"}),
    ],
)
def test_no_two_definitions_are_said_to_be_the_same(before: dict[str, Any], after: dict[str, Any]) -> None:
    assert changes(before, after).shown


def test_of_a_long_text_the_part_that_differs_is_shown() -> None:
    long = "A" * 3_000
    (change,) = changes({"d": f"{long} reads it"}, {"d": f"{long} DELETES it"}).shown
    assert change.before.endswith('A reads it"')
    assert change.after.endswith('A DELETES it"')
    assert change.after.startswith("…A")

"""What an approver sees besides the arguments, and what is asked when the tool has changed."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import Any

import pytest
from django.utils.text import capfirst

from taskhub.console.changes import LONGEST, SHOWN, Change, Part, changes
from taskhub.control.questions import decide_approval
from taskhub.core.records import ToolRecord
from taskhub.core.rules import Rule, Then, Verdict
from taskhub.core.states import Role
from taskhub.domain.catalogue.view import tool_by_id
from taskhub.domain.questions import answer
from taskhub.domain.questions.answer import AnswerOutcome
from taskhub.domain.workers.writes import heartbeat
from taskhub.store.models import AuthContext, Membership, Question, Server, Tool
from tests.console.conftest import Login
from tests.domain import kit
from tests.domain.catalogue.test_versions import definition, lists
from tests.factories import make_context, make_person, make_server, make_task, make_tenant, make_tool

pytestmark = pytest.mark.django_db


@pytest.fixture
def tool() -> ToolRecord:
    return make_tool(make_server(make_tenant(), "demo"), "deploy", asks={"when": {"env": "prod"}})


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


@pytest.mark.parametrize("arguments", [{}, {"env": None}, {"env": ["prod"]}, {"env": "PROD"}])
def test_a_call_that_was_held_in_doubt_says_so(sign_in: Login, tool: ToolRecord, arguments: dict[str, Any]) -> None:
    _, mia = asked(sign_in, tool, arguments)
    page = text_of(mia.get("/inbox/"))
    assert "Approval was required because the match is in doubt:" in page
    missing = arguments.get("env") is None
    said = re.sub(r"<[^>]+>", "", page)
    assert ("Missing or null: env." in said, "The rule compares env." in said) == (missing, not missing)


@pytest.mark.parametrize("doubt", [False, True])
def test_the_rule_that_asked_is_named_with_its_version(sign_in: Login, tool: ToolRecord, doubt: bool) -> None:
    rule = Rule(name="<i>Production</i>", when="args.env == 'prod'", then=Then.ASK, group="ops", quorum=2)
    _, mia = asked(sign_in, tool, {"env": "prod"}, verdict=Verdict(Then.ASK, rule, 3, doubt))
    page = text_of(mia.get("/inbox/?queue=all"))
    assert (
        "Asked by the rule <b>&lt;i&gt;Production&lt;/i&gt;</b> "
        '(<a href="/rules/versions/3/">version 3</a>), which needs 2 approvals from group ops'
    ) in page
    assert ("the match is in doubt: an argument that the rule uses is missing" in page) is doubt


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


def test_approving_what_has_changed_meanwhile_does_not_say_that_the_tool_runs(
    sign_in: Login, tool: ToolRecord, monkeypatch: pytest.MonkeyPatch
) -> None:
    heartbeat("worker-1", slots=8, busy=0)
    task, mia = asked(sign_in, tool, {"env": "prod"})

    def approve() -> str:
        (question,) = Question.objects.filter(task_id=task.id, state="open")
        return text_of(mia.post(f"/inbox/{question.pk}/decide", {"verdict": "approve"}, follow=True))

    Tool.objects.filter(pk=tool.id).update(digest="1" * 64)
    will_be = "The tool has changed meanwhile, so another approval will be asked for"
    assert f"If approved now, the call does not run yet. {will_be}" in text_of(mia.get("/inbox/"))
    assert f"Approved. {will_be}" in approve()
    assert kit.claim() == []

    def decide(*args: Any, **named: Any) -> AnswerOutcome:
        """A worker claims the call before the page is answered."""
        outcome = decide_approval(*args, **named)
        assert kit.claim() == []
        return outcome

    Tool.objects.filter(pk=tool.id).update(digest="2" * 64)
    with monkeypatch.context() as patch:
        patch.setattr("taskhub.control.questions.decide_approval", decide)
        assert (
            "Approved. The call, its tool, its preview or the rules have changed meanwhile,"
            " so another approval has been asked for" in approve()
        )
    assert "does not run yet" not in text_of(mia.get("/inbox/"))
    assert "Approved. The tool runs now." in approve()


def removed(tool: ToolRecord) -> None:
    Server.objects.update(enabled=False, state="disabled", removed_at=datetime.now(UTC))


NEVER = {
    "turned off": (lambda tool: Tool.objects.update(enabled=False), "the tool has been turned off"),
    "not offered": (lambda tool: Tool.objects.update(gone_at=datetime.now(UTC)), "the tool is not offered any more"),
    "rejected": (lambda tool: Tool.objects.update(rejected="bad"), "the tool is not offered any more: bad"),
    "removed": (removed, "its server has been removed"),
    "locked out": (
        lambda tool: AuthContext.objects.update(disabled_at=datetime.now(UTC)),
        "its client has been locked out",
    ),
}


@pytest.mark.parametrize("how", NEVER)
@pytest.mark.parametrize("claimed", [False, True])
def test_approving_what_will_not_run_says_so(
    sign_in: Login, tool: ToolRecord, how: str, claimed: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    heartbeat("worker-1", slots=8, busy=0)
    task, mia = asked(sign_in, tool, {"env": "prod"})
    (question,) = Question.objects.filter(task_id=task.id)
    happens, why = NEVER[how]
    happens(tool)
    ends = f"{capfirst(why)}: the next claim of a worker ends the call."
    assert f"If approved now, the call does not run. {ends}" in text_of(mia.get("/inbox/"))

    def decide(*args: Any, **named: Any) -> AnswerOutcome:
        """A worker claims the call before the page is answered."""
        outcome = decide_approval(*args, **named)
        assert kit.claim() == []
        return outcome

    if claimed:
        monkeypatch.setattr("taskhub.control.questions.decide_approval", decide)
    page = text_of(mia.post(f"/inbox/{question.pk}/decide", {"verdict": "approve"}, follow=True))
    assert f"Approved. {f'Not run: {why}.' if claimed else ends}" in page
    if not claimed:
        assert ends in text_of(mia.get(f"/tasks/{task.public_id}/"))
        assert kit.claim() == []
    assert kit.look(task.id).message == f"Not run: {why}"


def test_a_call_that_was_let_through_before_the_tool_changed_says_so(sign_in: Login, tool: ToolRecord) -> None:
    _, mia = asked(sign_in, tool, {"env": "test"})
    Server.objects.update(review=True)
    Tool.objects.filter(pk=tool.id).update(definition={"name": "deploy"}, digest="1" * 64)
    assert kit.claim() == []
    assert "The tool has changed since this call was made." in text_of(mia.get("/inbox/"))


@pytest.mark.parametrize("what", ["address", "approver"])
def test_a_call_that_is_asked_again_says_why_and_who_approved_it(sign_in: Login, tool: ToolRecord, what: str) -> None:
    task, mia = asked(sign_in, tool, {"env": "prod"})
    answer.decide_approval(task.id, kit.opened(task.id), approve=True, actor=kit.approver(task.id, "ana"))
    if what == "address":
        Server.objects.filter(pk=tool.server_id).update(target="http://elsewhere.example/mcp")
    else:
        Membership.objects.filter(user__username="ana").update(role="viewer")
    assert kit.claim() == []
    why = {
        "address": "The call or its server’s address has changed since ana approved it.",
        "approver": "ana approved this call, but not all of them may do so any more.",
    }[what]
    assert why in text_of(mia.get("/inbox/"))


def test_what_the_caller_was_offered_is_compared_where_no_approval_was_required_then(sign_in: Login) -> None:
    server = make_server(make_tenant(), "demo")
    lists(server, definition("Ships it", "deploy"))
    Server.objects.update(review=True)
    tool = tool_by_id(Tool.objects.get().pk)
    assert tool is not None
    _, mia = asked(sign_in, tool, {"env": "test"})
    lists(server, definition("Deletes it", "deploy"))
    assert kit.claim() == []
    page = text_of(mia.get("/inbox/"))
    assert "The tool has changed since this call was made." in page
    assert ("<del>Ships it</del>" in page, "<ins>Deletes it</ins>" in page) == (True, True)
    assert "When called" in page


def test_differences_are_values_in_the_order_of_the_new_definition_and_bounded() -> None:
    found = changes({"a": {"b": [1, "x"]}, "gone": {}}, {"new": None, "a": {"b": [1, "y"], "c": True}})
    assert found.parts == (
        Part("Member", "new", "added", (Change("", "", "null"),)),
        Part("Member", "a", "changed", (Change("b › [1]", "x", "y"), Change("c", "", "true"))),
        Part("Member", "gone", "removed", (Change("", "{}", ""),)),
    )
    many = changes({}, {str(n): "v" * (LONGEST + 1) for n in range(SHOWN + 5)})
    assert (len(many.parts), many.more, len(many.parts[0].changes[0].after)) == (SHOWN, 5, LONGEST + 1)
    assert changes(None, None).parts == ()


def test_differences_are_told_in_the_words_of_a_tool() -> None:
    before = {
        "description": "Ships it",
        "inputSchema": {
            "type": "object",
            "required": ["env", "files"],
            "properties": {
                "env": {"type": "string", "enum": ["test", "prod"]},
                "files": {"type": "array", "items": {"properties": {"path": {"type": "string"}}}},
                "old": {"type": "string"},
            },
        },
        "outputSchema": {"type": "object", "properties": {"url": {"type": "string"}}},
        "annotations": {"readOnlyHint": True},
    }
    after = {
        "description": "Deletes it",
        "inputSchema": {
            "type": "object",
            "additionalProperties": False,
            "required": ["files"],
            "properties": {
                "env": {"type": "string", "enum": ["prod"], "default": "prod", "description": "Where to"},
                "files": {"type": "array", "items": {"properties": {"path": {"type": "integer"}}}},
                "to": {"type": "string"},
            },
        },
        "outputSchema": {"type": "object", "properties": {"url": {"type": "null"}}},
        "annotations": {"readOnlyHint": False},
        "_meta": {"team": "web"},
    }
    assert changes(before, after).parts == (
        Part("Description", "", "changed", (Change("", "Ships it", "Deletes it"),)),
        Part("Arguments", "", "changed", (Change("additionalProperties", "", "false"),)),
        Part(
            "Argument",
            "env",
            "changed",
            (
                Change("required", "yes", "no"),
                Change("enum", '["test", "prod"]', '["prod"]'),
                Change("default", "", "prod"),
                Change("description", "", "Where to"),
            ),
        ),
        Part("Argument", "files[].path", "changed", (Change("type", "string", "integer"),)),
        Part("Argument", "to", "added", (Change("required", "", "no"), Change("type", "", "string"))),
        Part("Output", "url", "changed", (Change("type", "string", '"null"'),)),
        Part("Annotation", "readOnlyHint", "changed", (Change("", "true", "false"),)),
        Part("_meta", "team", "added", (Change("", "", "web"),)),
        Part("Argument", "old", "removed", (Change("required", "no", ""), Change("type", "string", ""))),
    )


def test_what_is_required_in_another_order_is_the_same() -> None:
    def requires(*names: str) -> dict[str, Any]:
        return {"inputSchema": {"required": list(names), "properties": {"a": {}, "b": {}}}}

    assert changes(requires("a", "b"), requires("b", "a")).parts == ()


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ({"d": "false"}, {"d": False}),
        ({"d": "null"}, {"d": None}),
        ({"d": "[]"}, {"d": []}),
        ({"d": ["a"]}, {"d": {"0": "a"}}),
        ({"a": {"b": "harmless"}}, {"a": {"b": "evil"}, "a › b": "harmless"}),
        ({"inputSchema": {"required": []}}, {"inputSchema": {}}),
        ({"inputSchema": {"required": ["x"]}}, {"inputSchema": {"required": ["y"]}}),
        ({"inputSchema": {"required": ["x"], "properties": {}}}, {"inputSchema": {"properties": {}}}),
        (
            {"inputSchema": {"properties": {"a.b": {}}}},
            {"inputSchema": {"properties": {"a": {"properties": {"b": {}}}}}},
        ),
        ({"inputSchema": {"items": {}}}, {"inputSchema": {"items": []}}),
        ({"_meta": {}}, {}),
        ({"annotations": ["x"]}, {"annotations": {"x": 1}}),
    ],
)
def test_no_two_definitions_are_said_to_be_the_same(before: dict[str, Any], after: dict[str, Any]) -> None:
    assert changes(before, after).parts


def test_of_a_long_text_the_part_that_differs_is_shown() -> None:
    long = "A" * 3_000
    ((change,),) = (part.changes for part in changes({"d": f"{long} reads it"}, {"d": f"{long} DELETES it"}).parts)
    assert change.before.endswith('A reads it"')
    assert change.after.endswith('A DELETES it"')
    assert change.after.startswith("…A")


@pytest.mark.parametrize(
    ("before", "after", "shown"),
    [
        ("v2 of ship", "v2 of  ship ", ('"v2 of ship"', '"v2 of  ship "')),
        ("ship it", "ship\u00a0it", ('"ship it"', '"ship\\u00a0it"')),
        ("ship it", "ship\nit", ('"ship it"', '"ship\\nit"')),
        ("ship it", "ship all", ("ship it", "ship all")),
        (["a b"], ["a  b"], ('"a b"', '"a  b"')),
    ],
)
def test_texts_that_differ_only_in_spaces_are_quoted(before: Any, after: Any, shown: tuple[str, str]) -> None:
    ((change,),) = (part.changes for part in changes({"description": before}, {"description": after}).parts)
    assert (change.before, change.after) == shown


def test_a_call_that_nobody_can_decide_says_so(sign_in: Login, tool: ToolRecord) -> None:
    rule = Rule(name="Production", when="", then=Then.ASK, group="ops", quorum=2)
    _, mia = asked(sign_in, tool, {"env": "prod"}, verdict=Verdict(Then.ASK, rule, 3))
    page = mia.get("/inbox/?queue=all")
    assert "Nobody can decide this." in text_of(page)
    assert re.search(r'<a href="/tasks/[^"]+">cancel the call</a>', page.content.decode())
    make_person(Role.APPROVER, Tool.objects.get(pk=tool.id).server.tenant, groups=["ops"])
    assert "Too few people may approve this: 1 of the 2 who are needed." in text_of(mia.get("/inbox/?queue=all"))
    make_person(Role.ADMIN, Tool.objects.get(pk=tool.id).server.tenant, groups=["ops"])
    told = text_of(mia.get("/inbox/?queue=all"))
    assert "Too few people" not in told
    assert "Nobody can decide" not in told

"""Approving a call with edited arguments: the rule's form, the card, the form and the difference."""

from __future__ import annotations

import html
import re
from typing import Any

import pytest
from django.test import Client

from taskhub.console.forms.edits import EditForm
from taskhub.core.asking import Asking
from taskhub.core.records import TaskRecord
from taskhub.core.rules import Preview, Risk, Rule, Then, Verdict
from taskhub.core.states import Role, State
from taskhub.domain.catalogue.view import tool_by_id
from taskhub.domain.rules.changes import save_rules
from taskhub.domain.rules.reads import present
from taskhub.domain.workers.writes import heartbeat
from taskhub.store.models import AuthContext, Question, Tenant, Tool
from tests.console.admin import ADMIN, words
from tests.console.conftest import Login
from tests.console.test_asking_page import added, card
from tests.domain import kit
from tests.factories import make_context, make_person, make_server, make_task, make_tool

pytestmark = pytest.mark.django_db
SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "env": {"type": "string", "enum": ["prod", "staging"], "title": "Environment"},
        "count": {"type": "integer", "minimum": 1, "maximum": 9},
        "dry": {"type": "boolean"},
        "note": {"anyOf": [{"type": "string"}, {"type": "null"}]},
        "tags": {"type": "object"},
        "to": {"type": "integer", "default": 3},
    },
    "required": ["env"],
}
SENT = {"env": "prod", "count": 3, "tags": {"a": 1}}


@pytest.fixture
def task(tenant: Tenant) -> TaskRecord:
    return call(tenant)


def call(tenant: Tenant, **says: Any) -> TaskRecord:
    rule = Rule(name="Production", when="", then=Then.ASK, **{"editable": ("*",), **says})
    made = make_tool(make_server(tenant, "ops"), "deploy")
    Tool.objects.update(definition={"name": "deploy", "inputSchema": SCHEMA})
    tool = tool_by_id(made.id)
    assert tool is not None
    saved = save_rules(tenant.pk, [rule], expected=0, actor=ADMIN)
    verdict = Verdict(Then.ASK, rule, saved.version)
    return make_task(make_context(tenant, "Editor"), tool, arguments=SENT, verdict=verdict)


def asking_id(task: TaskRecord) -> int:
    return int(Question.objects.filter(task_id=task.id).latest("id").pk)


def posted(page: str) -> dict[str, str]:
    """What a browser would post of the form: without the choices that nobody made."""
    form = page[page.index('id="decision"') : page.index("</form>", page.index('id="decision"'))]
    found = {}
    for tag in re.findall(r"<input[^>]*>", form):
        name, value = (re.search(rf'\b{part}="([^"]*)"', tag) for part in ("name", "value"))
        if name and not ("radio" in tag and "checked" not in tag):
            found[name[1]] = html.unescape(value[1]) if value else ""
    for name, text in re.findall(r'<textarea[^>]*name="([^"]*)"[^>]*>\n?(.*?)</textarea>', form, re.DOTALL):
        found[name] = html.unescape(text)
    return {name: text for name, text in found.items() if name != "csrfmiddlewaretoken"}


def edit(client: Client, task: TaskRecord, **changes: str) -> tuple[Any, dict[str, str]]:
    """The answer to the filled-in form, which shows the difference, and what its button would post."""
    where = f"/inbox/{asking_id(task)}/edit"
    given = posted(client.get(where).content.decode()) | changes
    answer = client.post(where, given)
    return answer, posted(answer.content.decode()) if answer.status_code == 200 else {}


def test_the_form_of_a_rule_takes_names_a_line_each(admin: Client, tenant: Tenant) -> None:
    rule = added(admin, tenant, editable="env\r\n  note ")
    assert rule.editable == ("env", "note")
    assert "env\nnote" in admin.get("/rules/edit?rule=Production").content.decode()
    assert "may edit env , note" in words(admin.get("/rules/").content.decode())


def test_a_rule_that_denies_lets_nobody_edit(admin: Client, tenant: Tenant) -> None:
    assert added(admin, tenant, then="deny", editable="env").editable == ()


def test_the_difference_comes_first_and_the_approval_then(sign_in: Login, tenant: Tenant, task: TaskRecord) -> None:
    heartbeat("worker-1", slots=8, busy=0)
    client = sign_in(make_person(Role.APPROVER, tenant))
    where = f"/inbox/{asking_id(task)}/edit"
    assert f'href="{where}"' in client.get(f"/inbox/{asking_id(task)}/").content.decode()
    # The queue stays what it was.
    assert f'href="{where}?tool=x"' in client.get(f"/inbox/{asking_id(task)}/?tool=x").content.decode()
    for form in ("edit", "hand-over"):
        back = f'href="/inbox/{asking_id(task)}/?tool=x"'
        assert back in client.get(f"/inbox/{asking_id(task)}/{form}?tool=x").content.decode(), form
    shown, confirm = edit(client, task, f0="staging", reason="not yet")
    text = words(shown.content.decode())
    assert "Approve it with these changes?" in text
    assert "env prod staging" in text
    assert kit.look(task.id).state is State.INPUT_REQUIRED
    back = client.post(where, {**confirm, "back": "1"}).content.decode()
    assert posted(back)["f0"] == "staging"
    done = client.post(where, confirm, follow=True)
    assert "Approved with changes. The tool runs now." in words(done.content.decode())
    assert kit.claim_one().arguments == {**SENT, "env": "staging"}
    page = words(client.get(f"/tasks/{task.public_id}/").content.decode())
    assert "changed arguments before the call was approved." in page
    assert "Changed arguments of the call" in words(
        client.get(f"/tasks/{task.public_id}/?view=timeline").content.decode()
    )


def test_what_runs_again_is_shown_before(sign_in: Login, tenant: Tenant, task: TaskRecord) -> None:
    client, operator = sign_in(make_person(Role.APPROVER, tenant)), sign_in(make_person(Role.OPERATOR, tenant))
    client.post(f"/inbox/{asking_id(task)}/edit", edit(client, task, f0="staging")[1])
    kit.finish(kit.claim_one())
    asked = operator.get(f"/tasks/{task.public_id}/rerun").content.decode()
    dialogs = [operator.get(f"/tasks/{task.public_id}/?view={view}").content.decode() for view in ("summary", "log")]
    for page in (asked, *(page.split('id="rerun-dialog"')[1] for page in dialogs)):
        assert "A new task calls the tool with the arguments that people approved" in words(page)
        assert "Argument Asked for Will run env prod staging" in words(page)


def test_what_was_not_touched_is_posted_as_it_was(sign_in: Login, tenant: Tenant, task: TaskRecord) -> None:
    answer, _ = edit(sign_in(make_person(Role.APPROVER, tenant)), task)
    assert answer.status_code == 422
    assert "Nothing is changed." in words(answer.content.decode())


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"f0": ""}, "Environment is required."),
        ({"f1": "10"}, "count must be at most 9."),
        ({"f4": "{"}, "tags is no JSON"),
        ({"f4": "[]"}, "do not fit the tool’s schema"),
    ],
)
def test_what_does_not_fit_is_said_beside_it(
    sign_in: Login, tenant: Tenant, task: TaskRecord, changes: dict[str, str], told: str
) -> None:
    answer, _ = edit(sign_in(make_person(Role.APPROVER, tenant)), task, **changes)
    assert answer.status_code == 422
    assert told in words(answer.content.decode())
    assert asking_id(task) == Question.objects.earliest("id").pk


def test_others_see_the_difference_on_top(sign_in: Login, tenant: Tenant) -> None:
    task = call(tenant, quorum=2)
    ann, ben = make_person(Role.APPROVER, tenant, username="ann"), make_person(Role.APPROVER, tenant, username="ben")
    client, first = sign_in(ann), asking_id(task)
    shown, confirm = edit(client, task, f0="staging")
    assert "Your approval is the first of 2" in words(shown.content.decode())
    client.post(f"/inbox/{first}/edit", confirm)
    other = sign_in(ben)
    text = card(other, task)
    assert "ann changed arguments of this call. Votes on the call as it was do not count." in text
    assert text.index("env prod staging") < text.index("It will run with")
    assert "1 of 2 approvals" in text
    late = other.post(f"/inbox/{first}/decide", {"verdict": "approve"}, follow=True)
    assert "ann changed arguments of this call, and people are asked about it as it is now." in words(
        late.content.decode()
    )
    old = other.get(f"/inbox/{first}/").content.decode()
    assert f"/inbox/task/{task.public_id}/?key=approval-2" in old
    assert kit.claim() == []
    other.post(f"/inbox/{asking_id(task)}/decide", {"verdict": "approve"})
    assert kit.claim_one().arguments["env"] == "staging"


def test_with_a_preview_the_call_is_changed_first_and_approved_once_it_is_there(sign_in: Login, tenant: Tenant) -> None:
    make_tool(make_server(tenant, "other"), "plan")
    task = call(tenant, quorum=2, preview=Preview(arguments='{"dry":true}'))
    ann, ben = (sign_in(make_person(Role.APPROVER, tenant, username=name)) for name in ("ann", "ben"))
    where = f"/inbox/{asking_id(task)}/edit"

    def buttons_brought(page: str) -> int:
        """How many buttons the page's part that is read again brings for a place that the page has not."""
        again = re.search(r'hx-get="(/inbox/\d+/state[^"]*)"', page)
        assert again is not None
        brought = ann.get(again[1]).content.decode()
        assert again[0] in brought
        return 0 if 'id="approve"' in page else brought.count('id="approve"')

    assert buttons_brought(ann.get(f"/inbox/{asking_id(task)}/").content.decode()) == 0
    assert buttons_brought(ann.get(where).content.decode()) == 0
    shown, confirm = edit(ann, task, f0="staging", reason="not on a Friday")
    page = shown.content.decode()
    assert buttons_brought(page) == 0
    text = words(page)
    assert "Change it like this?" in text
    assert "You approve once its preview is there." in text
    assert "Change, and show the new preview" in text
    assert "Your approval is the first" not in text
    assert "Approve with changes" not in text
    tool = tool_by_id(Tool.objects.get(name="deploy").pk)
    make_task(AuthContext.objects.get(name="Editor"), tool, arguments={"env": "prod"})
    done = ann.post(where, confirm, follow=True)
    said = words(done.content.decode())
    assert "Changed. Its preview is called with these arguments: approve it once you have seen that." in said
    # Not the next call of the queue, whose button to approve stands in the same place.
    assert done.redirect_chain[-1][0].startswith(f"/inbox/{asking_id(task)}/")
    for approver in (ann, ben):
        said = card(approver, task)
        assert "ann changed arguments of this call." in said
        assert "not on a Friday" in said
        assert "0 of 2 approvals" in said


def test_a_changed_call_says_when_it_was_made_and_when_it_is_asked_about(sign_in: Login, tenant: Tenant) -> None:
    task = call(tenant, quorum=2)
    client = sign_in(make_person(Role.APPROVER, tenant))
    client.post(f"/inbox/{asking_id(task)}/edit", edit(client, task, f0="staging")[1])
    text = card(client, task)
    assert re.search(r"Called (just now|\d+ s ago) , asked about (just now|\d+ s ago)", text)
    assert "Requested" not in text


def test_where_others_see_the_preview_the_next_call_comes(sign_in: Login, tenant: Tenant) -> None:
    task = call(tenant, preview=Preview(arguments='{"dry":true}'))
    leads = Rule(
        name="Leads",
        when='args.env == "staging"',
        then=Then.ASK,
        group="leads",
        preview=Preview(arguments='{"dry":true}'),
    )
    save_rules(tenant.pk, [leads, *present(tenant.pk).rules], expected=1, actor=ADMIN)
    client, where = sign_in(make_person(Role.APPROVER, tenant)), f"/inbox/{asking_id(task)}/edit"
    done = client.post(where, edit(client, task, f0="staging")[1], follow=True)
    assert done.redirect_chain[-1][0] == "/inbox/"
    assert "Changed. By the rules the group leads decide on the call as it is now." in words(done.content.decode())


def test_an_argument_that_was_not_given_is_shown_with_its_default(sign_in: Login, tenant: Tenant) -> None:
    task = call(tenant, quorum=2)
    client = sign_in(make_person(Role.APPROVER, tenant))
    shown, confirm = edit(client, task, f3="hi", f5="2", f1="")
    for page in (shown, client.post(f"/inbox/{asking_id(task)}/edit", confirm, follow=True)):
        assert page.status_code == 200
    for text in (words(shown.content.decode()), card(client, task)):
        assert "to not given (default 3) 2" in text
        assert "note not given hi" in text
        assert "count 3 not given" in text


def test_a_critical_call_is_confirmed_after_the_difference(sign_in: Login, tenant: Tenant) -> None:
    task = call(tenant, risk=Risk.CRITICAL)
    client = sign_in(make_person(Role.APPROVER, tenant))
    _, confirm = edit(client, task, f0="staging")
    where = f"/inbox/{asking_id(task)}/edit"
    refused = client.post(where, {**confirm, "confirmed": "no"})
    assert refused.status_code == 422
    assert "type the name of its tool: deploy" in words(refused.content.decode())
    assert "Approve it with these changes?" in words(refused.content.decode())
    client.post(where, {**confirm, "confirmed": "deploy"})
    assert kit.claim_one().arguments["env"] == "staging"


def test_another_group_that_is_asked_then_is_named_first(sign_in: Login, tenant: Tenant) -> None:
    task = call(tenant)
    rule = Rule(name="Leads", when='args.env == "staging"', then=Then.ASK, group="leads", quorum=2)
    save_rules(tenant.pk, [rule, *present(tenant.pk).rules], expected=1, actor=ADMIN)
    client = sign_in(make_person(Role.APPROVER, tenant))
    where = f"/inbox/{asking_id(task)}/edit"
    shown, confirm = edit(client, task, f0="staging")
    assert "the call as it is then needs 2 of leads." in words(shown.content.decode())
    done = client.post(where, confirm, follow=True)
    assert "Changed. By the rules the group leads decide on the call as it is now." in words(done.content.decode())
    assert kit.claim() == []


def test_only_where_the_rule_lets_people(sign_in: Login, tenant: Tenant) -> None:
    task = call(tenant, editable=())
    client = sign_in(make_person(Role.APPROVER, tenant))
    assert "Edit arguments" not in card(client, task)
    assert client.get(f"/inbox/{asking_id(task)}/edit").status_code == 400
    assert client.post(f"/inbox/{asking_id(task)}/edit", {"f0": "staging"}).status_code == 400


@pytest.mark.parametrize(("role", "status"), [(Role.OPERATOR, 403), (Role.VIEWER, 403), (Role.APPROVER, 200)])
def test_whoever_may_not_approve_may_not_edit(
    sign_in: Login, tenant: Tenant, task: TaskRecord, role: Role, status: int
) -> None:
    client = sign_in(make_person(role, tenant))
    assert client.get(f"/inbox/{asking_id(task)}/edit").status_code == status


VALUES: list[Any] = [
    "text", "", " padded ", "two\nlines", "a\r\nb", "hidden\u200bmark", "x" * 500, 'quo"te', "<b>", "1", "true", "null",
    0, 1, -1, 10**25, 1.5, 1.0, 1e22, True, False, None, [], {}, ["a"], ["prod"], [1], {"a": {"b": [None]}},
    "2026-01-02",
    "2026-01-02T03:04:05Z", "2026-01-02T03:04:05+02:00", "https://a.example/ä", "a@b.example",
]  # fmt: skip
RULES: list[Any] = [
    {"type": "string"},
    {"type": "string", "maxLength": 5_000},
    {"type": "string", "enum": ["prod", "staging"]},
    {"type": "string", "format": "date"},
    {"type": "string", "format": "date-time"},
    {"type": "string", "format": "uri"},
    {"type": "integer"},
    {"type": "number"},
    {"type": "boolean"},
    {"type": "array", "items": {"enum": ["prod", "staging"]}},
    {"anyOf": [{"type": "string"}, {"type": "null"}]},
    {"enum": [1, 2]},
    {"$ref": "#/$defs/a"},
    {"type": ["string", "null"]},
    True,
    None,
]


@pytest.mark.parametrize("rule", RULES, ids=str)
@pytest.mark.parametrize("required", [True, False], ids=["required", "optional"])
def test_a_form_that_nobody_touched_changes_nothing(rule: Any, required: bool) -> None:
    """Whatever value an argument has, and whatever the schema says of it."""
    schema = {"properties": {"a": rule}, "required": ["a"] if required else []}
    said = Asking(editable=("a",))
    for before in ({}, *({"a": value} for value in VALUES)):
        page = f'<form id="decision">{EditForm(said, schema, before)}</form>'
        given: dict[str, Any] = dict(posted(page))
        boxes = re.findall(r'type="checkbox"[^>]*value="([^"]*)"[^>]*checked', page)
        selected = re.findall(r'<option value="([^"]*)" selected', page)
        given |= {"f0": selected[0]} if selected else {"f0": boxes} if "checkbox" in page else {}
        form = EditForm(said, schema, before, given)
        if before == {} and required:
            continue  # it has to be given
        assert form.is_valid(), (before, form.errors)
        assert repr(form.arguments) == repr(before)

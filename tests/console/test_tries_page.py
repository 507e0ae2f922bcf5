"""Calling a tool in the console: the form, what the rules say, and the call as a task of the person."""

from __future__ import annotations

import html
import json
import re
from typing import Any

import pytest
from django.db import connection
from django.test import Client

from taskhub.control import tries
from taskhub.control.caller import of_person, of_shell
from taskhub.core.errors import Invalid, NotFound, Refused
from taskhub.core.permissions import PERMISSIONS
from taskhub.core.records import Person, ToolRecord
from taskhub.core.rules import Risk, Rule, Then
from taskhub.core.states import Door, Role
from taskhub.domain.catalogue.view import forget_catalogues, tool_by_id
from taskhub.domain.rules.changes import save_rules
from taskhub.domain.rules.reads import present
from taskhub.store.models import AuthContext, Event, Membership, Question, Task, Tenant, Tool
from tests.console.admin import ADMIN, words
from tests.console.conftest import Login
from tests.domain import kit
from tests.factories import make_person, make_server, make_tool

pytestmark = pytest.mark.django_db
SCHEMA: dict[str, Any] = {
    "type": "object",
    "$defs": {"Size": {"type": "string", "enum": ["small", "large"]}},
    "properties": {
        "env": {"type": "string", "enum": ["prod", "staging"], "title": "Environment", "description": "Where to."},
        "count": {"type": "integer", "minimum": 1, "maximum": 9, "default": 3},
        "dry": {"type": "boolean", "default": False},
        "size": {"$ref": "#/$defs/Size"},
        "tags": {"type": "array", "items": {"type": "string"}, "minItems": 2},
    },
    "required": ["env"],
}


@pytest.fixture
def tool(tenant: Tenant) -> ToolRecord:
    return described(make_tool(make_server(tenant, "ops"), "deploy"), SCHEMA)


@pytest.fixture
def person(tenant: Tenant) -> Person:
    return make_person(Role.OPERATOR, tenant, username="olga")


@pytest.fixture
def operator(sign_in: Login, person: Person) -> Client:
    return sign_in(person)


def described(tool: ToolRecord, schema: dict[str, Any]) -> ToolRecord:
    Tool.objects.filter(pk=tool.id).update(definition={"name": tool.name, "inputSchema": schema})
    forget_catalogues()
    found = tool_by_id(tool.id)
    assert found is not None
    return found


def place(tool: ToolRecord) -> str:
    return f"/servers/{tool.server_id}/tools/{tool.id}/try"


def form_of(page: str) -> dict[str, str]:
    """What a browser would post of the page's form, without boxes and buttons."""
    form = page[page.index('<form class="form') :]
    form = form[: form.index("</form>")]
    found = {}
    for tag in re.findall(r"<input [^>]*>", form):
        name, value, kind = (re.search(rf'\b{part}="([^"]*)"', tag) for part in ("name", "value", "type"))
        if name and (kind is None or kind[1] not in ("radio", "checkbox") or " checked" in tag):
            found[name[1]] = html.unescape(value[1]) if value else ""
    for name, text in re.findall(r'<textarea name="([^"]*)"[^>]*>\r?\n?(.*?)</textarea>', form, re.S):
        found[name] = html.unescape(text)
    return found


def asked(client: Client, tool: ToolRecord, query: str = "", **fields: str) -> tuple[Any, dict[str, str]]:
    """The answer to the first POST, and what its form posts."""
    opened = client.get(place(tool) + query).content.decode()
    shown = client.post(place(tool) + query, {**form_of(opened), **fields})
    return shown, form_of(shown.content.decode())


def rules(tenant: Tenant, *listed: Rule) -> None:
    save_rules(tenant.pk, list(listed), expected=present(tenant.pk).version, actor=ADMIN)


def test_the_form_says_what_the_schema_says(operator: Client, tool: ToolRecord) -> None:
    page = operator.get(place(tool)).content.decode()
    text = words(page)
    assert "Where to." in text
    assert "From 1 to 9. By default: 3" in text
    assert "Not given: false" in text  # of a boolean that is not sent unless it is chosen
    assert 'value="large"' in page  # of a definition that is referred to
    assert re.search(r'<input type="number" name="f1"[^>]*min="1"[^>]*max="9"', page)
    assert "As JSON; empty for none." in text
    link = operator.get(f"/servers/{tool.server_id}/?tool={tool.id}").content.decode()
    assert f'href="{place(tool)}"' in link


def test_what_the_rules_say_comes_first_and_the_task_is_the_persons_own(
    operator: Client, tool: ToolRecord, person: Person, tenant: Tenant
) -> None:
    rules(tenant, Rule(name="Elsewhere", when='args.env == "prod"', then=Then.DENY, words="Not there."))
    shown, confirm = asked(operator, tool, f0="staging", f1="2", f4='["a", "b"]', reason="to see")
    text = words(shown.content.decode())
    assert "Nothing has been called yet" in text
    assert "No rule matches: it runs without an approval." in text
    assert "Elsewhere" in text  # the rules that were looked at
    assert not Task.objects.exists()
    assert not AuthContext.objects.exists()
    done = operator.post(place(tool), confirm, follow=True)
    made = Task.objects.get()
    assert done.redirect_chain[-1][0] == f"/tasks/{made.public_id}/"
    claim = kit.claim_one()
    assert claim.arguments == {"env": "staging", "count": 2, "tags": ["a", "b"]}
    event = Event.objects.get(task_id=made.pk, action="task.created")
    assert (event.actor, event.door, event.user_id) == ("olga", Door.WEB, person.user_id)
    assert event.reason == "called in the console: to see"
    owner = AuthContext.objects.get()
    assert (owner.issuer, owner.subject) == ("taskhub/console", f"user:{person.user_id}")
    assert owner.name == "olga in the console"


def test_a_button_that_is_pressed_twice_makes_one_task(operator: Client, tool: ToolRecord) -> None:
    _, confirm = asked(operator, tool, f0="staging")
    first = operator.post(place(tool), confirm)
    again = operator.post(place(tool), confirm, follow=True)
    assert again.redirect_chain[-1][0] == first["Location"]
    assert "This call was made already" in words(again.content.decode())
    assert Task.objects.count() == 1
    _, other = asked(operator, tool, f0="staging")
    operator.post(place(tool), other)
    assert Task.objects.count() == 2


def test_a_rule_that_asks_asks_somebody_else(
    operator: Client, tool: ToolRecord, tenant: Tenant, sign_in: Login
) -> None:
    boss = make_person(Role.ADMIN, tenant, username="root")
    rules(tenant, Rule(name="Staging", when='args.env == "staging"', then=Then.ASK, not_requester=True))
    browser = sign_in(boss)
    shown, confirm = asked(browser, tool, f0="staging")
    assert "It waits until 1 of the approvers approves it, but not whoever made the call." in words(
        shown.content.decode()
    )
    browser.post(place(tool), confirm)
    question = Question.objects.get()
    own = browser.post(f"/inbox/{question.pk}/decide", {"verdict": "approve"})
    assert own.status_code == 403
    other = sign_in(make_person(Role.APPROVER, tenant))
    assert other.post(f"/inbox/{question.pk}/decide", {"verdict": "approve"}).status_code == 302
    question.refresh_from_db()
    assert question.state == "answered"


def test_a_call_that_a_rule_denies_or_hides_has_no_button(operator: Client, tool: ToolRecord, tenant: Tenant) -> None:
    rules(tenant, Rule(name="Freeze", when='args.env == "prod"', then=Then.DENY, words="Not this week."))
    shown, confirm = asked(operator, tool, f0="prod")
    text = words(shown.content.decode())
    assert "It does not run. The agent is told: “Not called: Not this week.”" in text
    assert "Call the tool" not in text
    assert operator.post(place(tool), confirm).status_code == 422
    assert not Task.objects.exists()
    assert Event.objects.filter(action="rules.denied", actor="olga", target=tool.exposed_name).count() == 1
    rules(tenant, Rule(name="Nobody", when='client.issuer == "taskhub/console"', then=Then.HIDE))
    shown, confirm = asked(operator, tool, f0="staging")
    assert "The client does not know of the tool" in words(shown.content.decode())
    assert operator.post(place(tool), confirm).status_code == 404
    assert not Task.objects.exists()


def test_rules_see_the_person(operator: Client, tool: ToolRecord, tenant: Tenant) -> None:
    rules(
        tenant,
        Rule(name="Olga", when='person.name == "olga" && person.role == "operator"', then=Then.ASK, risk=Risk.CRITICAL),
    )
    _, confirm = asked(operator, tool, f0="staging")
    operator.post(place(tool), confirm)
    assert Question.objects.get().params["decided"]["rule"] == "Olga"


def test_what_changed_since_it_was_shown_is_shown_again(operator: Client, tool: ToolRecord, tenant: Tenant) -> None:
    _, confirm = asked(operator, tool, f0="staging")
    rules(tenant, Rule(name="Staging", when='args.env == "staging"', then=Then.ASK))
    shown = operator.post(place(tool), confirm)
    assert "It waits until 1 of the approvers approves it" in words(shown.content.decode())
    assert not Task.objects.exists()
    operator.post(place(tool), form_of(shown.content.decode()))
    assert Task.objects.get().state == "input_required"


def test_what_is_wrong_stands_at_its_field_and_calls_nothing(operator: Client, tool: ToolRecord) -> None:
    table = [
        ({}, "f0", "Environment is required."),
        ({"f0": "moon"}, "f0", "Environment must be one of the choices."),
        ({"f0": "prod", "f1": "10"}, "f1", "count must be at most 9."),
        ({"f0": "prod", "f4": "[1"}, "f4", "tags is no JSON"),
        ({"f0": "prod", "f4": '["a"]'}, "f4", "do not fit the inputSchema of deploy: [&quot;a&quot;] has less than 2"),
        ({"f0": "prod", "f4": '["a", 2]'}, "f4", "2 is not of type"),
    ]
    for fields, name, told in table:
        shown, _ = asked(operator, tool, **fields)
        assert shown.status_code == 422, fields
        page = shown.content.decode()
        error = re.search(rf'id="id_{name}_error".*?</ul>|id="id_{name}_error"[^>]*>.*?</', page, re.S)
        assert error, (fields, page)
        assert told in re.sub(r"<[^>]+>", "", error[0]), (fields, error[0])
    assert not Task.objects.exists()


def test_arguments_are_typed_as_json(operator: Client, tool: ToolRecord) -> None:
    shown, confirm = asked(operator, tool, "?json", whole='{"env": "staging", "more": {"a": [1]}}')
    assert shown.status_code == 200
    operator.post(f"{place(tool)}?json", confirm)
    assert Task.objects.get().arguments == {"env": "staging", "more": {"a": [1]}}
    for typed, told in [("{", "This is no JSON"), ("[1]", "Give a JSON object"), ('{"env": 1}', "do not fit")]:
        shown, _ = asked(operator, tool, "?json", whole=typed)
        assert shown.status_code == 422
        assert told in words(shown.content.decode())


def test_a_tool_without_arguments_is_a_button(operator: Client, tool: ToolRecord) -> None:
    described(tool, {"type": "object", "properties": {}})
    assert "The tool takes no arguments." in words(operator.get(place(tool)).content.decode())
    shown, confirm = asked(operator, tool)
    assert "It is called without arguments." in words(shown.content.decode())
    operator.post(place(tool), confirm)
    assert Task.objects.get().arguments == {}
    described(tool, {"type": "object", "additionalProperties": {"type": "integer"}})
    assert 'name="whole"' in operator.get(place(tool)).content.decode()


def test_who_may_not_call_sees_no_button_and_no_page(tool: ToolRecord, tenant: Tenant, sign_in: Login) -> None:
    for role in Role:
        client = sign_in(make_person(role, tenant))
        may = role in (Role.OPERATOR, Role.ADMIN)
        assert client.get(place(tool)).status_code == (200 if may else 403), role
        page = client.get(f"/servers/{tool.server_id}/?tool={tool.id}").content.decode()
        assert ("Try this tool" in page) is may, role
    stranger = sign_in(make_person(Role.ADMIN))
    assert stranger.get(place(tool)).status_code == 404
    assert stranger.post(place(tool), {"f0": "prod"}).status_code == 404
    with pytest.raises(NotFound):
        tries.check_try(of_person(make_person(Role.ADMIN), door=Door.WEB), tool.id, {"env": "prod"})


def test_a_tool_that_is_not_offered_is_not_called(operator: Client, tool: ToolRecord) -> None:
    _, confirm = asked(operator, tool, f0="staging")
    Tool.objects.filter(pk=tool.id).update(enabled=False)
    forget_catalogues()
    assert "This tool is not offered to any client" in words(operator.get(place(tool)).content.decode())
    assert operator.post(place(tool), confirm).status_code == 409
    assert not Task.objects.exists()


def test_who_is_locked_out_or_has_lost_the_role_calls_nothing(
    operator: Client, tool: ToolRecord, tenant: Tenant, sign_in: Login
) -> None:
    _, confirm = asked(operator, tool, f0="staging")
    operator.post(place(tool), confirm)
    Membership.objects.filter(tenant=tenant).update(role=Role.VIEWER)
    assert kit.claim() == []
    task = Task.objects.get()
    assert (task.state, json.loads(task.error)["data"]["reason"]) == ("faulted", "client_locked_out")
    Membership.objects.filter(tenant=tenant).update(role=Role.OPERATOR)
    page = sign_in(make_person(Role.ADMIN, tenant)).get(f"/clients/{AuthContext.objects.get().pk}/").content.decode()
    assert "a person calls tools in the console" in words(page)
    assert "Issue a token" not in page
    AuthContext.objects.update(disabled_at=task.created_at)
    shown, _ = asked(operator, tool, f0="staging")
    assert "Your calls from the console are locked out" in words(shown.content.decode())


def test_the_use_case_takes_only_what_its_form_sends(tool: ToolRecord, person: Person) -> None:
    caller, arguments = of_person(person, door=Door.WEB), {"env": "staging"}
    mark = tries.check_try(caller, tool.id, arguments).mark
    for once, sent, told in [("", mark, "Open the form again"), ("y" * 22, "0" * 64, "Look at the call again")]:
        with pytest.raises(Invalid, match=told):
            tries.try_tool(caller, tool.id, arguments, mark=sent, once=once)
    with pytest.raises(Refused, match="in a terminal"):
        tries.check_try(of_shell(), tool.id, arguments)


def test_the_database_names_the_roles_that_may_call() -> None:
    [(text,)] = _rows("SELECT pg_get_functiondef('th_may_call(auth_context)'::regprocedure)")
    named = re.search(r"m\.role IN \(([^)]*)\)", text)
    assert named is not None
    assert set(re.findall(r"'(\w+)'", named[1])) == {role for role in Role if "task.rerun" in PERMISSIONS[role]}


def _rows(sql: str) -> list[tuple[Any, ...]]:
    with connection.cursor() as cursor:
        cursor.execute(sql)
        return list(cursor.fetchall())

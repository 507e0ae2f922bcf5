"""Rules are tried on a call that is typed in."""

from __future__ import annotations

import json
import re
from html import unescape
from typing import Any

import pytest
from django.test import Client

from taskhub.console.forms.rule_calls import MAX_TYPED
from taskhub.console.verdict_words import UNKNOWN, WHY, WOULD, unknown_words
from taskhub.console.views import rule_calls
from taskhub.core.records import ToolRecord
from taskhub.core.rules import Otherwise, Rule, Then
from taskhub.core.states import Role
from taskhub.domain.catalogue.view import forget_catalogues
from taskhub.domain.rules.bypasses import begin_bypass, end_bypass
from taskhub.domain.rules.changes import save_rules
from taskhub.domain.rules.explained import Unknown, Why
from taskhub.domain.rules.reads import present
from taskhub.store.models import AuthContext, Task, Tenant
from tests.console.admin import ADMIN, HTMX, words
from tests.console.conftest import Login
from tests.factories import make_context, make_person, make_server, make_task, make_tenant, make_tool

pytestmark = pytest.mark.django_db

RULES = (
    Rule(name="Old", when="", then=Then.DENY, enabled=False),
    Rule(name="Nights", when="time.getHours() < 6", then=Then.DENY, words="Sleep."),
    Rule(name="Trial", when="args.n > 1", then=Then.DENY, shadow=True),
    Rule(name="Small <b>", when="args.n < 10", then=Then.ALLOW),
    Rule(name="Large", when="args.n > 1000", then=Then.ASK, group="ops", quorum=2),
    Rule(name="Last", when="client.program == 'x'", then=Then.DENY),
)
NOON = "2026-11-26T12:00"
FORM = {"expected": "1", "name": "Large", "then": "ask", "when": "args.n > 20", "quorum": "1", "enabled": "on"}


@pytest.fixture
def tool(tenant: Tenant) -> ToolRecord:
    save_rules(tenant.pk, RULES, expected=0, actor=ADMIN)
    made = make_tool(make_server(tenant, "bank"), "pay")
    forget_catalogues()
    return made


@pytest.fixture
def context(tenant: Tenant) -> AuthContext:
    return make_context(tenant, "bot")


def typed(context: AuthContext, tool: ToolRecord, arguments: str = "{}", **more: str) -> dict[str, str]:
    given = {"call_client": str(context.pk), "call_tool": str(tool.id), "call_arguments": arguments, "call_at": NOON}
    return {**given, "call": "1", **more}


def filled(html: str) -> str:
    found = re.search(r'<textarea name="call_arguments".*?>(.*?)</textarea>', html, re.DOTALL)
    assert found
    return unescape(found[1]).strip()


def test_the_list_in_force_says_what_would_happen_and_why(
    admin: Client, tool: ToolRecord, context: AuthContext
) -> None:
    assert 'href="/rules/call"' in admin.get("/rules/").content.decode()
    assert "Try a call" in words(admin.get("/rules/call").content.decode())
    html = admin.post("/rules/call", typed(context, tool, '{"n": 5000}')).content.decode()
    said = words(html)
    assert "bot calls pay" in said
    assert "Asked It waits until 2 of ops approve it. If nobody decides within 1 d, it is denied." in said
    assert "1 Old Deny every call off" in said
    assert "2 Nights Deny time.getHours() &lt; 6 not met" in said
    assert "3 Trial Deny args.n &gt; 1 on trial: it would have denied it" in said
    assert "4 Small &lt;b&gt; Allow args.n &lt; 10 not met" in said
    assert "5 Large Ask args.n &gt; 1000 decides" in said
    assert "1 rule below is not looked at." in said
    assert "By this list" not in said
    assert filled(html) == '{"n": 5000}', "what was typed stays"
    said = words(admin.post("/rules/call", typed(context, tool, '{"n": "5"}')).content.decode())
    assert "args.n &gt; 1 on trial: it would have denied it, in doubt" in said
    assert "args.n &lt; 10 in doubt, so it does not allow" in said
    assert "args.n &gt; 1000 decides, in doubt" in said
    assert "The scopes of this client’s token are not known here" in said
    said = words(admin.post("/rules/call", typed(context, tool, call_at="2026-11-26T03:00")).content.decode())
    assert "Denied It does not run. The agent is told: “Not called: Sleep.”" in said
    said = words(admin.post("/rules/call", typed(context, tool, '{"n": 5}')).content.decode())
    assert "Allowed It runs without an approval." in said
    said = words(admin.post("/rules/call", typed(context, tool, '{"n": 50}')).content.decode())
    assert "Allowed No rule matches: it runs without an approval." in said
    said = words(admin.post("/rules/call", typed(context, tool, '{"n": 50}', call_program="x")).content.decode())
    assert "Denied It does not run. The agent is told: “Not called: a rule of this hub denies this call.”" in said


def test_a_hidden_tool(admin: Client, tenant: Tenant, context: AuthContext) -> None:
    save_rules(tenant.pk, [Rule(name="No", when="server.name == 'x'", then=Then.HIDE)], expected=0, actor=ADMIN)
    hidden = make_tool(make_server(tenant, "x"), "hidden")
    forget_catalogues()
    said = words(admin.post("/rules/call", typed(context, hidden)).content.decode())
    assert "Hidden The client does not know of the tool, and its call finds none." in said


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"call_client": ""}, "Choose a client."),
        ({"call_tool": ""}, "Choose a tool."),
        ({"call_client": "99999999"}, "There is no such client."),
        ({"call_tool": "99999999"}, "This tool is not offered to clients."),
        ({"call_arguments": "{"}, "This is no JSON that calls may have"),
        ({"call_arguments": '{"a": 1, "a": 2}'}, "This is no JSON that calls may have: duplicate key"),
        ({"call_arguments": "[1]"}, "Give a JSON object, such as"),
        ({"call_arguments": f'{{"a": "{"x" * MAX_TYPED}"}}'}, "At most 20,000 characters."),
        ({"call_at": "now"}, "Give a date and a time, such as"),
    ],
)
def test_what_cannot_be_tried_is_said(
    admin: Client, tool: ToolRecord, context: AuthContext, given: dict[str, str], said: str
) -> None:
    answer = admin.post("/rules/call", typed(context, tool) | given)
    assert answer.status_code == 422
    assert said in words(answer.content.decode())
    answer = admin.post("/rules/edit?rule=Large", FORM | typed(context, tool) | given)
    assert answer.status_code == 400
    assert said in words(answer.content.decode())
    assert '<details class="rule-call" open>' in answer.content.decode()


def test_arguments_are_filled_in(admin: Client, tool: ToolRecord, context: AuthContext) -> None:
    html = admin.get(f"/rules/call?tool={tool.id}").content.decode()
    assert filled(html) == "{}"
    assert "From the tool’s schema: it was not called lately." in words(html)
    task = make_task(context, tool, arguments={"n": 7, "to": "Zoë"}, client_info={"name": "Code"})
    html = admin.get(f"/rules/call?tool={tool.id}&client={context.pk}").content.decode()
    assert filled(html) == '{\n  "n": 7,\n  "to": "Zoë"\n}'
    assert f'href="/tasks/{task.public_id}/"' in html
    assert "the newest call of this client" in words(html)
    assert 'value="Code"' in html
    for url in ("/rules/call", "/rules/edit?rule=Large"):
        posted = FORM | typed(context, tool, "{", fill="1")
        del posted["call"]
        part = admin.post(url, posted, headers=HTMX).content.decode()
        assert part.strip().startswith('<div class="stack" id="call-fields"')
        assert filled(part).startswith('{\n  "n": 7')
        assert admin.post(url, posted).content.decode().count("<html") == 1
        other = admin.post(url, {**posted, "call_client": ""}).content.decode()
        assert "the newest call of any client" in words(other)
        wrong = admin.post(url, {**posted, "call_tool": ""}, headers=HTMX)
        assert (wrong.status_code, "Choose a tool." in wrong.content.decode()) == (422, True)


def test_another_tool_replaces_what_was_filled_in_and_not_what_somebody_typed(
    admin: Client, tool: ToolRecord, context: AuthContext
) -> None:
    make_task(context, tool, arguments={"n": 7})
    chosen = {**typed(context, tool), "fill": "tool"}
    kept = admin.post("/rules/call", {**chosen, "call_arguments": '{"n": 1}'}, headers=HTMX).content.decode()
    assert json.loads(filled(kept)) == {"n": 1}
    for before in ("", '{"n": 5}'):
        posted = {**chosen, "call_arguments": before, "call_filled": before}
        assert json.loads(filled(admin.post("/rules/call", posted, headers=HTMX).content.decode())) == {"n": 7}
    asked = {**chosen, "fill": "1", "call_arguments": '{"n": 1}'}
    assert json.loads(filled(admin.post("/rules/call", asked, headers=HTMX).content.decode())) == {"n": 7}


def test_the_list_as_it_is_edited_is_tried_beside_the_one_in_force(
    admin: Client, tenant: Tenant, tool: ToolRecord, context: AuthContext
) -> None:
    html = admin.post("/rules/edit?rule=Large", FORM | typed(context, tool, '{"n": 50}')).content.decode()
    said = words(html)
    assert "By the list in force Allowed No rule matches" in said
    assert "By this list Asked It waits until 1 of the approvers approves it. If nobody" in said
    assert "5 Large Ask args.n &gt; 20 decides" in said
    assert "args.n &gt; 20</textarea>" in html, "what was typed stays"
    assert filled(html) == '{"n": 50}'
    same = FORM | {"when": "args.n > 1000", "group": "ops", "quorum": "2", "place": "5"}
    said = words(admin.post("/rules/edit?rule=Large", same | typed(context, tool)).content.decode())
    assert "By this list, which is the one in force" in said
    answer = admin.post("/rules/edit?rule=Large", FORM | typed(context, tool) | {"when": "nobody"})
    assert answer.status_code == 400
    assert "there is no nobody" in words(answer.content.decode())
    assert present(tenant.pk).rules == RULES
    assert not Task.objects.exists(), "nothing is called"


def test_it_says_what_people_would_read(admin: Client, tenant: Tenant, tool: ToolRecord, context: AuthContext) -> None:
    more = {"when": "", "risk": "critical", "sentence": "Pay {args.n} to {args.to}", "place": "1"}
    html = admin.post("/rules/edit?rule=Large", FORM | more | typed(context, tool, '{"n": 50}')).content.decode()
    said = words(html)
    assert "Asked Critical It waits until 1 of the approvers approves it. If nobody" in said
    assert "They read: Pay 50 to (not given)" in said
    assert "They see the answer of" not in said
    posted = FORM | more | typed(context, tool, '{"n": 50}')
    said = words(admin.post("/rules/edit?rule=Large", posted | {"preview": "plan"}).content.decode())
    assert "They see the answer of plan" in said
    said = words(admin.post("/rules/edit?rule=Large", posted | {"preview_arguments": '{"a": 1}'}).content.decode())
    assert "They see the answer of the same tool with {&quot;a&quot;:1}" in said
    wrong = admin.post("/rules/edit?rule=Large", FORM | more | typed(context, tool) | {"sentence": "Pay {n}"})
    assert wrong.status_code == 400
    assert present(tenant.pk).rules == RULES


def test_a_client_beyond_those_to_choose_from_can_be_tried(
    admin: Client, tenant: Tenant, tool: ToolRecord, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rule_calls, "MOST_CLIENTS", 1)
    for name in ("a", "z"):
        make_context(tenant, name)
    last = AuthContext.objects.get(name="z")
    assert ">z</option>" not in admin.get("/rules/call").content.decode()
    assert (
        f'<option value="{last.pk}" selected>z</option>' in admin.get(f"/rules/call?client={last.pk}").content.decode()
    )
    assert "z calls pay" in words(admin.post("/rules/call", typed(last, tool)).content.decode())
    AuthContext.objects.create(tenant=tenant, issuer="https://id.example", subject="2", client_id="", name="a")
    monkeypatch.setattr(rule_calls, "MOST_CLIENTS", 9)
    assert "a (https://id.example 2)" in admin.get("/rules/call").content.decode()


def test_only_who_may_save_rules_tries_calls(
    sign_in: Login, tenant: Tenant, tool: ToolRecord, context: AuthContext
) -> None:
    viewer = sign_in(make_person(Role.VIEWER, tenant))
    assert viewer.get("/rules/call").status_code == 403
    assert viewer.post("/rules/call", typed(context, tool)).status_code == 403
    assert "/rules/call" not in viewer.get("/rules/").content.decode()
    other = sign_in(make_person(Role.ADMIN, make_tenant()))
    html = other.get("/rules/call").content.decode()
    assert ">bot</option>" not in html
    assert other.post("/rules/call", typed(context, tool)).status_code == 422


def test_everything_has_words() -> None:
    assert {*WHY, Why.TRIAL} == set(Why)
    assert set(UNKNOWN) == set(Unknown)
    assert set(WOULD) == set(Then)
    assert unknown_words({Unknown.TIME}) == "the time"
    assert unknown_words(set(Unknown)).endswith("the time, what its program calls itself and the scopes of its token")


@pytest.mark.parametrize(
    ("parts", "said"),
    [
        ({"not_requester": True}, "approves it, but not whoever made the call. If nobody decides within 1 d, it"),
        ({"remind_minutes": 60}, "They are reminded after 1 h. If nobody decides within 1 d, it is denied."),
        ({"expires_minutes": 90, "otherwise": Otherwise.ALLOW}, "If nobody decides within 90 min, it runs."),
        (
            {"expires_minutes": 120, "otherwise": Otherwise.ESCALATE, "escalate_to": "legal"},
            "If nobody decides within 2 h, legal is asked, for the same time, and then it is denied.",
        ),
    ],
)
def test_who_may_not_decide_and_what_happens_if_nobody_does_is_said(
    admin: Client, tenant: Tenant, tool: ToolRecord, context: AuthContext, parts: dict[str, Any], said: str
) -> None:
    rule = Rule(name="First", when="", then=Then.ASK, **parts)
    save_rules(tenant.pk, [rule], expected=present(tenant.pk).version, actor=ADMIN)
    forget_catalogues()
    assert said in words(admin.post("/rules/call", typed(context, tool)).content.decode())


def test_a_bypass_is_named_where_it_would_let_the_call_pass(
    admin: Client, tool: ToolRecord, context: AuthContext, tenant: Tenant
) -> None:
    def said(arguments: str, **more: str) -> str:
        return words(admin.post("/rules/call", typed(context, tool, arguments, **more)).content.decode())

    begun = begin_bypass(tenant.pk, minutes=30, reason="Outage", server_id=tool.server_id, actor=ADMIN)
    not_now = "a bypass is in force, because “Outage”. If it were made now it would run, and nobody would be asked."
    assert not_now in said('{"n": 5000}')
    assert not_now not in said('{"n": 5}')
    assert not_now not in said('{"n": 5000}', call_at="2026-11-26T03:00"), "what is denied stays so"
    end_bypass(tenant.pk, begun.id, actor=ADMIN)
    begin_bypass(tenant.pk, minutes=30, reason="Outage", server_id=make_server(tenant, "other").pk, actor=ADMIN)
    assert not_now not in said('{"n": 5000}')


def test_the_name_of_a_program_is_bounded_and_what_is_filled_in_can_be_tried(
    admin: Client, tool: ToolRecord, context: AuthContext
) -> None:
    answer = admin.post("/rules/call", typed(context, tool, call_program="x" * 250))
    assert (answer.status_code, "At most 200 characters." in answer.content.decode()) == (422, True)
    make_task(context, tool, arguments={"n": [[[[n]]] for n in range(900)]})
    asked = {"call_client": str(context.pk), "call_tool": str(tool.id), "fill": "1"}
    given = filled(admin.post("/rules/call", asked).content.decode())
    assert len(given) <= MAX_TYPED
    assert admin.post("/rules/call", typed(context, tool, given)).status_code == 200

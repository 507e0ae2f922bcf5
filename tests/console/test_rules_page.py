"""The rules of a tenant: the list, the form of a rule, and the versions."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any
from urllib.parse import quote

import pytest
from django.test import Client
from django.utils.html import escape

from taskhub.console.views.rules import FIELD_WORDS
from taskhub.core.rules import MAX_WHEN, RULE_FIELDS, Rule, Then
from taskhub.core.states import Role
from taskhub.domain.rules.changes import save_rules
from taskhub.domain.rules.reads import present, versions
from taskhub.store.models import Event, Tenant, Tool
from tests.console.admin import ADMIN, HTMX, words
from tests.console.conftest import Login
from tests.factories import make_context, make_person, make_server, make_task, make_tenant, make_tool

pytestmark = pytest.mark.django_db

ASKS = Rule(name="Production", when='like(args.environment, "production")', then=Then.ASK, group="ops", quorum=2)
DENIES = Rule(name="No <b>nights</b>", when="time.getHours() >= 22", then=Then.DENY, words="Wait for the morning.")
HIDES = Rule(name="ci-bot", when='client.name == "ci-bot" && tool.destructive', then=Then.HIDE, shadow=True)
ALLOWS = Rule(name="The rest", when="", then=Then.ALLOW, enabled=False)
FORM = {"expected": "0", "name": "Production", "then": "ask", "when": "args.n > 1", "quorum": "2", "enabled": "on"}


@pytest.fixture
def listed(tenant: Tenant) -> Tenant:
    """The tenant, with four rules in version 1."""
    save_rules(tenant.pk, [ASKS, DENIES, HIDES, ALLOWS], expected=0, actor=ADMIN)
    return tenant


def names(tenant: Tenant) -> list[str]:
    return [rule.name for rule in present(tenant.pk).rules]


def edit(rule: Rule) -> str:
    return f"/rules/edit?rule={quote(rule.name, safe='')}"


def test_without_rules_the_page_says_what_decides_and_shows_two(admin: Client, sign_in: Login, tenant: Tenant) -> None:
    said = words(admin.get("/rules/").content.decode())
    assert "The first rule that matches decides; what none matches runs." in said
    assert 'Ask tool.name == "deploy" &amp;&amp; like(args.environment, "production")' in said
    assert "Add rule" in said
    viewer = sign_in(make_person(Role.VIEWER, tenant))
    assert "Add rule" not in words(viewer.get("/rules/").content.decode())
    assert '<a href="/rules/"' in viewer.get("/").content.decode()


def test_the_list_says_what_each_rule_does_and_when(admin: Client, listed: Tenant) -> None:
    html = admin.get("/rules/").content.decode()
    said = words(html)
    assert "1 Production Ask 2 of ops" in said
    assert "like(args.environment, &quot;production&quot;)" in said
    assert "Deny “Wait for the morning.”" in said
    assert "<b>nights" not in html
    assert "ci-bot Hide On trial" in said
    assert "4 The rest Allow Off every call" in said


NOBODY = "Nobody in the group ops may approve, and 2 are needed: such a call waits until its time is over, and is"


def test_a_group_without_enough_approvers_is_warned_of(admin: Client, listed: Tenant) -> None:
    assert NOBODY in words(admin.get("/rules/").content.decode())
    assert NOBODY in words(admin.get(edit(ASKS)).content.decode())
    form = {**FORM, "expected": "1", "name": "More", "group": "ops"}
    checked = admin.post("/rules/check", form).content.decode()
    assert NOBODY in words(checked.split('id="asked-checked"')[1])
    assert NOBODY in words(admin.post("/rules/add", form, follow=True).content.decode())
    make_person(Role.APPROVER, listed, groups=["ops"])
    make_person(Role.OPERATOR, listed, groups=["ops"])
    assert "Only 1 person in the group ops may approve" in words(admin.get("/rules/").content.decode())
    make_person(Role.ADMIN, listed, groups=["ops"])
    assert "in the group ops" not in words(admin.get("/rules/").content.decode())
    assert "in the group ops" not in words(admin.post("/rules/check", form).content.decode())


def test_a_place_for_an_argument_that_no_tool_has_is_warned_of(admin: Client, tenant: Tenant) -> None:
    make_tool(make_server(tenant), "deploy")
    form = {**FORM, "when": "", "sentence": "Deploy {args.servce}"}
    told = "The sentence has a place for {args.servce}, but no tool that this rule can match has it"
    assert told in words(admin.post("/rules/check", form).content.decode().split('id="asked-checked"')[1])
    assert "This is no expression" not in admin.post("/rules/check", {**form, "sentence": "{nothing"}).content.decode()
    assert told in words(admin.post("/rules/add", form, follow=True).content.decode())


def test_of_a_rule_that_is_off_the_list_does_not_warn(admin: Client, listed: Tenant) -> None:
    admin.post("/rules/change", {"expected": "1", "off": ASKS.name})
    assert "in the group ops" not in words(admin.get("/rules/").content.decode())


def test_a_long_expression_is_folded(admin: Client, tenant: Tenant) -> None:
    long = Rule(name="Long", when=" || ".join(["tool.readOnly"] * 20), then=Then.ASK)
    save_rules(tenant.pk, [long], expected=0, actor=ADMIN)
    assert '<details class="when">' in admin.get("/rules/").content.decode()


def test_a_rule_is_added_and_changed(admin: Client, tenant: Tenant) -> None:
    form = {**FORM, "group": "ops", "words": "not for asking", "reason": "Asked for by audit"}
    assert admin.post("/rules/add", form).headers["Location"] == "/rules/"
    assert present(tenant.pk).rules == (
        Rule(name="Production", when="args.n > 1", then=Then.ASK, group="ops", quorum=2),
    )
    assert Event.objects.get(action="rules.changed").reason == "Asked for by audit"
    first = {**FORM, "expected": "1", "name": "Nights", "then": "deny", "words": "No.", "place": "1", "shadow": "on"}
    assert admin.post("/rules/add", first).status_code == 302
    nights = Rule(name="Nights", when="args.n > 1", then=Then.DENY, words="No.", shadow=True)
    assert present(tenant.pk).rules[0] == nights
    html = admin.get("/rules/edit?rule=Nights").content.decode()
    assert 'value="Nights"' in html
    assert 'name="expected" value="2"' in html
    changed = {"expected": "2", "name": "Days", "then": "allow", "when": "", "quorum": "1", "place": "2"}
    assert admin.post("/rules/edit?rule=Nights", changed).status_code == 302
    assert present(tenant.pk).rules[1] == Rule(name="Days", when="", then=Then.ALLOW, enabled=False)
    answer = admin.post("/rules/edit?rule=Days", {**changed, "expected": "3"}, follow=True)
    assert "Nothing was changed." in words(answer.content.decode())


@pytest.mark.parametrize(
    ("typed", "field", "said"),
    [
        ({"when": "args.n >"}, "when", "compares two values"),
        ({"when": "nobody.name == 1"}, "when", "there is no nobody"),
        ({"when": 'tool.name == "a" || "b"'}, "when", "Perhaps: tool.name in [&quot;a&quot;, &quot;b&quot;]."),
        ({"then": "hide"}, "when", "cannot speak of args"),
        ({"then": "laugh"}, "then", "Choose what the rule does."),
        ({"name": ""}, "name", "1 to 100 printable characters"),
        ({"name": "ci-bot"}, "name", "are both named ci-bot"),
        ({"quorum": "0"}, "quorum", "whole number from 1"),
        ({"quorum": "two"}, "quorum", "Give a whole number"),
        ({"place": "9"}, "place", "From 1 to 5."),
        ({"reason": "x" * 501}, "reason", "at most 500"),
    ],
)
def test_what_cannot_be_is_refused_beside_its_field(
    admin: Client, listed: Tenant, typed: dict[str, str], field: str, said: str
) -> None:
    answer = admin.post("/rules/add", {**FORM, "expected": "1", "name": "New", "place": "1", **typed})
    html = answer.content.decode()
    assert answer.status_code == 400
    assert said in words(html[html.index(f'id="id_{field}_error"') :])[:300]
    assert len(names(listed)) == 4


def test_a_form_for_an_older_version_is_refused_and_keeps_what_was_typed(admin: Client, listed: Tenant) -> None:
    save_rules(listed.pk, [ASKS, HIDES], expected=1, actor=ADMIN)
    form = {**FORM, "expected": "1", "when": "args.n > 41"}
    answer = admin.post(edit(ASKS), form)
    html = answer.content.decode()
    assert answer.status_code == 409
    assert "Somebody changed the rules meanwhile: version 2 is in force." in words(html)
    assert "args.n &gt; 41" in html
    assert names(listed) == ["Production", "ci-bot"]
    assert 'name="expected" value="2"' in html
    assert admin.post(edit(ASKS), {**form, "expected": "2"}).status_code == 302
    assert present(listed.pk).rules[0].when == "args.n > 41"
    gone = words(admin.post(edit(DENIES), form).content.decode())
    assert "is not in it any more: saving adds yours as a new rule." in gone
    assert admin.get(edit(DENIES)).status_code == 404
    assert admin.post(edit(DENIES), {**form, "expected": "3"}).status_code == 404


def test_rules_are_moved_switched_and_removed(admin: Client, listed: Tenant) -> None:
    steps = [
        ("up", DENIES.name, [DENIES.name, "Production", "ci-bot", "The rest"]),
        ("down", "Production", [DENIES.name, "ci-bot", "Production", "The rest"]),
        ("remove", DENIES.name, ["ci-bot", "Production", "The rest"]),
    ]
    for number, (verb, name, left) in enumerate(steps, 1):
        answer = admin.post("/rules/change", {"expected": str(number), verb: name, "reason": f"step {number}"})
        assert answer.status_code == 302
        assert names(listed) == left
    assert "Version 3 has it" in words(admin.get("/rules/").content.decode())
    admin.post("/rules/change", {"expected": "4", "on": "The rest"})
    admin.post("/rules/change", {"expected": "5", "off": "ci-bot"})
    assert [rule.enabled for rule in present(listed.pk).rules] == [False, True, True]
    assert [row.reason for row in versions(listed.pk)][:3] == ["", "", "step 3"]


def test_a_button_for_an_older_version_changes_nothing(admin: Client, listed: Tenant) -> None:
    for expected in ("0", "", "x"):
        answer = admin.post("/rules/change", {"expected": expected, "remove": "Production", "reason": "Not needed"})
        assert answer.status_code == 409
        said = answer.content.decode()
        assert "version 1 is in force" in words(said)
        assert 'value="Not needed"' in said
        assert 'name="expected" value="1"' in said
    assert len(names(listed)) == 4
    assert admin.post("/rules/change", {"expected": "1"}).status_code == 400
    assert admin.post("/rules/change", {"expected": "1", "up": "Nobody"}).status_code == 404
    long = {"expected": "1", "off": "Production", "reason": "x" * 501}
    assert admin.post("/rules/change", long).status_code == 400


@pytest.mark.parametrize(
    ("comparison", "value", "written"),
    [
        ("one_of", "staging, test", 'args.env in ["staging", "test"]'),
        ("one_of", "5", 'args.env == "5"'),
        ("between", "1, 20", ""),
        ("absent", "", "!has(args.env)"),
    ],
)
def test_the_builder_writes_lists_and_absence_by_the_type_of_the_argument(
    admin: Client, tenant: Tenant, comparison: str, value: str, written: str
) -> None:
    tool = make_tool(make_server(tenant, "deploys"), "deploy")
    properties = {"env": {"type": "string"}, "n": {"type": "integer"}}
    Tool.objects.filter(pk=tool.id).update(definition={"name": "deploy", "inputSchema": {"properties": properties}})
    form = {**FORM, "when": "", "build": "1", "tool": str(tool.id), "comparison": comparison, "value": value}
    said = admin.post("/rules/add", {**form, "argument": "env"}).content.decode()
    if written:
        assert escape(f'tool.name == "deploy" && {written}') in said
    else:
        assert "Give two numbers, with a comma between them." in said
        assert (
            escape("args.n >= 1 && args.n <= 20")
            in admin.post("/rules/add", {**form, "argument": "n"}).content.decode()
        )


def test_the_builder_adds_a_condition_to_the_expression(admin: Client, tenant: Tenant) -> None:
    tool = make_tool(make_server(tenant, "deploys"), "deploy")
    html = admin.get("/rules/add").content.decode()
    assert f'<option value="{tool.id}">deploy</option>' in html
    form = {**FORM, "build": "1", "tool": str(tool.id), "argument": "environment", "comparison": "is", "value": 'a"b'}
    answer = admin.post("/rules/add", form)
    said = answer.content.decode()
    assert answer.status_code == 200
    assert (
        "args.n &gt; 1\n&amp;&amp; server.name == &quot;deploys&quot; &amp;&amp; tool.name == &quot;deploy&quot; "
        "&amp;&amp; args.environment == &quot;a\\&quot;b&quot;"
    ) in said
    part = admin.post("/rules/add", form, headers=HTMX).content.decode()
    assert part.strip().startswith('<div class="stack" id="expression">')
    for typed, told in (
        ({"tool": "", "argument": ""}, "Pick a server or tool, or name an argument."),
        ({"tool": "7" * 9}, "There is no such tool any more."),
        ({"comparison": "odd"}, "Choose a comparison."),
        ({"comparison": "greater", "value": "many"}, "Give a number."),
        ({"when": "args."}, "This is no expression of CEL."),
    ):
        answer = admin.post("/rules/add", {**form, **typed})
        assert answer.status_code == 422
        assert told in words(answer.content.decode())
    assert names(tenant) == [], "nothing is saved"
    of_server = admin.post("/rules/add", {**form, "when": "", "tool": "server:deploys", "argument": ""})
    assert "server.name == &quot;deploys&quot;</textarea>" in of_server.content.decode()


def test_an_expression_is_checked_while_it_is_typed(admin: Client, tenant: Tenant) -> None:
    assert "This is an expression." in words(admin.post("/rules/check", FORM).content.decode())
    assert "there is no nobody" in words(admin.post("/rules/check", {**FORM, "when": "nobody"}).content.decode())


def test_a_rule_that_is_in_doubt_for_tools_without_its_argument_is_warned_of(admin: Client, tenant: Tenant) -> None:
    make_tool(make_server(tenant), "pay <b>")
    said = words(admin.post("/rules/check", FORM).content.decode())
    assert "The only tool has no argument n: every call of them is in doubt, and so asked about." in said
    for typed in ({"then": "allow"}, {"when": "tool.name == 'x' && args.n > 1"}):
        assert "This is an expression." in words(admin.post("/rules/check", {**FORM, **typed}).content.decode())
    said = words(admin.post("/rules/add", FORM, follow=True).content.decode())
    assert "“Production” saved: version 1 is in force." in said
    assert "The only tool has no argument n" in said
    assert "The only tool has no argument n" in words(admin.get("/rules/edit?rule=Production").content.decode())
    assert "no argument" not in words(admin.get("/rules/add").content.decode())
    refused = admin.post("/rules/add", {**FORM, "expected": "1", "then": "laugh"})
    assert refused.status_code == 400
    assert "no argument" not in words(refused.content.decode())


def test_versions_are_listed_shown_and_brought_back(admin: Client, listed: Tenant) -> None:
    save_rules(listed.pk, [HIDES, ASKS], expected=1, reason="Fewer", actor=ADMIN)
    said = words(admin.get("/rules/versions/").content.decode())
    assert "Version 2 In force 2 just now admin Fewer" in said
    shown = words(admin.get("/rules/versions/2/").content.decode())
    assert "Removed No &lt;b&gt;nights&lt;/b&gt;, The rest" in shown
    assert "Bring back" not in shown
    assert "Version(" not in shown, "the version of TaskHub at the foot is another one"
    assert "Bring back" in words(admin.get("/rules/versions/1/").content.decode())
    answer = admin.post("/rules/versions/1/restore", {"expected": "1", "reason": "Undo"})
    assert answer.status_code == 409
    assert "Somebody changed the rules meanwhile" in words(answer.content.decode())
    assert admin.post("/rules/versions/1/restore", {"expected": "2", "reason": "x" * 501}).status_code == 400
    assert admin.post("/rules/versions/1/restore", {"expected": "2"}).status_code == 302
    assert present(listed.pk).rules == (ASKS, DENIES, HIDES, ALLOWS)
    assert versions(listed.pk)[0].reason == "Version 1 brought back"
    for number in ("9", "99999999999999"):
        assert admin.get(f"/rules/versions/{number}/").status_code == 404
    assert "No version." in words(admin.get("/rules/versions/?before=1").content.decode())
    assert admin.get(f"/rules/versions/?before={2**40}").status_code == 200


def test_older_versions_are_on_further_pages(admin: Client, tenant: Tenant) -> None:
    for number in range(51):
        save_rules(tenant.pk, [Rule(name=f"r{number}", when="", then=Then.ASK)], expected=number, actor=ADMIN)
    html = admin.get("/rules/versions/").content.decode()
    assert 'href="?before=2"' in html
    assert "Version 1 " in words(admin.get("/rules/versions/?before=2").content.decode())


def test_who_may_only_see_them_can_change_nothing(sign_in: Login, listed: Tenant) -> None:
    viewer = sign_in(make_person(Role.VIEWER, listed))
    assert "Production" in words(viewer.get("/rules/").content.decode())
    assert "Switch off" not in words(viewer.get("/rules/").content.decode())
    assert "Bring back" not in words(viewer.get("/rules/versions/1/").content.decode())
    for url in ("/rules/add", "/rules/edit?rule=Production"):
        assert viewer.get(url).status_code == 403
    for url in ("/rules/add", "/rules/check", "/rules/change", edit(ASKS), "/rules/versions/1/restore"):
        assert viewer.post(url, {**FORM, "remove": "Production", "expected": "1"}).status_code == 403
    other = sign_in(make_person(Role.ADMIN, make_tenant()))
    assert "Production" not in words(other.get("/rules/").content.decode())
    assert other.get("/rules/versions/1/").status_code == 404
    assert len(names(listed)) == 4


def test_the_list_as_it_is_edited_is_tried_on_recent_calls(admin: Client, tenant: Tenant) -> None:
    context, tool = make_context(tenant, "agent"), make_tool(make_server(tenant), "pay")
    task = make_task(context, tool, arguments={"n": 5})
    make_task(context, tool, arguments={"n": 1})
    html = admin.post("/rules/add", {**FORM, "try": "1"}).content.decode()
    said = words(html)
    assert "Ask 0 1" in said
    assert "No rule: it runs 2 1" in said
    assert f'href="/tasks/{task.public_id}/"' in html
    assert "pay agent just now no rule: it runs Ask Production" in said
    assert "args.n &gt; 1" in html, "what was typed stays"
    assert names(tenant) == [], "nothing is saved"
    said = words(admin.post("/rules/add", {**FORM, "try": "1", "shadow": "on"}).content.decode())
    assert "Production is on trial and decides nothing: it matches 1 of these calls. No call changes." in said
    assert admin.post("/rules/add", {**FORM, "try": "1", "when": "nobody"}).status_code == 400
    admin.post("/rules/add", FORM)
    said = words(admin.get("/rules/?try").content.decode())
    assert "Ask 1 Allow 0 No rule: it runs 1" in said, "one column: nothing is edited"
    assert "No call changes." not in said
    said = words(admin.post(edit(ASKS), {**FORM, "expected": "1", "try": "1"}).content.decode())
    assert "By this list" not in said, "nor is anything there"
    said = words(admin.post(edit(ASKS), {**FORM, "expected": "1", "try": "1", "quorum": "1"}).content.decode())
    assert "Ask 1 1" in said
    assert "No call changes." in said


def test_a_rule_of_the_list_that_is_refused_today_is_named_and_tried(
    admin: Client, tenant: Tenant, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Such a list was saved before its expressions were looked at so closely."""
    with monkeypatch.context() as patched:
        patched.setattr("taskhub.domain.rules.decisions.check_kinds", lambda text: None)
        save_rules(tenant.pk, [ASKS, Rule(name="Odd", when="tool.name", then=Then.DENY)], expected=0, actor=ADMIN)
    make_task(make_context(tenant), make_tool(make_server(tenant)))
    assert "Ask 1" in words(admin.get("/rules/?try").content.decode())
    answer = admin.post("/rules/change", {"expected": "1", "up": "Odd"})
    assert answer.status_code == 400
    assert "Rule 1: At character 1: tool.name is a text" in words(answer.content.decode())
    answer = admin.post(edit(ASKS), {**FORM, "expected": "1"})
    assert "Rule 2: At character 1: tool.name is a text" in words(answer.content.decode())
    assert admin.post("/rules/change", {"expected": "1", "remove": "Odd"}).status_code == 302
    answer = admin.post("/rules/versions/1/restore", {"expected": "2"})
    assert "Rule 2: At character 1: tool.name is a text" in words(answer.content.decode())


def test_there_may_be_no_call_to_try_rules_on(admin: Client, listed: Tenant) -> None:
    assert "There is no call to try them on yet." in words(admin.get("/rules/?try").content.decode())


def test_the_last_row_says_what_happens_to_the_rest(admin: Client, sign_in: Login, listed: Tenant) -> None:
    html = admin.get("/rules/").content.decode()
    assert "What no rule matches The call runs, and nobody is asked." in words(html)
    assert 'href="/rules/add?rest"' in html
    assert "/rules/add?rest" not in sign_in(make_person(Role.OPERATOR, listed)).get("/rules/").content.decode()
    form = admin.get("/rules/add?rest").content.decode()
    assert 'value="Everything else"' in form
    assert 'value="5"' in form
    rest = Rule(name="Everything else", when="", then=Then.ASK)
    save_rules(listed.pk, [ASKS, rest], expected=1, actor=ADMIN)
    html = admin.get("/rules/").content.decode()
    assert "Nothing is left: “Everything else” matches every call." in words(html)
    assert "/rules/add?rest" not in html
    assert 'value="Everything else"' not in admin.get("/rules/add?rest").content.decode()


@pytest.mark.parametrize("change", [{"enabled": False}, {"shadow": True}, {"when": "tool.readOnly"}])
def test_a_rule_that_does_not_decide_everything_leaves_a_rest(
    admin: Client, tenant: Tenant, change: dict[str, Any]
) -> None:
    save_rules(tenant.pk, [replace(Rule(name="r", when="", then=Then.ASK), **change)], expected=0, actor=ADMIN)
    assert "/rules/add?rest" in admin.get("/rules/").content.decode()


def test_a_version_says_what_changed_in_each_rule(admin: Client, listed: Tenant) -> None:
    after = [replace(ASKS, when="args.n > 1", not_requester=True, group=""), DENIES, HIDES, ALLOWS]
    save_rules(listed.pk, after, expected=1, actor=ADMIN)
    said = words(admin.get("/rules/versions/2/").content.decode())
    assert "When Before" not in words(admin.get("/rules/versions/1/").content.decode())
    assert "When like(args.environment, &quot;production&quot;) args.n &gt; 1" in said
    assert "Group ops empty" in said
    assert "Not by the requester no yes" in said


def test_a_version_that_changes_many_rules_shows_what_changed_of_the_first(admin: Client, tenant: Tenant) -> None:
    rules = [Rule(name=f"n{n}", when="", then=Then.ASK) for n in range(25)]
    save_rules(tenant.pk, rules, expected=0, actor=ADMIN)
    save_rules(tenant.pk, [replace(rule, quorum=2) for rule in rules], expected=1, actor=ADMIN)
    assert "And 5 more changed, named above." in words(admin.get("/rules/versions/2/").content.decode())


def test_a_page_of_many_long_expressions_stays_small_and_each_can_be_read(sign_in: Login, tenant: Tenant) -> None:
    many = [Rule(name=f"n{n}", when=long_expression(n), then=Then.DENY, words="w" * 500) for n in range(200)]
    save_rules(tenant.pk, many, expected=0, actor=ADMIN)
    for role in (Role.ADMIN, Role.VIEWER):
        browser = sign_in(make_person(role, tenant))
        for url in ("/rules/", "/rules/versions/1/"):
            html = browser.get(url).content
            assert len(html) < 300_000, (url, len(html))
            assert b"n49<" in html
            assert b"n50<" not in html
            html = browser.get(f"{url}?from=151").content
            assert b"n199<" in html
            assert b'"/rules/versions/1/?rule=n199#rules"' in html
            assert b"?from=101" in html
        one = browser.get("/rules/versions/1/?rule=n199").content.decode()
        begin, blanks, end = re.split("( {64,})", long_expression(199))
        assert f"{escape(begin)}<" in one
        assert f"×{len(blanks)}</span>{end}" in one
        assert "n198" not in one[one.index('id="rules"') :]
        assert browser.get("/rules/versions/1/?rule=none").status_code == 404


def test_a_long_list_is_changed_page_by_page(admin: Client, tenant: Tenant) -> None:
    save_rules(tenant.pk, [Rule(name=f"n{n}", when="", then=Then.ASK) for n in range(60)], expected=0, actor=ADMIN)
    html = admin.get("/rules/?from=51").content.decode()
    assert 'action="/rules/change?from=51"' in html
    assert "Earlier rules" in html
    answer = admin.post("/rules/change?from=51", {"expected": "1", "up": "n50"})
    assert answer.headers["Location"] == "/rules/?from=51"
    assert names(tenant)[48:51] == ["n48", "n50", "n49"]
    assert admin.get("/rules/?from=9999").status_code == 200


def long_expression(n: int) -> str:
    found = f"args.n{n} in [{', '.join([repr('<production>' * 6)] * 50)}]"
    return f"{found}{' ' * (MAX_WHEN - len(found) - 9)}// {n:06}"


def test_every_field_of_a_rule_has_a_word_on_a_versions_page() -> None:
    assert {*FIELD_WORDS} == {*RULE_FIELDS} - {"name"}

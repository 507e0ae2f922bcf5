"""The bypass in the console: its page, the banner of every page, and the marks of calls that it let pass."""

from __future__ import annotations

from datetime import UTC

import pytest
from django.test import Client

from taskhub.core.rules import Rule, Then, Verdict
from taskhub.core.states import Role
from taskhub.domain.rules.bypasses import begin_bypass, bypasses, end_bypass, present_bypass
from taskhub.store.models import Membership, Question, Tenant
from tests.console.admin import ADMIN, words
from tests.console.conftest import Login
from tests.domain import kit
from tests.factories import make_context, make_person, make_server, make_tenant, make_tool

pytestmark = pytest.mark.django_db

REASON = "The inbox <b>is</b> down"


def begin(tenant: Tenant) -> int:
    return begin_bypass(tenant.pk, minutes=30, reason=REASON, actor=ADMIN).id


def test_it_is_begun_and_ended_by_whoever_sets_rules(admin: Client, tenant: Tenant) -> None:
    form = admin.get("/rules/bypass").content.decode()
    assert 'name="reason"' in form
    assert "No bypass yet." in words(form)
    assert 'href="/rules/bypass"' in admin.get("/rules/").content.decode()
    given = {"reason": REASON, "minutes": "30", "server": ""}
    assert admin.post("/rules/bypass", given).headers["Location"] == "/rules/bypass"
    begun = present_bypass(tenant.pk)
    assert begun is not None
    assert (begun.reason, (begun.ends_at - begun.began_at).total_seconds()) == (REASON, 1_800)
    assert Membership.objects.get(tenant=tenant, role="admin").governed_at is not None
    html = admin.get("/rules/bypass").content.decode()
    assert 'name="reason"' not in html
    until = f"{begun.ends_at.astimezone(UTC):%H:%M} UTC"
    assert f"Nobody is asked about calls until {until}, except about critical ones." in words(html)
    again = admin.post("/rules/bypass", given)
    assert (again.status_code, "in force already" in again.content.decode()) == (409, True)
    assert admin.post("/rules/bypass/end", {"bypass": begun.id}).headers["Location"] == "/rules/bypass"
    assert present_bypass(tenant.pk) is None
    assert admin.post("/rules/bypass/end", {"bypass": begun.id}).status_code == 302
    assert "This bypass is over already." in words(admin.get("/rules/").content.decode())


def test_one_server_is_chosen_by_its_name(admin: Client, tenant: Tenant) -> None:
    server = make_server(tenant)
    make_server(make_tenant())
    assert f'<option value="{server.pk}">{server.name}</option>' in admin.get("/rules/bypass").content.decode()
    admin.post("/rules/bypass", {"reason": "x", "minutes": "5", "server": server.pk})
    assert [one.server for one in bypasses(tenant.pk)] == [server.name]
    said = words(admin.get("/").content.decode())
    assert f"nobody is asked about calls of {server.name}, except about critical ones, because" in said


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"reason": "", "minutes": "5"}, "Say why"),
        ({"reason": "x", "minutes": "1441"}, "from 1 to 1,440 minutes"),
        ({"reason": "x", "minutes": "soon"}, "Give a whole number"),
        ({"reason": "x", "minutes": "5", "server": "999"}, "Select a valid choice"),
    ],
)
def test_what_is_wrong_is_said_and_nothing_begins(
    admin: Client, tenant: Tenant, given: dict[str, str], said: str
) -> None:
    response = admin.post("/rules/bypass", given)
    assert (response.status_code, said in response.content.decode()) == (400, True)
    assert present_bypass(tenant.pk) is None


def test_every_page_has_the_banner_for_everybody(admin: Client, sign_in: Login, tenant: Tenant) -> None:
    for page in ("/", "/rules/", "/nowhere"):
        assert "banner bypass" not in admin.get(page).content.decode()
    begin(tenant)
    begun = present_bypass(tenant.pk)
    assert begun is not None
    until = f"{begun.ends_at.astimezone(UTC):%H:%M} UTC"
    viewer = sign_in(make_person(Role.VIEWER, tenant))
    elsewhere = sign_in(make_person(Role.ADMIN, make_tenant()))
    for page in ("/", "/tasks/", "/bypass"):
        html = viewer.get(page).content.decode()
        said = words(html)
        assert until in said
        assert "nobody is asked about calls, except about critical ones, because" in said
        assert "“The inbox &lt;b&gt;is&lt;/b&gt; down”." in said
        assert "End bypass" not in html
        assert "End bypass" in admin.get(page).content.decode()
        assert "banner bypass" not in elsewhere.get(page).content.decode()
    assert viewer.post("/rules/bypass/end", {"bypass": begun.id}).status_code == 403
    assert viewer.post("/rules/bypass", {"reason": "x", "minutes": "5"}).status_code == 403
    assert elsewhere.post("/rules/bypass/end", {"bypass": begun.id}).status_code == 404
    end_bypass(tenant.pk, begun.id, actor=ADMIN)
    assert "banner bypass" not in viewer.get("/bypass").content.decode()


def test_the_page_is_for_those_who_see_rules(sign_in: Login, tenant: Tenant) -> None:
    begin(tenant)
    operator = sign_in(make_person(Role.OPERATOR, tenant))
    html = operator.get("/rules/bypass").content.decode()
    assert "The inbox &lt;b&gt;is&lt;/b&gt; down" in html
    assert "Begin bypass" not in html
    assert operator.post("/rules/bypass", {"reason": "x", "minutes": "5"}).status_code == 403


@pytest.mark.parametrize("rule", [None, Rule(name="Production", when="", then=Then.ASK)])
def test_a_call_that_it_let_pass_is_marked(admin: Client, tenant: Tenant, rule: Rule | None) -> None:
    begin(tenant)
    begun = present_bypass(tenant.pk)
    world = kit.World(make_context(tenant), make_tool(make_server(tenant)))
    plain = kit.create(world)
    assert "Not asked" not in admin.get(f"/tasks/{plain.public_id}/").content.decode()
    task = kit.create(world, verdict=Verdict(Then.ALLOW, rule, version=1 if rule else 0, bypass=begun))
    assert begun is not None
    mark = f"because “The inbox &lt;b&gt;is&lt;/b&gt; down”, by {ADMIN.name}"
    for page in ("/tasks/", f"/tasks/{task.public_id}/"):
        said = words(admin.get(page).content.decode())
        assert said.count(f"Not asked: bypass until {begun.ends_at.astimezone(UTC):%H:%M} UTC , {mark}") == 1
    assert words(admin.get("/").content.decode()).count("Not asked: bypass") == 1
    said = words(admin.get(f"/tasks/{task.public_id}/").content.decode())
    assert ("let pass by a bypass; Production would have asked" in said) is (rule is not None)
    end_bypass(tenant.pk, begun.id, actor=ADMIN)


def test_a_question_says_that_the_bypass_is_over(admin: Client, tenant: Tenant) -> None:
    number = begin(tenant)
    world = kit.World(make_context(tenant), make_tool(make_server(tenant), asks={}))
    kit.create(world, verdict=Verdict(Then.ALLOW, bypass=present_bypass(tenant.pk)))
    end_bypass(tenant.pk, number, actor=ADMIN)
    assert kit.claim() == []
    number = Question.objects.get(state="open").pk
    said = words(admin.get(f"/inbox/{number}/").content.decode())
    assert "The bypass that would have let this call run is over. It has not run." in said


def test_the_page_leads_to_what_was_let_pass(admin: Client) -> None:
    assert 'href="/audit/?action=rules.bypassed"' in admin.get("/rules/bypass").content.decode()

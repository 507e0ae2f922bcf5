"""A rule that is proposed: said on the pages of rules, opened in the form and tried, saved or dismissed."""

from __future__ import annotations

from html import unescape
from urllib.parse import parse_qs

import pytest
from django.test import Client

from taskhub.core.rules import Rule, Then
from taskhub.core.states import Role
from taskhub.domain.rules.changes import save_rules
from taskhub.domain.rules.proposals import MIN_APPROVED
from taskhub.domain.rules.reads import present
from taskhub.store.models import Event, Tenant
from tests.console.admin import ADMIN, words
from tests.console.conftest import Login
from tests.domain.rules.test_proposals import Place
from tests.factories import make_person

pytestmark = pytest.mark.django_db
OTHER = Rule(name="Other", when='tool.name == "other"', then=Then.ASK)
SAID = (
    "ci-bot’s deploy with environment staging and replicas 1 and service &lt;b&gt;web was approved"
    f" {MIN_APPROVED} of {MIN_APPROVED} times in 30 days, in"
)


@pytest.fixture
def place() -> Place:
    """Where deploys to staging were approved often, and nothing else."""
    made = Place()
    made.save(*present(made.tenant.pk).rules, OTHER)
    made.often(environment="staging", service="<b>web")
    return made


def query(html: str) -> str:
    """The address at which the proposal opens."""
    return unescape(html.partition("/rules/proposal?")[2].partition('"')[0])


def test_it_is_said_with_the_numbers_opened_in_the_form_tried_and_saved(sign_in: Login, place: Place) -> None:
    admin = sign_in(make_person(Role.ADMIN, place.tenant))
    html = admin.get("/rules/").content.decode()
    assert SAID in words(html)
    assert "Let it run without asking?" in words(html)
    assert "<b>web" not in html
    asked = query(html)
    assert set(parse_qs(asked)) == {"rule", "client", "tool"}
    opened = admin.get(f"/rules/proposal?{asked}")
    page = opened.content.decode()
    assert opened.status_code == 200
    assert 'value="ci-bot: deploy"' in page
    assert '<option value="allow" selected>' in page
    assert "args.environment == &quot;staging&quot;" in page
    assert 'name="place" value="1"' in page
    assert f"Allow 0 {MIN_APPROVED}" in words(page[page.index('id="trial"') :])
    assert present(place.tenant.pk).version == 2, "nothing is saved yet"
    form = {
        "expected": "2",
        "name": "ci-bot: deploy",
        "then": "allow",
        "when": unescape(page.partition('id="id_when"')[2].partition(">")[2].partition("</textarea>")[0]).strip(),
        "quorum": "1",
        "enabled": "on",
        "place": "1",
        "reason": f"All {MIN_APPROVED} such calls of the last 30 days were approved",
    }
    assert form["reason"] in page
    assert admin.post("/rules/add", form).status_code == 302
    assert [rule.name for rule in present(place.tenant.pk).rules] == ["ci-bot: deploy", "Deploys", "Other"]
    assert "Let it run" not in admin.get("/rules/").content.decode()
    assert admin.get(f"/rules/proposal?{asked}").status_code == 404


def test_the_page_of_a_rule_has_its_own(sign_in: Login, place: Place) -> None:
    admin = sign_in(make_person(Role.ADMIN, place.tenant))
    assert SAID in words(admin.get("/rules/edit?rule=Deploys").content.decode())
    assert "was approved" not in words(admin.get("/rules/edit?rule=Other").content.decode())
    assert "was approved" not in words(admin.get("/rules/add").content.decode())


def test_dismissed_it_is_gone_for_everybody_and_on_record(sign_in: Login, place: Place) -> None:
    admin = sign_in(make_person(Role.ADMIN, place.tenant))
    asked = query(admin.get("/rules/").content.decode())
    assert admin.get(f"/rules/proposal/dismiss?{asked}").status_code == 405
    said = words(admin.post(f"/rules/proposal/dismiss?{asked}", follow=True).content.decode())
    assert f"is dismissed. It comes back when {2 * MIN_APPROVED} such calls were approved in 30 days." in said
    assert "Let it run" not in said
    other = sign_in(make_person(Role.ADMIN, place.tenant))
    assert "Let it run" not in other.get("/rules/edit?rule=Deploys").content.decode()
    event = Event.objects.get(action="rules.proposal.dismissed")
    assert (event.tenant_id, event.door) == (place.tenant.pk, "web")
    assert admin.post(f"/rules/proposal/dismiss?{asked}").status_code == 404
    assert present(place.tenant.pk).version == 2


def test_only_who_may_set_rules_of_this_tenant_sees_it(admin: Client, sign_in: Login, place: Place) -> None:
    mia = sign_in(make_person(Role.ADMIN, place.tenant))
    asked = query(mia.get("/rules/").content.decode())
    for role in (Role.VIEWER, Role.OPERATOR, Role.APPROVER, Role.AUDITOR):
        other = sign_in(make_person(role, place.tenant))
        assert "Let it run" not in other.get("/rules/").content.decode()
        assert other.get(f"/rules/proposal?{asked}").status_code == 403
        assert other.post(f"/rules/proposal/dismiss?{asked}").status_code == 403
    assert admin.get(f"/rules/proposal?{asked}").status_code == 404
    assert admin.post(f"/rules/proposal/dismiss?{asked}").status_code == 404
    for odd in ("", "rule=Deploys", "rule=Deploys&client=x&tool=1", asked.replace("Deploys", "%00")):
        assert mia.get(f"/rules/proposal?{odd}").status_code == 404


def test_without_any_the_page_says_nothing_of_it(admin: Client, tenant: Tenant) -> None:
    save_rules(tenant.pk, [OTHER], expected=0, actor=ADMIN)
    assert "rules/proposal" not in admin.get("/rules/").content.decode()

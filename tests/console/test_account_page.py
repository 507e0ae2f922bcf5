"""A person's own account: what they may do, and the programs they let in."""

from __future__ import annotations

import pytest
from django.test import Client

from taskhub.core.names import OAUTH_ISSUER
from taskhub.core.states import Role
from taskhub.domain.clients.principals import principal_of
from taskhub.store.models import AuthContext, Consent, Event, Membership, Tenant
from tests.console.admin import HTMX, browser, words
from tests.factories import make_person
from tests.support.oauth import RESOURCE, Program, make_application

pytestmark = pytest.mark.django_db

ACCOUNT = "/accounts/"


@pytest.mark.parametrize("role", Role)
def test_everybody_has_a_page_that_says_what_they_may_do(tenant: Tenant, role: Role) -> None:
    person = browser(make_person(role, tenant, username="ada", groups=["ops"]))
    page = words(person.get(ACCOUNT).content.decode())
    assert "ada" in page
    assert "ops" in page
    assert ("Cancel tasks" in page) == (role in (Role.OPERATOR, Role.ADMIN))
    assert ("Approve or reject calls" in page) == (role in (Role.APPROVER, Role.ADMIN))
    assert "No program acts for you." in page
    assert RESOURCE in page
    assert f'href="{ACCOUNT}"' in person.get("/").content.decode()


def test_a_stranger_is_led_to_sign_in() -> None:
    assert Client().get(ACCOUNT)["Location"] == "/accounts/login/?next=%2Faccounts%2F"


def test_the_programs_are_listed_with_what_each_may_do(tenant: Tenant) -> None:
    row, _ = make_application(tenant)
    ada = browser(make_person("operator", tenant, username="ada"))
    Program.of(ada, row).sign_in("tasks:read", "tasks:call")
    page = words(ada.get(ACCOUNT).content.decode())
    assert "Deployer registered here, public Run tools Read the tasks it started" in page
    assert "Cancel those tasks" not in page
    assert ada.get(ACCOUNT, headers=HTMX).content.decode().lstrip().startswith("<section")
    other = browser(make_person("admin", tenant))
    assert "Deployer" not in other.get(ACCOUNT).content.decode()


def test_what_a_lesser_role_no_longer_includes_is_said(tenant: Tenant) -> None:
    row, _ = make_application(tenant)
    person = make_person("operator", tenant)
    ada = browser(person)
    Program.of(ada, row).sign_in("tasks:read", "tasks:call")
    Membership.objects.filter(user_id=person.user_id).update(role="viewer")
    page = words(ada.get(ACCOUNT).content.decode())
    assert "Run tools (your role no longer includes it) Read the tasks it started" in page
    assert "started (your role" not in page


def test_taking_back_signs_the_program_out_and_keeps_its_tasks_client(tenant: Tenant) -> None:
    row, _ = make_application(tenant)
    ada = browser(make_person("viewer", tenant, username="ada"))
    program = Program.of(ada, row)
    tokens = program.sign_in("tasks:read")
    consent = Consent.objects.get()
    assert "Revoke access for Deployer?" in words(ada.get(f"{ACCOUNT}?revoke={consent.pk}").content.decode())
    assert principal_of(tokens["access_token"], "") is not None
    done = ada.post(f"{ACCOUNT}allowed/{consent.pk}/revoke", follow=True).content.decode()
    assert "Deployer is signed out" in done
    assert "No program acts for you." in done
    assert principal_of(tokens["access_token"], "") is None
    assert program.refresh(tokens["refresh_token"]).status_code == 400
    event = Event.objects.get(action="consent.revoked")
    assert (event.actor, event.target, event.before) == (
        "ada",
        "Deployer",
        {"person": "ada", "scopes": ["tasks:read"]},
    )
    assert AuthContext.objects.filter(issuer=OAUTH_ISSUER).count() == 1
    again = ada.post(f"{ACCOUNT}allowed/{consent.pk}/revoke")
    assert again.status_code == 404


@pytest.mark.parametrize("role", ["viewer", "admin"])
def test_nobody_takes_back_what_somebody_else_allowed(tenant: Tenant, role: str) -> None:
    row, _ = make_application(tenant)
    tokens = Program.of(browser(make_person("operator", tenant)), row).sign_in()
    other = browser(make_person(role, tenant))
    consent = Consent.objects.get()
    assert "Revoke access for" not in other.get(f"{ACCOUNT}?revoke={consent.pk}").content.decode()
    assert other.post(f"{ACCOUNT}allowed/{consent.pk}/revoke").status_code == 404
    assert other.post(f"{ACCOUNT}allowed/{2**80}/revoke").status_code == 404
    assert principal_of(tokens["access_token"], "") is not None
    assert not Event.objects.filter(action="consent.revoked").exists()

"""Applications: registered by an administrator, allowed by people, taken back by either."""

from __future__ import annotations

import re
from typing import Any

import pytest
from django.test import Client

from taskhub.core.names import OAUTH_ISSUER
from taskhub.domain.clients.principals import principal_of
from taskhub.domain.oauth.consents import Registration
from taskhub.store.models import Application, AuthContext, Consent, Event, Tenant
from tests.console.admin import HTMX, ROLES, browser, words
from tests.factories import make_person, make_tenant
from tests.support.oauth import CALLBACK, Program, make_application

pytestmark = pytest.mark.django_db

LIST = "/clients/applications/"


def add(admin: Client, **form: Any) -> Any:
    return admin.post(
        f"{LIST}add", {"name": "Deployer", "redirects": f"{CALLBACK}\nhttp://127.0.0.1/cb", "type": "public", **form}
    )


def test_a_public_application_is_registered_without_a_secret(tenant: Tenant, admin: Client) -> None:
    response = add(admin)
    row = Application.objects.select_related("registration").get(tenant=tenant)
    assert response["Location"] == f"{LIST}{row.pk}/"
    page = words(admin.get(response["Location"]).content.decode())
    registration = Registration.objects.get()
    for text in ("Deployer", registration.client_id, CALLBACK, "http://127.0.0.1/cb", "public"):
        assert text in page
    assert registration.client_type == "public"
    event = Event.objects.get(tenant=tenant, action="application.added")
    assert event.actor == "root"
    assert event.after is not None
    assert event.after["redirects"] == [CALLBACK, "http://127.0.0.1/cb"]


def test_a_secret_is_shown_on_one_response_only(tenant: Tenant, admin: Client) -> None:
    html = add(admin, type="confidential").content.decode()
    found = re.search(r'<code id="secret"[^>]*>([^<]+)</code>', html)
    assert found is not None
    row = Application.objects.get(tenant=tenant)
    person = browser(make_person("operator", tenant))
    program = Program.of(person, row, found[1])
    tokens = program.sign_in()
    renewed = admin.post(f"{LIST}{row.pk}/secret").content.decode()
    again = re.search(r'<code id="secret"[^>]*>([^<]+)</code>', renewed)
    assert again is not None
    assert again[1] != found[1]
    assert program.refresh(tokens["refresh_token"]).status_code == 401
    program.secret = again[1]
    assert program.refresh(tokens["refresh_token"]).status_code == 200
    for url in (LIST, f"{LIST}{row.pk}/", "/audit/"):
        assert found[1] not in admin.get(url).content.decode()
        assert again[1] not in admin.get(url).content.decode()


@pytest.mark.parametrize(
    ("form", "field", "expected"),
    [
        ({"name": ""}, "name", "needs a name"),
        ({"name": "x" * 101}, "name", "needs a name"),
        ({"name": "a\u202eb"}, "name", "printable"),
        ({"redirects": ""}, "redirects", "Name 1 to 20"),
        ({"redirects": "http://app.example.com/cb"}, "redirects", "will not do"),
        ({"redirects": "javascript:alert(1)"}, "redirects", "will not do"),
        ({"redirects": "https://u@app.example.com/cb"}, "redirects", "will not do"),
        ({"redirects": "https://app.example.com/cb#x"}, "redirects", "will not do"),
        ({"redirects": "https://app.example.com:x/cb"}, "redirects", "will not do"),
        ({"redirects": "cursor://callback"}, "redirects", "will not do"),
        ({"redirects": "\n".join(f"https://a.example/{n}" for n in range(21))}, "redirects", "Name 1 to 20"),
    ],
)
def test_what_cannot_be_right_is_said_at_its_field(
    tenant: Tenant, admin: Client, form: dict[str, str], field: str, expected: str
) -> None:
    response = add(admin, **form)
    html = response.content.decode()
    assert response.status_code == 400
    assert expected in words(html)
    assert f'id="id_{field}_error"' in html
    assert not Application.objects.exists()


def test_an_application_is_changed(tenant: Tenant, admin: Client) -> None:
    row, _ = make_application(tenant)
    page = admin.get(f"{LIST}{row.pk}/?edit").content.decode()
    assert CALLBACK in page
    change = {"name": "Renamed", "redirects": "https://new.example.com/cb"}
    admin.post(f"{LIST}{row.pk}/change", change)
    registration = Registration.objects.get()
    assert (registration.name, registration.redirect_uris) == ("Renamed", "https://new.example.com/cb")
    assert "Nothing to save" in admin.post(f"{LIST}{row.pk}/change", change, follow=True).content.decode()
    assert Event.objects.filter(action="application.changed").count() == 1
    wrong = admin.post(f"{LIST}{row.pk}/change", {**change, "redirects": "ftp://x"})
    assert wrong.status_code == 400
    assert "will not do" in wrong.content.decode()


def test_what_people_allowed_is_listed_and_taken_back(tenant: Tenant, admin: Client) -> None:
    row, _ = make_application(tenant)
    ada = make_person("operator", tenant, username="ada")
    tokens = Program.of(browser(ada), row).sign_in("tasks:read", "tasks:call")
    page = words(admin.get(f"{LIST}{row.pk}/").content.decode())
    assert "ada , operator tasks:call tasks:read" in page
    assert "ada" in admin.get(f"{LIST}{row.pk}/?revoke={Consent.objects.get().pk}").content.decode()
    assert "Deployer" in words(admin.get(LIST).content.decode())
    assert admin.get(LIST, headers=HTMX).content.decode().lstrip().startswith("<div")
    done = admin.post(f"{LIST}{row.pk}/consents/{Consent.objects.get().pk}/revoke", follow=True)
    assert "Revoked." in done.content.decode()
    assert principal_of(tokens["access_token"], "") is None
    event = Event.objects.get(action="consent.revoked")
    assert (event.actor, event.before) == ("root", {"person": "ada", "scopes": ["tasks:call", "tasks:read"]})
    assert admin.post(f"{LIST}{row.pk}/consents/999/revoke").status_code == 404


def test_a_clients_page_says_how_it_signs_in(tenant: Tenant, admin: Client) -> None:
    row, _ = make_application(tenant)
    ada = make_person("operator", tenant, username="ada")
    tokens = Program.of(browser(ada), row).sign_in()
    context = AuthContext.objects.get(issuer=OAUTH_ISSUER)
    html = admin.get(f"/clients/{context.pk}/").content.decode()
    page = words(html)
    assert "with OAuth: a person signed in" in page
    assert "1 active access token from the authorization server" in page
    assert f"{LIST}{row.pk}/" in html
    assert "Issue a token" not in page
    admin.post(f"/clients/{context.pk}/toggle", {"disabled": "1"})
    assert principal_of(tokens["access_token"], "") is None
    assert "signed in by a person" in words(admin.get("/clients/").content.decode())


def test_locking_out_and_removing(tenant: Tenant, admin: Client) -> None:
    row, _ = make_application(tenant)
    tokens = Program.of(browser(make_person("operator", tenant)), row).sign_in()
    for question in ("toggle", "remove"):
        assert "Deployer" in admin.get(f"{LIST}{row.pk}/?{question}").content.decode()
    admin.post(f"{LIST}{row.pk}/toggle", {"blocked": "1"})
    assert principal_of(tokens["access_token"], "") is None
    assert "Locked out" in admin.get(LIST).content.decode()
    admin.post(f"{LIST}{row.pk}/toggle", {"blocked": "0"})
    assert principal_of(tokens["access_token"], "") is not None
    admin.post(f"{LIST}{row.pk}/remove")
    assert not Registration.objects.exists()
    assert AuthContext.objects.filter(issuer=OAUTH_ISSUER).exists(), "its tasks hang on it"
    assert "No application yet" in admin.get(LIST).content.decode()


def test_an_open_page_of_a_removed_application_leads_to_the_list(tenant: Tenant, admin: Client) -> None:
    add(admin)
    pk = Application.objects.get().pk
    assert admin.get(f"{LIST}{pk}/", headers=HTMX).status_code == 200
    admin.post(f"{LIST}{pk}/remove")
    assert admin.get(f"{LIST}{pk}/").status_code == 404
    assert admin.get(f"{LIST}{pk}/", headers=HTMX).headers["HX-Redirect"] == LIST


def test_what_describes_itself_is_not_changed_here(tenant: Tenant, admin: Client) -> None:
    registration = Registration.objects.create(
        client_id="https://app.example.com/client.json",
        registration_source="cimd",
        authorization_grant_type="authorization-code",
        redirect_uris=CALLBACK,
    )
    row = Application.objects.create(tenant=tenant, registration_id=registration.pk)
    page = words(admin.get(f"{LIST}{row.pk}/").content.decode())
    assert "its own document at app.example.com" in page
    for action in ("change", "secret", "remove"):
        response = admin.post(f"{LIST}{row.pk}/{action}", {"name": "x", "redirects": CALLBACK})
        assert response.status_code == 400
    assert admin.post(f"{LIST}{row.pk}/toggle", {"blocked": "1"}).status_code == 302


@pytest.mark.parametrize("role", ROLES)
def test_who_may_do_what(tenant: Tenant, role: str) -> None:
    row, _ = make_application(tenant)
    person = browser(make_person(role, tenant))
    sees, manages = role in ("operator", "auditor", "admin"), role == "admin"
    for url in (LIST, f"{LIST}{row.pk}/"):
        assert person.get(url).status_code == (200 if sees else 403)
    for action in ("change", "secret", "toggle", "remove"):
        assert (person.post(f"{LIST}{row.pk}/{action}").status_code != 403) is manages
    assert (add(person).status_code != 403) is manages
    if sees and not manages:
        html = person.get(f"{LIST}{row.pk}/?toggle").content.decode()
        assert "Lock out" not in html


def test_another_tenants_application_does_not_exist(admin: Client) -> None:
    row, _ = make_application(make_tenant())
    assert admin.get(f"{LIST}{row.pk}/").status_code == 404
    assert admin.post(f"{LIST}{row.pk}/toggle", {"blocked": "1"}).status_code == 404
    assert admin.get(f"{LIST}{2**63}/").status_code == 404


def test_with_the_server_off_the_page_says_so(admin: Client, settings: Any) -> None:
    settings.TASKHUB_OAUTH = False
    settings.OIDC_ISSUER = "https://login.example.com"
    page = words(admin.get(f"{LIST}?new").content.decode())
    assert "https://login.example.com" in page
    assert "Register application" not in page

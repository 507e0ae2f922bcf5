"""The consent page: where a program may lead a person back to without asking, and requests that are no requests."""

from __future__ import annotations

import re
from typing import Any

import pytest

from taskhub.core.names import SCOPES
from taskhub.domain.clients.principals import principal_of
from taskhub.domain.oauth import consents
from taskhub.domain.oauth.consents import Grant, Registration
from taskhub.store.models import Application, Consent, Event, Tenant
from tests.console.admin import browser, words
from tests.factories import make_person
from tests.support.oauth import RESOURCE, Program, make_application, told

pytestmark = pytest.mark.django_db

FIRST = "https://app.example.com/callback"
SAME_HOST = "https://app.example.com/other"
OTHER_HOST = "https://beta.example.com/callback"
OTHER_PORT = "https://app.example.com:8443/callback"


@pytest.fixture
def application(tenant: Tenant) -> Application:
    return make_application(tenant, "Deployer", FIRST, SAME_HOST, OTHER_HOST, OTHER_PORT)[0]


def asks(program: Program, uri: str, **changes: Any) -> bool:
    """Whether the person is asked before they are led to `uri`."""
    response = program.ask(redirect_uri=uri, **changes)
    if response.status_code == 200:
        return True
    assert response["Location"].startswith(f"{uri}?")
    assert "code" in told(response)
    return False


# --- a new host


def test_at_another_host_the_person_is_asked_again(program: Program) -> None:
    program.decide()
    assert not asks(program, FIRST)
    assert not asks(program, SAME_HOST)
    for uri in (OTHER_HOST, OTHER_PORT):
        assert asks(program, uri)
    assert "beta.example.com" in words(program.ask(redirect_uri=OTHER_HOST).content.decode())


def test_a_look_alike_host_is_shown_as_it_is_looked_up(program: Program, application: Application) -> None:
    look_alike = "https://xn--pp-6kc.example.com/callback"
    registration = Registration.objects.get(pk=application.registration_id)
    registration.redirect_uris += f" {look_alike}"
    registration.save(update_fields=["redirect_uris"])
    page = program.ask(redirect_uri=look_alike).content.decode()
    assert '<b class="mono host">xn--pp-6kc.example.com</b>' in page
    written = page[page.index("(written as ") : page.index(": look closely")]
    assert re.sub("<[^>]+>", "", written) == "(written as \u0430ppLatin + Cyrillic.example.com"
    program.decide(redirect_uri=look_alike)
    assert Consent.objects.get().targets == ["xn--pp-6kc.example.com"]


def test_each_host_that_was_allowed_is_remembered(program: Program) -> None:
    for uri in (FIRST, OTHER_HOST):
        program.decide(redirect_uri=uri)
    assert [asks(program, uri) for uri in (FIRST, SAME_HOST, OTHER_HOST, OTHER_PORT)] == [False, False, False, True]
    assert Consent.objects.count() == 1, "one program, one permission to take back"


def test_a_host_that_was_denied_is_not_remembered(program: Program) -> None:
    program.decide()
    program.decide(decision="deny", redirect_uri=OTHER_HOST)
    assert asks(program, OTHER_HOST)
    assert not asks(program, FIRST)


def test_what_is_allowed_at_one_host_is_allowed_to_the_program(program: Program) -> None:
    tokens = program.sign_in()
    program.decide("tasks:read", redirect_uri=OTHER_HOST)
    principal = principal_of(tokens["access_token"], "")
    assert principal is not None
    assert principal.scopes == {"tasks:read"}
    assert asks(program, FIRST), "all that it wants is not allowed any more"
    assert not asks(program, FIRST, scope="tasks:read")
    assert not asks(program, OTHER_HOST, scope="tasks:read")


def test_another_persons_hosts_are_theirs(program: Program, application: Application, tenant: Tenant) -> None:
    other = Program.of(browser(make_person("operator", tenant)), application)
    program.decide(redirect_uri=OTHER_HOST)
    other.decide()
    assert asks(other, OTHER_HOST)
    assert asks(program, FIRST)


def test_what_was_allowed_before_hosts_were_kept_is_asked_once_more(program: Program) -> None:
    program.decide()
    Consent.objects.update(targets=[])
    assert asks(program, FIRST)
    program.decide()
    assert not asks(program, FIRST)


def test_of_very_many_hosts_the_oldest_is_asked_about_again(program: Program, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(consents, "MAX_TARGETS", 2)
    for uri in (FIRST, OTHER_HOST, FIRST, OTHER_PORT):
        program.decide(redirect_uri=uri)
    assert [asks(program, uri) for uri in (FIRST, OTHER_HOST, OTHER_PORT)] == [False, True, False]


def test_where_the_person_was_led_is_on_record(program: Program) -> None:
    program.decide(redirect_uri=OTHER_PORT)
    event = Event.objects.get(action="consent.given")
    assert event.after == {
        "client_id": program.client_id,
        "scopes": list(SCOPES),
        "leads_back_to": "app.example.com:8443",
    }


# --- what cannot be read


def refused(response: Any) -> bool:
    """A page for the person, and nothing for whoever sent them."""
    assert not response.has_header("Location")
    return response.status_code == 400 and "cannot be signed in" in words(response.content.decode())


@pytest.mark.parametrize(
    "name",
    [
        "client_id",
        "redirect_uri",
        "response_type",
        "scope",
        "state",
        "code_challenge",
        "code_challenge_method",
        "prompt",
        "unknown",
    ],
)
@pytest.mark.parametrize("value", ["", "x"])
def test_a_parameter_that_comes_twice_is_refused(program: Program, name: str, value: str) -> None:
    program.decide()
    Grant.objects.all().delete()
    address = program.address(prompt="none", unknown="x") + f"&{name}={value}"
    for response in (program.person.get(address), program.person.post(address, {"decision": "allow"})):
        assert refused(response)
        assert f"It sent {name} more than once." in response.content.decode()
    assert not Grant.objects.exists()


def test_a_resource_may_come_twice_if_it_is_the_only_one_there_is(program: Program) -> None:
    program.decide()
    for more in (f"&resource={RESOURCE}", "&resource=", f"&resource={RESOURCE}/&resource=HTTP://TESTSERVER/mcp"):
        assert "code" in told(program.person.get(program.address() + more))
    answer = told(program.person.get(f"{program.address()}&resource=https://other.example.com/mcp"))
    assert answer["error"] == "invalid_target"


@pytest.mark.parametrize("more", ["&x=%zz", "&x=%1g", "&x=%80%g0", "&%-=1", "&x=%u0041"])
def test_a_query_that_cannot_be_read_is_refused(program: Program, more: str) -> None:
    program.decide()
    response = program.person.get("/oauth/authorize", QUERY_STRING=program.address().partition("?")[2] + more)
    assert refused(response)
    assert "Its request cannot be read." in response.content.decode()


@pytest.mark.parametrize(
    "changes",
    [
        {"nonce": "n-1"},
        {"nonce": "x" * 3_000},
        {"nonce": "a\0b"},
        {"claims": "{"},
        {"claims": '{"id_token":{"email":null}}'},
        {"claims": "a\0b", "nonce": "n-1"},
    ],
)
def test_what_openid_connect_adds_means_nothing(program: Program, changes: dict[str, str]) -> None:
    tokens = program.exchange(program.code(**changes)).json()
    assert set(tokens) == {"access_token", "expires_in", "token_type", "scope", "refresh_token"}
    assert principal_of(tokens["access_token"], "") is not None

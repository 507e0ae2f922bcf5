"""Sign-in through our own authorization server, from the consent page to the principal."""

from __future__ import annotations

import re
from datetime import timedelta
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from django.contrib.auth.models import User
from django.db import IntegrityError, connection, transaction
from django.test import Client
from django.utils import timezone

from taskhub.core.names import OAUTH_ISSUER, SCOPES
from taskhub.core.permissions import grantable
from taskhub.core.records import Person
from taskhub.core.states import Role
from taskhub.domain.clients.principals import principal_of
from taskhub.domain.clients.tokens import set_context_disabled
from taskhub.domain.oauth import applications, consents
from taskhub.domain.oauth.consents import AccessToken, Grant, RefreshToken, Registration
from taskhub.domain.people.writes import set_role
from taskhub.store.models import Application, AuthContext, Consent, Event, Membership, Tenant
from tests.console.admin import browser
from tests.factories import make_person
from tests.support.oauth import CALLBACK, HERE, RESOURCE, ROOT, Program, make_application, told

pytestmark = pytest.mark.django_db


def actions(tenant: Tenant) -> list[str]:
    return list(Event.objects.filter(tenant=tenant).order_by("id").values_list("action", flat=True))


# --- the whole way


@pytest.mark.req("AU-07", "AU-14")
def test_a_person_signs_a_program_in_and_it_acts_for_them(program: Program, ada: Person, tenant: Tenant) -> None:
    answer = program.exchange(program.code())
    assert answer.status_code == 200
    assert answer["Cache-Control"] == "no-store"
    tokens = answer.json()
    assert tokens["token_type"] == "Bearer"
    assert set(tokens["scope"].split()) == set(SCOPES)
    principal = principal_of(tokens["access_token"], "192.0.2.1")
    assert principal is not None
    assert (principal.tenant_id, principal.issuer, principal.subject) == (
        tenant.pk,
        OAUTH_ISSUER,
        f"user:{ada.user_id}",
    )
    assert principal.client_id == program.client_id
    assert principal.name == "ada with Deployer"
    assert principal.scopes == frozenset(SCOPES)
    assert principal.audiences == {RESOURCE}
    assert (principal.person.name, principal.person.role) == ("ada", ada.role)
    assert principal.expires_at is not None
    assert actions(tenant) == ["application.added", "consent.given", "token.issued"]


def test_the_answer_says_whose_it_is_and_keeps_the_state(program: Program) -> None:
    back = program.decide()
    assert back["Location"].startswith(f"{CALLBACK}?")
    assert {**told(back), "code": ""} == {"code": "", "state": "s-1", "iss": HERE}
    denied = told(program.decide(decision="deny"))
    assert (denied["error"], denied["state"], denied["iss"]) == ("access_denied", "s-1", HERE)


def test_a_stranger_signs_in_first_and_is_then_asked(program: Program, ada: Person) -> None:
    program.sign_in()
    stranger = Program(Client(), program.client_id)
    away = stranger.ask()
    assert away.status_code == 302
    assert away["Location"].startswith("/accounts/login/?next=%2Foauth%2Fauthorize")
    # Asked although remembered: the browser would follow no redirect from the sign-in form to the program.
    stranger.person.force_login(User.objects.get(pk=ada.user_id))
    there = parse_qs(urlsplit(away["Location"]).query)["next"][0]
    assert stranger.person.get(there).status_code == 200
    assert program.ask().status_code == 302


# --- the consent page


def test_the_page_names_the_program_the_person_and_what_it_wants(program: Program) -> None:
    response = program.ask()
    html = response.content.decode()
    assert response.status_code == 200
    for words in ("Deployer", "app.example.com", "ada", "operator", *SCOPES):
        assert words in html
    assert "no-store" in response["Cache-Control"]
    assert response["X-Frame-Options"] == "DENY"
    policy = response["Content-Security-Policy"]
    assert "frame-ancestors 'none'" in policy
    assert re.search(r"form-action 'self' https:(;|$)", policy)


def test_the_form_needs_its_own_page(ada: Person, application: Application) -> None:
    strict = Client(enforce_csrf_checks=True)
    strict.force_login(User.objects.get(pk=ada.user_id))
    program = Program.of(strict, application)
    assert program.decide().status_code == 403
    assert not Consent.objects.exists()


@pytest.mark.parametrize("role", Role)
def test_nobody_gives_away_what_their_role_lacks(role: Role, tenant: Tenant, application: Application) -> None:
    program = Program.of(browser(make_person(role, tenant)), application)
    page = program.ask().content.decode()
    offered = re.findall(r'name="grant" value="([^"]+)"', page)
    assert tuple(offered) == grantable(role)
    tokens = program.sign_in()  # ticks all, also what was not offered
    assert set(tokens["scope"].split()) == set(grantable(role))


def test_a_viewer_lets_a_program_read_and_no_more() -> None:
    assert grantable("viewer") == grantable("auditor") == ("tasks:read",)
    assert grantable("approver") == ("tasks:read", "tasks:answer")
    assert grantable("operator") == grantable("admin") == SCOPES


def test_a_person_may_allow_less_than_was_asked(program: Program) -> None:
    tokens = program.sign_in("tasks:read")
    assert tokens["scope"] == "tasks:read"
    principal = principal_of(tokens["access_token"], "")
    assert principal is not None
    assert principal.scopes == {"tasks:read"}


def test_allowing_nothing_is_no_answer(program: Program) -> None:
    response = program.person.post(program.address(), {"decision": "allow"})
    assert response.status_code == 400
    assert "Tick what it may do" in response.content.decode()


def test_a_refusal_is_on_record_and_takes_nothing_back(program: Program, tenant: Tenant) -> None:
    tokens = program.sign_in()
    program.decide(decision="deny")
    assert actions(tenant)[-1] == "consent.refused"
    assert principal_of(tokens["access_token"], "") is not None


def test_who_has_no_role_is_turned_away(application: Application) -> None:
    from tests.factories import make_user

    alone = Client()
    alone.force_login(make_user())
    assert Program.of(alone, application).ask().status_code == 403


# --- remembered


def test_a_consent_is_remembered_until_more_is_asked(program: Program) -> None:
    program.sign_in("tasks:read", scope="tasks:read")
    assert "code" in told(program.ask(scope="tasks:read"))
    assert program.ask(scope="tasks:read tasks:call").status_code == 200
    assert program.ask(scope="tasks:read", prompt="consent").status_code == 200


def test_what_was_not_asked_this_time_stays_allowed(program: Program) -> None:
    program.sign_in("tasks:read", "tasks:call")
    program.sign_in("tasks:cancel", scope="tasks:read tasks:cancel")
    assert set(Consent.objects.get().scopes) == {"tasks:call", "tasks:cancel"}


def test_a_program_on_the_persons_machine_is_always_asked_about(ada: Person, tenant: Tenant) -> None:
    application, _ = make_application(tenant, "Local", "http://127.0.0.1/callback")
    program = Program.of(browser(ada), application, redirect_uri="http://127.0.0.1:49152/callback")
    program.sign_in()
    page = program.ask()
    assert page.status_code == 200
    assert "your own machine" in page.content.decode()
    assert "http:" in page["Content-Security-Policy"].split("form-action")[1].split(";")[0]


# --- what a request must look like


@pytest.mark.parametrize(
    "changes",
    [
        {"redirect_uri": "https://evil.example.com/callback"},
        {"redirect_uri": f"{CALLBACK}?more=1"},
        {"redirect_uri": f"{CALLBACK}/more"},
        {"redirect_uri": "http://app.example.com/callback"},
        {"redirect_uri": "https://app.example.com:444/callback"},
        {"redirect_uri": f"{CALLBACK}#x"},
        {"redirect_uri": "https://evil.example.com/", "response_type": "token"},
        {"redirect_uri": "https://evil.example.com/", "scope": "tasks:everything"},
        {"redirect_uri": "https://evil.example.com/", "resource": None, "code_challenge": None},
        {"client_id": "nobody"},
        {"client_id": None},
        {"client_id": "a\0b"},
    ],
)
def test_nothing_is_sent_to_an_address_that_was_not_registered(program: Program, changes: dict[str, Any]) -> None:
    for response in (program.ask(**changes), program.decide(**changes)):
        assert response.status_code == 400
        assert not response.has_header("Location")
    assert not Grant.objects.exists()


@pytest.mark.parametrize(
    ("changes", "error"),
    [
        ({"code_challenge": None, "code_challenge_method": None}, "invalid_request"),
        ({"code_challenge_method": "plain"}, "invalid_request"),
        ({"code_challenge_method": None}, "invalid_request"),
        ({"response_type": "token"}, "unsupported_response_type"),
        ({"scope": "tasks:everything"}, "invalid_scope"),
        ({"resource": "https://other.example.com/mcp"}, "invalid_target"),
        ({"resource": f"{HERE}/"}, "invalid_target"),
        ({"resource": f"{RESOURCE}#x"}, "invalid_target"),
    ],
)
def test_a_wrong_wish_is_sent_back_with_its_error(program: Program, changes: dict[str, Any], error: str) -> None:
    for response in (program.ask(**changes), program.decide(**changes)):
        answer = told(response)
        assert (answer["error"], answer["state"], answer["iss"]) == (error, "s-1", HERE)
    assert not Grant.objects.exists()


@pytest.mark.req("AU-09")
@pytest.mark.parametrize("same", ["http://TESTSERVER/mcp", "http://testserver:80/mcp/", "HTTP://testserver/mcp"])
def test_equal_spellings_of_the_resource_are_one(program: Program, same: str) -> None:
    tokens = program.exchange(program.code(resource=same), resource=same).json()
    principal = principal_of(tokens["access_token"], "")
    assert principal is not None
    assert principal.audiences == {RESOURCE}


@pytest.mark.req("AU-07")
@pytest.mark.parametrize("named", [None, "", RESOURCE])
def test_who_names_no_resource_means_the_only_one(program: Program, named: str | None) -> None:
    answer = program.exchange(program.code(resource=named), resource=named)
    principal = principal_of(answer.json()["access_token"], "")
    assert principal is not None
    assert principal.audiences == {RESOURCE}


@pytest.mark.req("AU-07")
def test_a_token_is_made_for_nothing_but_what_was_allowed(program: Program) -> None:
    code = program.code()
    answer = program.exchange(code, resource="https://other.example.com/mcp")
    assert (answer.status_code, answer.json()["error"]) == (400, "invalid_target")
    tokens = program.sign_in()
    answer = program.refresh(tokens["refresh_token"], resource="https://other.example.com/mcp")
    assert (answer.status_code, answer.json()["error"]) == (400, "invalid_target")
    assert program.refresh(tokens["refresh_token"], resource=RESOURCE).status_code == 200


@pytest.mark.parametrize(
    "changes", [{"code_verifier": "x" * 50}, {"code_verifier": None}, {"redirect_uri": "https://app.example.com/x"}]
)
def test_a_code_needs_its_verifier_and_its_address(program: Program, changes: dict[str, Any]) -> None:
    answer = program.exchange(program.code(), **changes)
    assert answer.status_code in (400, 401)
    assert not AccessToken.objects.exists()


@pytest.mark.parametrize("grant", ["password", "client_credentials", "implicit", "urn:x", "", None])
def test_no_other_grant_is_served(program: Program, grant: str | None) -> None:
    answer = program.token(grant_type=grant, username="ada", password="x")
    assert answer.status_code == 400
    assert answer.json()["error"] in ("unsupported_grant_type", "invalid_request")


def test_a_confidential_program_needs_its_secret(ada: Person, tenant: Tenant) -> None:
    application, secret = make_application(tenant, "Server side", confidential=True)
    program = Program.of(browser(ada), application, secret)
    tokens = program.sign_in()
    program.secret = "wrong"
    assert program.refresh(tokens["refresh_token"]).status_code == 401
    program.secret = ""
    assert program.refresh(tokens["refresh_token"]).status_code == 401
    assert program.exchange(program.code()).status_code == 401
    program.secret = secret
    assert program.refresh(tokens["refresh_token"]).status_code == 200
    assert Registration.objects.get(pk=application.registration_id).client_secret.startswith("random_sha256$")


def test_another_tenants_application_is_not_there(program: Program) -> None:
    outsider = Program(browser(make_person("admin")), program.client_id)
    assert outsider.ask().status_code == 400


# --- once only


def test_a_code_works_once(program: Program) -> None:
    code = program.code()
    assert program.exchange(code).status_code == 200
    assert program.exchange(code).json()["error"] == "invalid_grant"


def test_a_code_is_good_for_a_minute(program: Program) -> None:
    code = program.code()
    Grant.objects.update(expires=timezone.now())
    assert program.exchange(code).json()["error"] == "invalid_grant"


@pytest.mark.req("AU-14")
def test_a_refreshed_token_keeps_its_tasks(program: Program) -> None:
    first = program.sign_in()
    second = program.refresh(first["refresh_token"]).json()
    old, new = (principal_of(tokens["access_token"], "") for tokens in (first, second))
    assert old is None, "a refresh ends the token before it"
    assert new is not None
    assert new.context_id == AuthContext.objects.get(issuer=OAUTH_ISSUER).pk


def test_a_used_refresh_token_ends_the_family(program: Program, tenant: Tenant) -> None:
    first = program.sign_in()
    second = program.refresh(first["refresh_token"]).json()
    assert program.refresh(first["refresh_token"]).json()["error"] == "invalid_grant"
    assert principal_of(second["access_token"], "") is None
    assert program.refresh(second["refresh_token"]).status_code == 400
    assert "token.reused" in actions(tenant)


def test_a_used_refresh_token_in_other_hands_ends_the_family_too(program: Program, ada: Person, tenant: Tenant) -> None:
    first = program.sign_in()
    second = program.refresh(first["refresh_token"]).json()
    thief = Program.of(browser(ada), make_application(tenant, "Other")[0])
    assert thief.refresh(first["refresh_token"]).status_code == 400
    assert principal_of(second["access_token"], "") is None
    assert Event.objects.get(tenant=tenant, action="token.reused").target == "ada with Deployer"


def test_a_refresh_token_left_alone_dies(program: Program, settings: Any) -> None:
    tokens = program.sign_in()
    AccessToken.objects.update(expires=timezone.now() - timedelta(days=settings.TASKHUB_OAUTH_REFRESH_DAYS, hours=2))
    assert program.refresh(tokens["refresh_token"]).status_code == 400


def test_a_refresh_token_is_its_programs_own(program: Program, ada: Person, tenant: Tenant) -> None:
    tokens = program.sign_in()
    other = Program.of(browser(ada), make_application(tenant, "Other")[0])
    assert other.refresh(tokens["refresh_token"]).status_code == 400
    other.revoke(tokens["access_token"])
    assert principal_of(tokens["access_token"], "") is not None


@pytest.mark.parametrize("which", ["access_token", "refresh_token"])
def test_revoking_one_ends_both(program: Program, tenant: Tenant, which: str) -> None:
    tokens = program.sign_in()
    assert program.revoke(tokens[which]).status_code == 200
    assert principal_of(tokens["access_token"], "") is None
    assert actions(tenant)[-1] == "token.revoked"
    assert program.refresh(tokens["refresh_token"]).status_code == 400
    assert program.revoke("unknown").status_code == 200


# --- what stands behind a token


def _taken_back(program: Program, tenant: Tenant, ada: Person, application: Application) -> dict[str, Any]:
    def demote() -> None:
        make_person("admin", tenant)
        set_role(tenant_id=tenant.pk, user_id=ada.user_id, role="viewer", actor=ROOT)

    def lock_out() -> None:
        context = AuthContext.objects.get(issuer=OAUTH_ISSUER)
        set_context_disabled(tenant_id=tenant.pk, context_id=context.pk, disabled=True, actor=ROOT)

    return {
        "consent": lambda: consents.revoke_consent(
            tenant_id=tenant.pk, consent_id=Consent.objects.get().pk, actor=ROOT
        ),
        "block": lambda: applications.set_blocked(
            tenant_id=tenant.pk, application_id=application.pk, blocked=True, actor=ROOT
        ),
        "remove": lambda: applications.remove_application(
            tenant_id=tenant.pk, application_id=application.pk, actor=ROOT
        ),
        "lock out": lock_out,
        "membership": lambda: Membership.objects.filter(user_id=ada.user_id).delete(),
        "account": lambda: User.objects.filter(pk=ada.user_id).update(is_active=False),
        "expiry": lambda: AccessToken.objects.update(expires=timezone.now()),
    }


@pytest.mark.parametrize("what", ["consent", "block", "remove", "lock out", "membership", "account"])
def test_what_is_taken_back_ends_the_token_and_the_refreshing(
    program: Program, tenant: Tenant, ada: Person, application: Application, what: str
) -> None:
    tokens = program.sign_in()
    assert principal_of(tokens["access_token"], "") is not None
    _taken_back(program, tenant, ada, application)[what]()
    assert principal_of(tokens["access_token"], "") is None
    assert program.refresh(tokens["refresh_token"]).status_code in (400, 401)


def test_an_expired_token_is_no_token(program: Program, tenant: Tenant, ada: Person, application: Application) -> None:
    tokens = program.sign_in()
    _taken_back(program, tenant, ada, application)["expiry"]()
    assert principal_of(tokens["access_token"], "") is None
    assert program.refresh(tokens["refresh_token"]).status_code == 200


def test_a_lesser_role_narrows_tokens_that_are_out(program: Program, tenant: Tenant, ada: Person) -> None:
    tokens = program.sign_in()
    make_person("admin", tenant)
    set_role(tenant_id=tenant.pk, user_id=ada.user_id, role="viewer", actor=ROOT)
    principal = principal_of(tokens["access_token"], "")
    assert principal is not None
    assert principal.scopes == {"tasks:read"}
    assert program.refresh(tokens["refresh_token"]).json()["scope"] == "tasks:read"


def test_an_application_let_in_again_goes_on(program: Program, tenant: Tenant, application: Application) -> None:
    tokens = program.sign_in()
    for blocked in (True, False):
        applications.set_blocked(tenant_id=tenant.pk, application_id=application.pk, blocked=blocked, actor=ROOT)
    assert principal_of(tokens["access_token"], "") is not None


def test_with_the_server_off_there_is_nothing(program: Program, settings: Any) -> None:
    tokens = program.sign_in()
    settings.TASKHUB_OAUTH = False
    assert principal_of(tokens["access_token"], "") is None
    assert program.ask().status_code == 404
    assert program.refresh(tokens["refresh_token"]).status_code == 404
    assert program.wire.get("/.well-known/oauth-authorization-server").status_code == 404
    assert program.wire.get("/.well-known/oauth-protected-resource").status_code == 404


# --- nothing in the clear


def test_no_token_code_or_secret_is_stored(program: Program, ada: Person, tenant: Tenant) -> None:
    code = program.code()
    tokens = program.sign_in()
    _, secret = make_application(tenant, "Secretive", confidential=True)
    with connection.cursor() as cursor:
        cursor.execute("SELECT table_name FROM information_schema.tables WHERE table_schema = 'public'")
        tables = [row[0] for row in cursor.fetchall()]
        for table in tables:
            cursor.execute(f'SELECT row_to_json(t)::text FROM "{table}" t')
            text = str(cursor.fetchall())
            for clear in (code, tokens["access_token"], tokens["refresh_token"], secret):
                assert clear not in text, table


def test_the_database_refuses_a_clear_token_whatever_the_settings_say(program: Program) -> None:
    program.sign_in()
    program.code()
    for model, column in (
        (AccessToken, "token"),
        (RefreshToken, "token"),
        (Grant, "code"),
        (Registration, "client_secret"),
    ):
        with pytest.raises(IntegrityError), transaction.atomic():
            model.objects.update(**{column: "clear"})


def test_old_sign_ins_are_swept(program: Program, tenant: Tenant) -> None:
    program.sign_in()
    program.code()
    old = timezone.now() - timedelta(days=400)
    for source in ("dcr", "cimd"):
        Registration.objects.create(
            client_id=source, name=source, registration_source=source, authorization_grant_type="authorization-code"
        )
    Registration.objects.update(created=old)
    AccessToken.objects.update(expires=old)
    Grant.objects.update(expires=old)
    applications.sweep()
    assert not AccessToken.objects.exists()
    assert not Grant.objects.exists()
    assert [row.client_id for row in Registration.objects.all()] == [program.client_id]

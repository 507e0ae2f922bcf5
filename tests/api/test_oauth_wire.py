"""What the token endpoints answer to requests that are odd, wrong or too many: always JSON, for pages of any origin."""

from __future__ import annotations

import base64
import json
from typing import Any

import httpx2
import pytest
from django.test import Client

from taskhub.core.records import Person
from taskhub.domain.oauth.consents import Registration
from taskhub.store.models import Tenant
from tests.console.admin import browser
from tests.support.hub import RunningHub, wait_until
from tests.support.oauth import CALLBACK, RESOURCE, Program, make_application

TOKEN, REVOKE, REGISTER = "/oauth/token", "/oauth/revoke", "/oauth/register"
METADATA = (
    "/.well-known/oauth-authorization-server",
    "/.well-known/oauth-protected-resource",
    "/.well-known/oauth-protected-resource/mcp",
)
FORM = "application/x-www-form-urlencoded"


@pytest.fixture
def confidential(ada: Person, tenant: Tenant) -> Program:
    application, secret = make_application(tenant, "Server side", confidential=True)
    return Program.of(browser(ada), application, secret)


def post(path: str, body: bytes | dict[str, Any], kind: str = FORM, **more: Any) -> Any:
    """From a page of some site, as a browser sends it."""
    headers = {"Origin": "https://page.example.com", **more.pop("headers", {})}
    if isinstance(body, dict):
        return Client().post(path, body, headers=headers, **more)
    return Client().generic("POST", path, body, content_type=kind, headers=headers, **more)


def refusal(response: Any) -> tuple[int, str]:
    """Status and error of a refusal, which any page may read and nobody keeps."""
    assert response["Content-Type"] == "application/json"
    assert response["Access-Control-Allow-Origin"] == "*"
    return response.status_code, response.json()["error"]


# --- grants


@pytest.mark.django_db
@pytest.mark.parametrize(
    "grant",
    [
        "urn:ietf:params:oauth:grant-type:device_code",
        "urn:ietf:params:oauth:grant-type:jwt-bearer",
        "urn:ietf:params:oauth:grant-type:token-exchange",
        "client_credentials",
        "password",
        "implicit",
        "Refresh_token",
        "x" * 10_000,
        "a\0b",
    ],
)
def test_another_grant_is_none_that_is_supported(program: Program, grant: str) -> None:
    form = {"grant_type": grant, "client_id": program.client_id, "device_code": "x", "username": "ada", "password": "x"}
    answer = post(TOKEN, form)
    assert refusal(answer) == (400, "unsupported_grant_type")
    assert answer["Cache-Control"] == "no-store"


@pytest.mark.django_db
@pytest.mark.parametrize("form", [{}, {"grant_type": ""}, {"code": "x"}])
def test_no_grant_at_all_is_no_request(form: dict[str, str]) -> None:
    answer = post(TOKEN, form)
    assert refusal(answer) == (400, "invalid_request")
    assert answer["Cache-Control"] == "no-store"


# --- bodies


MANY = b"&".join(b"a%d=1" % number for number in range(1_001))
BODIES = [
    (b"x", "multipart/form-data"),
    (b"x", "multipart/form-data; boundary="),
    (b"x", "multipart/form-data; boundary=\xe9"),
    (
        b'--a\r\nContent-Disposition: form-data; name="x"\r\nContent-Transfer-Encoding: base64\r\n\r\n!\r\n--a--',
        "multipart",
    ),
    (MANY, FORM),
    (b"grant_type=refresh_token&refresh_token=x&" + MANY, FORM),
    (b"x=" + b"y" * 1_100_000, FORM),
    (b"grant_type=refresh_token", f"{FORM}; charset=utf-7"),
]


@pytest.mark.django_db
@pytest.mark.parametrize("path", [TOKEN, REVOKE])
@pytest.mark.parametrize(("body", "kind"), BODIES)
def test_a_body_that_cannot_be_read_is_no_request(path: str, body: bytes, kind: str) -> None:
    if kind == "multipart":
        kind = "multipart/form-data; boundary=a"
    assert refusal(post(path, body, kind)) == (400, "invalid_request")


@pytest.mark.processes
@pytest.mark.parametrize("path", [TOKEN, REVOKE])
def test_so_it_is_with_the_whole_server_in_between(hub: RunningHub, path: str) -> None:
    for body, kind in BODIES[:1] + BODIES[4:5]:
        headers = {"Content-Type": kind, "Origin": "https://page.example.com"}
        answer = httpx2.post(f"{hub.base}{path}", content=body, headers=headers)
        assert (answer.status_code, answer.json()) == (400, {"error": "invalid_request"})
        assert answer.headers["access-control-allow-origin"] == "*"
        assert answer.headers["content-type"] == "application/json"


@pytest.mark.parametrize("name", ["grant_type", "code", "client_id", "redirect_uri", "code_verifier", "scope", "x"])
def test_a_parameter_that_comes_twice_is_no_request(program: Program, name: str) -> None:
    code = program.code()
    form = {
        "grant_type": "authorization_code",
        "code": code,
        "redirect_uri": CALLBACK,
        "client_id": program.client_id,
        "code_verifier": program.verifier,
        "scope": "tasks:read",
        "x": "y",
    }
    twice = [form[name], form[name]]
    assert refusal(post(TOKEN, {**form, name: twice})) == (400, "invalid_request")
    assert program.exchange(code).status_code == 200, "and spent nothing"


@pytest.mark.parametrize("name", ["token", "client_id", "token_type_hint"])
def test_a_revocation_with_a_parameter_twice_ends_nothing(program: Program, name: str) -> None:
    tokens = program.sign_in()
    form = {"token": tokens["refresh_token"], "client_id": program.client_id, "token_type_hint": "refresh_token"}
    assert refusal(post(REVOKE, {**form, name: [form[name], form[name]]})) == (400, "invalid_request")
    assert program.refresh(tokens["refresh_token"]).status_code == 200


def test_a_resource_may_come_twice(program: Program) -> None:
    tokens = program.exchange(program.code(), resource=[RESOURCE, RESOURCE])
    assert tokens.status_code == 200
    answer = program.exchange(program.code(), resource=[RESOURCE, "https://other.example.com/mcp"])
    assert refusal(answer) == (400, "invalid_target")


# --- methods


@pytest.mark.parametrize("path", METADATA)
def test_the_metadata_can_be_asked_for_without_their_body(path: str) -> None:
    head, get = Client().head(path), Client().get(path)
    assert (head.status_code, head.content) == (200, b"")
    assert head["Content-Length"] == str(len(get.content))
    assert head["Content-Type"] == get["Content-Type"] == "application/json"
    assert head["Access-Control-Allow-Origin"] == "*"


@pytest.mark.parametrize("path", [TOKEN, REVOKE])
def test_where_nothing_can_be_asked_for_nothing_can_be_without_its_body(path: str) -> None:
    response = Client().head(path)
    assert (response.status_code, response["Allow"]) == (405, "POST, OPTIONS")


# --- the program's password


def basic(program: Program, secret: str, scheme: str) -> dict[str, str]:
    return {"Authorization": f"{scheme} {base64.b64encode(f'{program.client_id}:{secret}'.encode()).decode()}"}


@pytest.mark.parametrize("scheme", ["Basic", "basic", "BASIC", "bAsIc"])
def test_a_program_may_spell_the_scheme_as_it_likes(confidential: Program, scheme: str) -> None:
    form = {
        "grant_type": "authorization_code",
        "code": confidential.code(),
        "redirect_uri": CALLBACK,
        "code_verifier": confidential.verifier,
    }
    headers = basic(confidential, confidential.secret, scheme)
    tokens = post(TOKEN, form, headers=headers)
    assert tokens.status_code == 200, tokens.content
    token = tokens.json()["refresh_token"]
    assert post(REVOKE, {"token": token}, headers=headers).status_code == 200
    again = post(TOKEN, {"grant_type": "refresh_token", "refresh_token": token}, headers=headers)
    assert refusal(again) == (400, "invalid_grant")


@pytest.mark.parametrize("path", [TOKEN, REVOKE])
@pytest.mark.parametrize("scheme", ["Basic", "basic"])
def test_a_failed_password_is_challenged_with_the_scheme_that_was_tried(
    confidential: Program, path: str, scheme: str
) -> None:
    form = {"grant_type": "refresh_token", "refresh_token": "x", "token": "x"}
    answer = post(path, form, headers=basic(confidential, "wrong", scheme))
    assert refusal(answer) == (401, "invalid_client")
    assert answer["WWW-Authenticate"] == 'Basic realm="TaskHub"'
    for broken in ("!!!", "YQ==", "/////w=="):
        answer = post(path, form, headers={"Authorization": f"{scheme} {broken}"})
        assert (answer.status_code, answer["WWW-Authenticate"]) == (401, 'Basic realm="TaskHub"')


@pytest.mark.parametrize("path", [TOKEN, REVOKE])
def test_who_did_not_try_that_scheme_is_not_challenged_with_it(confidential: Program, path: str) -> None:
    form = {
        "grant_type": "refresh_token",
        "refresh_token": "x",
        "token": "x",
        "client_id": confidential.client_id,
        "client_secret": "wrong",
    }
    answer = post(path, form)
    assert refusal(answer) == (401, "invalid_client")
    assert "Basic" not in answer.get("WWW-Authenticate", "")


# --- too many


def guess(address: str = "192.0.2.1", **more: Any) -> Any:
    form = {"grant_type": "refresh_token", "refresh_token": "x", "client_id": "nobody"}
    return post(TOKEN, form, REMOTE_ADDR=address, **more)


@pytest.mark.django_db
def test_who_guesses_is_told_to_wait_after_a_while() -> None:
    assert {refusal(guess()) for _ in range(60)} == {(401, "invalid_client")}
    answer = guess()
    assert refusal(answer) == (429, "temporarily_unavailable")
    assert answer["Retry-After"] == "60"
    assert refusal(post(REVOKE, {"token": "x", "client_id": "nobody"}, REMOTE_ADDR="192.0.2.1"))[0] == 429
    assert refusal(guess("192.0.2.2"))[0] == 401, "another address is another's"
    for path in METADATA:
        assert Client(REMOTE_ADDR="192.0.2.1").get(path).status_code == 200
    assert Client(REMOTE_ADDR="192.0.2.1").options(TOKEN).status_code == 204


@pytest.mark.django_db
def test_an_address_that_was_only_written_into_a_header_is_nobodys() -> None:
    for number in range(60):
        guess(headers={"X-Forwarded-For": f"198.51.100.{number}"})
    assert refusal(guess(headers={"X-Forwarded-For": "198.51.100.200"}))[0] == 429


def test_refused_revocations_count_as_well(program: Program) -> None:
    for _ in range(60):
        assert refusal(post(REVOKE, {"token": "x", "client_id": "nobody"}))[0] == 401
    assert refusal(post(TOKEN, {"grant_type": "refresh_token"}))[0] == 429


def test_who_has_good_tokens_is_never_counted(program: Program) -> None:
    tokens = program.sign_in()
    for _ in range(65):
        assert program.revoke("unknown").status_code == 200
    for _ in range(3):
        tokens = program.refresh(tokens["refresh_token"]).json()
    assert "access_token" in tokens


def test_nothing_is_spent_by_a_program_that_has_to_wait(program: Program) -> None:
    tokens, code = program.sign_in(), program.code()
    for _ in range(60):
        program.refresh("x")
    assert program.exchange(code).status_code == program.refresh(tokens["refresh_token"]).status_code == 429
    program.wire = Client(REMOTE_ADDR="192.0.2.2")
    assert program.exchange(code).status_code == program.refresh(tokens["refresh_token"]).status_code == 200


@pytest.mark.django_db
def test_after_the_time_an_address_is_heard_again(settings: Any) -> None:
    settings.ACCOUNT_RATE_LIMITS = {**settings.ACCOUNT_RATE_LIMITS, "oauth_refused": "2/1s/ip"}
    wait_until(lambda: guess().status_code == 429, "the limit")
    wait_until(lambda: guess().status_code == 401, "the end of it", 5.0)


@pytest.mark.django_db
def test_an_address_registers_only_so_many_programs(settings: Any) -> None:
    settings.TASKHUB_OAUTH_REGISTRATION = True
    settings.OAUTH2_PROVIDER = {**settings.OAUTH2_PROVIDER, "DCR_ENABLED": True}
    body = json.dumps({"client_name": "Notebook", "redirect_uris": [CALLBACK]}).encode()

    def register(address: str) -> Any:
        return post(REGISTER, body, "application/json", REMOTE_ADDR=address)

    assert [register("192.0.2.1").status_code for _ in range(20)] == [201] * 20
    assert refusal(register("192.0.2.1")) == (429, "temporarily_unavailable")
    assert Registration.objects.count() == 20
    assert register("192.0.2.2").status_code == 201


@pytest.mark.django_db
def test_registrations_that_will_not_do_count_as_well(settings: Any) -> None:
    settings.TASKHUB_OAUTH_REGISTRATION = True
    settings.OAUTH2_PROVIDER = {**settings.OAUTH2_PROVIDER, "DCR_ENABLED": True}
    assert {post(REGISTER, b"{", "application/json").status_code for _ in range(20)} == {400}
    assert refusal(post(REGISTER, b"{", "application/json"))[0] == 429

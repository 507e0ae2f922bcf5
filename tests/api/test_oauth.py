"""The machine-readable side of signing in: what is published, who may read it from where, and how
programs register themselves."""

from __future__ import annotations

import json
from typing import Any

import httpx2
import pytest
from django.http import HttpResponse
from django.test import Client, RequestFactory

from taskhub.api.auth import scope_challenge
from taskhub.api.oauth import OPEN_PATHS
from taskhub.domain.address import canonical, resource_of
from taskhub.domain.oauth import applications
from taskhub.domain.oauth.consents import Registration
from taskhub.domain.oauth.documents import redirect_allowed
from taskhub.store.models import Event
from tests.console.admin import browser
from tests.factories import make_person
from tests.support.hub import RunningHub
from tests.support.oauth import CALLBACK, Program

RESOURCE = "/.well-known/oauth-protected-resource"
SERVER = "/.well-known/oauth-authorization-server"
EVIL = "https://evil.example.com"
BODY = {"client_name": "Notebook", "redirect_uris": [CALLBACK], "token_endpoint_auth_method": "none"}


# --- metadata


@pytest.mark.req("AU-01", "AU-02", "AU-11")
@pytest.mark.parametrize("path", [RESOURCE, f"{RESOURCE}/mcp"])
def test_the_resource_says_who_issues_tokens_for_it(path: str) -> None:
    assert Client().get(path).json() == {
        "resource": "http://testserver/mcp",
        "authorization_servers": ["http://testserver"],
        "scopes_supported": ["tasks:answer", "tasks:call", "tasks:cancel", "tasks:read"],
        "bearer_methods_supported": ["header"],
        "resource_name": "TaskHub",
    }


@pytest.mark.req("AU-11", "AU-12")
def test_the_server_says_what_it_can_do(settings: Any) -> None:
    found = Client().get(SERVER).json()
    assert found == {
        "issuer": "http://testserver",
        "authorization_endpoint": "http://testserver/oauth/authorize",
        "token_endpoint": "http://testserver/oauth/token",
        "revocation_endpoint": "http://testserver/oauth/revoke",
        "response_types_supported": ["code"],
        "grant_types_supported": ["authorization_code", "refresh_token"],
        "scopes_supported": ["approvals:request", "tasks:answer", "tasks:call", "tasks:cancel", "tasks:read"],
        "code_challenge_methods_supported": ["S256"],
        "token_endpoint_auth_methods_supported": ["none", "client_secret_basic", "client_secret_post"],
        "revocation_endpoint_auth_methods_supported": ["none", "client_secret_basic", "client_secret_post"],
        "client_id_metadata_document_supported": True,
        "authorization_response_iss_parameter_supported": True,
    }


def test_the_public_address_is_the_one_that_counts(settings: Any) -> None:
    settings.PUBLIC_URL = "https://hub.example.com"
    settings.OAUTH2_PROVIDER = {**settings.OAUTH2_PROVIDER, "OIDC_ISS_ENDPOINT": settings.PUBLIC_URL}
    assert Client().get(RESOURCE).json()["resource"] == "https://hub.example.com/mcp"
    assert Client().get(RESOURCE).json()["authorization_servers"] == ["https://hub.example.com"]
    found = Client().get(SERVER).json()
    assert found["issuer"] == "https://hub.example.com"
    assert found["token_endpoint"] == "https://hub.example.com/oauth/token"


def test_an_outside_issuer_is_named_first(settings: Any) -> None:
    settings.OIDC_ISSUER = "https://login.example.com"
    assert Client().get(RESOURCE).json()["authorization_servers"] == [
        "https://login.example.com",
        "http://testserver",
    ]
    settings.TASKHUB_OAUTH = False
    assert Client().get(RESOURCE).json()["authorization_servers"] == ["https://login.example.com"]
    assert Client().get(SERVER).status_code == 404


@pytest.mark.req("AU-09")
@pytest.mark.parametrize(
    ("uri", "expected"),
    [
        ("HTTPS://Hub.Example.com:443/mcp/", "https://hub.example.com/mcp"),
        ("http://hub:80/mcp", "http://hub/mcp"),
        ("http://hub:8000/mcp", "http://hub:8000/mcp"),
        ("http://[::1]:8000/mcp", "http://[::1]:8000/mcp"),
        ("https://hub/MCP", "https://hub/MCP"),
        ("https://hub/mcp?x", ""),
        ("https://hub/mcp?", ""),
        ("https://hub/mcp#", ""),
        ("https://u@hub/mcp", ""),
        ("https://hub:99999/mcp", ""),
        ("https://[hub/mcp", ""),
        ("urn:hub", ""),
        ("/mcp", ""),
        ("", ""),
    ],
)
def test_equal_addresses_have_one_spelling(uri: str, expected: str) -> None:
    assert canonical(uri) == expected


def test_behind_a_proxy_the_resource_has_its_scheme(settings: Any) -> None:
    settings.SECURE_PROXY_SSL_HEADER = ("HTTP_X_FORWARDED_PROTO", "https")
    request = RequestFactory().post("/mcp", headers={"X-Forwarded-Proto": "https", "Host": "localhost"})
    assert resource_of(request) == "https://localhost/mcp"


@pytest.mark.req("AU-04", "AU-10")
@pytest.mark.parametrize(
    ("version", "scope"),
    [("2026-07-28", "tasks:call"), ("2025-11-25", "tasks:call tasks:read"), (None, "tasks:call tasks:read")],
)
def test_a_client_of_2025_is_told_what_it_has_as_well(version: str | None, scope: str) -> None:
    request = RequestFactory().post("/mcp", headers={"Host": "localhost"})
    made = scope_challenge(HttpResponse(), "tasks:call", request, granted={"tasks:read"}, version=version)
    assert f'scope="{scope}"' in made["WWW-Authenticate"]
    assert 'error="insufficient_scope"' in made["WWW-Authenticate"]


# --- from which pages


@pytest.mark.processes
@pytest.mark.parametrize("path", sorted(OPEN_PATHS))
def test_pages_of_any_origin_may_use_what_needs_no_cookie(hub: RunningHub, path: str) -> None:
    preflight = httpx2.options(f"{hub.base}{path}", headers={"Origin": EVIL, "Access-Control-Request-Method": "POST"})
    assert preflight.headers["access-control-allow-origin"] == "*"
    assert "access-control-allow-credentials" not in preflight.headers
    method = "GET" if path.startswith("/.well-known") or path.endswith(".json") else "POST"
    answer = httpx2.request(method, f"{hub.base}{path}", headers={"Origin": EVIL})
    assert answer.status_code in (200, 400, 401, 404)
    assert answer.headers["access-control-allow-origin"] == "*"
    assert answer.headers["content-type"] == "application/json"
    assert "set-cookie" not in answer.headers


@pytest.mark.processes
@pytest.mark.parametrize(
    "path",
    [
        "/oauth/authorize",
        "/oauth/token/",
        "/oauth/token/x",
        "/oauth/tokens",
        "/oauth//token",
        "/oauth/introspect",
        f"{RESOURCE}/mcp/",
        f"{RESOURCE}/other",
        "/.well-known/openid-configuration",
        "/mcp",
        "/accounts/login/",
    ],
)
def test_every_other_path_refuses_a_foreign_origin(hub: RunningHub, path: str) -> None:
    for method in ("GET", "POST", "OPTIONS"):
        answer = httpx2.request(method, f"{hub.base}{path}", headers={"Origin": EVIL})
        assert answer.status_code == 403
        assert "access-control-allow-origin" not in answer.headers


@pytest.mark.processes
def test_the_hosts_rule_holds_for_open_paths_too(hub: RunningHub) -> None:
    answer = httpx2.get(f"{hub.base}{RESOURCE}", headers={"Host": "evil.example.com"})
    assert answer.status_code == 400


@pytest.mark.parametrize("path", [RESOURCE, SERVER, "/oauth/token", "/oauth/revoke"])
def test_another_method_is_refused_in_json(path: str) -> None:
    for method in ("PUT", "DELETE"):
        response = Client().generic(method, path)
        assert response.status_code == 405
        assert response.json() == {"error": "invalid_request"}
        assert response["Allow"]


# --- registering oneself


@pytest.fixture
def openly(settings: Any) -> None:
    settings.TASKHUB_OAUTH_REGISTRATION = True
    settings.OAUTH2_PROVIDER = {**settings.OAUTH2_PROVIDER, "DCR_ENABLED": True}


def register(body: Any) -> Any:
    raw = body if isinstance(body, bytes) else json.dumps(body).encode()
    return Client().post("/oauth/register", raw, content_type="application/json")


@pytest.mark.django_db
def test_nobody_registers_unless_it_is_turned_on() -> None:
    assert register(BODY).status_code == 404
    assert "registration_endpoint" not in Client().get(SERVER).json()
    assert not Registration.objects.exists()


@pytest.mark.django_db
@pytest.mark.usefixtures("openly")
def test_a_program_that_registered_itself_signs_people_in() -> None:
    assert Client().get(SERVER).json()["registration_endpoint"] == "http://testserver/oauth/register"
    response = register(BODY)
    assert response.status_code == 201
    made = response.json()
    assert made["redirect_uris"] == [CALLBACK]
    assert "client_secret" not in made
    assert "registration_access_token" not in made
    program = Program(browser(make_person("operator")), made["client_id"])
    page = program.ask().content.decode()
    assert "registered itself" in page
    assert set(program.sign_in()["scope"].split())
    assert Event.objects.get(action="application.registered").target == "Notebook"


@pytest.mark.django_db
@pytest.mark.usefixtures("openly")
def test_a_program_with_a_secret_needs_it() -> None:
    made = register({**BODY, "token_endpoint_auth_method": "client_secret_post"}).json()
    assert made["client_secret_expires_at"] == 0
    person = browser(make_person("operator"))
    assert Program(person, made["client_id"]).exchange(Program(person, made["client_id"]).code()).status_code == 401
    Program(person, made["client_id"], made["client_secret"]).sign_in()


@pytest.mark.django_db
@pytest.mark.usefixtures("openly")
@pytest.mark.parametrize(
    ("changes", "error"),
    [
        ({"redirect_uris": []}, "invalid_redirect_uri"),
        ({"redirect_uris": None}, "invalid_redirect_uri"),
        ({"redirect_uris": [7]}, "invalid_redirect_uri"),
        ({"redirect_uris": ["http://app.example.com/cb"]}, "invalid_redirect_uri"),
        ({"redirect_uris": [CALLBACK, "javascript:alert(1)"]}, "invalid_redirect_uri"),
        ({"redirect_uris": [f"{CALLBACK} https://evil.example.com/"]}, "invalid_redirect_uri"),
        ({"grant_types": ["client_credentials"]}, "invalid_client_metadata"),
        ({"grant_types": "authorization_code"}, "invalid_client_metadata"),
        ({"token_endpoint_auth_method": "private_key_jwt"}, "invalid_client_metadata"),
        ({"client_name": 7}, "invalid_client_metadata"),
        ({"client_name": "a\0b"}, "invalid_client_metadata"),
        ({"client_name": "x" * 101}, "invalid_client_metadata"),
    ],
)
def test_a_registration_that_will_not_do_is_refused(changes: dict[str, Any], error: str) -> None:
    response = register({**BODY, **changes})
    assert (response.status_code, response.json()["error"]) == (400, error)
    assert not Registration.objects.exists()


@pytest.mark.django_db
@pytest.mark.usefixtures("openly")
@pytest.mark.parametrize("body", [b"", b"{", b"[]", b"\xff", b'{"a":' * 2_000])
def test_a_registration_that_is_no_object_is_refused(body: bytes) -> None:
    assert register(body).status_code == 400


@pytest.mark.django_db
@pytest.mark.usefixtures("openly")
def test_strangers_cannot_fill_the_table(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(applications, "MAX_REGISTERED", 1)
    assert register(BODY).status_code == 201
    assert register(BODY).status_code == 429


@pytest.mark.parametrize(
    ("uri", "allowed"),
    [
        ("https://app.example.com/cb", True),
        ("http://127.0.0.1/cb", True),
        ("http://127.0.0.1:1234/cb", True),
        ("http://[::1]:1234/cb", True),
        ("http://localhost:1234/cb", True),
        ("http://localhost.evil.example.com/cb", False),
        ("http://127.0.0.1.evil.example.com/cb", False),
        ("http://10.0.0.1/cb", False),
        ("https://u:p@app.example.com/cb", False),
        ("https://app.example.com/cb#", False),
        ("https:/cb", False),
        ("javascript:alert(1)", False),
        ("data:text/html,x", False),
        ("https://evil.example\\@app.example.com/cb", False),
        ("https://app.example.com\u202e/cb", False),
        ("https:///app.example.com/cb", False),
        ("", False),
    ],
)
def test_where_a_code_may_be_sent(uri: str, allowed: bool) -> None:
    assert redirect_allowed(uri) is allowed

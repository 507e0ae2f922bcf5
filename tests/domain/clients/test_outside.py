"""Tokens of an outside issuer, checked against a real one."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import time
from collections.abc import Iterator
from typing import Any

import pytest
from cryptography.hazmat.primitives import serialization
from django.core.exceptions import ImproperlyConfigured

from taskhub.domain.clients import issuers as outside
from taskhub.domain.clients.principals import default_tenant, principal_of
from taskhub.domain.clients.tokens import set_context_disabled
from taskhub.store.models import AuthContext, Tenant
from tests.support.issuer import Issuer, running
from tests.support.oauth import ROOT

pytestmark = pytest.mark.django_db
HERE = "https://hub.example.com/mcp"


@pytest.fixture
def issuer(settings: Any) -> Iterator[Issuer]:
    outside.KEYS.forget()
    with running() as found:
        settings.OIDC_ISSUER = found.url
        settings.OIDC_TENANT = "main"
        default_tenant()
        yield found
    outside.KEYS.forget()


def unsigned(issuer: Issuer) -> str:
    def part(value: dict[str, Any]) -> str:
        return base64.urlsafe_b64encode(json.dumps(value).encode()).rstrip(b"=").decode()

    claims = {"iss": issuer.url, "sub": "ada", "aud": HERE, "exp": int(time.time()) + 300}
    return f"{part({'alg': 'none', 'kid': 'one'})}.{part(claims)}."


@pytest.mark.req("AU-07", "AU-14")
def test_a_good_token_is_a_principal(issuer: Issuer) -> None:
    principal = principal_of(issuer.token([HERE, "https://other.example.com"]), "192.0.2.1")
    assert principal is not None
    assert (principal.issuer, principal.subject, principal.client_id) == (issuer.url, "ada", "deployer")
    assert principal.scopes == {"tasks:call", "tasks:read"}
    assert principal.audiences == {HERE, "https://other.example.com"}
    again = principal_of(issuer.token(HERE, preferred_username="Ada"), "")
    assert again is not None
    assert again.context_id == principal.context_id, "the next token of the same person keeps its tasks"


@pytest.mark.parametrize("claim", ["scp", "scope"])
@pytest.mark.parametrize("told", ["tasks:read other", ["tasks:read", 7, "other"]])
def test_scopes_come_as_text_or_list_under_either_name(issuer: Issuer, claim: str, told: Any) -> None:
    principal = principal_of(issuer.token(HERE, **{"scope": None, claim: told}), "")
    assert principal is not None
    assert principal.scopes == {"tasks:read"}


@pytest.mark.parametrize("claims", [{"client_id": None, "azp": "web"}, {"client_id": None, "cid": "web"}])
def test_the_client_is_found_where_issuers_put_it(issuer: Issuer, claims: dict[str, Any]) -> None:
    principal = principal_of(issuer.token(HERE, **claims), "")
    assert principal is not None
    assert principal.client_id == "web"


@pytest.mark.req("AU-07")
@pytest.mark.parametrize(
    "claims",
    [
        {"iss": "https://evil.example.com"},
        {"iss": None},
        {"sub": None},
        {"sub": ""},
        {"sub": 7},
        {"sub": "x" * 256},
        {"sub": "a\0b"},
        {"sub": "\ud800"},
        {"sub": "a\u202eb"},
        {"exp": None},
        {"exp": 1},
        {"exp": "soon"},
        {"exp": 10**20},
        {"exp": 2**56},
        {"exp": 253_402_300_799},
        {"nbf": 10**11},
        {"aud": None},
        {"aud": "urn:other"},
        {"aud": 7},
        {"client_id": "x" * 256},
        {"client_id": ["a"]},
        {"client_id": "\ud800"},
    ],
)
def test_a_token_with_a_wrong_claim_is_nobodys(issuer: Issuer, claims: dict[str, Any]) -> None:
    told = {"audience": HERE, **claims}
    if "aud" in told:
        told["audience"] = told.pop("aud")
    assert principal_of(issuer.token(**told), "") is None


@pytest.mark.req("AU-07")
@pytest.mark.parametrize("kind", ["JWT", "jwt", "at+jwt", "AT+JWT", "application/at+jwt", None])
def test_a_token_may_call_itself_what_access_tokens_are_called(issuer: Issuer, kind: str | None) -> None:
    assert principal_of(issuer.token(HERE, kind=kind), "") is not None


@pytest.mark.req("AU-07")
@pytest.mark.parametrize("kind", ["logout+jwt", "application/logout+jwt", "secevent+jwt", "dpop+jwt", "at+jwt;x", "x"])
def test_another_kind_of_the_issuers_tokens_is_no_access_token(issuer: Issuer, kind: str) -> None:
    assert principal_of(issuer.token(HERE, kind=kind), "") is None
    assert not AuthContext.objects.exists()


@pytest.mark.parametrize(
    ("names", "shown"),
    [
        ({"preferred_username": "ada.l", "name": "Ada"}, "ada.l"),
        ({"name": "Ada Lovelace"}, "Ada Lovelace"),
        ({"preferred_username": "a\u202eb", "name": "Ada"}, "Ada"),
        ({"preferred_username": "a\u202eb"}, "ada"),
        ({"preferred_username": "root\nadmin", "name": "\x1b[2J"}, "ada"),
        ({"preferred_username": "a\0b", "name": "\ud800"}, "ada"),
        ({"preferred_username": 7, "name": ["Ada"]}, "ada"),
        ({"preferred_username": "x" * 300}, "x" * 128),
    ],
)
def test_a_caller_is_called_by_a_name_that_can_be_read(issuer: Issuer, names: dict[str, Any], shown: str) -> None:
    principal = principal_of(issuer.token(HERE, **names), "")
    assert principal is not None
    assert principal.name == shown
    assert AuthContext.objects.get().name == shown


def test_a_minute_of_difference_between_clocks_is_forgiven(issuer: Issuer) -> None:
    assert principal_of(issuer.token(HERE, exp=int(time.time()) - 30), "") is not None
    assert principal_of(issuer.token(HERE, exp=int(time.time()) - 90), "") is None
    assert principal_of(issuer.token(HERE, nbf=int(time.time()) + 30), "") is not None


def test_a_configured_audience_is_the_one_that_counts(issuer: Issuer, settings: Any) -> None:
    settings.OIDC_AUDIENCE = "urn:taskhub"
    assert principal_of(issuer.token(HERE), "") is None
    principal = principal_of(issuer.token(["urn:taskhub"]), "")
    assert principal is not None
    assert principal.audiences == frozenset()


def test_no_signature_but_the_issuers_is_good(issuer: Issuer) -> None:
    stranger = Issuer()
    try:
        stranger.url = issuer.url  # says it is him, signs with a key of its own
        assert principal_of(stranger.token(HERE), "") is None
    finally:
        stranger.close()
    assert principal_of(unsigned(issuer), "") is None
    # The public key as the secret of a symmetric signature: the classic confusion.
    pem = (
        issuer.keys["one"]
        .public_key()
        .public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)
    )
    head = {"alg": "HS256", "typ": "JWT", "kid": "one"}
    claims = {"iss": issuer.url, "sub": "ada", "aud": HERE, "exp": int(time.time()) + 300}
    raw = [base64.urlsafe_b64encode(json.dumps(part).encode()).rstrip(b"=") for part in (head, claims)]
    mark = base64.urlsafe_b64encode(hmac.new(pem, b".".join(raw), hashlib.sha256).digest()).rstrip(b"=")
    assert principal_of(b".".join([*raw, mark]).decode(), "") is None
    good = issuer.token(HERE)
    assert principal_of(good[:-4] + ("AAAA" if good[-4:] != "AAAA" else "BBBB"), "") is None


@pytest.mark.parametrize("token", ["a.b.c", "..", "e30.e30.e30", "a" * 4_000 + ".b.c"])
def test_what_is_no_jwt_is_refused(issuer: Issuer, token: str) -> None:
    assert principal_of(token, "") is None


def test_new_keys_are_noticed_and_the_issuer_is_not_asked_for_every_token(
    issuer: Issuer, monkeypatch: pytest.MonkeyPatch
) -> None:
    for _ in range(5):
        assert principal_of(issuer.token(HERE), "") is not None
    assert issuer.asked == 1
    issuer.add("two", elliptic=True)
    rotated = issuer.token(HERE, kid="two", algorithm="ES256")
    assert principal_of(rotated, "") is None, "asked a moment ago"
    assert issuer.asked == 1
    monkeypatch.setattr(outside, "ASK_AGAIN_SECONDS", 0.0)
    assert principal_of(rotated, "") is not None
    assert issuer.asked == 2


def test_a_token_that_names_no_key_is_checked_with_the_only_one(issuer: Issuer) -> None:
    assert principal_of(issuer.token(HERE, kid=None), "") is not None
    issuer.add("two")
    outside.KEYS.forget()
    assert principal_of(issuer.token(HERE, kid=None), "") is None


def test_an_issuer_that_is_away_locks_out_only_new_keys(issuer: Issuer, monkeypatch: pytest.MonkeyPatch) -> None:
    assert principal_of(issuer.token(HERE), "") is not None
    issuer.away = True
    monkeypatch.setattr(outside, "ASK_AGAIN_SECONDS", 0.0)
    monkeypatch.setattr(outside, "KEYS_SECONDS", 0.0)
    assert principal_of(issuer.token(HERE, sub="grace"), "") is not None
    outside.KEYS.forget()
    assert principal_of(issuer.token(HERE, sub="linus"), "") is None


def test_metadata_of_another_issuer_are_not_believed(issuer: Issuer, settings: Any) -> None:
    issuer.claimed = "https://evil.example.com"
    assert principal_of(issuer.token(HERE), "") is None
    settings.OIDC_JWKS_URL = f"{issuer.url}/keys"
    assert principal_of(issuer.token(HERE), "") is not None


def test_a_caller_from_outside_can_be_locked_out(issuer: Issuer) -> None:
    assert principal_of(issuer.token(HERE), "") is not None
    context = AuthContext.objects.get(issuer=issuer.url)
    set_context_disabled(tenant_id=context.tenant_id, context_id=context.pk, disabled=True, actor=ROOT)
    assert principal_of(issuer.token(HERE), "") is None
    assert principal_of(issuer.token(HERE, sub="grace"), "") is not None


def test_without_its_tenant_nobody_comes_in(issuer: Issuer, settings: Any) -> None:
    settings.OIDC_TENANT = "elsewhere"
    assert principal_of(issuer.token(HERE), "") is None
    Tenant.objects.create(slug="elsewhere", name="Elsewhere")
    assert principal_of(issuer.token(HERE), "") is not None


def test_without_an_issuer_no_jwt_is_good(issuer: Issuer, settings: Any) -> None:
    token = issuer.token(HERE)
    settings.OIDC_ISSUER = ""
    assert principal_of(token, "") is None


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("OIDC_ALGORITHMS", ["HS256"]),
        ("OIDC_ALGORITHMS", ["RS256", "none"]),
        ("OIDC_ALGORITHMS", []),
        ("OIDC_ISSUER", "http://login.example.com"),
        ("OIDC_ISSUER", "login.example.com"),
        ("OIDC_JWKS_URL", "http://login.example.com/keys"),
        ("OIDC_JWKS_URL", "file:///etc/passwd"),
    ],
)
def test_what_cannot_work_stops_the_start(issuer: Issuer, settings: Any, name: str, value: Any) -> None:
    outside.check_configuration()
    setattr(settings, name, value)
    with pytest.raises(ImproperlyConfigured, match=name):
        outside.check_configuration()

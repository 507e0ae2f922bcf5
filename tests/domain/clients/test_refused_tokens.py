"""Why a token of an outside issuer is refused stands in the log: in words, seldom, and without the token."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import httpx2
import pytest

from taskhub.domain.clients import issuers as outside
from taskhub.domain.clients.principals import default_tenant, principal_of
from taskhub.domain.clients.tokens import set_context_disabled
from taskhub.store.models import AuthContext
from tests.support.hub import RunningHub, wait_until
from tests.support.issuer import Issuer, running
from tests.support.oauth import ROOT
from tests.support.web import web

HERE = "https://hub.example.com/mcp"


@pytest.fixture
def issuer(settings: Any, caplog: pytest.LogCaptureFixture) -> Iterator[Issuer]:
    caplog.set_level("INFO", "taskhub.domain.clients.issuers")
    outside._TOLD.clear()
    outside.KEYS.forget()
    with running() as found:
        settings.OIDC_ISSUER = found.url
        settings.OIDC_TENANT = "main"
        default_tenant()
        yield found
    outside.KEYS.forget()


def said(caplog: pytest.LogCaptureFixture) -> list[str]:
    """Each reason, and what the token says of itself."""
    return [line.getMessage() for line in caplog.records if line.name == "taskhub.domain.clients.issuers"]


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("claims", "why", "says"),
    [
        ({"exp": 1}, "it has expired", "exp 1"),
        ({"nbf": 10**11}, "it is not valid yet, by the clock here", ""),
        ({"iss": "https://evil.example.com"}, "its issuer is not OIDC_ISSUER", "iss 'https://evil.example.com'"),
        ({"sub": None}, "it has no sub", ""),
        ({"audience": "urn:x"}, "no audience of it is an address, and OIDC_AUDIENCE is not set", "aud 'urn:x'"),
        ({"kid": "two", "by": "one"}, "no key of OIDC_ISSUER that it names is known", "kid 'two'"),
        ({"kind": "logout+jwt"}, "it is another kind of token, no access token", "typ 'logout+jwt'"),
    ],
)
def test_the_reason_is_told_with_what_the_token_says_of_itself(
    issuer: Issuer, caplog: pytest.LogCaptureFixture, claims: dict[str, Any], why: str, says: str
) -> None:
    token = issuer.token(**{"audience": HERE, **claims})
    assert principal_of(token, "") is None
    (line,) = said(caplog)
    assert line.startswith(f"a token was refused: {why}. It says: alg 'RS256', ")
    assert says in line
    assert "ada" not in line
    assert not any(part in line for part in token.split("."))


@pytest.mark.django_db
def test_a_signature_of_somebody_else_is_told(issuer: Issuer, caplog: pytest.LogCaptureFixture) -> None:
    with running() as stranger:
        stranger.url = issuer.url  # says it is him, signs with a key of its own
        assert principal_of(stranger.token(HERE), "") is None
    assert said(caplog)[0].startswith("a token was refused: no key of OIDC_ISSUER has signed it. It says: ")


@pytest.mark.django_db
def test_another_audience_a_disabled_client_and_no_tenant_are_told(
    issuer: Issuer, caplog: pytest.LogCaptureFixture, settings: Any
) -> None:
    token = issuer.token(HERE)
    assert principal_of(token, "") is not None
    context = AuthContext.objects.get(issuer=issuer.url)
    set_context_disabled(tenant_id=context.tenant_id, context_id=context.pk, disabled=True, actor=ROOT)
    assert principal_of(token, "") is None
    settings.OIDC_TENANT = "elsewhere"
    assert principal_of(token, "") is None
    settings.OIDC_AUDIENCE = "urn:taskhub"
    assert principal_of(token, "") is None
    assert [line.partition(". It says")[0].removeprefix("a token was refused: ") for line in said(caplog)] == [
        "its client is disabled",
        "there is no tenant OIDC_TENANT",
        "its audience is not OIDC_AUDIENCE",
    ]


@pytest.mark.django_db
def test_one_reason_is_told_once_in_a_minute_however_many_tokens_have_it(
    issuer: Issuer, caplog: pytest.LogCaptureFixture
) -> None:
    for number in range(20):
        assert principal_of(issuer.token(HERE, exp=number), "") is None
        assert principal_of(f"not.a.jwt{number}", "") is None
    assert len(said(caplog)) == 2
    assert said(caplog)[1] == "a token was refused: it cannot be read"


@pytest.mark.django_db
def test_what_strangers_say_is_bounded_and_harmless(issuer: Issuer, caplog: pytest.LogCaptureFixture) -> None:
    token = issuer.token("urn:\u202e\nERROR all is lost" + "x" * 3_000, client_id="y" * 3_000)
    assert principal_of(token, "") is None
    (line,) = said(caplog)
    assert r"aud 'urn:\u202e\nERROR all is lostxxx" in line
    assert line.isascii() is False, "the mark of what was cut"
    assert len(line) < 9 * (outside.MAX_TOLD + 20)


@pytest.mark.processes
def test_a_call_with_a_token_for_another_address_is_told_with_the_address(hub: RunningHub) -> None:
    with running() as issuer, web(hub, OIDC_ISSUER=issuer.url, OIDC_TENANT="main", LOG_LEVEL="INFO") as one:
        for exp in (300, 301, 302):
            token = issuer.token("https://elsewhere.example.com/mcp", exp=int(time.time()) + exp)
            answer = httpx2.post(f"{one.base}/mcp", headers={"Authorization": f"Bearer {token}"}, trust_env=False)
            assert answer.status_code == 401
        wait_until(lambda: "a token was refused" in one.log.read_text(), "the line")
        lines = [line for line in one.log.read_text().splitlines() if "a token was refused" in line]
    assert len(lines) == 1
    told = f"its audience is not the address called, '{one.base}/mcp'. It says: alg 'RS256', typ 'JWT', kid 'one', iss "
    assert told in lines[0]
    assert "aud 'https://elsewhere.example.com/mcp'" in lines[0]

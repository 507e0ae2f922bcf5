"""The token of a grant: put into requests to its server alone, and looked up again when it may have changed."""

from __future__ import annotations

import asyncio

import httpx2
import pytest

from taskhub.domain.credentials.records import Access, Holder, NeedsAuthorization
from taskhub.upstream.bearer import Bearer
from taskhub.upstream.target import Target

SERVER = "http://mcp.example/mcp"


class Grant:
    """What the database says, and how often it was asked."""

    def __init__(self) -> None:
        self.token = "first"
        self.revoked = False
        self.looks: list[str] = []

    async def get(self, refused: str) -> Access:
        self.looks.append(refused)
        if self.revoked:
            raise NeedsAuthorization("It needs to be authorized", holder=Holder())
        return Access(1, self.token)


@pytest.fixture
def grant() -> Grant:
    return Grant()


@pytest.fixture
def bearer(grant: Grant) -> Bearer:
    return Bearer(grant.get, lambda access: True)


def sent(bearer: Bearer, url: str, status: int = 200) -> str | None:
    """The header Authorization of a request that is answered with this status."""
    target = Target("http", SERVER, bearer=bearer)

    async def ask() -> str | None:
        hooks = target.hooks()
        request = httpx2.Request("POST", url)
        for hook in hooks["request"]:
            await hook(request)
        for hook in hooks["response"]:
            await hook(httpx2.Response(status, request=request))
        return request.headers.get("Authorization")

    return asyncio.run(ask())


@pytest.mark.parametrize(
    "url",
    [
        "http://other.example/mcp",
        "http://mcp.example:8080/mcp",
        "http://mcp.example.evil/mcp",
        "https://mcp.example:8443/mcp",
        "http://127.0.0.1/mcp",
    ],
)
def test_no_request_to_another_origin_has_the_token(bearer: Bearer, grant: Grant, url: str) -> None:
    assert sent(bearer, url) is None
    assert grant.looks == []


@pytest.mark.parametrize(
    "url", [SERVER, "http://mcp.example/else", "http://MCP.example:80/mcp", "https://mcp.example/mcp"]
)
def test_requests_to_the_server_have_it(bearer: Bearer, url: str) -> None:
    assert sent(bearer, url) == "Bearer first"


def test_a_token_is_looked_up_again_after_a_change(bearer: Bearer, grant: Grant) -> None:
    sent(bearer, SERVER)
    grant.token = "second"
    assert sent(bearer, SERVER) == "Bearer first"
    bearer.forget()
    assert sent(bearer, SERVER) == "Bearer second"
    assert set(bearer.known) == {"first", "second"}


def test_the_token_of_a_revoked_grant_is_not_sent(bearer: Bearer, grant: Grant) -> None:
    sent(bearer, SERVER)
    grant.revoked = True
    bearer.forget()
    assert sent(bearer, SERVER) is None


def test_a_server_that_refuses_to_be_asked_without_a_token_is_asked_with_the_next(bearer: Bearer, grant: Grant) -> None:
    grant.token = ""
    assert sent(bearer, SERVER, 401) is None
    grant.token = "given"
    assert sent(bearer, SERVER) == "Bearer given"


def test_a_refused_token_is_refreshed_once_a_minute(bearer: Bearer, grant: Grant) -> None:
    for _ in range(4):
        sent(bearer, SERVER, 401)
    assert grant.looks.count("first") == 1


def test_a_new_token_that_the_server_refuses_too_ends_the_grant_unless_it_was_taken_once(
    grant: Grant, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("taskhub.upstream.bearer.RENEW_SECONDS", 0)
    ended: list[str] = []

    async def refuse(token: str) -> None:
        ended.append(token)
        raise NeedsAuthorization("It needs to be authorized again", holder=Holder())

    bearer = Bearer(grant.get, lambda access: True, refuse)
    sent(bearer, SERVER, status=401)
    grant.token = "second"
    assert sent(bearer, SERVER) == "Bearer second"
    sent(bearer, SERVER, status=401)  # later: it has expired
    grant.token = "third"
    assert sent(bearer, SERVER, status=401) == "Bearer third"
    assert ended == []
    assert sent(bearer, SERVER) is None
    assert ended == ["third"]

"""What an authorization server may answer that is of no use, and what is said of it."""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest
from django.conf import LazySettings

from taskhub.core.errors import Invalid
from taskhub.domain.credentials import tokens
from taskhub.domain.credentials.discovery import discover
from taskhub.domain.credentials.records import Client, Denied, Found, Unanswered, Way

RESOURCE = "/.well-known/oauth-protected-resource/mcp"
METADATA = "/.well-known/oauth-authorization-server"
SERVER = Client("hub", "s3cret-of-the-hub", "client_secret_basic")


class Site:
    """A web server that answers each path with a status and a JSON value; any other with 404."""

    def __init__(self) -> None:
        self.answers: dict[str, tuple[int, Any]] = {}
        self.challenge = ""
        site = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                self.rfile.read(int(self.headers.get("content-length", 0)))
                status, value = site.answers.get(self.path, (404, {}))
                body = json.dumps(value).encode()
                self.send_response(status)
                if status == 401 and site.challenge:
                    self.send_header("WWW-Authenticate", site.challenge)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            do_POST = do_GET  # noqa: N815 - the name that http.server wants

            def log_message(self, format: str, *args: Any) -> None:
                """Nothing is logged."""

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.base = f"http://127.0.0.1:{self.server.server_port}"

    def found(self, **fields: Any) -> Found:
        return Found(self.base, f"{self.base}/token", registration_endpoint=f"{self.base}/register", **fields)

    def metadata(self, **fields: Any) -> None:
        """Good metadata, with these fields replaced."""
        self.answers[RESOURCE] = 200, {"resource": f"{self.base}/mcp", "authorization_servers": [self.base]}
        self.answers[METADATA] = (
            200,
            {
                "issuer": self.base,
                "authorization_endpoint": f"{self.base}/authorize",
                "token_endpoint": f"{self.base}/token",
                "response_types_supported": ["code"],
                "code_challenge_methods_supported": ["S256"],
                **fields,
            },
        )


@pytest.fixture
def site(settings: LazySettings) -> Iterator[Site]:
    settings.TASKHUB_OAUTH_LOCAL_SERVERS = True
    made = Site()
    thread = threading.Thread(target=made.server.serve_forever, args=(0.01,))
    thread.start()
    yield made
    made.server.shutdown()
    made.server.server_close()
    thread.join()


# --- discovery


def test_what_the_server_asks_for_is_found(site: Site) -> None:
    site.metadata(scopes_supported=["read", "offline_access"])
    site.answers["/mcp"] = 401, {}
    site.challenge = 'Bearer scope="read"'
    found = discover(f"{site.base}/mcp", way=Way.SHARED)
    assert found.token_endpoint == f"{site.base}/token"
    assert (found.scopes, found.resource) == ("read offline_access", f"{site.base}/mcp")


@pytest.mark.parametrize(
    ("fields", "why"),
    [
        ({"authorization_endpoint": None}, "has no page on which people authorize"),
        ({"code_challenge_methods_supported": ["plain"]}, "does not say that it supports PKCE with S256"),
        ({"issuer": "https://other.example"}, "is that of another issuer, https://other.example"),
        ({"token_endpoint": 7}, "is not valid: token_endpoint"),
        ({"token_endpoint": "ftp://login.example/token"}, "is not valid: token_endpoint"),
        ({"token_endpoint": "http://login.example/token"}, "without https"),
    ],
)
def test_metadata_that_cannot_be_used(site: Site, fields: dict[str, Any], why: str) -> None:
    site.metadata(**fields)
    with pytest.raises(Invalid, match=why):
        discover(f"{site.base}/mcp", way=Way.SHARED)


def test_a_server_whose_metadata_is_of_another_resource(site: Site) -> None:
    site.metadata()
    site.answers[RESOURCE] = 200, {"resource": "https://bank.example/mcp", "authorization_servers": [site.base]}
    with pytest.raises(Invalid, match=r"for another resource, https://bank\.example/mcp"):
        discover(f"{site.base}/mcp", way=Way.SHARED)


def test_metadata_that_the_server_names_and_does_not_have(site: Site) -> None:
    site.metadata()
    site.answers["/mcp"] = 401, {}
    site.challenge = 'Bearer resource_metadata="http://elsewhere.example/resource"'
    with pytest.raises(Invalid, match="OAuth metadata cannot be read"):
        discover(f"{site.base}/mcp", way=Way.SHARED)


@pytest.mark.parametrize(
    ("path", "status", "why"),
    [
        (METADATA, 500, r"The OAuth metadata of http://\S+ cannot be read: HTTP 500\."),
        (METADATA, 302, r"The OAuth metadata of http://\S+ cannot be read: HTTP 302, which leads elsewhere"),
        (METADATA, 404, r"http://\S+ has no OAuth metadata\."),
        (RESOURCE, 503, r"The server’s OAuth metadata cannot be read: HTTP 503\. http://\S+ has no OAuth metadata\."),
    ],
)
def test_metadata_that_cannot_be_read_now_are_not_called_missing(site: Site, path: str, status: int, why: str) -> None:
    site.metadata()
    site.answers[path] = status, {}
    if path == RESOURCE:
        del site.answers[METADATA]
    with pytest.raises(Invalid) as refused:
        discover(f"{site.base}/mcp", way=Way.SHARED)
    assert re.match(why, refused.value.message), refused.value.message


def test_a_host_that_cannot_be_asked_is_spelled_as_it_is(site: Site, settings: LazySettings) -> None:
    site.metadata(token_endpoint="http://login.example/token")
    with pytest.raises(Invalid, match=r"^login\.example is not asked without https\.$"):
        discover(f"{site.base}/mcp", way=Way.SHARED)


def test_an_issuer_that_the_server_does_not_name(site: Site) -> None:
    site.metadata()
    with pytest.raises(Invalid, match=r"not https://login\.example"):
        discover(f"{site.base}/mcp", way=Way.SHARED, issuer="https://login.example")


def test_a_server_without_any_metadata(site: Site) -> None:
    with pytest.raises(Invalid, match="has no OAuth metadata"):
        discover(f"{site.base}/mcp", way=Way.SHARED)


# --- clients and tokens


def register(site: Site, **fields: Any) -> Client:
    return tokens.register(site.found(**fields), name="TaskHub", redirect_uri=f"{site.base}/back", scopes="", given=())


@pytest.mark.parametrize(
    ("status", "answer", "why"),
    [
        (400, {"error": "invalid_redirect_uri"}, "does not register TaskHub as a client: invalid_redirect_uri"),
        (403, ["no"], "HTTP 403"),
        (201, {"client_secret": "x"}, "registration of a client is not valid"),
        (201, {"client_id": "a b", "redirect_uris": ["http://x.example"]}, "registration of a client is not valid"),
        (
            201,
            {
                "client_id": "hub",
                "redirect_uris": ["http://x.example"],
                "token_endpoint_auth_method": "client_secret_post",
            },
            "for the method client_secret_post, which TaskHub cannot use",
        ),
    ],
)
def test_a_registration_that_cannot_be_used(site: Site, status: int, answer: Any, why: str) -> None:
    site.answers["/register"] = status, answer
    with pytest.raises((Denied, Unanswered), match=why):
        register(site)


def test_a_way_to_authenticate_that_both_know(site: Site) -> None:
    assert tokens.method_for(site.found(), secret=False) == "none"
    assert tokens.method_for(site.found(), secret=True) == "client_secret_basic"
    assert tokens.method_for(site.found(methods=("client_secret_post",)), secret=True) == "client_secret_post"
    with pytest.raises(Denied, match="authenticate by private_key_jwt, which TaskHub cannot"):
        tokens.method_for(site.found(methods=("private_key_jwt",)), secret=True)


@pytest.mark.parametrize(
    ("status", "answer", "error", "why"),
    [
        (400, {"error": "invalid_grant", "error_description": "it is over"}, Denied, "invalid_grant: it is over"),
        (400, {"error": "temporarily_unavailable"}, Unanswered, "answered HTTP 400"),
        (500, {}, Unanswered, "answered HTTP 500"),
        (200, {"access_token": "a", "token_type": "mac"}, Unanswered, "no bearer token"),
        (200, {"access_token": "a\r\nb", "token_type": "Bearer"}, Unanswered, "cannot be sent in a header"),
    ],
)
def test_a_token_that_cannot_be_used(site: Site, status: int, answer: Any, error: type[Exception], why: str) -> None:
    site.answers["/token"] = status, answer
    with pytest.raises(error, match=why):
        tokens.refresh(site.found(), SERVER, token="old", given=())


def test_a_refusal_does_not_repeat_secrets(site: Site) -> None:
    site.answers["/token"] = 400, {"error": "invalid_client", "error_description": f"not {SERVER.secret}"}
    with pytest.raises(Denied) as refused:
        tokens.refresh(site.found(), SERVER, token="old", given=())
    assert SERVER.secret not in str(refused.value)


def test_where_nothing_can_be_revoked_nothing_is_said_to_be(site: Site) -> None:
    assert tokens.revoke(site.found(), SERVER, "t", given=()) is False
    found = site.found(revocation_endpoint=f"{site.base}/revoke")
    site.answers["/revoke"] = 400, {}
    assert tokens.revoke(found, SERVER, "t", given=()) is False
    site.answers["/revoke"] = 200, {}
    assert tokens.revoke(found, SERVER, "t", given=()) is True

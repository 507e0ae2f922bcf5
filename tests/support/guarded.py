"""A real MCP server that wants OAuth, with the authorization server of the official SDK beside it, over HTTP."""

from __future__ import annotations

import json
import secrets
import socket
import threading
import time
from http import HTTPStatus
from types import TracebackType
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import httpx2
import uvicorn
from mcp.server import MCPServer
from mcp.server.auth.middleware.auth_context import get_access_token
from mcp.server.auth.provider import (
    AccessToken,
    AuthorizationCode,
    AuthorizationParams,
    RefreshToken,
    TokenError,
    construct_redirect_uri,
)
from mcp.server.auth.settings import AuthSettings, ClientRegistrationOptions, RevocationOptions
from mcp.shared.auth import OAuthClientInformationFull, OAuthToken
from pydantic import AnyHttpUrl
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from taskhub.upstream.target import Target

SCOPE = "tools"
MORE = "more"
"""A scope that one tool needs besides, for which the server asks when it is called."""
BOUND = 10.0


class _Provider:
    """The accounts and tokens of the authorization server. A refresh token is good once; whoever brings one again ends
    the whole sign-in."""

    def __init__(self, guarded: Guarded) -> None:
        self.guarded = guarded
        self.clients: dict[str, OAuthClientInformationFull] = {}
        self.codes: dict[str, tuple[AuthorizationCode, str]] = {}
        self.access: dict[str, AccessToken] = {}
        self.refresh: dict[str, tuple[RefreshToken, str]] = {}
        self.used: dict[str, str] = {}
        """The account of each refresh token that was used."""

    async def get_client(self, client_id: str) -> OAuthClientInformationFull | None:
        return self.clients.get(client_id)

    async def register_client(self, client_info: OAuthClientInformationFull) -> None:
        self.clients[client_info.client_id] = client_info

    async def authorize(self, client: OAuthClientInformationFull, params: AuthorizationParams) -> str:
        code = secrets.token_urlsafe(24)
        kept = AuthorizationCode(
            code=code,
            scopes=params.scopes or [SCOPE],
            expires_at=time.time() + 60,
            client_id=client.client_id,
            code_challenge=params.code_challenge,
            redirect_uri=params.redirect_uri,
            redirect_uri_provided_explicitly=params.redirect_uri_provided_explicitly,
            resource=params.resource,
        )
        self.codes[code] = kept, self.guarded.account
        return construct_redirect_uri(str(params.redirect_uri), code=code, state=params.state)

    async def load_authorization_code(self, client: Any, authorization_code: str) -> AuthorizationCode | None:
        found = self.codes.get(authorization_code)
        return found[0] if found else None

    async def exchange_authorization_code(self, client: Any, authorization_code: AuthorizationCode) -> OAuthToken:
        _, account = self.codes.pop(authorization_code.code)
        return self.issue(account, client.client_id, authorization_code.scopes)

    async def load_refresh_token(self, client: Any, refresh_token: str) -> RefreshToken | None:
        self.guarded.refreshes.append(refresh_token)
        if account := self.used.get(refresh_token):
            self.end(account)
            return None
        found = self.refresh.get(refresh_token)
        return found[0] if found else None

    async def exchange_refresh_token(self, client: Any, refresh_token: RefreshToken, scopes: list[str]) -> OAuthToken:
        _, account = self.refresh.pop(refresh_token.token)
        self.used[refresh_token.token] = account
        for token, access in list(self.access.items()):
            if access.subject == account:
                del self.access[token]
        if self.guarded.breaks == "refresh":
            raise TokenError("invalid_grant", f"the account {account} is closed, said {refresh_token.token}")
        return self.issue(account, client.client_id, scopes or refresh_token.scopes)

    async def load_access_token(self, token: str) -> AccessToken | None:
        found = self.access.get(token)
        return found if found and (found.expires_at or 0) > time.time() else None

    async def revoke_token(self, token: AccessToken | RefreshToken) -> None:
        self.guarded.revoked.append(token.token)
        account = self.refresh[token.token][1] if token.token in self.refresh else str(getattr(token, "subject", ""))
        self.end(account)

    async def exchange_identity_assertion(self, client: Any, params: Any) -> OAuthToken:
        raise TokenError("unsupported_grant_type")

    def issue(self, account: str, client_id: str, scopes: list[str], *, refreshes: bool = True) -> OAuthToken:
        access, refresh = f"access-{account}-{secrets.token_urlsafe(16)}", f"refresh-{secrets.token_urlsafe(16)}"
        self.access[access] = AccessToken(
            token=access,
            client_id=client_id,
            scopes=scopes,
            expires_at=int(time.time() + self.guarded.seconds),
            subject=account,
        )
        if refreshes:
            self.refresh[refresh] = RefreshToken(token=refresh, client_id=client_id, scopes=scopes), account
        self.guarded.issued += [access, *([refresh] if refreshes else [])]
        return OAuthToken(
            access_token=access,
            expires_in=self.guarded.seconds,
            scope=" ".join(scopes),
            refresh_token=refresh if refreshes else None,
        )

    def end(self, account: str) -> None:
        """End all sign-ins of an account."""
        for token, access in list(self.access.items()):
            if access.subject == account:
                del self.access[token]
        for kept, (_, owner) in list(self.refresh.items()):
            if owner == account:
                del self.refresh[kept]


class Guarded:
    """The server, in a thread of its own; `with` starts and stops it."""

    def __init__(self) -> None:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port: int = probe.getsockname()[1]
        self.account = "nobody"
        """Who is signed in at the authorization server when somebody comes to authorize."""
        self.seconds = 3_600
        """How long access tokens live that are issued from now on."""
        self.breaks = ""
        self.wants_more = ""
        """What needs a further scope besides the call of `delete`: `/`, all requests, or `tools/list`, which is then
        refused by an error of JSON-RPC too."""
        self.refuses = False
        """Whether its MCP server refuses every token."""
        self.robots = False
        """Whether it issues tokens for client credentials, at another token endpoint, instead of to people."""
        self.robots_secret = "robots-secret"
        self.inside: Any = None
        """An ASGI application that answers at `/mcp` instead of its own tools, to whoever has a token."""
        self.down: HTTPStatus | None = None
        """The status with which the token endpoint answers instead."""
        self.later = ""
        """The `Retry-After` of these answers."""
        self.turned_away = 0
        """How often it has answered so."""
        self.issued: list[str] = []
        self.refreshes: list[str] = []
        """The refresh tokens that were brought, in order."""
        self.revoked: list[str] = []
        self.called: list[str] = []
        """The account of each call that ran."""
        self.provider = _Provider(self)

    @property
    def base(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def target(self) -> Target:
        return Target("http", f"{self.base}/mcp")

    def answer(self, address: str) -> dict[str, str]:
        """What a browser brings back from the authorization server, with `account` signed in there."""
        found = httpx2.get(address, follow_redirects=False)
        assert found.status_code == 302, found.text
        return dict(parse_qsl(urlsplit(found.headers["location"]).query))

    def end(self, account: str) -> None:
        """End all sign-ins of an account, as its owner may at any time."""
        self.provider.end(account)

    def expire(self, account: str) -> None:
        """Let the access tokens of an account expire; refresh tokens stay good."""
        for token, access in list(self.provider.access.items()):
            if access.subject == account:
                del self.provider.access[token]

    def __enter__(self) -> Guarded:
        config = uvicorn.Config(
            self._app(), host="127.0.0.1", port=self.port, log_level="critical", ws="none", timeout_graceful_shutdown=0
        )
        self._server = uvicorn.Server(config)
        self._thread = threading.Thread(target=self._server.run, name="guarded-server")
        self._thread.start()
        end = time.monotonic() + BOUND
        while not self._server.started:
            assert time.monotonic() < end, "the server does not start"
            time.sleep(0.005)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> None:
        self._server.should_exit = True
        self._thread.join(BOUND)
        assert not self._thread.is_alive(), "the server does not stop"

    def _app(self) -> Any:
        server: MCPServer[Any] = MCPServer(
            "guarded",
            auth_server_provider=self.provider,
            auth=AuthSettings(
                issuer_url=AnyHttpUrl(self.base),
                resource_server_url=AnyHttpUrl(f"{self.base}/mcp"),
                required_scopes=[SCOPE],
                validate_token_resource=False,
                client_registration_options=ClientRegistrationOptions(
                    enabled=True, valid_scopes=[SCOPE, MORE], default_scopes=[SCOPE]
                ),
                revocation_options=RevocationOptions(enabled=True),
            ),
        )

        @server.tool()
        def whoami() -> str:
            """Tell whose token came with the call."""
            token = get_access_token()
            account = str(token.subject) if token else ""
            self.called.append(account)
            return account

        @server.tool()
        def delete() -> str:
            """Do what needs a further scope."""
            return whoami()

        @server.tool()
        def echo_token() -> str:
            """Repeat the token, as no server should."""
            token = get_access_token()
            raise ValueError(f"your token is {token.token if token else ''}")

        async def credentials(request: Request) -> Response:
            """A token endpoint for client credentials, which the SDK's has not."""
            form = await request.form()
            if (form.get("client_id"), form.get("client_secret")) != ("robot", self.robots_secret):
                return JSONResponse({"error": "invalid_client"}, status_code=401)
            token = self.provider.issue("robot", "robot", [SCOPE], refreshes=False)
            return JSONResponse(token.model_dump(exclude_none=True))

        server.custom_route("/credentials", methods=["POST"])(credentials)
        inner = server.streamable_http_app()

        async def app(scope: Any, receive: Any, send: Any) -> None:
            if self.robots and scope.get("path") == "/.well-known/oauth-authorization-server":
                found = {
                    "issuer": self.base,
                    "token_endpoint": f"{self.base}/credentials",
                    "token_endpoint_auth_methods_supported": ["client_secret_post"],
                }
                await JSONResponse(found)(scope, receive, send)
                return
            if scope.get("path") == "/token" and self.down is not None:
                self.turned_away += 1
                headers = {"Retry-After": self.later} if self.later else None
                await Response(status_code=self.down, headers=headers)(scope, receive, send)
                return
            if scope.get("path") == "/mcp" and self.refuses:
                told = f'Bearer resource_metadata="{self.base}/.well-known/oauth-protected-resource/mcp"'
                await Response(status_code=401, headers={"WWW-Authenticate": told})(scope, receive, send)
                return
            if scope.get("path") == "/mcp" and self.inside is not None:
                token = Request(scope).headers.get("authorization", "").removeprefix("Bearer ")
                if await self.provider.load_access_token(token):
                    await self.inside(scope, receive, send)
                else:
                    told = f'Bearer error="invalid_token", scope="{SCOPE}"'
                    await Response(status_code=401, headers={"WWW-Authenticate": told})(scope, receive, send)
                return
            if scope.get("path") == "/mcp" and scope.get("method") == "POST":
                request = Request(scope, receive)
                body = await request.body()
                deletes = b'"tools/call"' in body and b'"delete"' in body
                more = self.wants_more and (self.wants_more == "/" or f'"{self.wants_more}"'.encode() in body)
                if (deletes or more) and not self._allows(request):
                    told = f'Bearer error="insufficient_scope", scope="{SCOPE} {MORE}"'
                    error = {"code": -32001, "message": "not without more"}
                    said = (
                        b""
                        if self.wants_more != "tools/list"
                        else json.dumps({"jsonrpc": "2.0", "id": json.loads(body).get("id"), "error": error}).encode()
                    )
                    head = {"WWW-Authenticate": told, **({"Content-Type": "application/json"} if said else {})}
                    await Response(said, 403, headers=head)(scope, receive, send)
                    return
                await inner(scope, _once(body, receive), send)
                return
            await inner(scope, receive, send)

        return app

    def _allows(self, request: Request) -> bool:
        token = self.provider.access.get(request.headers.get("authorization", "").removeprefix("Bearer "))
        return token is None or MORE in token.scopes


def _once(body: bytes, receive: Any) -> Any:
    """What receives a body that was read already, and then what comes after it."""
    parts = [{"type": "http.request", "body": body, "more_body": False}]

    async def again() -> Any:
        return parts.pop() if parts else await receive()

    return again

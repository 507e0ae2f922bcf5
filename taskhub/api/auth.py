"""From the `Authorization` header to a principal. `/mcp` ignores cookies; a browser session can
never raise the rights of an API call."""

from __future__ import annotations

import re

from django.http import HttpRequest, HttpResponse

from taskhub.core.names import SCOPES
from taskhub.core.records import Principal
from taskhub.identity.principals import anonymous_principal, cached_anonymous, cached_principal, principal_of
from taskhub.lib import jsonx
from taskhub.lib.lanes import Lanes

_TOKEN = re.compile(r"^[A-Za-z0-9._~+/=-]{20,512}$")


class Unauthorized(Exception):
    """No token, or no good one; `bad` tells which, for the challenge (AU-03)."""

    def __init__(self, *, bad: bool) -> None:
        super().__init__()
        self.bad = bad


async def authenticate(authorization: str | None, *, address: str, lanes: Lanes, anonymous: bool) -> Principal:
    """The caller. Raises `Unauthorized`; why a token is not good is told to nobody."""
    if authorization is None:
        if anonymous:
            return await _anonymous(lanes)
        raise Unauthorized(bad=False)
    scheme, _, token = authorization.partition(" ")
    token = token.strip()
    if scheme.lower() != "bearer" or not _TOKEN.match(token):
        raise Unauthorized(bad=True)
    principal = cached_principal(token) or await lanes.run(principal_of, token, address)
    if principal is None:
        raise Unauthorized(bad=True)
    return principal


async def _anonymous(lanes: Lanes) -> Principal:
    principal = cached_anonymous() or await lanes.run(anonymous_principal)
    if principal is None:
        raise Unauthorized(bad=False)
    return principal


def challenge(error: Unauthorized) -> HttpResponse:
    """401 with the challenge header and a JSON body."""
    body = {"jsonrpc": "2.0", "error": {"code": -32600, "message": "A valid bearer token is required"}}
    response = HttpResponse(jsonx.encode(body), status=401, content_type="application/json")
    response["WWW-Authenticate"] = 'Bearer realm="taskhub"' + (', error="invalid_token"' if error.bad else "")
    return response


def scope_challenge(response: HttpResponse, scope: str) -> HttpResponse:
    """Adds the header of a 403 that names the missing scope (AU-04)."""
    response["WWW-Authenticate"] = f'Bearer realm="taskhub", error="insufficient_scope", scope="{scope}"'
    return response


def peer(request: HttpRequest) -> str:
    """The peer's address as the connection has it."""
    return str(request.META.get("REMOTE_ADDR", ""))


__all__ = ["SCOPES", "Unauthorized", "authenticate", "challenge", "peer", "scope_challenge"]

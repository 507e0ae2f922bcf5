"""Finds the principal of a request by its `Authorization` header. `/mcp` ignores cookies, so that a browser
session can never add to the rights of a call."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Collection

from django.http import HttpRequest, HttpResponse

from taskhub.core.names import CALL_SCOPES, SCOPES
from taskhub.core.records import Principal
from taskhub.core.versions import is_stateless
from taskhub.domain.address import has_authorization_server, metadata_of, resource_of
from taskhub.domain.clients import issuers as outside
from taskhub.domain.clients.principals import anonymous_principal, cached_anonymous, cached_principal, principal_of
from taskhub.lib import jsonx
from taskhub.lib.lanes import Lanes

MAX_TOKEN = 8_192
_TOKEN = re.compile(r"[A-Za-z0-9._~+/-]+=*")
"""RFC 6750's `b64token`."""


class Unauthorized(Exception):
    """The request has no token (`error` is empty), a token that is not valid (`invalid_token`), or a header that cannot
    be parsed (`invalid_request`) (AU-03, AU-05)."""

    def __init__(self, error: str = "") -> None:
        super().__init__()
        self.error = error


async def authenticate(
    authorization: str | None, *, request: HttpRequest, lanes: Lanes, anonymous: bool, repeated: bool = False
) -> Principal:
    """The principal of the request. Raises `Unauthorized`, which does not say why a token is not valid. `repeated`:
    whether there was more than one `Authorization` header."""
    if repeated:
        raise Unauthorized("invalid_request")
    if authorization is None:
        if anonymous:
            return await _anonymous(lanes)
        raise Unauthorized
    scheme, _, token = authorization.partition(" ")
    if scheme.lower() != "bearer":
        raise Unauthorized  # another scheme, so no token was sent (RFC 6750, 3.1)
    token = token.strip()
    if not _TOKEN.fullmatch(token):
        raise Unauthorized("invalid_request")
    if len(token) > MAX_TOKEN:
        raise Unauthorized("invalid_token")
    principal = cached_principal(token)
    if principal is None:
        # Not in a lane, since fetching the issuer's keys may be slow. Only a valid token takes up a lane.
        if outside.looks_like_jwt(token) and await asyncio.to_thread(outside.verify, token) is None:
            raise Unauthorized("invalid_token")
        principal = await lanes.run(principal_of, token, peer(request))
    if principal is None:
        raise Unauthorized("invalid_token")
    if principal.audiences and resource_of(request) not in principal.audiences:
        if outside.looks_like_jwt(token):
            outside.tell_refusal(token, "its audience is not the address called", called=resource_of(request))
        raise Unauthorized("invalid_token")  # issued for another resource (AU-07)
    return principal


async def _anonymous(lanes: Lanes) -> Principal:
    principal = cached_anonymous() or await lanes.run(anonymous_principal)
    if principal is None:
        raise Unauthorized
    return principal


def challenge(error: Unauthorized, request: HttpRequest) -> HttpResponse:
    """The response to `error`: 401, or 400 for a header that cannot be parsed, with the challenge and a JSON body."""
    malformed = error.error == "invalid_request"
    why = "The Authorization header is malformed" if malformed else "A valid bearer token is required"
    body = {"jsonrpc": "2.0", "error": {"code": -32600, "message": why}}
    response = HttpResponse(jsonx.encode(body), status=400 if malformed else 401, content_type="application/json")
    response["WWW-Authenticate"] = _bearer(request, error.error, CALL_SCOPES)
    return response


def scope_challenge(
    response: HttpResponse, scope: str, request: HttpRequest, *, granted: Collection[str], version: str | None
) -> HttpResponse:
    """Add `WWW-Authenticate` to a 403: the scopes for which the client should ask (AU-04, AU-10). Returns `response`.

    For a client of 2025 these are the `granted` scopes and the missing one, `scope`, because it asks for exactly the
    scopes that are named. For a client of 2026 it is only the missing one: the client adds the scopes that it has.
    """
    needed = {scope} if is_stateless(version) else {scope, *granted}
    named = [name for name in SCOPES if name in needed]
    response["WWW-Authenticate"] = _bearer(request, "insufficient_scope", named or [scope])
    return response


def _bearer(request: HttpRequest, error: str, scopes: Collection[str]) -> str:
    parts = [f'error="{error}"'] if error else []
    parts.append(f'scope="{" ".join(scopes)}"')
    if has_authorization_server():
        parts.append(f'resource_metadata="{metadata_of(request)}"')
    return f"Bearer {', '.join(parts)}"


def peer(request: HttpRequest) -> str:
    """The peer's address, as the guard found it: behind trusted proxies, the address that they report."""
    return str(request.META.get("REMOTE_ADDR", ""))


__all__ = ["SCOPES", "Unauthorized", "authenticate", "challenge", "peer", "scope_challenge"]

"""Requests to an authorization server: register, redeem a code, refresh, revoke."""

from __future__ import annotations

import base64
import re
from collections.abc import Collection, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, Final
from urllib.parse import quote

from pydantic import ValidationError

from taskhub.core.secrets import without_values
from taskhub.domain.credentials import web
from taskhub.domain.credentials.records import Client, Denied, Found, Tokens, Unanswered
from taskhub.domain.credentials.web import Unfit
from taskhub.lib.signs import spelled

MAX_TOKEN: Final = 8_192
"""The most characters of an access or refresh token."""
_TOKEN: Final = re.compile(rf"[\x21-\x7e]{{1,{MAX_TOKEN}}}")
_CODE: Final = re.compile(r"[a-z_]{1,60}")
_REFUSALS: Final = (400, 401, 403)
_PASSING: Final = ("temporarily_unavailable", "server_error", "slow_down")
"""Error codes of passing troubles: the next try may succeed."""
_METHODS: Final = ("client_secret_basic", "client_secret_post", "none")
"""The methods by which the hub can authenticate, the best first."""


def method_for(found: Found, *, secret: bool) -> str:
    """How a client with or without a secret authenticates at the token endpoint. Raises `Denied` if the hub and the
    authorization server have no way in common."""
    if not secret:
        return "none"
    known = found.methods or ("client_secret_basic",)  # RFC 8414, 2
    for method in _METHODS[:2]:
        if method in known:
            return method
    raise Denied(f"clients have to authenticate by {spelled(', '.join(known))[:100]}, which TaskHub cannot")


def register(found: Found, *, name: str, redirect_uri: str, scopes: str, given: Collection[str]) -> Client:
    """Register the hub as a client that may ask for these scopes (RFC 7591). Raises `Denied` or `Unanswered`."""
    from mcp.shared.auth import OAuthClientInformationFull  # as in `discovery`

    wished = "none" if not found.methods or "none" in found.methods else method_for(found, secret=True)
    answer = _asked(
        found.registration_endpoint,
        given,
        body={
            "client_name": name,
            "redirect_uris": [redirect_uri],
            "grant_types": ["authorization_code", "refresh_token"],
            "response_types": ["code"],
            "token_endpoint_auth_method": wished,
            "application_type": "web",
            **({"scope": scopes} if scopes else {}),
        },
    )
    if answer.status not in (200, 201):
        raise Denied(f"it does not register TaskHub as a client: {_why(answer)}")
    try:
        made = OAuthClientInformationFull.model_validate(answer.body)
    except ValidationError:
        raise Denied("its answer to the registration of a client is not valid") from None
    method, secret = made.token_endpoint_auth_method or ("none" if not made.client_secret else wished), ""
    if method == "none" and made.client_secret and wished != "none":
        method = wished
    if method not in _METHODS or (method != "none" and not made.client_secret):
        raise Denied(f"it registered TaskHub for the method {spelled(method)[:60]}, which TaskHub cannot use")
    if method != "none":
        secret = made.client_secret or ""
    if not _TOKEN.fullmatch(made.client_id) or (secret and not _TOKEN.fullmatch(secret)):
        raise Denied("its answer to the registration of a client is not valid")
    return Client(made.client_id, secret, method, made.client_secret_expires_at or 0)


def redeem(
    found: Found, client: Client, *, code: str, verifier: str, redirect_uri: str, given: Collection[str]
) -> Tokens:
    """The tokens for an authorization code. Raises `Denied` or `Unanswered`."""
    form = {
        "grant_type": "authorization_code",
        "code": code,
        "code_verifier": verifier,
        "redirect_uri": redirect_uri,
        **_resource(found),
    }
    return _tokens(found, client, form, given, secrets={code, verifier})


def refresh(found: Found, client: Client, *, token: str, given: Collection[str]) -> Tokens:
    """New tokens for a refresh token; `refresh` is empty if the refresh token stays the same. Raises `Denied` or
    `Unanswered`."""
    form = {"grant_type": "refresh_token", "refresh_token": token, **_resource(found)}
    return _tokens(found, client, form, given, secrets={token})


def by_credentials(found: Found, client: Client, *, scopes: str, given: Collection[str]) -> Tokens:
    """The token for the hub itself (RFC 6749, 4.4). Raises `Denied` or `Unanswered`."""
    form = {"grant_type": "client_credentials", **_resource(found), **({"scope": scopes} if scopes else {})}
    return _tokens(found, client, form, given)


def revoke(found: Found, client: Client, token: str, *, given: Collection[str]) -> bool:
    """Have a token revoked (RFC 7009), which also ends the tokens that were issued with it. Returns whether the
    authorization server has revoked it."""
    if not found.revocation_endpoint:
        return False
    form, headers = _authenticated(client, {"token": token})
    # The authorization server of the official SDK wants the secret in the form too, however clients authenticate.
    for sent in (form, {**form, "client_secret": client.secret}):
        try:
            status = web.post(found.revocation_endpoint, given, form=sent, headers=headers).status
        except (Unfit, Unanswered):
            return False
        if status != 400:
            return status == 200
    return False


def _resource(found: Found) -> dict[str, str]:
    return {"resource": found.resource} if found.resource else {}


def _tokens(
    found: Found, client: Client, form: Mapping[str, str], given: Collection[str], secrets: Collection[str] = ()
) -> Tokens:
    from mcp.shared.auth import OAuthToken  # as in `discovery`

    form, headers = _authenticated(client, form)
    answer = _asked(found.token_endpoint, given, form=form, headers=headers)
    if answer.status in _REFUSALS and answer.body.get("error") not in (None, *_PASSING):
        raise Denied(without_values(_why(answer), {*secrets, client.secret}))
    if answer.status != 200:
        raise Unanswered(f"the authorization server answered HTTP {answer.status}", later=answer.later)
    try:
        issued = OAuthToken.model_validate(answer.body)
    except ValidationError:
        raise Unanswered("the authorization server sent something that is no bearer token") from None
    if not _TOKEN.fullmatch(issued.access_token) or not _TOKEN.fullmatch(issued.refresh_token or "-"):
        raise Unanswered("the authorization server sent a token that cannot be sent in a header")
    expires_at = None
    if issued.expires_in is not None:
        expires_at = datetime.now(UTC) + timedelta(seconds=max(0, min(issued.expires_in, 10 * 365 * 86_400)))
    scopes = issued.scope or ""
    return Tokens(issued.access_token, issued.refresh_token or "", expires_at, spelled(scopes)[:1_000])


def _authenticated(client: Client, form: Mapping[str, str]) -> tuple[dict[str, str], dict[str, str]]:
    """The form and the headers, with the client's authentication."""
    if client.method == "client_secret_basic":
        pair = f"{quote(client.id, safe='')}:{quote(client.secret, safe='')}"
        # The id is in the form too, because some authorization servers want it there as well.
        return {**form, "client_id": client.id}, {"Authorization": f"Basic {base64.b64encode(pair.encode()).decode()}"}
    if client.method == "client_secret_post":
        return {**form, "client_id": client.id, "client_secret": client.secret}, {}
    return {**form, "client_id": client.id}, {}


def _asked(url: str, given: Collection[str], **sent: Any) -> web.Answer:
    try:
        return web.post(url, given, **sent)
    except Unfit as error:
        raise Unanswered(str(error)) from None


def _why(answer: web.Answer) -> str:
    """The refusal in words: the error code, and the description that was sent, cut to 200 characters."""
    code = answer.body.get("error")
    said = code if isinstance(code, str) and _CODE.fullmatch(code) else f"HTTP {answer.status}"
    description = answer.body.get("error_description")
    return f"{said}: {spelled(description)[:200]}" if isinstance(description, str) and description else said

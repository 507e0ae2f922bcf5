"""Finds the authorization server of an MCP server: RFC 9728, then RFC 8414 or OpenID Connect discovery.

The order of addresses and the shapes of documents are those of the official SDK. The SDK's own client asks for them
only within one interactive process, so this module decides itself what to ask for, and when. Importing the SDK takes
most of a second, so other modules import this one only when they discover: most processes never do.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Final
from urllib.parse import urlsplit

import httpx2
from mcp.client.auth.utils import (
    build_oauth_authorization_server_metadata_discovery_urls,
    build_protected_resource_metadata_discovery_urls,
    extract_field_from_www_auth,
    issuers_match,
)
from mcp.shared.auth import OAuthMetadata, ProtectedResourceMetadata
from mcp.shared.auth_utils import check_resource_allowed, resource_url_from_server_url
from pydantic import AnyHttpUrl, ValidationError

from taskhub.core.errors import Invalid
from taskhub.domain.credentials import web
from taskhub.domain.credentials.records import MAX_SCOPES, Found, Unanswered, Way
from taskhub.domain.credentials.web import Unfit, hosts_given
from taskhub.lib.signs import spelled

_PING: Final = {"jsonrpc": "2.0", "id": 1, "method": "ping"}
_ACCEPT: Final = {"Accept": "application/json, text/event-stream"}


class _Metadata(OAuthMetadata):
    """The metadata of an authorization server. The authorization endpoint may be missing: RFC 8414 requires it only of
    servers that support a grant which uses it."""

    authorization_endpoint: AnyHttpUrl | None = None  # type: ignore[assignment]  # wider than the SDK's


def discover(server_url: str, *, way: Way, issuer: str = "") -> Found:
    """Find out how the server at this address is authorized. `issuer`: the issuer that an admin named; empty if none.
    Raises `Invalid`, which says what is missing or wrong."""
    given = hosts_given(server_url, issuer)
    challenge = _challenge(server_url, given)
    resource, trouble = _resource(server_url, challenge.field("resource_metadata"), given)
    try:
        metadata = _metadata(_issuer(server_url, resource, issuer), server_url, given)
    except Invalid as error:
        if not trouble:
            raise
        raise Invalid(f"{trouble} {error.message}", field="oauth") from None
    _check(metadata, way)
    scopes = challenge.field("scope") or " ".join((resource and resource.scopes_supported) or ())
    return Found(
        issuer=str(metadata.issuer),
        token_endpoint=_endpoint(metadata.token_endpoint),
        authorization_endpoint=_endpoint(metadata.authorization_endpoint),
        registration_endpoint=_endpoint(metadata.registration_endpoint),
        revocation_endpoint=_endpoint(metadata.revocation_endpoint),
        methods=tuple(metadata.token_endpoint_auth_methods_supported or ()),
        scopes=_with_offline(scopes, metadata, way) if len(scopes) <= MAX_SCOPES else "",
        resource=str(resource.resource) if resource else resource_url_from_server_url(server_url),
        says_issuer=bool(metadata.authorization_response_iss_parameter_supported),
        reads_documents=bool(metadata.client_id_metadata_document_supported),
    )


class _Challenge:
    """The header WWW-Authenticate of a refusal."""

    def __init__(self, header: str) -> None:
        self._response = httpx2.Response(401, headers={"WWW-Authenticate": header[:4_096]} if header else {})

    def field(self, name: str) -> str:
        """The parameter of the challenge with this name; empty if it has none."""
        return extract_field_from_www_auth(self._response, name) or ""


def _challenge(server_url: str, given: Collection[str]) -> _Challenge:
    """The server's challenge in answer to a request without a token. If there is no usable answer, the challenge is
    empty: the server may have metadata even so. Raises `Invalid` for an address that may not be requested."""
    try:
        answer = web.post(server_url, given, body=_PING, headers=_ACCEPT)
    except Unfit as error:
        raise Invalid(f"{_sentence(error)}.", field="oauth") from None
    except Unanswered:
        return _Challenge("")
    return _Challenge(answer.challenge if answer.status in (401, 403) else "")


def _resource(server_url: str, named: str, given: Collection[str]) -> tuple[ProtectedResourceMetadata | None, str]:
    """The metadata of the server as a protected resource, or `None`; and why the metadata cannot be read, as a
    sentence, or an empty text. Both are empty if the server has no metadata, as before 2025-06-18."""
    trouble = ""
    for url in build_protected_resource_metadata_discovery_urls(named or None, server_url):
        try:
            answer = web.get(url, given)
            if answer.status != 200:
                if failed := _failed(answer.status):
                    trouble = trouble or f"The server’s OAuth metadata cannot be read: {failed}."
                continue
            found = ProtectedResourceMetadata.model_validate(answer.body)
        except (Unfit, Unanswered) as error:
            if url == named:
                raise Invalid(f"The server’s OAuth metadata cannot be read: {error}.", field="oauth") from None
            continue
        except ValidationError:
            continue
        if not check_resource_allowed(resource_url_from_server_url(server_url), str(found.resource)):
            raise Invalid(
                f"The server’s OAuth metadata is for another resource, {_shown(found.resource)}.", field="oauth"
            )
        return found, ""
    return None, trouble


def _failed(status: int) -> str:
    """Why an answer with this status, which is not 200, does not show whether the document exists, as text for people.
    Empty if it shows that there is no such document."""
    if 300 <= status < 400:
        return f"HTTP {status}, which leads elsewhere, and is not followed"
    return f"HTTP {status}" if status >= 500 or status == 429 else ""


def _issuer(server_url: str, resource: ProtectedResourceMetadata | None, wanted: str) -> str:
    if resource is None:
        return wanted
    named = [str(each) for each in resource.authorization_servers]
    if not wanted:
        return named[0]
    for each in named:
        if issuers_match(each, wanted):
            return each
    raise Invalid(
        f"The server names {_shown(', '.join(named))} as its authorization server, not {_shown(wanted)}.",
        field="oauth_issuer",
    )


def _metadata(issuer: str, server_url: str, given: Collection[str]) -> _Metadata:
    parts = urlsplit(server_url)
    expected = issuer or f"{parts.scheme}://{parts.netloc}"
    why = f"{_shown(expected)} has no OAuth metadata"
    for url in build_oauth_authorization_server_metadata_discovery_urls(issuer or None, server_url):
        try:
            answer = web.get(url, given)
        except (Unfit, Unanswered) as error:
            why = str(error)
            continue
        if answer.status != 200:
            if failed := _failed(answer.status):
                why = f"the OAuth metadata of {_shown(expected)} cannot be read: {failed}"
            continue
        try:
            found = _Metadata.model_validate(answer.body)
        except ValidationError as error:
            field = ".".join(map(str, error.errors()[0]["loc"]))
            why = f"the OAuth metadata of {_shown(expected)} is not valid: {_shown(field)}"
            continue
        if not issuers_match(str(found.issuer), expected):
            raise Invalid(
                f"The OAuth metadata of {_shown(expected)} is that of another issuer, {_shown(found.issuer)}.",
                field="oauth",
            )
        return found
    raise Invalid(f"{_sentence(why)}.", field="oauth")


def _check(metadata: _Metadata, way: Way) -> None:
    if way is Way.CLIENT:
        return
    who = _shown(metadata.issuer)
    if metadata.authorization_endpoint is None:
        raise Invalid(f"{who} has no page on which people authorize (authorization_endpoint).", field="oauth")
    if "S256" not in (metadata.code_challenge_methods_supported or ()):
        raise Invalid(
            f"{who} does not say that it supports PKCE with S256, without which a code could be stolen.", field="oauth"
        )


def _with_offline(scopes: str, metadata: _Metadata, way: Way) -> str:
    """The scopes, with `offline_access` (for a refresh token) if the authorization server knows it and a person
    authorizes."""
    known = metadata.scopes_supported or ()
    if way is Way.CLIENT or not scopes or "offline_access" not in known or "offline_access" in scopes.split():
        return scopes
    return f"{scopes} offline_access"


def _endpoint(url: AnyHttpUrl | None) -> str:
    if url is None:
        return ""
    try:
        return web.checked(str(url))
    except Unfit as error:
        raise Invalid(f"{_sentence(error)}.", field="oauth") from None


def _sentence(words: object) -> str:
    """The words as a sentence. An address or a host at its beginning stays as it is."""
    text = str(words)
    return text[:1].upper() + text[1:] if text.startswith("the ") else text


def _shown(text: object) -> str:
    return spelled(str(text))[:200]

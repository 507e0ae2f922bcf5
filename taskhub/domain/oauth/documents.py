"""Client ID Metadata Documents: a page on the web that describes a program.

The fetcher of django-oauth-toolkit protects against request forgery. It accepts only https; it resolves the host name
once, refuses the host if any of its addresses is not public, and connects to exactly the address that it checked; it
follows no redirects, and limits size and time. This module adds what MCP clients need.
"""

from __future__ import annotations

import ipaddress
import json
import ssl
from typing import Any, Final
from urllib.parse import urlsplit

import httpx2
from django.conf import settings
from oauth2_provider.cimd import CIMDError, SafeMetadataFetcher

from taskhub.lib.addresses import BadAddress, web_address

AUTHORIZE_PATH: Final = "/oauth/authorize"
_LOOPBACK_NAMES = ("localhost",)


def is_loopback(host: str | None) -> bool:
    """Whether a host name or address is this machine itself."""
    if host in _LOOPBACK_NAMES:
        return True
    try:
        return ipaddress.ip_address((host or "").strip("[]")).is_loopback
    except ValueError:
        return False


def redirect_allowed(uri: str) -> bool:
    """Whether a code may be sent to this redirect URI: https to any host, plain http only to the person's own machine
    (RFC 8252)."""
    try:
        address = web_address(uri)
    except BadAddress:
        return False
    return "#" not in uri and (address.scheme == "https" or is_loopback(address.name))


class OnlyWhenAPersonAsks:
    """Permission class for django-oauth-toolkit: a document is fetched for a signed-in person at the authorize page,
    never for a caller at the token endpoint, so that nobody without an account can make this server send a request."""

    def has_permission(self, request: Any, client_id: str) -> bool:
        """Whether this is the authorize page, which only signed-in people reach."""
        return urlsplit(str(request.uri)).path == AUTHORIZE_PATH


class Documents(SafeMetadataFetcher):  # type: ignore[misc]  # the toolkit is untyped
    """The fetcher of django-oauth-toolkit, changed so that it accepts documents that were written for other
    authorization servers too."""

    def fetch(self, client_id: str) -> tuple[dict[str, Any], int]:
        """The document, reduced to what the hub supports, and for how many seconds to cache it. Raises `CIMDError`."""
        try:
            web_address(client_id)
        except BadAddress as error:
            raise CIMDError(f"client_id is no address to go by: {error}") from None
        if settings.TASKHUB_OAUTH_LOCAL_DOCUMENTS and is_loopback(urlsplit(client_id).hostname):
            document, seconds = self._local(client_id)
        else:
            document, seconds = super().fetch(client_id)
        # A program has one document for all authorization servers. Features that we do not support, such as device
        # codes or a redirect scheme of its own, are taken out of the document, which is not refused for them.
        grants = document.get("grant_types")
        if isinstance(grants, list) and "authorization_code" in grants:
            document["grant_types"] = ["authorization_code"]
        redirects = document.get("redirect_uris")
        if isinstance(redirects, list):
            document["redirect_uris"] = [uri for uri in redirects if isinstance(uri, str) and redirect_allowed(uri)]
        name = document.get("client_name")
        if isinstance(name, str):
            # People see the name on pages and in the audit log, so it is kept without characters that reorder or hide
            # text.
            document["client_name"] = "".join(sign for sign in name if sign.isprintable()).strip()[:100]
        return document, seconds

    def _local(self, client_id: str) -> tuple[dict[str, Any], int]:
        """Fetch a document from this machine, for development. It has to be https too, because clients accept no other
        URL for their document; `SSL_CERT_FILE` names the certificates to trust."""
        if urlsplit(client_id).scheme != "https":
            raise CIMDError("client_id URL must use the https scheme")
        try:
            with httpx2.Client(timeout=5, follow_redirects=False, verify=ssl.create_default_context()) as http:
                response = http.get(client_id, headers={"Accept": "application/json"})
        except httpx2.HTTPError as error:
            raise CIMDError(f"could not fetch client_id document: {error}") from error
        if response.status_code != 200 or len(response.content) > 65_536:
            raise CIMDError(f"client_id document returned HTTP {response.status_code}")
        try:
            document = json.loads(response.content)
        except ValueError as error:
            raise CIMDError("client_id document is not valid JSON") from error
        if not isinstance(document, dict):
            raise CIMDError("client_id document must be a JSON object")
        return document, 300

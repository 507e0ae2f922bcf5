"""The public URL of this hub, and the OAuth resource for which its tokens are."""

from __future__ import annotations

from urllib.parse import urlsplit

from django.conf import settings
from django.http import HttpRequest

_PORTS = {"http": 80, "https": 443}


def base_url(request: HttpRequest) -> str:
    """The hub's base URL: `PUBLIC_URL`; if that is not set, scheme and host of the request, whose Host header the guard
    has checked. It is also the issuer of the hub's authorization server."""
    return str(settings.PUBLIC_URL) or f"{request.scheme}://{request.get_host()}"


def resource_of(request: HttpRequest) -> str:
    """The hub's OAuth resource identifier (RFC 8707, RFC 9728) in canonical form: the URL of `/mcp`."""
    return canonical(f"{base_url(request)}/mcp")


def metadata_of(request: HttpRequest) -> str:
    """The URL of the protected resource metadata, for the `WWW-Authenticate` header (AU-02)."""
    return f"{base_url(request)}/.well-known/oauth-protected-resource/mcp"


def canonical(uri: str) -> str:
    """One spelling for equal URLs (AU-09): scheme and host in lower case, no default port, no slash at the end. Returns
    an empty string for a URL that is not http(s), or that has a fragment, a query or user info.
    """
    try:
        parts = urlsplit(uri)
        port = parts.port
    except ValueError:
        return ""
    host = (parts.hostname or "").lower()
    plain = not (parts.query or parts.fragment or "#" in uri or "?" in uri or "@" in parts.netloc)
    if parts.scheme not in _PORTS or not host or not plain:
        return ""
    shown = f"[{host}]" if ":" in host else host
    return (
        f"{parts.scheme}://{shown}{'' if port in (None, _PORTS[parts.scheme]) else f':{port}'}{parts.path.rstrip('/')}"
    )


def has_authorization_server() -> bool:
    """Whether clients can get tokens from an authorization server, the hub's own or an external one."""
    return bool(settings.TASKHUB_OAUTH or settings.OIDC_ISSUER)


def authorization_servers(request: HttpRequest) -> list[str]:
    """The issuers whose tokens the hub accepts. The external issuer is first, because an operator who configures one
    wants it to be used."""
    ours = [base_url(request)] if settings.TASKHUB_OAUTH else []
    return ([str(settings.OIDC_ISSUER)] if settings.OIDC_ISSUER else []) + ours

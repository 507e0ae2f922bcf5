"""The public address of this TaskHub, and the one resource that tokens are made for."""

from __future__ import annotations

from urllib.parse import urlsplit

from django.conf import settings
from django.http import HttpRequest

_PORTS = {"http": 80, "https": 443}


def base_url(request: HttpRequest) -> str:
    """`PUBLIC_URL`, else the address that the request came to, whose Host the guard has checked. It is the issuer of
    our authorization server too."""
    return str(settings.PUBLIC_URL) or f"{request.scheme}://{request.get_host()}"


def resource_of(request: HttpRequest) -> str:
    """The resource (RFC 8707, RFC 9728) in its canonical form: the address of `/mcp`."""
    return canonical(f"{base_url(request)}/mcp")


def metadata_of(request: HttpRequest) -> str:
    """The address of the resource's metadata, for challenges (AU-02)."""
    return f"{base_url(request)}/.well-known/oauth-protected-resource/mcp"


def canonical(uri: str) -> str:
    """One spelling for equal addresses (AU-09): scheme and host in lower case, no default port, no slash at the end.
    Empty for anything but an http address, and for one with a fragment, a query or a user.
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
    """Whether clients can get tokens from an authorization server, ours or an outside one."""
    return bool(settings.TASKHUB_OAUTH or settings.OIDC_ISSUER)


def authorization_servers(request: HttpRequest) -> list[str]:
    """The issuers of tokens for us: the outside issuer first, since an operator who configures one wants it used."""
    ours = [base_url(request)] if settings.TASKHUB_OAUTH else []
    return ([str(settings.OIDC_ISSUER)] if settings.OIDC_ISSUER else []) + ours

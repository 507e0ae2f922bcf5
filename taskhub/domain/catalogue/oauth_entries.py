"""Reads the OAuth settings of a server in an `mcp.json`: `oauth` of Claude Code, VS Code, Gemini CLI and others, `auth`
of Cursor."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

from taskhub.core.errors import Invalid
from taskhub.domain.catalogue.server_files import FileOAuth

_PARTS: Final = ("oauth", "auth")
_NAMES: Final = {
    "client_id": ("clientId", "client_id", "CLIENT_ID"),
    "secret": ("clientSecret", "client_secret", "CLIENT_SECRET"),
    "scopes": ("scopes", "scope", "SCOPES"),
    "issuer": ("issuer",),
    "metadata": ("authServerMetadataUrl",),
    "grant": ("grantType", "grant_type"),
    "enabled": ("enabled",),
}
"""For each setting that is kept, the names that programs use for it."""
_ENDPOINTS: Final = ("authorizationUrl", "tokenUrl")
"""Settings that are refused beside a client's secret: without them the hub would send the secret elsewhere."""
_GRANTS: Final = ("", "authorization_code", "client_credentials")
_WELL_KNOWN: Final = re.compile(
    r"(?P<host>[^?#]+?)/\.well-known/(?:oauth-authorization-server|openid-configuration)(?P<path>/[^?#]*)?"
)


def oauth_of(entry: Mapping[str, Any]) -> tuple[FileOAuth | None, tuple[str, ...]]:
    """How a server of the file is authorized by OAuth, `None` if it is not; and the names of its OAuth settings that
    the hub does not keep. Raises `Invalid`."""
    parts = [(name, entry[name]) for name in _PARTS if entry.get(name) not in (None, False)]
    if not parts:
        return None, ()
    if len(parts) > 1:
        raise Invalid("it has both `oauth` and `auth`: give one of them.")
    part, given = parts[0]
    if given is True:
        given = {}
    if not isinstance(given, dict):
        raise Invalid(f"its `{part}` is no object.")
    found = {name: _only(part, given, names) for name, names in _NAMES.items()}
    if found["enabled"] is False:
        return None, ()
    texts = {name: _text(part, name, found[name]) for name in ("client_id", "secret", "issuer", "metadata", "grant")}
    issuer = texts["issuer"] or _issuer(part, texts["metadata"])
    if not issuer and (endpoints := [name for name in _ENDPOINTS if given.get(name)]):
        raise Invalid(
            f"its `{part}` has `{endpoints[0]}`, but TaskHub asks the authorization server for its addresses: give"
            " `issuer`, or `authServerMetadataUrl`."
        )
    if texts["grant"] not in _GRANTS:
        raise Invalid(f"its `{part}` has the grant type {texts['grant'][:40]!r}: expected one of {_GRANTS[1:]}.")
    known = {name for names in _NAMES.values() for name in names}
    return (
        FileOAuth(
            client_id=texts["client_id"],
            secret=texts["secret"],
            issuer=issuer,
            scopes=_scopes(part, found["scopes"]),
            by_client=texts["grant"] == "client_credentials",
        ),
        tuple(f"{part}.{name}" for name in given if name not in known),
    )


def secret_key(name: str) -> str:
    """The key of the placeholder for the secret of a server's OAuth client. People are asked for the secret, because
    programs keep it out of the file."""
    return f"{name}.clientSecret"


def _only(part: str, given: Mapping[str, Any], names: tuple[str, ...]) -> Any:
    there = [name for name in names if given.get(name) is not None]
    if len(there) > 1:
        raise Invalid(f"its `{part}` has both `{there[0]}` and `{there[1]}`: give one of them.")
    return given[there[0]] if there else None


def _text(part: str, name: str, value: Any) -> str:
    if value is not None and not isinstance(value, str):
        raise Invalid(f"in its `{part}`, `{_NAMES[name][0]}` is no text.")
    return (value or "").strip()


def _scopes(part: str, value: Any) -> str:
    if isinstance(value, list) and all(isinstance(scope, str) for scope in value):
        return " ".join(value)
    return _text(part, "scopes", value)


def _issuer(part: str, metadata: str) -> str:
    """The issuer whose metadata has this URL (RFC 8414, 3; OpenID Connect Discovery, 4)."""
    if not metadata:
        return ""
    found = _WELL_KNOWN.fullmatch(metadata)
    if found is None:
        raise Invalid(
            f"in its `{part}`, `authServerMetadataUrl` is not at `/.well-known/oauth-authorization-server` or"
            " `/.well-known/openid-configuration`, so it does not tell the issuer: give `issuer`."
        )
    return found["host"] + (found["path"] or "")

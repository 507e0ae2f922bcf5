"""Tokens of an external issuer: JWTs that are verified with the issuer's published keys.

Issuer, audience and signature algorithms come from the settings. A token only names its key, by `kid`.
"""

from __future__ import annotations

import ipaddress
import logging
import threading
import time
from collections import defaultdict
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final
from urllib.parse import urlsplit

import httpx2
import jwt
from django.conf import settings
from django.core.exceptions import ImproperlyConfigured

from taskhub.core.names import SCOPES
from taskhub.domain.address import canonical
from taskhub.lib import jsonx
from taskhub.lib.throttle import Throttle

logger = logging.getLogger(__name__)

LEEWAY_SECONDS: Final = 60
TYPES: Final = frozenset({"jwt", "at+jwt", "application/at+jwt"})
"""The accepted values of the header `typ`, in lower case (RFC 9068, 4). A JWT with another type is no access token."""
KEYS_SECONDS: Final = 3_600.0
"""Seconds after which the keys are fetched again, so that a key that the issuer withdrew is not accepted for longer."""
ASK_AGAIN_SECONDS: Final = 30.0
"""The fewest seconds between two requests to the issuer, however many tokens name unknown keys."""
MAX_DOCUMENT: Final = 262_144
REASON_SECONDS: Final = 60.0
"""Seconds in which at most one refusal of a token is logged for each reason."""
MAX_TOLD: Final = 100
"""The most characters of each claim of a refused token that are logged."""
ASYMMETRIC: Final = frozenset(
    {"RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA"}
)


@dataclass(frozen=True, slots=True)
class Claims:
    """The claims of a valid token. `audiences`: the URLs for which the token is; empty if `OIDC_AUDIENCE` is set,
    because the token was checked against that."""

    issuer: str
    subject: str
    client_id: str
    name: str
    scopes: frozenset[str]
    expires_at: datetime
    audiences: frozenset[str]


class _NoKey(Exception):
    pass


class _Refused(Exception):
    """The token is refused; the message says why, and quotes nothing of the token."""


def configured_algorithms() -> list[str]:
    """The accepted signature algorithms. Raises `ImproperlyConfigured` if there are none, or if one of them is not
    asymmetric: whoever can check a signature made with a shared key can also make such a signature."""
    wrong = [name for name in settings.OIDC_ALGORITHMS if name not in ASYMMETRIC]
    if wrong or not settings.OIDC_ALGORITHMS:
        raise ImproperlyConfigured(
            f"OIDC_ALGORITHMS names {', '.join(wrong) or 'nothing'}; there are: {', '.join(sorted(ASYMMETRIC))}"
        )
    return list(settings.OIDC_ALGORITHMS)


def check_configuration() -> None:
    """Raise `ImproperlyConfigured` at the start of the process for settings that would fail at the first call."""
    if not settings.OIDC_ISSUER:
        return
    configured_algorithms()
    for name in ("OIDC_ISSUER", "OIDC_JWKS_URL"):
        value = str(getattr(settings, name))
        if value and not _trustworthy(value):
            raise ImproperlyConfigured(f"{name} must be an https:// address, not {value!r}")


def looks_like_jwt(token: str) -> bool:
    """Whether the token has the three parts of a JWT. TaskHub's own tokens have no dot."""
    return token.count(".") == 2


class Keys:
    """The issuer's keys. After an hour they are fetched again in the background, and nobody waits for that. When a
    token names an unknown key, they are fetched at once, and only the caller with this token waits."""

    def __init__(self) -> None:
        self._keys: list[tuple[str | None, dict[str, Any]]] = []
        self._source: tuple[str, str] | None = None
        self._read_at = self._asked_at = float("-inf")
        self._lock = threading.Lock()

    def candidates(self, kid: str | None) -> list[dict[str, Any]]:
        """The keys with the id `kid`, as the issuer published them. If `kid` is `None`: the only key, or the keys
        without an id. Raises `_NoKey` if there is no such key."""
        source = (str(settings.OIDC_ISSUER), str(settings.OIDC_JWKS_URL))
        found = self._find(kid) if source == self._source else []
        if not found:
            with self._lock:  # one thread asks; the others wait for its answer
                if self._due(source):
                    self._read(source)
            found = self._find(kid)
        elif time.monotonic() - self._read_at > KEYS_SECONDS and self._due(source) and self._lock.acquire(False):
            try:
                threading.Thread(target=self._refresh, args=(source,), name="issuer-keys", daemon=True).start()
            except RuntimeError:  # no more threads: the next token tries again
                self._lock.release()
        if not found:
            raise _NoKey
        return found

    def forget(self) -> None:
        """Drop the keys, so that the next token fetches them."""
        with self._lock:
            self._keys, self._source = [], None
            self._read_at = self._asked_at = float("-inf")

    def _due(self, source: tuple[str, str]) -> bool:
        return source != self._source or time.monotonic() - self._asked_at > ASK_AGAIN_SECONDS

    def _find(self, kid: str | None) -> list[dict[str, Any]]:
        known = self._keys
        if kid is None and len(known) == 1:
            return [known[0][1]]
        return [key for name, key in known if name == kid]

    def _refresh(self, source: tuple[str, str]) -> None:
        try:
            self._read(source)
        finally:
            self._lock.release()

    def _read(self, source: tuple[str, str]) -> None:
        """Fetch the keys. The caller holds the lock."""
        if source != self._source:
            self._keys, self._source = [], source
        self._asked_at = time.monotonic()
        try:
            with httpx2.Client(timeout=5, follow_redirects=False) as http:
                document = _document(http, source[1] or _discovered(http, source[0]))
            published = document["keys"]
            if not isinstance(published, list):
                raise TypeError("its keys are no list")
        except (httpx2.HTTPError, httpx2.InvalidURL, KeyError, ValueError, TypeError) as error:
            # Known keys stay valid: when the issuer is away for a moment, nobody is locked out.
            logger.warning("the keys of %s could not be read: %s", source[0], error)
            return
        self._keys = [(entry.get("kid"), entry) for entry in published if _usable(entry)]
        self._read_at = time.monotonic()


def _usable(entry: Any) -> bool:
    """Whether the entry is a public key for checking signatures."""
    return (
        isinstance(entry, dict)
        and isinstance(entry.get("kid"), str | None)
        and entry.get("use", "sig") == "sig"
        and entry.get("kty") != "oct"
    )


KEYS: Final = Keys()


def verify(token: str) -> Claims | None:
    """The claims of a valid token; `None` for any other token. Only the log says why a token was refused.

    May wait for the issuer's keys. So it has to be called outside of the database lanes first; a second call, on a
    lane, then finds the keys.
    """
    if not settings.OIDC_ISSUER:
        return None
    try:
        return _verified(token)
    except _Refused as error:
        tell_refusal(token, str(error))
    except _NoKey:
        tell_refusal(token, "no key of OIDC_ISSUER that it names is known")
    except jwt.ExpiredSignatureError:
        tell_refusal(token, "it has expired")
    except jwt.ImmatureSignatureError:
        tell_refusal(token, "it is not valid yet, by the clock here")
    except jwt.InvalidIssuerError:
        tell_refusal(token, "its issuer is not OIDC_ISSUER")
    except jwt.MissingRequiredClaimError as error:
        tell_refusal(token, f"it has no {error.claim}")
    except (jwt.PyJWTError, ValueError, TypeError, OverflowError, OSError):
        tell_refusal(token, "it cannot be read")
    return None


_TOLD: Final[defaultdict[str, Throttle]] = defaultdict(lambda: Throttle(REASON_SECONDS))
"""One throttle for each reason. A reason quotes nothing of a token, so that senders cannot make this grow."""


def tell_refusal(token: str, why: str, *, called: str = "") -> None:
    """Log why a token was refused, once in `REASON_SECONDS` for each reason, with the URL that was `called` and some
    unverified claims. Never logs the token itself or its subject."""
    if not _TOLD[why]():
        return
    said: dict[str, Any] = {}
    try:
        header, body = jwt.get_unverified_header(token), jwt.decode(token, options={"verify_signature": False})
        said = {name: header.get(name) for name in ("alg", "typ", "kid")}
        said |= {name: body.get(name) for name in ("iss", "aud", "exp", "client_id", "azp")}
    except (jwt.PyJWTError, ValueError, TypeError, OverflowError):
        pass  # not a JWT: there are no claims to log
    told = ", ".join(f"{name} {_short(value)}" for name, value in said.items() if value is not None)
    where = f", {_short(called)}" if called else ""
    logger.info("a token was refused: %s%s%s", why, where, f". It says: {told}" if told else "")


def _short(value: Any) -> str:
    text = ascii(value)
    return text if len(text) <= MAX_TOLD else f"{text[:MAX_TOLD]}…"


def _verified(token: str) -> Claims:
    header = jwt.get_unverified_header(token)
    algorithm = header.get("alg")
    if algorithm not in configured_algorithms():
        raise _Refused("its signature is none of OIDC_ALGORITHMS")
    if str(header.get("typ", "JWT")).lower() not in TYPES:
        raise _Refused("it is another kind of token, no access token")
    return _claims(_decoded(token, algorithm, KEYS.candidates(header.get("kid"))))


def _decoded(token: str, algorithm: str, keys: list[dict[str, Any]]) -> dict[str, Any]:
    """The token's claims, if one of the keys has signed the token. Raises `_Refused` otherwise. A key without an
    algorithm (RFC 7517, 4.4) is used with the token's algorithm, which is one of the allowed ones."""
    for entry in keys:
        try:
            key = jwt.PyJWK.from_dict(entry, algorithm=str(entry.get("alg") or algorithm))
            return jwt.decode(
                token,
                key,
                algorithms=[algorithm],
                issuer=settings.OIDC_ISSUER,
                leeway=LEEWAY_SECONDS,
                options={"require": ["exp", "iss", "sub", "aud"], "verify_aud": False},
            )
        except (jwt.InvalidSignatureError, jwt.InvalidKeyError, jwt.InvalidAlgorithmError, jwt.PyJWKError):
            continue  # a key of an unknown type, or not the key that signed the token
    raise _Refused("no key of OIDC_ISSUER has signed it")


def _claims(claims: dict[str, Any]) -> Claims:
    told = claims["aud"] if isinstance(claims["aud"], list) else [claims["aud"]]
    audiences = frozenset(value for value in told if isinstance(value, str))
    bound: frozenset[str] = frozenset()
    if settings.OIDC_AUDIENCE:
        if settings.OIDC_AUDIENCE not in audiences:
            raise _Refused("its audience is not OIDC_AUDIENCE")
    else:
        # For each call, it is checked whether the audiences include the URL to which the call came.
        bound = frozenset(filter(None, map(canonical, audiences)))
        if not bound:
            raise _Refused("no audience of it is an address, and OIDC_AUDIENCE is not set")
    subject = claims["sub"]
    client_id = next((claims[name] for name in ("client_id", "azp", "cid") if claims.get(name)), "")
    if not all(isinstance(value, str) and _storable(value) and len(value) <= 255 for value in (subject, client_id)):
        raise _Refused("its subject or client is no text of up to 255 characters that can be shown")
    if not subject:
        raise _Refused("its subject is empty")
    names = (claims.get(key) for key in ("preferred_username", "name"))
    # The name is shown to people: it may have no characters that change the direction of text or end the line.
    name = next((value for value in names if isinstance(value, str) and value and value.isprintable()), subject)
    return Claims(
        issuer=str(settings.OIDC_ISSUER),
        subject=subject,
        client_id=client_id,
        name=name[:128] or subject[:128],
        scopes=_scopes(claims),
        expires_at=datetime.fromtimestamp(int(claims["exp"]) + LEEWAY_SECONDS, UTC),
        audiences=bound,
    )


def _storable(value: str) -> bool:
    """Whether the text can be stored and shown: no control characters and no lone surrogates."""
    return value.isprintable()


def _scopes(claims: dict[str, Any]) -> frozenset[str]:
    """The token's scopes that TaskHub knows, from its claim `scope` (RFC 9068) or `scp`, which is one string or a
    list."""
    told = claims.get("scope", claims.get("scp", ""))
    words = told.split() if isinstance(told, str) else told if isinstance(told, list) else []
    return frozenset(SCOPES).intersection(word for word in words if isinstance(word, str))


def _discovered(http: httpx2.Client, issuer: str) -> str:
    """The URL of the keys, from the issuer's metadata. Raises `ValueError` if there is no metadata, it is another
    issuer's, or it names no keys."""
    parts = urlsplit(issuer)
    path = parts.path.rstrip("/")
    root = f"{parts.scheme}://{parts.netloc}"
    for url in (
        f"{issuer.rstrip('/')}/.well-known/openid-configuration",
        f"{root}/.well-known/oauth-authorization-server{path}",
    ):
        try:
            found = _document(http, url)
        except ValueError:
            continue
        if found.get("issuer") != issuer:
            raise ValueError(f"{url} speaks for another issuer")
        keys = found.get("jwks_uri")
        if isinstance(keys, str) and _trustworthy(keys):
            return keys
    raise ValueError("its metadata name no keys")


def _document(http: httpx2.Client, url: str) -> dict[str, Any]:
    body = bytearray()
    # Uncompressed: the client would inflate a compressed body to any size before its bytes are counted here.
    with http.stream("GET", url, headers={"Accept": "application/json", "Accept-Encoding": "identity"}) as response:
        if response.status_code != 200:
            raise ValueError(f"{url} answered {response.status_code}")
        for part in response.iter_raw():
            body += part
            if len(body) > MAX_DOCUMENT:
                raise ValueError(f"{url} answered more than {MAX_DOCUMENT} bytes")
    found = jsonx.decode(bytes(body))
    if not isinstance(found, dict):
        raise ValueError(f"{url} is no JSON object")
    return found


def _trustworthy(url: str) -> bool:
    """Whether the URL is https, or http on this machine, for development."""
    parts = urlsplit(url)
    if parts.scheme == "https":
        return bool(parts.hostname)
    try:
        return parts.scheme == "http" and ipaddress.ip_address(parts.hostname or "").is_loopback
    except ValueError:
        return parts.scheme == "http" and parts.hostname == "localhost"

"""Authentication: finds the `Principal` for a bearer token, and the `Person` for a user.

Principals are cached in the process for 30 seconds. A hint drops the cache at once when a token or context changes, so
that revocation takes effect within milliseconds, and within 30 seconds if the hint is lost.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from functools import partial
from importlib import import_module
from typing import Any, NamedTuple, TypeVar

from django.conf import settings
from django.contrib.auth import get_user
from django.http import HttpRequest

from taskhub.core.errors import Unavailable
from taskhub.core.names import OAUTH_ISSUER
from taskhub.core.permissions import grantable
from taskhub.core.records import Person, Principal
from taskhub.core.rules import SignedIn
from taskhub.core.states import Role
from taskhub.domain.clients import issuers as outside
from taskhub.domain.oauth.server import ACCESS_PREFIX
from taskhub.lib import ids, jsonx
from taskhub.lib.caches import ExpiringCache
from taskhub.store import room, statements
from taskhub.store.models import AuthContext, Membership, Tenant

T = TypeVar("T")

CACHE_SECONDS = 30.0
MOST_CACHED = 10_000

_ANONYMOUS = b"anonymous"
_kept: ExpiringCache[bytes, Principal] = ExpiringCache(CACHE_SECONDS, MOST_CACHED)


def cached_principal(token: str) -> Principal | None:
    """The principal of `token` if it is cached and fresh; never touches the database."""
    return _cached(ids.digest(token))


def _cached(key: bytes) -> Principal | None:
    principal = _kept.get(key)
    if principal is not None and principal.expires_at is not None and principal.expires_at <= datetime.now(UTC):
        return None
    return principal


def principal_of(token: str, address: str) -> Principal | None:
    """The principal of a valid token; `None` for a token that is unknown, expired or revoked, or whose context is
    disabled. The client is not told which of these it is.

    Accepts every kind of token: made in the console, by TaskHub's authorization server, or by the external issuer. The
    caller of this function has to check that `audiences` include the URL to which the token came.
    """
    digest = ids.digest(token)
    since = _kept.since()
    if token.startswith(ACCESS_PREFIX):
        principal = _of_oauth(digest)
    elif outside.looks_like_jwt(token):
        principal = _of_outside(token)
    else:
        principal = _of_console(digest, address)
    if principal is not None:
        _kept.keep(digest, principal, since)
    return principal


class _Token(NamedTuple):
    """A token made in the console, with its client."""

    id: int
    scopes: list[str]
    expires_at: datetime | None
    context_id: int
    tenant_id: int
    issuer: str
    subject: str
    client_id: str
    name: str


class _OAuthToken(NamedTuple):
    """An access token that the hub's authorization server issued, and what decides on its principal. `scope`: the
    scopes that were asked for; `consented`: those to which the person consented. `role`, `groups` and `username` are
    the person's. `resource`: the URLs for which the token is. `context_id` and the fields after it are of the client,
    which is the person with the application."""

    scope: str
    consented: list[str]
    role: str
    groups: list[str]
    username: str
    resource: Any
    expires_at: datetime
    context_id: int
    tenant_id: int
    subject: str
    client_id: str
    name: str


_USE = statements.maybe("use_token", _Token)
_USE_OAUTH = statements.maybe("use_oauth_token", _OAuthToken)
_FIND = statements.maybe("find_token", _Token)
_FIND_OAUTH = statements.maybe("find_oauth_token", _OAuthToken)


def _used(use: Callable[[], T | None], find: Callable[[], T | None]) -> T | None:
    """The token that `use` returns, a statement that also records the token's use. If the database accepts no writes,
    the token that `find` returns, a statement that only reads."""
    try:
        return use()
    except Unavailable:
        if not room.only_reads():
            raise
        return find()


def _of_console(digest: bytes, address: str) -> Principal | None:
    found = _used(partial(_USE, digest=digest, address=address[:64]), partial(_FIND, digest=digest))
    if found is None:
        return None
    return Principal(
        tenant_id=found.tenant_id,
        context_id=found.context_id,
        name=found.name,
        issuer=found.issuer,
        subject=found.subject,
        client_id=found.client_id,
        scopes=frozenset(found.scopes),
        expires_at=found.expires_at,
        token_id=found.id,
    )


def _of_oauth(digest: bytes) -> Principal | None:
    """The principal of an access token of TaskHub's authorization server; `None` if account, role, consent or
    application do not allow it now. The principal has only scopes that consent and role allow. `consents.standing` has
    the same rules."""
    if not settings.TASKHUB_OAUTH:
        return None
    named = {"checksum": digest.hex(), "issuer": OAUTH_ISSUER}
    found = _used(partial(_USE_OAUTH, **named), partial(_FIND_OAUTH, **named))
    if found is None:
        return None
    resource = found.resource
    audiences = frozenset(resource if isinstance(resource, list) else jsonx.decode(resource.encode()))
    if not audiences:
        return None  # django-oauth-toolkit would accept a token without audience everywhere
    return Principal(
        tenant_id=found.tenant_id,
        context_id=found.context_id,
        name=found.name,
        issuer=OAUTH_ISSUER,
        subject=found.subject,
        client_id=found.client_id,
        scopes=frozenset(found.scope.split()).intersection(found.consented, grantable(found.role)),
        expires_at=found.expires_at,
        audiences=audiences,
        person=SignedIn(found.username, found.role, tuple(found.groups)),
    )


def _of_outside(token: str) -> Principal | None:
    claims = outside.verify(token)
    tenant = None if claims is None else Tenant.objects.filter(slug=settings.OIDC_TENANT).first()
    if claims is None:
        return None
    if tenant is None:
        outside.tell_refusal(token, "there is no tenant OIDC_TENANT")
        return None
    context, _ = AuthContext.objects.get_or_create(
        tenant=tenant,
        issuer=claims.issuer[:255],
        subject=claims.subject,
        client_id=claims.client_id,
        defaults={"name": claims.name},
    )
    # Checks the row, not the object: the client may have been locked out since the object was read.
    if not AuthContext.objects.filter(pk=context.pk, disabled_at__isnull=True).update(last_seen_at=datetime.now(UTC)):
        outside.tell_refusal(token, "its client is disabled")
        return None
    return Principal(
        tenant_id=tenant.pk,
        context_id=context.pk,
        name=context.name,
        issuer=claims.issuer,
        subject=claims.subject,
        client_id=claims.client_id,
        scopes=claims.scopes,
        expires_at=claims.expires_at,
        audiences=claims.audiences,
    )


def forget_principals(context_id: int | None = None) -> None:
    """Drop the cached principals of one context, or all of them if it is `None`, after a change of a token or of
    anything on which a token depends."""
    _kept.forget(lambda principal: context_id in (None, principal.context_id))


def default_tenant() -> Tenant:
    """The tenant `main`, created if there is none."""
    return Tenant.objects.order_by("id").get_or_create(slug="main", defaults={"name": "Main"})[0]


def cached_anonymous() -> Principal | None:
    """`anonymous_principal` if it is cached and fresh; never touches the database."""
    return _cached(_ANONYMOUS)


def anonymous_principal() -> Principal | None:
    """The principal that all callers without a token share (`--anonymous`); `None` if its client is locked out."""
    since = _kept.since()
    tenant = default_tenant()
    context, _ = AuthContext.objects.get_or_create(
        tenant=tenant, issuer="", subject="anonymous", client_id="", defaults={"name": "anonymous"}
    )
    if context.disabled_at is not None:
        return None
    principal = Principal(
        tenant_id=tenant.pk,
        context_id=context.pk,
        name=context.name,
        issuer="",
        subject="anonymous",
        client_id="",
        scopes=frozenset({"tasks:call", "tasks:read", "tasks:answer", "tasks:cancel"}),
        anonymous=True,
    )
    _kept.keep(_ANONYMOUS, principal, since)
    return principal


def person_of(user_id: int, username: str) -> Person | None:
    """The person behind a signed-in user, read at every request so that a changed role applies at once; `None` for a
    user without a membership."""
    membership = Membership.objects.filter(user_id=user_id).order_by("tenant_id").first()
    if membership is None:
        return None
    return Person(
        user_id=user_id,
        username=username,
        tenant_id=membership.tenant_id,
        role=Role(membership.role),
        groups=frozenset(membership.groups),
        password_due=membership.password_due,
    )


def person_of_session(key: str) -> Person | None:
    """The person who signed in with the session `key`; `None` if there is none. For WebSockets and other code that
    Django's middleware for requests does not reach."""
    request = HttpRequest()
    request.session = import_module(settings.SESSION_ENGINE).SessionStore(key)
    user = get_user(request)
    return person_of(user.pk, user.get_username()) if user.is_authenticated else None

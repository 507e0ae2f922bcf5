"""Who is calling: from a bearer token to a `Principal`, from a user to a `Person`.

Principals are cached in the process for 30 seconds; a hint drops the cache at once when a
token or context is changed, so revocation takes effect within milliseconds and, with the
hint lost, within 30 seconds.
"""

from __future__ import annotations

from datetime import UTC, datetime
from importlib import import_module

from django.conf import settings
from django.contrib.auth import get_user
from django.db import connection
from django.http import HttpRequest

from taskhub.core.names import OAUTH_ISSUER
from taskhub.core.records import Person, Principal
from taskhub.core.states import Role
from taskhub.identity import outside
from taskhub.identity.gate import grantable
from taskhub.identity.oauth.server import ACCESS_PREFIX
from taskhub.lib import ids, jsonx
from taskhub.lib.kept import Kept
from taskhub.store.models import AuthContext, Membership, Tenant

CACHE_SECONDS = 30.0
MOST_CACHED = 10_000

_ANONYMOUS = b"anonymous"
_kept: Kept[bytes, Principal] = Kept(CACHE_SECONDS, MOST_CACHED)


def cached_principal(token: str) -> Principal | None:
    """The principal of `token` if it is known here and still fresh; never touches the database."""
    return _cached(ids.digest(token))


def _cached(key: bytes) -> Principal | None:
    principal = _kept.get(key)
    if principal is not None and principal.expires_at is not None and principal.expires_at <= datetime.now(UTC):
        return None
    return principal


def principal_of(token: str, address: str) -> Principal | None:
    """The principal of a valid token, or `None` for one that is unknown, expired, revoked or
    of a disabled context: which of these is told to nobody.

    One path for every kind of token: made in the console, by our authorization server, or by the
    outside issuer. Whether it was made for the address it came to is for the caller to compare
    with `audiences`.
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


def _of_console(digest: bytes, address: str) -> Principal | None:
    with connection.cursor() as cursor:
        cursor.execute(
            """
            UPDATE access_token a SET last_used_at = clock_timestamp(), last_address = %s
            FROM auth_context c
            WHERE a.digest = %s AND a.revoked_at IS NULL AND c.id = a.context_id AND c.disabled_at IS NULL
              AND (a.expires_at IS NULL OR a.expires_at > clock_timestamp())
            RETURNING a.id, a.scopes, a.expires_at, c.id, c.tenant_id, c.issuer, c.subject, c.client_id, c.name
            """,
            [address[:64], digest],
        )
        row = cursor.fetchone()
    if row is None:
        return None
    token_id, scopes, expires_at, context_id, tenant_id, issuer, subject, client_id, name = row
    return Principal(
        tenant_id=tenant_id,
        context_id=context_id,
        name=name,
        issuer=issuer,
        subject=subject,
        client_id=client_id,
        scopes=frozenset(scopes),
        expires_at=expires_at,
        token_id=token_id,
    )


def _of_oauth(digest: bytes) -> Principal | None:
    """A token of ours is as good as what stands behind it now: the person's account and role, what
    they allow the application, and that nobody locked it out. `consents.standing` says the same."""
    if not settings.TASKHUB_OAUTH:
        return None
    with connection.cursor() as cursor:
        cursor.execute(
            """
            UPDATE auth_context c SET last_seen_at = clock_timestamp()
            FROM oauth2_provider_accesstoken t
            JOIN auth_user u ON u.id = t.user_id AND u.is_active
            JOIN LATERAL (SELECT m.tenant_id, m.role FROM membership m WHERE m.user_id = u.id
                          ORDER BY m.tenant_id LIMIT 1) m ON true
            JOIN oauth2_provider_application r ON r.id = t.application_id
            JOIN application a ON a.registration_id = r.id AND a.tenant_id = m.tenant_id AND a.blocked_at IS NULL
            JOIN consent s ON s.application_id = a.id AND s.user_id = u.id
            WHERE t.token_checksum = %s AND t.expires > clock_timestamp()
              AND c.tenant_id = m.tenant_id AND c.issuer = %s AND c.subject = 'user:' || u.id
              AND c.client_id = r.client_id AND c.disabled_at IS NULL
            RETURNING t.scope, s.scopes, m.role, t.resource, t.expires,
                      c.id, c.tenant_id, c.subject, c.client_id, c.name
            """,
            [digest.hex(), OAUTH_ISSUER],
        )
        row = cursor.fetchone()
    if row is None:
        return None
    scope, consented, role, resource, expires_at, context_id, tenant_id, subject, client_id, name = row
    audiences = frozenset(resource if isinstance(resource, list) else jsonx.decode(resource.encode()))
    if not audiences:
        return None  # the toolkit would take it for a token that is good everywhere
    return Principal(
        tenant_id=tenant_id,
        context_id=context_id,
        name=name,
        issuer=OAUTH_ISSUER,
        subject=subject,
        client_id=client_id,
        scopes=frozenset(scope.split()).intersection(consented, grantable(role)),
        expires_at=expires_at,
        audiences=audiences,
    )


def _of_outside(token: str) -> Principal | None:
    claims = outside.verify(token)
    tenant = None if claims is None else Tenant.objects.filter(slug=settings.OIDC_TENANT).first()
    if claims is None or tenant is None:
        return None
    context, _ = AuthContext.objects.get_or_create(
        tenant=tenant,
        issuer=claims.issuer[:255],
        subject=claims.subject,
        client_id=claims.client_id,
        defaults={"name": claims.name},
    )
    # The row is asked, not the object: it may have been locked out since.
    if not AuthContext.objects.filter(pk=context.pk, disabled_at__isnull=True).update(last_seen_at=datetime.now(UTC)):
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


def forget_principals() -> None:
    """Drop every cached principal: a token or a context changed."""
    _kept.forget()


def default_tenant() -> Tenant:
    """The one tenant of an installation that never made another."""
    return Tenant.objects.order_by("id").get_or_create(slug="main", defaults={"name": "Main"})[0]


def cached_anonymous() -> Principal | None:
    """`anonymous_principal` if it is known here and still fresh; never touches the database."""
    return _cached(_ANONYMOUS)


def anonymous_principal() -> Principal | None:
    """The shared principal of `--anonymous`: every caller is the same one. `None` when it is locked out."""
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
    """The person behind a signed-in user, read anew on every request so that a changed role
    counts at once; `None` for a user without a membership."""
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
    """The person who signed in with the session `key`; `None` for anybody else. For what is no request
    of Django's, and so without its middleware."""
    request = HttpRequest()
    request.session = import_module(settings.SESSION_ENGINE).SessionStore(key)
    user = get_user(request)
    return person_of(user.pk, user.get_username()) if user.is_authenticated else None

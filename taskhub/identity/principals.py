"""Who is calling: from a bearer token to a `Principal`, from a user to a `Person`.

Principals are cached in the process for 30 seconds; a hint drops the cache at once when a
token or context is changed, so revocation takes effect within milliseconds and, with the
hint lost, within 30 seconds.
"""

from __future__ import annotations

import time
from datetime import UTC, datetime

from django.db import connection

from taskhub.core.records import Person, Principal
from taskhub.core.states import Role
from taskhub.lib import ids
from taskhub.store.models import AuthContext, Membership, Tenant

CACHE_SECONDS = 30.0

_cache: dict[bytes, tuple[float, Principal]] = {}
_ANONYMOUS = b"anonymous"
_forgotten = 0
"""Counts `forget_principals`: what was read before one must not be kept after it."""


def cached_principal(token: str) -> Principal | None:
    """The principal of `token` if it is known here and still fresh; never touches the database."""
    return _cached(ids.digest(token))


def _cached(key: bytes) -> Principal | None:
    entry = _cache.get(key)
    if entry is None or entry[0] < time.monotonic():
        return None
    principal = entry[1]
    if principal.expires_at is not None and principal.expires_at <= datetime.now(UTC):
        return None
    return principal


def principal_of(token: str, address: str) -> Principal | None:
    """The principal of a valid token, or `None` for one that is unknown, expired, revoked or
    of a disabled context: which of these is told to nobody."""
    digest = ids.digest(token)
    forgotten = _forgotten
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
    principal = Principal(
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
    _keep(digest, principal, forgotten)
    return principal


def _keep(key: bytes, principal: Principal, forgotten: int) -> None:
    if forgotten != _forgotten:
        return  # changed while it was being read
    if len(_cache) > 10_000:
        _cache.clear()
    _cache[key] = (time.monotonic() + CACHE_SECONDS, principal)


def forget_principals() -> None:
    """Drop every cached principal: a token or a context changed."""
    global _forgotten
    _forgotten += 1
    _cache.clear()


def default_tenant() -> Tenant:
    """The one tenant of an installation that never made another."""
    return Tenant.objects.order_by("id").get_or_create(slug="main", defaults={"name": "Main"})[0]


def cached_anonymous() -> Principal | None:
    """`anonymous_principal` if it is known here and still fresh; never touches the database."""
    return _cached(_ANONYMOUS)


def anonymous_principal() -> Principal | None:
    """The shared principal of `--anonymous`: every caller is the same one. `None` when it is locked out."""
    forgotten = _forgotten
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
    _keep(_ANONYMOUS, principal, forgotten)
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
    )

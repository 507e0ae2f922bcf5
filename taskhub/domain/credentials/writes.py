"""Changes that people make: to how a server is authorized, and to grants, which they take back. Each change is one
transaction, with its event."""

from __future__ import annotations

import copy
import re
import time
from dataclasses import dataclass, field
from typing import Any, Final

from django.db import transaction

from taskhub.core.errors import Invalid, NotFound
from taskhub.core.records import Actor
from taskhub.domain.audit.record import record_event
from taskhub.domain.catalogue.reads import target_of, vault
from taskhub.domain.credentials import tokens, web
from taskhub.domain.credentials.flow import answer_waiting
from taskhub.domain.credentials.grants import announce, client_of, holder_name
from taskhub.domain.credentials.records import (
    MAX_CLIENT_ID,
    MAX_SCOPES,
    MAX_SECRET,
    Denied,
    Found,
    Holder,
    OAuthSettings,
    Way,
)
from taskhub.domain.credentials.web import Unfit, hosts_given
from taskhub.lib.signing import InvalidToken
from taskhub.store.models import Server, ServerGrant, ServerOAuth

_VISIBLE: Final = re.compile(r"[\x21-\x7e]*")
_SCOPES: Final = re.compile(r"[\x21\x23-\x5b\x5d-\x7e]+( [\x21\x23-\x5b\x5d-\x7e]+)*")
"""Scopes as RFC 6749, 3.3, writes them."""


REVOKE_SECONDS: Final = 20.0
"""Seconds within which the tokens of grants that were dropped together are revoked at their authorization server; the
rest is not revoked."""


@dataclass(frozen=True, slots=True)
class Dropped:
    """Grants that were dropped because the server is authorized in another way now. Their tokens are still valid at the
    authorization server."""

    server: Server | None = None
    oauth: ServerOAuth | None = None
    grants: tuple[ServerGrant, ...] = field(default=(), repr=False)


def set_oauth(*, tenant_id: int, server_id: int, wanted: OAuthSettings | None, actor: Actor) -> Dropped:
    """Set how the hub is authorized at a server; `None`: not by OAuth. If way, issuer or client changes, all grants are
    dropped, and returned for `revoke_dropped`. Client credentials that were refused are tried again, even if they are
    the same. Raises `NotFound`, or `Invalid`, which names the field."""
    with transaction.atomic():
        server = _locked(tenant_id, server_id)
        oauth = ServerOAuth.objects.filter(server=server).first()
        before = _shown(oauth)
        if wanted is None:
            if oauth is None:
                return Dropped()
            dropped = _drop(server, oauth)
            oauth.delete()
            _record(server, before, {}, actor, dropped)
            answer_waiting(server_id, Holder(), actor, all_=True)
            return dropped
        checked = _checked(server, wanted, oauth)
        secret = _secret(checked, oauth)
        new_secret = oauth is None or (checked.secret is not None and secret != oauth.client_secret)
        if oauth is None:
            oauth = ServerOAuth(server=server)
        same = (oauth.way, oauth.issuer, oauth.client_id) == (checked.way, checked.issuer, checked.client_id)
        if same and not new_secret and oauth.scopes == checked.scopes:
            if ServerGrant.objects.filter(server=server, state="lapsed").exists() and checked.way is Way.CLIENT:
                _try_anew(server, actor)
            return Dropped()
        dropped = Dropped()
        if not same:
            dropped = _drop(server, oauth)
            oauth.found, oauth.registered = {}, {}
        oauth.way, oauth.issuer, oauth.client_id = str(checked.way), checked.issuer, checked.client_id
        oauth.client_secret, oauth.scopes, oauth.lacking = secret, checked.scopes, ""
        oauth.save()
        after = _shown(oauth)
        if same and new_secret:
            after["secret"] = "new" if secret is not None else False
        _record(server, before, after, actor, dropped)
        if checked.way is Way.CLIENT:
            _try_anew(server, actor)
        elif not same:  # calls that wait for a grant need another one now
            answer_waiting(server_id, Holder(), actor, all_=True)
        return dropped


def revoke_dropped(dropped: Dropped) -> int:
    """Have the tokens of dropped grants revoked at their authorization server, within `REVOKE_SECONDS`. To be called
    after the change is committed. Returns the number of grants for which the authorization server confirmed it."""
    server, oauth = dropped.server, dropped.oauth
    if server is None or oauth is None:
        return 0
    deadline, confirmed = time.monotonic() + REVOKE_SECONDS, 0
    for grant in dropped.grants:
        if time.monotonic() < deadline:
            confirmed += _revoked_there(server, oauth, grant)
    return confirmed


def _drop(server: Server, oauth: ServerOAuth) -> Dropped:
    """Drop all grants of a server. Returns them with what is needed to revoke their tokens; no grants if the hub was
    authorized by client credentials."""
    grants = ServerGrant.objects.filter(server=server)
    found = () if oauth.pk is None or oauth.way == Way.CLIENT else tuple(grants.order_by("id"))
    grants.delete()
    return Dropped(server, copy.copy(oauth), found)


def _try_anew(server: Server, actor: Actor) -> None:
    """Make the hub ask for a token by its client credentials when a token is next needed, and let calls that wait for
    one go on."""
    ServerGrant.objects.filter(server=server).delete()
    ServerGrant.objects.create(server=server, granted_by=actor.name)
    announce(server.pk)
    answer_waiting(server.pk, Holder(), actor, all_=True)


def register_anew(*, tenant_id: int, server_id: int, actor: Actor) -> bool:
    """Drop the registration of the hub, so that the hub registers itself again at the next authorization. This is for
    an authorization server that does not know the registration any more, and says so only to the person in the browser.
    Grants keep the client to which they were issued. Returns whether there was a registration. Raises `NotFound`."""
    with transaction.atomic():
        server = _locked(tenant_id, server_id)
        oauth = ServerOAuth.objects.select_for_update().filter(server=server).first()
        if oauth is None or not oauth.registered:
            return False
        record_event(
            "server.registration.dropped",
            tenant_id=tenant_id,
            target=server.name,
            actor=actor,
            before={"issuer": oauth.registered["issuer"][:300], "client_id": oauth.registered["id"][:300]},
        )
        oauth.registered = {}
        oauth.save(update_fields=["registered"])
    return True


def revoke(*, tenant_id: int, server_id: int, grant_id: int, actor: Actor) -> bool:
    """Take a grant back: erase its tokens in the database, and then have them revoked at the authorization server.
    Returns whether the authorization server confirmed that. Raises `NotFound`."""
    with transaction.atomic():
        server = _locked(tenant_id, server_id)
        grant = ServerGrant.objects.select_for_update().filter(pk=grant_id, server=server).first()
        oauth = ServerOAuth.objects.filter(server=server).first()
        if grant is None or oauth is None or oauth.way == Way.CLIENT:
            raise NotFound("No such authorization.")
        record_event(
            "grant.revoked",
            tenant_id=tenant_id,
            target=server.name,
            actor=actor,
            before={"for": holder_name(Holder(grant.user_id, grant.context_id), oauth.way)},
        )
        grant.delete()
        announce(server.pk)
    return _revoked_there(server, oauth, grant)


def _revoked_there(server: Server, oauth: ServerOAuth, grant: ServerGrant) -> bool:
    """Have the tokens of a grant revoked. Returns whether the authorization server confirmed that."""
    token = grant.refresh or grant.access
    found = Found.read(oauth.found)
    if token is None or found is None or found.issuer != grant.issuer:
        return False
    try:
        client = client_of(oauth, grant.client_id, grant.registered)
        given = hosts_given(target_of(server), oauth.issuer)
        return client is not None and tokens.revoke(found, client, vault().decrypt(bytes(token)), given=given)
    except (InvalidToken, Denied):
        return False


def holder_of(*, tenant_id: int, server_id: int, grant_id: int) -> Holder:
    """The holder of a grant. Raises `NotFound`."""
    grant = ServerGrant.objects.filter(pk=grant_id, server_id=server_id, server__tenant_id=tenant_id).first()
    if grant is None:
        raise NotFound("No such authorization.")
    return Holder(grant.user_id, grant.context_id)


def _checked(server: Server, wanted: OAuthSettings, oauth: ServerOAuth | None) -> OAuthSettings:
    if server.transport != "http":
        raise Invalid("Only a server with a URL is authorized by OAuth.", field="oauth")
    if server.credentials is not None or any(name.lower() == "authorization" for name in server.headers):
        raise Invalid("The server is sent a token or the header Authorization already: drop it first.", field="oauth")
    issuer, client_id = wanted.issuer.strip(), wanted.client_id.strip()
    scopes = " ".join(wanted.scopes.split())
    if issuer:
        try:
            web.checked(issuer)
        except Unfit as error:
            raise Invalid(f"This is no issuer: {error}.", field="oauth_issuer") from None
    if len(client_id) > MAX_CLIENT_ID or not _VISIBLE.fullmatch(client_id):
        raise Invalid(f"A client id has up to {MAX_CLIENT_ID:,} visible characters.", field="oauth_client_id")
    if scopes and (len(scopes) > MAX_SCOPES or not _SCOPES.fullmatch(scopes)):
        raise Invalid(
            f"Scopes are words with blanks in between, {MAX_SCOPES:,} characters at most.", field="oauth_scopes"
        )
    secret = None if wanted.secret is None else wanted.secret.strip()
    if secret and (len(secret) > MAX_SECRET or not _VISIBLE.fullmatch(secret)):
        raise Invalid(f"A secret has up to {MAX_SECRET:,} visible characters.", field="oauth_secret")
    if secret is None and oauth is not None and oauth.client_id != client_id:
        secret = ""  # the stored secret is another client's
    if secret and not client_id:
        raise Invalid("A secret belongs to a client id: give both.", field="oauth_client_id")
    has_secret = bool(secret) if secret is not None else oauth is not None and oauth.client_secret is not None
    if wanted.way is Way.CLIENT and not (client_id and has_secret):
        raise Invalid("Client credentials are a client id and its secret: give both.", field="oauth_client_id")
    return OAuthSettings(wanted.way, issuer, client_id, secret, scopes)


def _secret(checked: OAuthSettings, oauth: ServerOAuth | None) -> bytes | None:
    """The encrypted secret to store; the stored one if the secret is the same or was not given."""
    stored = None if oauth is None or oauth.client_secret is None else bytes(oauth.client_secret)
    if checked.secret is None:
        return stored
    if not checked.secret:
        return None
    try:
        if stored is not None and vault().decrypt(stored) == checked.secret:
            return stored
    except InvalidToken:
        pass
    return vault().encrypt(checked.secret)


def _shown(oauth: ServerOAuth | None) -> dict[str, Any]:
    """The settings for the audit log."""
    if oauth is None:
        return {}
    return {
        "way": str(oauth.way),
        "issuer": oauth.issuer,
        "client_id": oauth.client_id,
        "scopes": oauth.scopes,
        "secret": oauth.client_secret is not None,
    }


def _record(server: Server, before: dict[str, Any], after: dict[str, Any], actor: Actor, dropped: Dropped) -> None:
    if dropped.grants:
        after = {**after, "dropped": len(dropped.grants)}
    server.state, server.problem = "unknown" if server.enabled else "disabled", ""
    server.save(update_fields=["state", "problem"])
    record_event(
        "server.oauth.changed", tenant_id=server.tenant_id, target=server.name, actor=actor, before=before, after=after
    )
    announce(server.pk)


def _locked(tenant_id: int, server_id: int) -> Server:
    server = Server.objects.select_for_update().filter(pk=server_id, tenant_id=tenant_id, removed_at=None).first()
    if server is None:
        raise NotFound("No such server.")
    return server

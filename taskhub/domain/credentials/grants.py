"""Grants: looked up for a call, refreshed by one process at a time, and marked as lapsed when they cannot be used any
more.

A refresh has three parts, so that no transaction is open during a request to an authorization server: `look` takes the
turn, which is the right to refresh (one conditional change); `exchange` asks the authorization server; `settle` stores
what that issued, access and refresh token together. If a process dies in between, its turn ends after `TURN_SECONDS`.
The next process then sends the refresh token that is stored. If that was used already, the authorization server refuses
it, and the grant has to be authorized again.
"""

from __future__ import annotations

import json
import math
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from types import MappingProxyType
from typing import Any, Final

from django.contrib.auth import get_user_model
from django.db import transaction
from django.db.models import QuerySet

from taskhub.core.errors import Invalid, Unavailable
from taskhub.core.hints import CatalogueChanged, ServerStale
from taskhub.core.records import Actor
from taskhub.domain.audit.record import record_event
from taskhub.domain.catalogue.offers import WORKER
from taskhub.domain.catalogue.reads import vault
from taskhub.domain.credentials import tokens
from taskhub.domain.credentials.records import (
    Access,
    Busy,
    Client,
    Denied,
    Due,
    Found,
    Gone,
    Holder,
    NeedsAuthorization,
    NotYet,
    Tokens,
    Unanswered,
    Way,
)
from taskhub.domain.credentials.web import hosts_given
from taskhub.domain.hints.announce import notify
from taskhub.lib.signing import InvalidToken
from taskhub.store import statements
from taskhub.store.models import AuthContext, ServerGrant, ServerOAuth

TURN_SECONDS: Final = 60.0
"""Seconds for which only one process may refresh a grant: longer than all requests of a refresh may take."""
SPARE_SECONDS: Final = 60.0
"""Before a call, a token is refreshed if it expires within these seconds, or within a fifth of its life if that is
less."""
LOOK_SECONDS: Final = 0.2
"""Seconds between two checks whether another process has refreshed a grant."""

LOST: Final = "its tokens were encrypted with another SECRET_KEY"
EXPIRED: Final = "its access token has expired, and there is no refresh token"
REFUSED: Final = "the server refuses its access token"
OTHER_ISSUER: Final = "the server has another authorization server now"
OTHER_CLIENT: Final = "TaskHub is not the client of the authorization server any more to which it was issued"
_NONE: Final[Mapping[str, Any]] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class _Row:
    """The columns of the statement `credential`; JSON columns are text."""

    tenant_id: int
    name: str
    target: str
    sealed_target: bytes | None = field(repr=False)
    way: Way
    wanted_issuer: str
    given_id: str
    client_secret: bytes | None = field(repr=False)
    wanted_scopes: str
    found: str
    user_id: int | None
    context_id: int | None
    grant_id: int | None
    state: str
    problem: str
    issuer: str
    client_id: str
    registered: str = field(repr=False)
    scopes: str
    access: bytes | None = field(repr=False)
    refresh: bytes | None = field(repr=False)
    expires_at: datetime | None
    version: int
    refreshing: bool
    pause: float | None
    """Seconds for which the authorization server does not want to be asked again; `None` if it may be asked."""
    issued_at: datetime | None

    @property
    def holder(self) -> Holder:
        return Holder(self.user_id, self.context_id)


@dataclass(frozen=True, slots=True)
class Exchanged:
    """The outcome of asking the authorization server for tokens: `tokens`; or why it refused (`denied`); or why there
    was no usable answer (`unanswered`). `found`: what discovery found out; `None` if it failed."""

    found: Found | None
    tokens: Tokens | None = None
    denied: str = ""
    unanswered: str = ""
    later: float | None = None
    """The seconds after which the authorization server wants to be asked again; `None` if it did not say so."""


_CREDENTIAL = statements.maybe("credential", _Row)
_TAKE = statements.maybe("take_refresh", int)
_LEAVE = statements.rowcount("leave_refresh")
_STORE = statements.maybe("store_tokens", bool)
_LAPSE = statements.maybe("lapse_grant", int)
_THERE = statements.many("grants_there", int)


def look(server_id: int, context_id: int | None, *, refused: str = "") -> Access | Due:
    """The access token for a call of this client, or for the server's lists if there is no client. If the token must be
    refreshed first, returns what is needed for that; for `TURN_SECONDS`, only this process may refresh it. `refused`: a
    token that the server did not accept; empty if none. Raises `NeedsAuthorization` if a person has to authorize,
    `Busy` while another process refreshes, `NotYet` while the authorization server does not want to be asked, or
    `Unavailable`."""
    row = _CREDENTIAL(server=server_id, context=context_id)
    if row is None:
        return Access(0, "")
    if row.grant_id is None:
        if row.way is Way.EACH and context_id is None:
            return Access(0, "")  # perhaps the server lists its tools to everybody
        raise NeedsAuthorization(f"Server {row.name} needs to be authorized", holder=row.holder)
    if row.state == "lapsed":
        raise _again(row, row.problem)
    try:
        access = "" if row.access is None else vault().decrypt(row.access)
        refresh = "" if row.refresh is None else vault().decrypt(row.refresh)
    except InvalidToken:
        raise _lapsed(row, LOST) from None
    now = datetime.now(UTC)
    good = bool(access) and access != refused
    if good and (row.expires_at is None or row.expires_at - now > _spare(row)):
        return Access(row.grant_id, access, row.expires_at)
    renewable = (bool(refresh) or row.way is Way.CLIENT) and not row.pause
    if good and row.expires_at and row.expires_at > now and (row.refreshing or not renewable):
        return Access(row.grant_id, access, row.expires_at)
    if row.refreshing:
        raise Busy
    if row.way is not Way.CLIENT and not refresh:
        raise _lapsed(row, REFUSED if access == refused != "" else EXPIRED)
    if row.pause:
        raise _not_yet(row.name, "the authorization server is not asked again yet", row.pause)
    return _due(row, server_id, refresh)


def exchange(due: Due) -> Exchanged:
    """Ask the authorization server for new tokens. Does not use the database."""
    found, given = due.found, hosts_given(due.server_url, due.wanted_issuer)
    try:
        if due.way is Way.CLIENT:
            if found is None:
                from taskhub.domain.credentials import discovery  # see there

                found = discovery.discover(due.server_url, way=due.way, issuer=due.wanted_issuer)
            client = Client(due.client.id, due.client.secret, tokens.method_for(found, secret=True))
            return Exchanged(
                found, tokens.by_credentials(found, client, scopes=due.scopes or found.scopes, given=given)
            )
        assert found is not None
        return Exchanged(found, tokens.refresh(found, due.client, token=due.refresh, given=given))
    except Denied as error:
        return Exchanged(found, denied=str(error))
    except Unanswered as error:
        return Exchanged(found, unanswered=str(error), later=error.later)
    except Invalid as error:
        return Exchanged(found, unanswered=str(error))


def settle(due: Due, exchanged: Exchanged) -> Access:
    """Store the outcome of a refresh; returns the new access token. Raises `NeedsAuthorization` if the refresh was
    refused, `Unavailable` if there was no answer or another process has refreshed the grant meanwhile, `NotYet` if the
    authorization server wants to be asked later, `Gone` if the grant was meanwhile revoked, or authorized again."""
    if exchanged.denied:
        if exchanged.denied.startswith("invalid_client"):
            forget_client(due.server_id, due.client.id)
        _found(due, exchanged)
        raise _lapsed_due(due, f"its authorization server refuses it ({exchanged.denied})")
    if exchanged.tokens is None:
        _LEAVE(held=due.grant_id, version=due.version, pause=exchanged.later or None)
        if exchanged.later:
            raise _not_yet(due.server_name, exchanged.unanswered, exchanged.later)
        raise Unavailable(f"The authorization of {due.server_name} cannot be refreshed: {exchanged.unanswered}")
    new = exchanged.tokens
    with transaction.atomic():
        tells = _STORE(
            held=due.grant_id,
            version=due.version,
            access=vault().encrypt(new.access),
            refresh=vault().encrypt(new.refresh) if new.refresh else None,
            expires=new.expires_at,
            scopes=new.scopes,
        )
        if tells is None:
            there = ServerGrant.objects.filter(pk=due.grant_id).exists()
            raise (Unavailable if there else Gone)(f"The authorization of {due.server_name} was changed meanwhile")
        _found(due, exchanged)
        if tells:
            record_event(
                "grant.refreshed",
                tenant_id=due.tenant_id,
                target=due.server_name,
                actor=WORKER,
                after={"for": holder_name(due.holder, due.way)},
            )
    return Access(due.grant_id, new.access, new.expires_at)


def _found(due: Due, exchanged: Exchanged) -> None:
    """Store what `exchange` found out about the authorization server, if it had to discover it."""
    if due.found is None and exchanged.found is not None:
        there = ServerGrant.objects.filter(pk=due.grant_id, version=due.version).exists()
        if there or exchanged.tokens is not None:
            ServerOAuth.objects.filter(server_id=due.server_id).update(found=exchanged.found.stored())


def access(server_id: int, context_id: int | None = None, *, refused: str = "") -> Access:
    """The access token for a call, refreshed if needed. Blocks until it is refreshed, so it is only for commands.
    Raises what `look` and `settle` raise, but never `Busy`."""
    deadline = time.monotonic() + TURN_SECONDS
    while True:
        try:
            found = look(server_id, context_id, refused=refused)
        except Busy:
            if time.monotonic() > deadline:
                raise Unavailable("Another process does not get on with refreshing its authorization") from None
            time.sleep(LOOK_SECONDS)
            continue
        if isinstance(found, Access):
            return found
        exchanged = exchange(found)
        try:
            return settle(found, exchanged)
        except Gone:
            drop(found, exchanged)
            raise


def drop(due: Due, exchanged: Exchanged) -> None:
    """Revoke tokens that were issued for a grant that is gone. Does not use the database."""
    if exchanged.tokens is not None and exchanged.found is not None:
        token = exchanged.tokens.refresh or exchanged.tokens.access
        given = hosts_given(due.server_url, due.wanted_issuer)
        tokens.revoke(exchanged.found, due.client, token, given=given)


def refuse(server_id: int, context_id: int | None, token: str) -> NeedsAuthorization | None:
    """Mark the grant of a token as lapsed, because the server refuses the token even after it was refreshed. Returns
    the error to raise; `None` if the grant has another token by now."""
    row = _CREDENTIAL(server=server_id, context=context_id)
    if row is None or row.grant_id is None or row.access is None:
        return None
    try:
        if vault().decrypt(row.access) != token:
            return None
    except InvalidToken:
        pass
    return _lapsed(row, REFUSED)


def widen(server_id: int, context_id: int | None, wanted: str) -> NeedsAuthorization | str:
    """What to do about a call that the server refuses without the scopes `wanted`. Returns the error to raise, which
    asks for these scopes; or why asking would not help, as text for people."""
    row = _CREDENTIAL(server=server_id, context=context_id)
    if row is None:
        return "TaskHub is not authorized there by OAuth, and cannot ask for more scopes"
    if row.grant_id is None:
        return "It was authorized in another way meanwhile"
    missing = without(wanted, _scopes_of(row))
    if not missing:
        return "It was authorized with these scopes already"
    if row.way is not Way.CLIENT and row.wanted_scopes:
        return f"TaskHub asks for none but the scopes that an admin named, without {missing}"
    return NeedsAuthorization(
        f"Server {row.name} needs to be authorized again: it wants more scopes: {missing}",
        holder=row.holder,
        scopes=union(row.scopes, wanted),
    )


def widened(server_id: int, context_id: int | None, wanted: str) -> bool:
    """Whether a call is authorized with the scopes `wanted` by now."""
    row = _CREDENTIAL(server=server_id, context=context_id)
    return row is None or (row.state == "good" and not without(wanted, _scopes_of(row)))


def union(*scopes: str) -> str:
    """All of the scopes in several lists, each once."""
    return " ".join(dict.fromkeys(" ".join(scopes).split()))


def without(wanted: str, scopes: str) -> str:
    """The scopes in `wanted` that are not in `scopes`."""
    known = set(scopes.split())
    return " ".join(scope for scope in wanted.split() if scope not in known)


def still_there(grants: list[int]) -> frozenset[int]:
    """The ids of those grants that can still be used."""
    return frozenset(_THERE(grants=grants)) if grants else frozenset()


def grants_for(server_id: int, holder: Holder) -> QuerySet[ServerGrant]:
    """The grant for a holder, as a queryset; empty if there is none."""
    wanted: dict[str, Any] = {"user_id": holder.user_id, "context_id": holder.context_id}
    return ServerGrant.objects.filter(server_id=server_id, **wanted)


def holder_name(holder: Holder, way: str) -> str:
    """The name of the holder of a grant, in the audit log and on pages: that of a person or client, or `everyone`.
    Where each caller has a grant of their own (`way`), a grant that belongs to nobody is for listing the server: `its
    lists`."""
    if holder.user_id is not None:
        users: Any = get_user_model()
        return str(users.objects.filter(pk=holder.user_id).values_list("username", flat=True).first() or "")
    if holder.context_id is not None:
        return str(AuthContext.objects.filter(pk=holder.context_id).values_list("name", flat=True).first() or "")
    return "its lists" if way == Way.EACH else "everyone"


def client_of(oauth: Any, client_id: str = "", registered: Mapping[str, Any] = _NONE) -> Client | None:
    """The client as which the hub is known at an authorization server, or was when it got tokens as `client_id`.

    If an admin gave a client (in the columns of `oauth`, a `ServerOAuth`), only that one counts. Otherwise it is the
    client as which the hub `registered` itself; otherwise the one that the hub's metadata document at `client_id`
    describes. `None` if there is no such client. Raises `InvalidToken` or `Denied`."""
    found = Found.read(oauth.found)
    if oauth.client_id:
        if client_id not in ("", oauth.client_id):
            return None
        secret = "" if oauth.client_secret is None else vault().decrypt(bytes(oauth.client_secret))
        method = tokens.method_for(found, secret=bool(secret)) if found else "none"
        return Client(oauth.client_id, secret, method)
    if registered:
        secret = vault().decrypt(registered["secret"].encode()) if registered["secret"] else ""
        return Client(registered["id"], secret, registered["method"], registered["expires_at"])
    if found is not None and found.reads_documents and client_id.startswith("https://"):
        return Client(client_id)
    return None


def forget_client(server_id: int, client_id: str) -> None:
    """Forget that the hub registered itself as this client, which the authorization server does not know any more. The
    hub registers itself again at the next authorization. Grants keep the client to which they were issued."""
    ServerOAuth.objects.filter(server_id=server_id, registered__id=client_id).update(registered={})


def _due(row: _Row, server_id: int, refresh: str) -> Due:
    """Take the turn to refresh the grant. Raises what `look` raises."""
    assert row.grant_id is not None
    found = Found.read(json.loads(row.found))
    if row.way is not Way.CLIENT and (found is None or found.issuer != row.issuer):
        raise _lapsed(row, OTHER_ISSUER)
    oauth = ServerOAuth(
        client_id=row.given_id,
        client_secret=row.client_secret,
        found=json.loads(row.found),
    )
    try:
        client = client_of(oauth, "" if row.way is Way.CLIENT else row.client_id, json.loads(row.registered))
        server_url = row.target if row.sealed_target is None else vault().decrypt(row.sealed_target)
    except InvalidToken:
        raise _lapsed(row, LOST) from None
    except Denied as error:
        raise _lapsed(row, str(error)) from None
    if client is None:
        raise _lapsed(row, OTHER_CLIENT)
    version = _TAKE(held=row.grant_id, version=row.version, seconds=TURN_SECONDS)
    if version is None:
        raise Busy
    return Due(
        grant_id=row.grant_id,
        version=version,
        tenant_id=row.tenant_id,
        server_id=server_id,
        server_name=row.name,
        server_url=server_url,
        wanted_issuer=row.wanted_issuer,
        way=row.way,
        holder=row.holder,
        found=found,
        client=client,
        scopes=row.wanted_scopes,
        refresh=refresh,
    )


def _scopes_of(row: _Row) -> str:
    """The scopes of the grant; if its authorization server did not say which they are, the scopes that were asked
    for."""
    found = Found.read(json.loads(row.found))
    return row.scopes or row.wanted_scopes or (found.scopes if found else "")


def _spare(row: _Row) -> timedelta:
    """How long a token must still be valid to be sent with a call without a refresh."""
    assert row.expires_at is not None
    life = row.expires_at - (row.issued_at or row.expires_at)
    return min(timedelta(seconds=SPARE_SECONDS), life / 5)


def _not_yet(server: str, who: str, seconds: float) -> NotYet:
    pause = math.ceil(seconds)
    message = f"The authorization of {server} cannot be refreshed: {who}"
    return NotYet(f"{message}, and wants to be asked in {pause} s", seconds=seconds)


def _again(row: _Row, problem: str) -> NeedsAuthorization:
    return NeedsAuthorization(f"Server {row.name} needs to be authorized again: {problem}", holder=row.holder)


def _lapsed(row: _Row, problem: str) -> NeedsAuthorization:
    """Mark the grant as lapsed. Returns the error to raise."""
    assert row.grant_id is not None
    _lapse(row.grant_id, row.version, problem, row.tenant_id, row.name, holder_name(row.holder, row.way))
    return _again(row, problem)


def _lapsed_due(due: Due, problem: str) -> NeedsAuthorization:
    whom = holder_name(due.holder, due.way)
    _lapse(due.grant_id, due.version, problem, due.tenant_id, due.server_name, whom)
    message = f"Server {due.server_name} needs to be authorized again: {problem}"
    return NeedsAuthorization(message, holder=due.holder)


def _lapse(
    grant_id: int, version: int, problem: str, tenant_id: int, server: str, whom: str, actor: Actor = WORKER
) -> None:
    with transaction.atomic():
        if _LAPSE(held=grant_id, version=version, problem=problem[:1_000]) is None:
            return  # it was authorized again, revoked or refreshed meanwhile
        record_event(
            "grant.lapsed",
            tenant_id=tenant_id,
            target=server,
            actor=actor,
            after={"for": whom, "problem": problem[:1_000]},
        )
        notify(CatalogueChanged())


def announce(server_id: int) -> None:
    """Have workers look again at a server, because its authorization has changed."""
    notify(CatalogueChanged(), ServerStale(server_id))

"""Sends a person to an authorization server, and receives the answer with which the person comes back (RFC 6749, 4.1,
with PKCE).

The `state` of a request belongs to one browser session, is valid for some minutes, and is redeemed once. It is stored
only as a digest, and the PKCE verifier encrypted.
"""

from __future__ import annotations

import logging
import secrets
import time
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Final
from urllib.parse import urlencode

from django.db import transaction

from taskhub.core.errors import Invalid, NotFound, Refused
from taskhub.core.records import Actor
from taskhub.domain.audit.record import record_event
from taskhub.domain.catalogue.reads import target_of, vault
from taskhub.domain.credentials import tokens
from taskhub.domain.credentials.grants import (
    announce,
    client_of,
    forget_client,
    grants_for,
    holder_name,
    union,
    without,
)
from taskhub.domain.credentials.records import (
    Client,
    Denied,
    Found,
    Holder,
    NotAuthorized,
    Tokens,
    Unanswered,
    Way,
)
from taskhub.domain.credentials.web import hosts_given
from taskhub.domain.questions.answer import answer_authorization
from taskhub.lib import ids
from taskhub.lib.addresses import WebAddress, web_address
from taskhub.lib.signing import InvalidToken
from taskhub.lib.signs import spelled
from taskhub.lib.throttle import Throttle
from taskhub.store import statements
from taskhub.store.models import GrantRequest, Server, ServerGrant, ServerOAuth

logger = logging.getLogger(__name__)

CALLBACK: Final = "/servers/oauth/callback/"
"""The path to which authorization servers send people back."""
DOCUMENT: Final = "/servers/oauth/client.json"
"""The path of the hub's client id metadata document."""
REQUEST_SECONDS: Final = 600
"""Seconds within which a person has to come back from the authorization server."""
MAX_REQUESTS: Final = 20
"""The most authorizations that one person may have under way."""
CLIENT_NAME: Final = "TaskHub"
TELL_SECONDS: Final = 60.0
"""Seconds in which at most one answer that belongs to no authorization is logged, because anybody can send a browser
here with such an answer."""
_TELLS: Final = Throttle(TELL_SECONDS)


@dataclass(frozen=True, slots=True)
class _Waiting:
    """A question that a grant answers."""

    task_id: int
    key: str


@dataclass(frozen=True, slots=True)
class Sending:
    """The place where a person is sent to authorize the server named `server`. `whom` is the name of the grant's holder
    (`holder_name`): a person if `person`, a client if `client`, everyone if neither. `leads_to`: the parsed address.
    `back`: the path from which the person came. `registered`: whether the hub registered itself as a client there."""

    server_id: int
    server: str
    whom: str
    person: bool
    client: bool
    leads_to: WebAddress
    scopes: str
    back: str
    registered: bool


@dataclass(frozen=True, slots=True)
class Came:
    """The result of an authorization: the server, the path to which the person returns, and how many calls waited for
    the grant."""

    server_id: int
    server: str
    back: str
    calls: int


_WAITING = statements.many("waiting_for_grant", _Waiting)


def document(base: str) -> dict[str, Any]:
    """The hub's client id metadata document, by which authorization servers that read such documents know the hub.
    `base`: the hub's base URL."""
    return {
        "client_id": base + DOCUMENT,
        "client_name": CLIENT_NAME,
        "client_uri": base,
        "redirect_uris": [base + CALLBACK],
        "grant_types": ["authorization_code", "refresh_token"],
        "response_types": ["code"],
        "token_endpoint_auth_method": "none",
    }


def begin(
    *, tenant_id: int, server_id: int, holder: Holder, by: int, session_key: str, base: str, back: str, scopes: str = ""
) -> Sending:
    """Begin an authorization for `holder` by the person `by`, in their browser session. `base` is the address of the
    hub, `back` the path to which the person returns in the end. If an admin has named the scopes, these are requested;
    otherwise those that the server asks for, those of the earlier grant, and `scopes`. Discovers the authorization
    server, and registers the hub there if needed. Raises `NotFound`, `Refused`, or `Invalid` with the reason."""
    from mcp.client.auth.oauth2 import PKCEParameters

    from taskhub.domain.credentials import discovery  # see there

    server = Server.objects.filter(pk=server_id, tenant_id=tenant_id, removed_at=None).select_related("oauth").first()
    if server is None:
        raise NotFound("No such server.")
    oauth = _oauth_of(server)
    if oauth is None:
        raise Refused(f"{server.name} is not authorized by OAuth any more.")
    if oauth.way == Way.CLIENT:
        raise Refused(
            f"{server.name} is authorized by client credentials, which an admin corrects on its page. The calls that"
            " wait for that go on then."
        )
    _make_room(by)
    try:
        server_url = target_of(server)
        found = discovery.discover(server_url, way=Way(oauth.way), issuer=oauth.issuer)
        _check_issuer(server.name, oauth, found)
        before = grants_for(server.pk, holder).values_list("scopes", flat=True).first() or ""
        asked = oauth.scopes or union(found.scopes, before, scopes)
        client, registered = _client(oauth, found, base, asked, hosts_given(server_url, oauth.issuer))
    except InvalidToken:
        raise Refused("A secret of this server was encrypted with another SECRET_KEY: set it again first.") from None
    except (Denied, Unanswered) as error:
        raise Invalid(f"TaskHub is no client of {spelled(found.issuer)[:200]}: {error}.", field="oauth") from None
    pkce, state = PKCEParameters.generate(), secrets.token_urlsafe(32)
    with transaction.atomic():
        _keep(server, oauth, found, registered)
        GrantRequest.objects.create(
            state_digest=ids.digest(state).hex(),
            session_key=session_key,
            server=server,
            by_id=by,
            user_id=holder.user_id,
            context_id=holder.context_id,
            verifier=vault().encrypt(pkce.code_verifier),
            issuer=found.issuer,
            client_id=client.id,
            registered=registered,
            redirect_uri=base + CALLBACK,
            scopes=asked,
            back=back,
        )
    query = {
        "response_type": "code",
        "client_id": client.id,
        "redirect_uri": base + CALLBACK,
        "state": state,
        "code_challenge": pkce.code_challenge,
        "code_challenge_method": "S256",
        **({"resource": found.resource} if found.resource else {}),
        **({"scope": asked} if asked else {}),
        **({"prompt": "consent"} if "offline_access" in asked.split() else {}),
    }
    glue = "&" if "?" in found.authorization_endpoint else "?"
    return Sending(
        server.pk,
        server.name,
        whom=holder_name(holder, oauth.way),
        person=holder.user_id is not None,
        client=holder.context_id is not None,
        leads_to=web_address(f"{found.authorization_endpoint}{glue}{urlencode(query)}"),
        scopes=asked,
        back=back,
        registered=bool(registered),
    )


def finish(*, tenant_id: int, session_key: str, by: int, for_all: bool, answer: dict[str, str], actor: Actor) -> Came:
    """Finish an authorization when the person comes back with the answer of the authorization server: redeem the code,
    store the grant, and let the calls that wait for it go on. `for_all`: whether the person may authorize the server
    for everyone. Raises `Refused` if the answer belongs to no request of this browser session, or was given before.
    Raises `NotAuthorized`, with the reason, if the answer leads to no grant, or the grant would be for everyone and
    `for_all` is false."""
    request = _redeemed(tenant_id, session_key, by, answer.get("state", ""))
    if request is None:
        if _TELLS():
            logger.info(
                "an answer of an authorization server was refused: it belongs to no authorization that %s has begun in"
                " this browser, or it came again",
                actor.name,
            )
        raise Refused(
            "This answer belongs to no authorization that was begun in this browser, or it was used before."
            " Begin again."
        )
    try:
        calls = _store(request, _issued(request, answer, for_all=for_all), actor)
    except (Invalid, Refused) as error:
        _failed(request, error.message, actor)
        raise NotAuthorized(error.message, back=request.back) from None
    return Came(request.server_id, request.server.name, request.back, calls)


def _issued(request: GrantRequest, answer: dict[str, str], *, for_all: bool) -> Tokens:
    """The tokens for the code in an answer. Raises `Refused` or `Invalid`, with the reason, if there are no tokens for
    it."""
    if request.created_at < datetime.now(UTC) - timedelta(seconds=REQUEST_SECONDS):
        raise Refused(f"This took longer than {REQUEST_SECONDS // 60} minutes. Begin again.")
    server, oauth = request.server, _oauth_of(request.server)
    found = None if oauth is None else Found.read(oauth.found)
    if oauth is None or found is None or found.issuer != request.issuer or server.removed_at is not None:
        raise Refused(f"{server.name} is authorized in another way now. Begin again.")
    if not for_all and Holder(request.user_id, request.context_id) == Holder():
        raise Refused(f"You may not authorize {server.name} for everyone any more.")
    issuer = spelled(found.issuer)[:200]
    if answer.get("iss", found.issuer) != found.issuer or (found.says_issuer and "iss" not in answer):  # RFC 9207
        raise Invalid("This answer comes from another authorization server than the one that was asked.")
    if "error" in answer or not answer.get("code"):
        raise Invalid(f"{issuer} did not authorize TaskHub: {_error(answer)}.")
    try:
        client = client_of(oauth, request.client_id, request.registered) or Client(request.client_id)
        return tokens.redeem(
            found,
            client,
            code=answer["code"],
            verifier=vault().decrypt(bytes(request.verifier)),
            redirect_uri=request.redirect_uri,
            given=hosts_given(target_of(server), oauth.issuer),
        )
    except Denied as error:
        if str(error).startswith("invalid_client"):
            forget_client(server.pk, request.client_id)
        raise Invalid(f"{issuer} did not redeem the code: {error}.") from None
    except Unanswered as error:
        raise Invalid(f"The code was not redeemed at {issuer}: {error}.") from None
    except InvalidToken:
        raise Refused("A secret of this server was encrypted with another SECRET_KEY: set it again first.") from None


def _failed(request: GrantRequest, problem: str, actor: Actor) -> None:
    server, oauth = request.server, _oauth_of(request.server)
    whom = holder_name(Holder(request.user_id, request.context_id), "" if oauth is None else oauth.way)
    logger.info("server %s was not authorized for %s by %s: %s", server.name, whom, actor.name, problem)
    record_event(
        "grant.refused",
        tenant_id=server.tenant_id,
        target=server.name,
        actor=actor,
        after={"for": whom, "problem": problem[:1_000]},
    )


def _store(request: GrantRequest, issued: Tokens, actor: Actor) -> int:
    """Store the grant, in place of an earlier grant of the same holder. Returns how many calls go on. Raises `Refused`
    if the server is authorized in another way by now."""
    holder = Holder(request.user_id, request.context_id)
    with transaction.atomic():
        server = Server.objects.select_for_update().get(pk=request.server_id)
        oauth = ServerOAuth.objects.filter(server=server).first()
        if server.removed_at is not None or oauth is None:
            raise Refused(f"{server.name} is authorized in another way now. Begin again.")
        grants_for(server.pk, holder).delete()
        if holder == Holder():
            ServerOAuth.objects.filter(server=server).update(lacking="")
        ServerGrant.objects.create(
            server=server,
            user_id=holder.user_id,
            context_id=holder.context_id,
            issuer=request.issuer,
            client_id=request.client_id,
            registered=request.registered,
            scopes=issued.scopes or request.scopes,
            access=vault().encrypt(issued.access),
            refresh=vault().encrypt(issued.refresh) if issued.refresh else None,
            expires_at=issued.expires_at,
            granted_by=actor.name,
        )
        record_event(
            "grant.given",
            tenant_id=server.tenant_id,
            target=server.name,
            actor=actor,
            after={
                "for": holder_name(holder, oauth.way),
                "issuer": request.issuer[:300],
                "scopes": issued.scopes or request.scopes,
                "refreshes": bool(issued.refresh),
            },
        )
        announce(server.pk)
    return answer_waiting(request.server_id, holder, actor)


def answer_waiting(server_id: int, holder: Holder, actor: Actor, *, all_: bool = False) -> int:
    """Let calls that wait for an authorization of this server go on, by answering their questions: those that wait for
    the grant of `holder`; all of them with `all_`, or if callers have no grants of their own. Returns how many calls go
    on."""
    oauth = ServerOAuth.objects.filter(server_id=server_id).first()
    everybody = all_ or oauth is None or oauth.way != Way.EACH
    waiting = _WAITING(server=server_id, user=holder.user_id, context=holder.context_id, shared=everybody)
    for question in waiting:
        answer_authorization(question.task_id, question.key, actor=actor)
    return len(waiting)


def _oauth_of(server: Server) -> ServerOAuth | None:
    try:
        found: ServerOAuth = server.oauth
    except ServerOAuth.DoesNotExist:
        return None
    return found


def _check_issuer(server: str, oauth: ServerOAuth, found: Found) -> None:
    """Raise `Refused` if an admin gave a client id without an issuer, and the server now names another authorization
    server than the first that was found, for which the client id was given. So the id and its secret are not sent to
    another one."""
    first = Found.read(oauth.found)
    if oauth.client_id and not oauth.issuer and first is not None and first.issuer != found.issuer:
        raise Refused(
            f"{server} names another authorization server now, {spelled(found.issuer)[:200]} instead of"
            f" {spelled(first.issuer)[:200]}, for which the client id was given. If that is right, an admin names it as"
            " the issuer on the page of the server."
        )


def _keep(server: Server, oauth: ServerOAuth, found: Found, registered: dict[str, Any]) -> None:
    """Store for the next authorizations what was found, and the registration if it is new. Raises `Refused` if an admin
    has meanwhile changed how the server is authorized."""
    now = ServerOAuth.objects.select_for_update().filter(pk=oauth.pk).first()
    if now is None or (now.way, now.issuer, now.client_id) != (oauth.way, oauth.issuer, oauth.client_id):
        raise Refused(f"{server.name} is authorized in another way now. Begin again.")
    now.found = found.stored()
    if registered and registered != oauth.registered:
        now.registered = registered
    now.save(update_fields=["found", "registered"])


def _client(
    oauth: ServerOAuth, found: Found, base: str, scopes: str, given: frozenset[str]
) -> tuple[Client, dict[str, Any]]:
    """The hub as a client of the authorization server: the client that an admin gave, the one of the hub's metadata
    document, or one that the hub registers. Beside it, what is stored of the registration; empty if there is none.
    Raises `Denied`, `Unanswered` or `InvalidToken`."""
    if oauth.client_id:
        oauth.found = found.stored()
        known = client_of(oauth)
        assert known is not None
        return known, {}
    if found.reads_documents and base.startswith("https://"):
        return Client(base + DOCUMENT), {}
    redirect_uri, before = base + CALLBACK, oauth.registered
    if before and before["issuer"] == found.issuer and before["redirect_uri"] == redirect_uri:
        known = client_of(oauth, before["id"], before)
        if known is not None and not without(scopes, before["scopes"]) and not _expires(known):
            return known, before
    if not found.registration_endpoint:
        raise Denied("it registers no clients by itself: register TaskHub there, and give its client id here")
    made = tokens.register(found, name=CLIENT_NAME, redirect_uri=redirect_uri, scopes=scopes, given=given)
    return made, {
        "issuer": found.issuer,
        "redirect_uri": redirect_uri,
        "id": made.id,
        "secret": vault().encrypt(made.secret).decode() if made.secret else "",
        "method": made.method,
        "expires_at": made.expires_at,
        "scopes": scopes,
    }


def _expires(client: Client) -> bool:
    """Whether the client's secret has expired, or will before a person comes back."""
    return 0 < client.expires_at < time.time() + REQUEST_SECONDS


def _make_room(by: int) -> None:
    """Delete requests that are too old, and the oldest requests of the person `by` if they have too many."""
    old = datetime.now(UTC) - timedelta(seconds=REQUEST_SECONDS)
    GrantRequest.objects.filter(created_at__lt=old).delete()
    newest = GrantRequest.objects.filter(by_id=by).order_by("-id").values_list("pk", flat=True)
    GrantRequest.objects.filter(pk__in=list(newest[MAX_REQUESTS - 1 : MAX_REQUESTS + 100])).delete()


def _redeemed(tenant_id: int, session_key: str, by: int, state: str) -> GrantRequest | None:
    """Delete the request with this state, and return it; `None` if there is none."""
    with transaction.atomic():
        request = (
            GrantRequest.objects.select_for_update(of=("self",))
            .select_related("server__oauth")
            .filter(
                state_digest=ids.digest(state).hex(), session_key=session_key, by_id=by, server__tenant_id=tenant_id
            )
            .first()
        )
        if request is not None:
            GrantRequest.objects.filter(pk=request.pk).delete()
    return request


def _error(answer: dict[str, str]) -> str:
    said = [spelled(answer.get(name, ""))[:200] for name in ("error", "error_description")]
    return ": ".join(filter(None, said)) or "it sent no code"

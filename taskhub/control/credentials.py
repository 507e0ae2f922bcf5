"""Use cases of OAuth towards servers: the settings of a server, and grants."""

from __future__ import annotations

from taskhub.control.caller import Caller
from taskhub.control.questions import closed_to
from taskhub.control.reserved import refuse_reserved
from taskhub.core.errors import Invalid, NotFound, Refused
from taskhub.core.states import QuestionKind
from taskhub.domain.credentials import flow, reads, writes
from taskhub.domain.credentials.flow import Came, Sending
from taskhub.domain.credentials.records import Holder, OAuthSettings, Way
from taskhub.domain.credentials.writes import Dropped
from taskhub.domain.questions.inbox import InboxItem


def set_oauth(caller: Caller, server_id: int, wanted: OAuthSettings | None) -> Dropped:
    """Set how the hub is authorized at a server; with `None`, it is not authorized by OAuth. If the way, the issuer or
    the client changes, all grants are dropped and returned: call `end_dropped` with them after the commit. Raises
    `Forbidden`, `NotFound`, or `Invalid` naming the field."""
    caller.require("server.manage", f"set the OAuth of server {server_id}")
    refuse_reserved(caller, server_id=server_id)
    return writes.set_oauth(tenant_id=caller.tenant_id, server_id=server_id, wanted=wanted, actor=caller.actor)


def end_dropped(dropped: Dropped) -> str:
    """Revoke the tokens of dropped grants at their authorization server. Returns the outcome as text for people; empty
    if there were no such grants."""
    if not dropped.grants:
        return ""
    open_ = len(dropped.grants) - writes.revoke_dropped(dropped)
    said = f"Authorizations that are dropped: {len(dropped.grants)}."
    if not open_:
        return f"{said} Their tokens are revoked."
    return (
        f"{said} The authorization server did not confirm that their tokens are revoked for {open_} of them: that is"
        " done at the accounts there."
    )


def register_anew(caller: Caller, server_id: int) -> bool:
    """Drop the hub's registration at an authorization server that does not know it any more. The hub registers itself
    again at the next authorization. Returns whether there was a registration. Raises `Forbidden` or `NotFound`."""
    caller.require("server.manage", f"have the hub registered anew for server {server_id}")
    return writes.register_anew(tenant_id=caller.tenant_id, server_id=server_id, actor=caller.actor)


def authorize_for_all(caller: Caller, server_id: int, *, session_key: str, base: str) -> Sending:
    """Begin to authorize a server for all callers. If each caller has a grant of their own, the grant is only for
    reading the server's lists. Raises `Forbidden`, and what `flow.begin` raises."""
    caller.require("server.manage", f"authorize server {server_id}")
    oauth = reads.oauth_of(server_id)
    lacking = "" if oauth is None else oauth.lacking
    return _begin(caller, server_id, Holder(), session_key, base, f"/servers/{server_id}/", lacking)


def authorize_for_oneself(caller: Caller, server_id: int, *, session_key: str, base: str) -> Sending:
    """Begin to authorize a server for the programs that act for the caller. Raises `Forbidden`, `Refused` if people
    have no grants of their own at this server, and what `flow.begin` raises."""
    caller.require("server.view", f"authorize server {server_id}")
    oauth = reads.oauth_of(server_id)
    if caller.person is None or oauth is None or oauth.way is not Way.EACH:
        raise Refused("People do not authorize this server for themselves.")
    holder = Holder(user_id=caller.person.user_id)
    return _begin(caller, server_id, holder, session_key, base, f"/servers/{server_id}/")


def authorize_for_call(caller: Caller, item: InboxItem, *, session_key: str, base: str) -> Sending:
    """Begin to authorize the server of a call that waits for authorization. `item` is the call's question of the kind
    `authorization`; it says whether the grant is for everybody, for a person or for a client. Raises `Forbidden` if the
    caller may not authorize for them, `Refused` if the question is closed to the caller, and what `flow.begin`
    raises."""
    if item.kind is not QuestionKind.AUTHORIZATION:
        raise Invalid("This question asks for no authorization.")
    if closed_to(caller, item) is not None:
        raise Refused("The call does not wait for this any more.")
    found = reads.asked_for(item.id)
    if found is None:
        raise NotFound("There is no such server any more.")
    server_id, holder, scopes = found
    if holder == Holder():
        caller.require("server.manage", f"authorize server {server_id}")
    return _begin(caller, server_id, holder, session_key, base, f"/tasks/{item.public_id}/", scopes)


def finish_authorization(caller: Caller, *, session_key: str, answer: dict[str, str]) -> Came:
    """Finish an authorization. `answer` holds the parameters with which the authorization server sent the caller back.
    Raises `Forbidden`, and what `flow.finish` raises."""
    caller.require("server.view", what="authorize a server")
    assert caller.person is not None
    return flow.finish(
        tenant_id=caller.tenant_id,
        session_key=session_key,
        by=caller.person.user_id,
        for_all=caller.may("server.manage"),
        answer=answer,
        actor=caller.actor,
    )


def revoke_grant(caller: Caller, server_id: int, grant_id: int) -> bool:
    """Revoke a grant. It has to be the caller's own, unless they may manage servers. Returns whether the authorization
    server confirmed that the grant's tokens are revoked. Raises `Forbidden` or `NotFound`."""
    caller.require("server.view", f"revoke authorization {grant_id} of server {server_id}")
    holder = writes.holder_of(tenant_id=caller.tenant_id, server_id=server_id, grant_id=grant_id)
    if caller.person is None or holder.user_id != caller.person.user_id:
        caller.require("server.manage", f"revoke authorization {grant_id} of server {server_id}")
    return writes.revoke(tenant_id=caller.tenant_id, server_id=server_id, grant_id=grant_id, actor=caller.actor)


def _begin(
    caller: Caller, server_id: int, holder: Holder, session_key: str, base: str, back: str, scopes: str = ""
) -> Sending:
    assert caller.person is not None  # a shell has no browser
    return flow.begin(
        tenant_id=caller.tenant_id,
        server_id=server_id,
        holder=holder,
        by=caller.person.user_id,
        session_key=session_key,
        base=base,
        back=back,
        scopes=scopes,
    )

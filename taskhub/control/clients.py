"""Use cases for MCP clients: add them, issue and revoke tokens, lock a client, set how its plain calls wait."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime

from taskhub.control.caller import Caller
from taskhub.core.errors import Invalid, NotFound
from taskhub.domain.clients import contexts, reads, tokens, waiting
from taskhub.domain.clients.reads import ClientRow
from taskhub.domain.tasks.cancel import request_cancel


@dataclass(frozen=True, slots=True)
class IssuedToken:
    """A new token, which cannot be shown again, with its scopes and its time of expiry."""

    text: str = field(repr=False)
    context_id: int
    scopes: tuple[str, ...]
    expires_at: datetime | None


def find_client(caller: Caller, context_id: int) -> ClientRow:
    """A client of the caller's tenant. Raises `NotFound`."""
    found = reads.client_detail(caller.tenant_id, context_id) if context_id < 2**63 else None
    if found is None:
        raise NotFound("There is no such client.")
    return found


def add_client(caller: Caller, *, name: str, issuer: str, subject: str, client_id: str) -> int:
    """Add a client without a token (`contexts.add_client`); returns its id. Raises `Forbidden`, `Invalid` naming the
    field, or `Refused` if there is such a client already."""
    caller.require("client.manage", f"add client {name[:128]}")
    return contexts.add_client(
        tenant_id=caller.tenant_id,
        name=name,
        issuer=issuer,
        subject=subject,
        client_id=client_id,
        actor=caller.actor,
    )


def issue_token(caller: Caller, client: str | ClientRow, *, scopes: Sequence[str], days: int) -> IssuedToken:
    """Issue a token to a client. If `client` is a name that no client has, a client of this name is created.

    Raises `Forbidden`; `Invalid`, also for a client whose tokens are issued elsewhere; `LimitReached` if the client has
    as many tokens as it may.
    """
    name = client if isinstance(client, str) else client.subject
    caller.require("client.manage", f"issue a token for {name}")
    if isinstance(client, ClientRow) and not client.own:
        raise Invalid(f"{client.name} brings its tokens from {client.issuer}; none are issued here.")
    token, row = tokens.issue_token(
        tenant_id=caller.tenant_id, client=name, scopes=list(scopes), days=days, actor=caller.actor
    )
    return IssuedToken(token, row.context_id, tuple(row.scopes), row.expires_at)


def revoke_token(caller: Caller, client: ClientRow, token_id: int, *, cancel_tasks: bool = False) -> int:
    """Revoke one of the client's tokens, at once in every process. With `cancel_tasks`, also request cancellation of
    all live tasks of the client. Returns the number of these tasks. If it raises `Forbidden` or `NotFound`, nothing was
    changed."""
    what = f"revoke a token of {client.name}"
    caller.require("client.manage", what)
    if cancel_tasks:
        caller.require("task.cancel", what)
    if token_id not in {row.id for row in reads.client_tokens(caller.tenant_id, client.id)}:
        raise NotFound("No such token.")
    tokens.revoke_token(tenant_id=caller.tenant_id, token_id=token_id, actor=caller.actor)
    return _cancel_tasks(caller, client) if cancel_tasks else 0


def lock_client(caller: Caller, client: ClientRow, *, cancel_tasks: bool = False) -> int:
    """Refuse all tokens of the client until `unlock_client`. With `cancel_tasks`, also request cancellation of all its
    live tasks. Returns the number of these tasks. Raises `Forbidden`."""
    what = f"lock {client.name}"
    caller.require("client.manage", what)
    if cancel_tasks:
        caller.require("task.cancel", what)
    tokens.set_context_disabled(tenant_id=caller.tenant_id, context_id=client.id, disabled=True, actor=caller.actor)
    return _cancel_tasks(caller, client) if cancel_tasks else 0


def unlock_client(caller: Caller, client: ClientRow) -> None:
    """Let the client call again. Raises `Forbidden`."""
    caller.require("client.manage", f"unlock {client.name}")
    tokens.set_context_disabled(tenant_id=caller.tenant_id, context_id=client.id, disabled=False, actor=caller.actor)


def set_caller_settings(
    caller: Caller, client: ClientRow, *, patience_seconds: int | None, hub_tools: bool | None
) -> None:
    """Set how long plain calls of the client wait, and whether the hub's own tools are in its tool list. For a value of
    `None`, the hub decides. Raises `Forbidden`, or `Invalid` naming the field."""
    caller.require("client.manage", f"set how calls of {client.name} wait")
    waiting.set_caller_settings(
        tenant_id=caller.tenant_id,
        context_id=client.id,
        patience_ms=None if patience_seconds is None else patience_seconds * 1_000,
        hub_tools=hub_tools,
        actor=caller.actor,
    )


def _cancel_tasks(caller: Caller, client: ClientRow) -> int:
    ids = reads.live_task_ids(caller.tenant_id, client.id)
    actor = caller.because(f"access of {client.name} was withdrawn")
    for task_id in ids:
        request_cancel(task_id, actor=actor)
    return len(ids)

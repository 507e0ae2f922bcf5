"""Use cases for servers: connect them, change how they are reached, and set the policies of their tools."""

from __future__ import annotations

from taskhub.control.caller import Caller
from taskhub.core.policy import Policy
from taskhub.domain.catalogue import breakers, sync, writes
from taskhub.domain.catalogue.spec import ServerSpec


def add_server(caller: Caller, *, name: str, spec: str, prefix: str = "", token: str = "") -> int:
    """Connect a new server; returns its id. Raises `Forbidden`, and what `writes.add_server` raises."""
    caller.require("server.manage", f"add server {name}")
    return writes.add_server(
        tenant_id=caller.tenant_id, name=name, spec=spec, prefix=prefix, token=token, actor=caller.actor
    )


def set_server(caller: Caller, spec: ServerSpec) -> int:
    """Connect the server of this spec, or change the target of the server that has its name. Returns the server's id.
    Raises `Forbidden`, and what `sync.connect_server` raises."""
    caller.require("server.manage", f"set server {spec.name}")
    return sync.connect_server(
        tenant_id=caller.tenant_id,
        name=spec.name,
        transport=spec.transport,
        target=spec.target,
        named=spec.named,
        actor=caller.actor,
    )


def refresh_server(caller: Caller, server_id: int) -> None:
    """Ask the workers to list the server again. Raises `Forbidden`, `NotFound`, or `Refused` for a disabled server."""
    caller.require("server.manage", f"refresh server {server_id}")
    writes.request_refresh(tenant_id=caller.tenant_id, server_id=server_id, actor=caller.actor)


def try_server(caller: Caller, server_id: int) -> bool:
    """Let the next call probe a server whose breaker is open. Returns `False` if the breaker is closed. Raises
    `Forbidden` or `NotFound`."""
    caller.require("server.manage", f"try server {server_id}")
    return breakers.request_probe(tenant_id=caller.tenant_id, server_id=server_id, actor=caller.actor)


def set_server_token(caller: Caller, server_id: int, token: str) -> None:
    """Set the bearer token that is sent to the server; empty for none. Raises `Forbidden`, `NotFound`, or `Invalid`
    naming the field."""
    caller.require("server.manage", f"set the token of server {server_id}")
    writes.set_server_token(tenant_id=caller.tenant_id, server_id=server_id, token=token, actor=caller.actor)


def set_server_calls(caller: Caller, server_id: int, calls_at_once: int | None) -> None:
    """Set how many calls each worker may send to the server at once; `None` for the default. Raises `Forbidden`,
    `NotFound`, or `Invalid` naming the field."""
    caller.require("server.manage", f"set the concurrent calls of server {server_id}")
    writes.set_server_calls(
        tenant_id=caller.tenant_id, server_id=server_id, calls_at_once=calls_at_once, actor=caller.actor
    )


def set_server_enabled(caller: Caller, server_id: int, *, enabled: bool) -> None:
    """Enable or disable a server; tools of a disabled server are not offered. Raises `Forbidden` or `NotFound`."""
    caller.require("server.manage", f"{'enable' if enabled else 'disable'} server {server_id}")
    writes.set_server_enabled(tenant_id=caller.tenant_id, server_id=server_id, enabled=enabled, actor=caller.actor)


def set_policy(caller: Caller, tool_id: int, policy: Policy, *, seen: str | None = None) -> bool:
    """Replace the whole policy of a tool, for future calls. Returns `False` if nothing differed. `seen` is `mark_of`
    the policy that the person was shown.

    Raises `Forbidden`, `NotFound`, `Invalid` naming the field, or `Refused` if the policy has changed since `seen`.
    """
    caller.require("server.manage", f"set the policy of tool {tool_id}")
    return writes.set_tool_policy(
        tenant_id=caller.tenant_id, tool_id=tool_id, policy=policy, seen=seen, actor=caller.actor
    )

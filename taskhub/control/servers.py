"""Use cases for servers: connect them, change how they are reached, and set the policies of their tools."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from django.db import transaction

from taskhub.control import credentials
from taskhub.control.caller import Caller
from taskhub.control.reserved import refuse_reserved
from taskhub.core.errors import Invalid, NotFound, Refused
from taskhub.core.policy import Policy
from taskhub.domain.catalogue import breakers, confirmations, connection_tests, reads, sync, writes
from taskhub.domain.catalogue.edits import ServerEdit
from taskhub.domain.catalogue.given import Pairs
from taskhub.domain.catalogue.reads import ServerRow
from taskhub.domain.catalogue.server_files import FileServer
from taskhub.domain.catalogue.spec import ServerSpec, parse_spec
from taskhub.domain.catalogue.sync import SyncedServer
from taskhub.domain.credentials.reads import oauth_of
from taskhub.domain.credentials.records import OAuthSettings, Way
from taskhub.domain.tasks.removed import LiveCalls, end_calls_of_removed, live_calls


def add_server(
    caller: Caller,
    *,
    name: str,
    spec: str,
    prefix: str = "",
    token: str = "",
    headers: Pairs = writes.NOTHING,
    environment: Pairs = writes.NOTHING,
    directory: str = "",
    own_process: bool = False,
    connect_seconds: int | None = None,
    calls_at_once: int | None = None,
    review: bool = False,
    pinned: str = "",
) -> int:
    """Connect a new server; returns its id. Raises `Forbidden`, and what `writes.add_server` raises."""
    caller.require("server.manage", f"add server {name}")
    return writes.add_server(
        tenant_id=caller.tenant_id,
        name=name,
        spec=spec,
        prefix=prefix,
        token=token,
        headers=headers,
        environment=environment,
        directory=directory,
        own_process=own_process,
        connect_seconds=connect_seconds,
        calls_at_once=calls_at_once,
        review=review,
        pinned=pinned,
        actor=caller.actor,
    )


def set_server(caller: Caller, spec: ServerSpec, *, shared: bool | None = None, own_process: bool | None = None) -> int:
    """Connect the server of this spec, or change the target of the server that has its name. The other arguments are
    those of `ServerEdit`. Returns the server's id. Raises `Forbidden`, and what `sync.connect_server` raises."""
    caller.require("server.manage", f"set server {spec.name}")
    with transaction.atomic():
        server_id = sync.connect_server(
            tenant_id=caller.tenant_id,
            name=spec.name,
            transport=spec.transport,
            target=spec.target,
            named=spec.named,
            actor=caller.actor,
        )
        edit = ServerEdit(shared=shared, own_process=own_process)
        writes.edit_server(tenant_id=caller.tenant_id, server_id=server_id, edit=edit, actor=caller.actor)
    return server_id


def import_servers(
    caller: Caller, given: Sequence[FileServer], *, again: bool = False, dry_run: bool = False
) -> tuple[int, ...]:
    """Connect all the servers of an `mcp.json`, or none if one is refused; returns their ids. `again`: a server with a
    name that exists gets the address or command, headers and variables of the file; otherwise it is refused. `dry_run`:
    make the same checks, and connect none. Raises `Forbidden`, `Refused` for a name that is taken, or `Invalid`, both
    naming the server."""
    names = ", ".join(server.name for server in given)
    caller.require("server.manage", f"import servers {names}"[:200])
    found = []
    with transaction.atomic():
        for server in given:
            try:
                found.append(_import(caller, server, again=again))
            except Invalid as error:
                raise Invalid(f"{server.name}: {error.message}") from None
        if dry_run:
            transaction.set_rollback(True)
            return ()
    return tuple(found)


def _import(caller: Caller, server: FileServer, *, again: bool) -> int:
    if not again:
        pk = add_server(
            caller,
            name=server.name,
            spec=server.spec,
            token=server.token,
            headers=server.headers,
            environment=server.environment,
            directory=server.directory,
        )
        _authorize(caller, pk, server)
        return pk
    pk = set_server(caller, parse_spec(f"{server.name}={server.spec}"))
    headers: Pairs | None = server.headers or None
    if (
        (server.token or server.oauth)
        and headers is None
        and (row := reads.server_detail(caller.tenant_id, pk)) is not None
    ):
        # A token or OAuth replaces an `Authorization` header of an earlier file.
        headers = {name: None for name in row.header_names if name.lower() != "authorization"}
    authorization = any(name.lower() == "authorization" for name in server.headers)
    edit = ServerEdit(
        headers=headers,
        environment=server.environment or None,
        directory=server.directory or None,
        token="" if authorization or server.oauth is not None else None,
    )
    edit_server(caller, pk, edit)
    _authorize(caller, pk, server)
    if server.token:
        writes.keep_server_token(tenant_id=caller.tenant_id, server_id=pk, token=server.token, actor=caller.actor)
    return pk


def _authorize(caller: Caller, pk: int, server: FileServer) -> None:
    """Set the OAuth settings of the server as the file says. A secret that is not in the file stays as it is, and so
    does whether there is one grant for everyone or one for each person."""
    if (given := server.oauth) is None:
        return
    there = oauth_of(pk)
    way = Way.CLIENT if given.by_client else Way.EACH
    if there is not None and not given.by_client and there.way is not Way.CLIENT:
        way = there.way
    wanted = OAuthSettings(way, given.issuer, given.client_id, given.secret or None, given.scopes)
    if there is not None:
        wanted = replace(wanted, issuer=given.issuer or there.wanted_issuer, scopes=given.scopes or there.scopes)
    credentials.set_oauth(caller, pk, wanted)


def find_server(caller: Caller, name: str) -> ServerRow:
    """The server of this name. Raises `Forbidden` or `NotFound`."""
    caller.require("server.view", f"see server {name}")
    found = reads.server_named(caller.tenant_id, name)
    if found is None:
        raise NotFound(f"There is no server named {name}.")
    return found


def release_server(caller: Caller, server_id: int) -> None:
    """Let pages change a server that only a file of configuration changes, until the file is applied again. Raises
    `Forbidden` or `NotFound`."""
    caller.require("server.manage", f"release server {server_id} from its file")
    edit = ServerEdit(by_file=False)
    writes.edit_server(tenant_id=caller.tenant_id, server_id=server_id, edit=edit, actor=caller.actor)


def edit_server(caller: Caller, server_id: int, edit: ServerEdit) -> None:
    """Change how a server is reached and used, with its headers and variables: all of the edit or nothing. Raises
    `Forbidden`, `NotFound`, or `Invalid` naming the field."""
    caller.require("server.manage", f"edit server {server_id}")
    refuse_reserved(caller, server_id=server_id)
    writes.edit_server(tenant_id=caller.tenant_id, server_id=server_id, edit=edit, actor=caller.actor)


def confirm_tools(caller: Caller, server_id: int, seen: Mapping[int, str]) -> int:
    """Confirm tools of a server that are new, changed or gone, all or none (`domain.catalogue.confirmations`); returns
    how many were confirmed. `seen` has, by the tool's id, the digest of what the person was shown. Raises `Forbidden`,
    `NotFound`, or `Refused` for a tool that has changed since."""
    caller.require("server.manage", f"confirm tools of server {server_id}")
    return confirmations.confirm_tools(tenant_id=caller.tenant_id, server_id=server_id, seen=seen, actor=caller.actor)


def remove_server(caller: Caller, server_id: int, *, confirmed: bool = False) -> LiveCalls:
    """Remove a server (`domain.catalogue.writes.remove_server`). Calls that wait end as failed; calls that run go on,
    and their results are stored. Returns the numbers of calls that had not ended. Raises `Forbidden`, `NotFound`, or,
    unless `confirmed`, `Refused` if there are such calls."""
    caller.require("server.manage", f"remove server {server_id}")
    refuse_reserved(caller, server_id=server_id)
    with transaction.atomic():
        writes.remove_server(tenant_id=caller.tenant_id, server_id=server_id, actor=caller.actor)
        live = live_calls(server_id)
        if live.count and not confirmed:
            at_server = f", and {live.deferred} run as its own tasks" if live.deferred else ""
            told = f"{live.waiting} wait and {live.running} run{at_server}"
            raise Refused(f"The server has calls that have not ended: {told}.")
        end_calls_of_removed(server_id, actor=caller.actor)
    return live


def request_test(caller: Caller, server_id: int) -> None:
    """Have a worker test the connection to a server. Raises `Forbidden`, `NotFound`, or `Refused` for a disabled
    server."""
    caller.require("server.manage", f"test server {server_id}")
    connection_tests.request_test(tenant_id=caller.tenant_id, server_id=server_id, actor=caller.actor)


def server_to_test(caller: Caller, server_id: int) -> SyncedServer:
    """The server with its secrets, for a test of its connection. Raises `Forbidden` or `NotFound`."""
    caller.require("server.manage", f"test server {server_id}")
    return sync.server_to_test(tenant_id=caller.tenant_id, server_id=server_id, actor=caller.actor)


def refresh_server(caller: Caller, server_id: int) -> None:
    """Ask the workers to list the server again, and to find out again which versions it speaks. Raises `Forbidden`,
    `NotFound`, or `Refused` for a disabled server."""
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
    refuse_reserved(caller, server_id=server_id)
    writes.set_server_token(tenant_id=caller.tenant_id, server_id=server_id, token=token, actor=caller.actor)


def set_server_calls(caller: Caller, server_id: int, calls_at_once: int | None) -> None:
    """Set how many calls each worker may send to the server at once; `None` for the default. Raises `Forbidden`,
    `NotFound`, or `Invalid` naming the field."""
    caller.require("server.manage", f"set the concurrent calls of server {server_id}")
    refuse_reserved(caller, server_id=server_id)
    writes.set_server_calls(
        tenant_id=caller.tenant_id, server_id=server_id, calls_at_once=calls_at_once, actor=caller.actor
    )


def set_server_enabled(caller: Caller, server_id: int, *, enabled: bool, reason: str = "") -> None:
    """Enable or disable a server; tools of a disabled server are not offered. The reason is shown with its state.
    Raises `Forbidden`, `NotFound`, or `Invalid` naming the field."""
    caller.require("server.manage", f"{'enable' if enabled else 'disable'} server {server_id}")
    writes.set_server_enabled(
        tenant_id=caller.tenant_id, server_id=server_id, enabled=enabled, reason=reason, actor=caller.actor
    )


def set_policy(caller: Caller, tool_id: int, policy: Policy, *, seen: str | None = None) -> bool:
    """Replace the whole policy of a tool, for future calls. Returns `False` if nothing differed. `seen` is the
    `mark_of` the policy that the person was shown.

    Raises `Forbidden`, `NotFound`, `Invalid` naming the field, or `Refused` if the policy has changed since `seen`.
    """
    caller.require("server.manage", f"set the policy of tool {tool_id}")
    refuse_reserved(caller, tool_id=tool_id)
    return writes.set_tool_policy(
        tenant_id=caller.tenant_id, tool_id=tool_id, policy=policy, seen=seen, actor=caller.actor
    )


def set_policy_by_name(caller: Caller, server_id: int, name: str, policy: Policy) -> bool:
    """As `set_policy`, for a tool that is named as its server names it, and that may not have been listed yet
    (`writes.set_policy_by_name`). Raises `Forbidden`, `NotFound`, or `Invalid` naming the field."""
    caller.require("server.manage", f"set the policy of tool {name[:128]} of server {server_id}")
    refuse_reserved(caller, server_id=server_id)
    return writes.set_policy_by_name(
        tenant_id=caller.tenant_id, server_id=server_id, name=name, policy=policy, actor=caller.actor
    )

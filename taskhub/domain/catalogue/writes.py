"""Changes to servers and to the policies of their tools.

Each function is one transaction: lock, check, change, record an event with the values before and after, and send hints,
which leave with the commit.
"""

from __future__ import annotations

import re
from dataclasses import replace
from datetime import UTC, datetime
from types import MappingProxyType
from typing import Any, Final

from django.db import transaction

from taskhub.core.errors import Invalid, NotFound, Refused
from taskhub.core.hints import CatalogueChanged, ServerRefreshed, ServerStale
from taskhub.core.policy import POLICY_FIELDS, Policy, check_policy, companion_misfit, inputs_of, mark_of, values_of
from taskhub.core.records import Actor
from taskhub.core.secrets import HIDDEN
from taskhub.core.transports import MOST_AT_ONCE
from taskhub.domain.audit.record import record_event
from taskhub.domain.catalogue.breakers import close_breaker
from taskhub.domain.catalogue.confirmations import set_review
from taskhub.domain.catalogue.edits import MAX_REASON, ServerEdit
from taskhub.domain.catalogue.given import (
    Pairs,
    checked_connect_seconds,
    checked_directory,
    checked_environment,
    checked_headers,
    checked_pinned,
    sealed,
)
from taskhub.domain.catalogue.naming import locked_with_names
from taskhub.domain.catalogue.reads import spec_of, vault
from taskhub.domain.catalogue.spec import parse_spec
from taskhub.domain.catalogue.sync import (
    drop_oauth,
    is_target,
    new_server,
    preset_tool,
    set_shared,
    set_target,
    shown_given,
)
from taskhub.domain.hints.announce import notify
from taskhub.lib.signing import InvalidToken
from taskhub.store.models import ConnectionTest, Interest, Offer, Server, ServerOAuth, Timing, Tool, ToolVersion

NOTHING: Final[Pairs] = MappingProxyType({})
MAX_TOOL_NAME: Final = 128
_OBJECT_APART: Final = "an object in a process of its own"
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}")
_TOKEN = re.compile(r"[A-Za-z0-9._~+/=-]{1,4096}")
"""RFC 6750's b64token."""
_PREFIX = re.compile(r"([A-Za-z][A-Za-z0-9_-]{0,62})?")
"""A prefix that every model API accepts at the beginning of a tool's name, or none."""
_OBJECT = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*:[A-Za-z_]\w*", re.ASCII)


def set_tool_policy(*, tenant_id: int, tool_id: int, policy: Policy, actor: Actor, seen: str | None = None) -> bool:
    """Set the policy of a tool, for future calls. Returns `False` if nothing differed.

    `seen` is the mark (`core.policy.mark_of`) of the policy that the person was shown. Raises `NotFound`; `Invalid`,
    which names the field; `Refused` if the policy has changed since `seen`.
    """
    check_policy(policy)
    with transaction.atomic():
        tool = (
            Tool.objects.select_for_update(of=("self",))
            .select_related("server")
            .filter(pk=tool_id, server__tenant_id=tenant_id, server__removed_at=None)
            .first()
        )
        if tool is None:
            raise NotFound("No such tool.")
        if seen is not None and seen != mark_of(tool):
            raise Refused(
                f"Somebody changed the policy of {tool.exposed_name} meanwhile. This is the policy as it is now;"
                " nothing of yours was saved."
            )
        if policy.companion != tool.companion and tool.server.catalogue_at is not None:
            _check_companion(tool, policy.companion)
        before, wanted = values_of(tool), values_of(policy)
        changed = [name for name in POLICY_FIELDS if before[name] != wanted[name]]
        if not changed:
            return False
        for name in changed:
            setattr(tool, name, wanted[name])
        tool.save(update_fields=changed)
        record_event(
            "tool.policy.changed",
            tenant_id=tenant_id,
            target=tool.exposed_name,
            actor=actor,
            before={name: before[name] for name in changed},
            after={name: wanted[name] for name in changed},
        )
        notify(CatalogueChanged())
    return True


def set_policy_by_name(*, tenant_id: int, server_id: int, name: str, policy: Policy, actor: Actor) -> bool:
    """Set the policy of a tool by the server's own name for it. If the server was never listed, the policy is kept for
    a tool of this name in the first listing. Returns `False` if nothing differed. Raises `NotFound`, or `Invalid`,
    which names the field: `name` if the server has no such tool."""
    check_policy(policy)
    with transaction.atomic():
        if not Server.objects.filter(pk=server_id, tenant_id=tenant_id, removed_at=None).exists():
            raise NotFound("No such server.")
        server = locked_with_names(server_id)
        known = Tool.objects.filter(server=server, name=name).first()
        if known is not None:
            return set_tool_policy(tenant_id=tenant_id, tool_id=known.pk, policy=policy, actor=actor)
        if server.catalogue_at is not None:
            raise Invalid(f"{server.name} has no tool {name[:128]}.", field="name")
        if not 0 < len(name) <= MAX_TOOL_NAME or not name.isprintable():
            raise Invalid(f"A tool's name has 1 to {MAX_TOOL_NAME} printable characters.", field="name")
        before, wanted = values_of(Policy()), values_of(policy)
        changed = [field for field in POLICY_FIELDS if before[field] != wanted[field]]
        if not changed:
            return False
        record_event(
            "tool.policy.changed",
            tenant_id=tenant_id,
            target=preset_tool(server, name, policy).exposed_name,
            actor=actor,
            before={field: before[field] for field in changed},
            after={field: wanted[field] for field in changed},
        )
        notify(CatalogueChanged())
    return True


def _check_companion(tool: Tool, companion: dict[str, Any]) -> None:
    """Raise `Invalid`, which names the field, unless the companion is a read-only tool of the same server that accepts
    the arguments that the policy gives it."""
    if not companion:
        return
    other = Tool.objects.filter(server=tool.server, name=companion["tool"], gone_at=None, rejected="").first()
    if other is None or other.pk == tool.pk:
        raise Invalid("Choose another tool of the same server.", field="companion_tool")
    if not other.read_only:
        raise Invalid(f"{other.exposed_name} does not say that it only reads (readOnlyHint).", field="companion_tool")
    if misfit := companion_misfit(companion, other.definition):
        raise Invalid(f"{other.exposed_name} {misfit}.", field="companion_arguments")
    own = inputs_of(tool.definition)
    for source in companion.get("arguments", {}).values():
        if own and source.get("argument", "") not in {"", *own}:
            raise Invalid(f"This tool has no argument {source['argument'][:60]}.", field="companion_arguments")


def add_server(
    *,
    tenant_id: int,
    name: str,
    spec: str,
    prefix: str = "",
    token: str = "",
    headers: Pairs = NOTHING,
    environment: Pairs = NOTHING,
    directory: str = "",
    own_process: bool = False,
    connect_seconds: int | None = None,
    calls_at_once: int | None = None,
    review: bool = False,
    pinned: str = "",
    actor: Actor,
) -> int:
    """Connect a new server; returns its id. Its tools appear once a worker has listed it. An HTTP server gets `token`
    as `Authorization: Bearer …`. The token and the values of `headers` (for every request to an HTTP server) and of
    `environment` (the variables of a command) are stored encrypted and never shown. With `review` all tools of the
    server wait for a person (`domain.catalogue.confirmations`). With `own_process` a `python:` server runs in a process
    of its own, which can have the variables and directory of a command. `pinned`: the version of the protocol to speak
    with the server; empty for the newest that it speaks.

    Raises `Invalid`, which names the field, or `Refused` for a name that is taken.
    """
    name, prefix = name.strip(), _checked_prefix(prefix)
    if not _NAME.fullmatch(name):
        raise Invalid(
            "A server's name has 1 to 64 letters, digits, dots, dashes or underscores, the first a letter or digit.",
            field="name",
        )
    parsed = parse_spec(spec)
    transport, target = parsed.transport, parsed.target
    credentials = _locked_token(transport, token)
    runs = _has_process(transport, own_process=own_process)
    given = {
        "headers": sealed(_for_http(transport, headers, token=credentials is not None), {}, field="headers"),
        "environment": sealed(_for_process(environment, runs=runs), {}, field="environment"),
        "directory": _checked_directory(directory, runs=runs),
        "own_process": own_process,
        "connect_seconds": checked_connect_seconds(connect_seconds),
        "calls_at_once": _checked_calls(calls_at_once),
        "review": review,
        "pinned": checked_pinned(pinned, target),
    }
    with transaction.atomic():
        server = new_server(
            tenant_id=tenant_id,
            name=name,
            transport=transport,
            target=target,
            prefix=prefix,
            credentials=credentials,
            given=given,
            actor=actor,
        )
        if server is None:
            raise Refused(f"There is a server named {name} already.", field="name")
        notify(CatalogueChanged(), ServerStale(server.pk))
    return int(server.pk)


def _checked_prefix(prefix: str) -> str:
    prefix = prefix.strip()
    if not _PREFIX.fullmatch(prefix):
        raise Invalid("A prefix has letters, digits, dashes and underscores only, the first a letter.", field="prefix")
    return prefix


def _for_http(transport: str, headers: Pairs, *, token: bool) -> Pairs:
    if headers and transport in ("python", "stdio"):
        raise Invalid("Only a server with a URL is sent headers.", field="headers")
    return checked_headers(headers, token=token)


def _has_process(transport: str, *, own_process: bool) -> bool:
    """Whether workers start a process for the server. Raises `Invalid` for `own_process` of anything but a `python:`
    server."""
    if own_process and transport != "python":
        raise Invalid("Only a Python object can be given a process of its own.", field="own_process")
    return own_process or transport == "stdio"


def _for_process(environment: Pairs, *, runs: bool) -> Pairs:
    if environment and not runs:
        raise Invalid(f"Only a command is given variables, or {_OBJECT_APART}.", field="environment")
    return checked_environment(environment)


def _checked_directory(directory: str, *, runs: bool) -> str:
    if directory.strip() and not runs:
        raise Invalid(f"Only a command has a working directory, or {_OBJECT_APART}.", field="directory")
    return checked_directory(directory)


def _checked_calls(calls_at_once: int | None) -> int | None:
    if calls_at_once is not None and not 1 <= calls_at_once <= MOST_AT_ONCE:
        raise Invalid(f"From 1 to {MOST_AT_ONCE:,}.", field="calls_at_once")
    return calls_at_once


def edit_server(*, tenant_id: int, server_id: int, edit: ServerEdit, actor: Actor) -> None:
    """Change a server as the edit says: in full, or not at all. If the address changes, its token and headers are
    dropped; if the command changes, its variables, except for another version of the same command. What the edit itself
    gives is not dropped. A new prefix applies to tools and prompts that are listed for the first time afterwards; the
    others keep their names. Raises `NotFound`, or `Invalid`, which names the field."""
    with transaction.atomic():
        server = _locked(tenant_id, server_id)
        if edit.spec is not None and edit.spec.strip() != spec_of(server.transport, server.target):
            if HIDDEN in edit.spec:
                raise Invalid(
                    f"Give the whole address or command: {HIDDEN} stands for a secret, which is stored and not shown.",
                    field="spec",
                )
            parsed = parse_spec(edit.spec)
            if parsed.named and parsed.name != server.name:
                raise Invalid(f"A server keeps its name: this one is {server.name}.", field="spec")
            if parsed.transport != server.transport or not is_target(server, parsed.target):
                set_target(server, parsed.transport, parsed.target, actor)
                notify(ServerStale(server_id))
        own_process = server.own_process if edit.own_process is None else edit.own_process
        runs = _has_process(server.transport, own_process=own_process)
        if own_process:
            _change(server, {"own_process": True}, actor)
        if edit.environment is not None:  # at a moment when it has a process: before it loses it, or after it got it
            _give(server, "environment", _for_process(edit.environment, runs=runs), actor)
        _change(server, _plain(server, edit, runs=runs), actor)
        if edit.calls_at_once is not None:
            calls = edit.calls_at_once or None
            set_server_calls(tenant_id=tenant_id, server_id=server_id, calls_at_once=calls, actor=actor)
        if edit.review is not None:
            set_review(server, edit.review, actor)
        if edit.headers is not None:
            has_token = server.credentials is not None if edit.token is None else bool(edit.token.strip())
            _give(server, "headers", _for_http(server.transport, edit.headers, token=has_token), actor)
        if edit.shared is not None:
            set_shared(server, edit.shared, actor)
        if edit.token is not None:
            set_server_token(tenant_id=tenant_id, server_id=server_id, token=edit.token, actor=actor)


def _plain(server: Server, edit: ServerEdit, *, runs: bool) -> dict[str, Any]:
    """The new values of columns that are stored as the edit has them, after a check. `runs`: whether workers start a
    process for the server."""
    changed: dict[str, Any] = {}
    if server.own_process and edit.own_process is False:
        if server.environment or (server.directory and edit.directory is None):
            raise Invalid("Remove its variables and its working directory too.", field="own_process")
        changed["own_process"] = False
    if edit.prefix is not None:
        changed["prefix"] = _checked_prefix(edit.prefix)
    if edit.directory is not None:
        changed["directory"] = _checked_directory(edit.directory, runs=runs)
    if edit.connect_seconds is not None:
        changed["connect_seconds"] = checked_connect_seconds(edit.connect_seconds or None)
    if edit.by_file is not None:
        changed["by_file"] = edit.by_file
    if edit.pinned is not None:
        changed["pinned"] = checked_pinned(edit.pinned, server.target)
    return changed


def _change(server: Server, wanted: dict[str, Any], actor: Actor) -> None:
    """Set columns that are no secrets, if they differ, and record the change."""
    before = {name: getattr(server, name) for name, value in wanted.items() if getattr(server, name) != value}
    if not before:
        return
    for name in before:
        setattr(server, name, wanted[name])
    server.save(update_fields=list(before))
    record_event(
        "server.changed",
        tenant_id=server.tenant_id,
        target=server.name,
        actor=actor,
        before=before,
        after={name: wanted[name] for name in before},
    )
    notify(CatalogueChanged())


def _give(server: Server, column: str, wanted: Pairs, actor: Actor) -> None:
    """Set the headers or the variables, if they differ, record the change, and have workers connect to the server
    again."""
    stored = getattr(server, column)
    values = sealed(wanted, stored, field=column)
    if values == stored:
        return
    setattr(server, column, values)
    server.state, server.problem = "unknown" if server.enabled else "disabled", ""
    server.save(update_fields=[column, "state", "problem"])
    close_breaker(server, actor)
    record_event(
        "server.headers.changed" if column == "headers" else "server.environment.changed",
        tenant_id=server.tenant_id,
        target=server.name,
        actor=actor,
        before={column: sorted(stored)},
        after={column: sorted(values), "given": sorted(name for name in values if values[name] != stored.get(name))},
    )
    notify(CatalogueChanged(), ServerStale(server.pk))


def remove_server(*, tenant_id: int, server_id: int, actor: Actor) -> None:
    """Remove a server, in the caller's transaction: erase its secrets, delete its prompts and resources, mark its tools
    as gone, and free its name and theirs. The rows of server and tools stay, because tasks refer to them. Its calls are
    not touched (`domain.tasks.removed`). Raises `NotFound`."""
    server = _locked(tenant_id, server_id)
    now = datetime.now(UTC)
    close_breaker(server, actor)
    Tool.objects.filter(server=server, gone_at=None).update(gone_at=now)
    for rows in (Offer.objects, Interest.objects, Timing.objects, ConnectionTest.objects):
        rows.filter(server=server).delete()
    ToolVersion.objects.filter(tool__server=server).delete()
    drop_oauth(server)
    before = {
        "transport": server.transport,
        "target": server.target,
        "prefix": server.prefix,
        "token": server.credentials is not None,
        **shown_given(server),
    }
    server.sealed_target = server.credentials = None
    server.headers, server.environment = {}, {}
    server.enabled, server.state, server.problem, server.disabled_reason = False, "disabled", "", ""
    server.removed_at, server.by_file = now, False
    server.save(
        update_fields=[
            "sealed_target",
            "credentials",
            "headers",
            "environment",
            "enabled",
            "state",
            "problem",
            "disabled_reason",
            "removed_at",
            "by_file",
        ]
    )
    record_event("server.removed", tenant_id=tenant_id, target=server.name, actor=actor, before=before)
    notify(CatalogueChanged(), ServerStale(server_id))


def set_server_token(*, tenant_id: int, server_id: int, token: str, actor: Actor) -> None:
    """Set the bearer token for the server; an empty text removes it. Raises `NotFound`, or `Invalid`, which names the
    field."""
    with transaction.atomic():
        server = _locked(tenant_id, server_id)
        credentials = _locked_token(server.transport, token)
        if server.credentials is None and credentials is None:
            return
        checked_headers(dict.fromkeys(server.headers), token=credentials is not None)
        if credentials is not None and ServerOAuth.objects.filter(server=server).exists():
            raise Invalid("The server is authorized by OAuth: drop that first, or give no token.", field="token")
        before = {"token": server.credentials is not None}
        server.credentials, server.state, server.problem = credentials, "unknown", ""
        if not server.enabled:
            server.state = "disabled"
        server.save(update_fields=["credentials", "state", "problem"])
        close_breaker(server, actor)
        record_event(
            "server.token.changed",
            tenant_id=tenant_id,
            target=server.name,
            actor=actor,
            before=before,
            after={"token": credentials is not None},
        )
        notify(CatalogueChanged(), ServerStale(server_id))


def keep_server_token(*, tenant_id: int, server_id: int, token: str, actor: Actor) -> None:
    """Set the bearer token for the server, unless the server has the same token already. Raises what `set_server_token`
    raises."""
    with transaction.atomic():
        server = _locked(tenant_id, server_id)
        try:
            before = "" if server.credentials is None else vault().decrypt(bytes(server.credentials))
        except InvalidToken:
            before = None
        if before != token:
            set_server_token(tenant_id=tenant_id, server_id=server_id, token=token, actor=actor)


def _locked_token(transport: str, token: str) -> bytes | None:
    token = token.strip()
    if not token:
        return None
    if transport != "http":
        raise Invalid("Only a server with a URL is sent a token.", field="token")
    if not _TOKEN.fullmatch(token):
        raise Invalid("A token has up to 4,096 characters: letters, digits and -._~+/=.", field="token")
    return vault().encrypt(token)


def set_server_calls(*, tenant_id: int, server_id: int, calls_at_once: int | None, actor: Actor) -> None:
    """Set how many calls each worker may send to the server at once; `None`: the default of its transport. Running
    tasks go on. Raises `NotFound`, or `Invalid`, which names the field."""
    with transaction.atomic():
        server = _locked(tenant_id, server_id)
        _checked_calls(calls_at_once)
        if server.calls_at_once == calls_at_once:
            return
        before, server.calls_at_once = server.calls_at_once, calls_at_once
        server.save(update_fields=["calls_at_once"])
        record_event(
            "server.calls.changed",
            tenant_id=tenant_id,
            target=server.name,
            actor=actor,
            before={"calls_at_once": before},
            after={"calls_at_once": calls_at_once},
        )
        notify(CatalogueChanged())


def set_server_enabled(*, tenant_id: int, server_id: int, enabled: bool, actor: Actor, reason: str = "") -> None:
    """Enable or disable a server. Clients see only what enabled servers offer; running tasks go on. `reason`: why the
    server is disabled, which is shown with its state and stored with the event. Raises `NotFound`, or `Invalid`, which
    names the field."""
    reason = "" if enabled else " ".join(reason.split())
    if len(reason) > MAX_REASON:
        raise Invalid(f"A reason has at most {MAX_REASON} characters.", field="reason")
    with transaction.atomic():
        server = _locked(tenant_id, server_id)
        if server.enabled == enabled:
            return
        before = {"enabled": server.enabled, "state": server.state}
        server.enabled = enabled
        server.state = "unknown" if enabled else "disabled"
        server.problem, server.disabled_reason = "", reason
        server.save(update_fields=["enabled", "state", "problem", "disabled_reason"])
        close_breaker(server, actor)
        record_event(
            "server.enabled" if enabled else "server.disabled",
            tenant_id=tenant_id,
            target=server.name,
            actor=replace(actor, reason=reason) if reason else actor,
            before=before,
            after={"enabled": enabled, "state": server.state},
        )
        notify(CatalogueChanged(), ServerStale(server_id))


def request_refresh(*, tenant_id: int, server_id: int, actor: Actor) -> None:
    """Ask the workers to list the server again, and to find out again which version of the protocol it speaks. Raises
    `NotFound`, or `Refused` for a disabled server."""
    with transaction.atomic():
        server = _locked(tenant_id, server_id)
        if not server.enabled:
            raise Refused(f"{server.name} is disabled; enable it first.")
        server.era = ""
        server.save(update_fields=["era"])
        record_event("server.refresh.requested", tenant_id=tenant_id, target=server.name, actor=actor)
        notify(ServerRefreshed(server_id))


def _locked(tenant_id: int, server_id: int) -> Server:
    server = Server.objects.select_for_update().filter(pk=server_id, tenant_id=tenant_id, removed_at=None).first()
    if server is None:
        raise NotFound("No such server.")
    return server

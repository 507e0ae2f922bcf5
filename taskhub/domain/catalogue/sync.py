"""Stores servers, and the lists of tools and offers that workers read from them. A tool keeps its policy when its
definition changes."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from types import MappingProxyType
from typing import Any, Final

from django.db import transaction

from taskhub.core.errors import NotFound, Refused
from taskhub.core.hints import CatalogueChanged, ServerStale
from taskhub.core.policy import Policy, values_of
from taskhub.core.records import Actor, TaskMode
from taskhub.core.secrets import redacted
from taskhub.core.transports import CALLS_AT_ONCE, CONNECT_SECONDS
from taskhub.domain.audit.record import record_event
from taskhub.domain.catalogue.breakers import close_breaker, mark_unreachable
from taskhub.domain.catalogue.naming import locked_with_names, tool_names
from taskhub.domain.catalogue.offers import WORKER, ListedOffer, store_offers
from taskhub.domain.catalogue.reads import lost, opened, spec_of, target_of, vault, without_its_secrets
from taskhub.domain.catalogue.spec import unversioned
from taskhub.domain.catalogue.versions import keep_versions
from taskhub.domain.hints.announce import notify
from taskhub.lib import jsonx
from taskhub.lib.signing import InvalidToken
from taskhub.store.models import Server, ServerGrant, ServerOAuth, Tool

logger = logging.getLogger(__name__)

SEEN = (
    "position",
    "definition",
    "digest",
    "rejected",
    "hint_mode",
    "read_only",
    "idempotent",
    "changed_at",
    "gone_at",
)
"""The columns of a tool that a listing may change; its policy, in other columns, belongs to the operator."""

CONFIRMED = ("confirmed_digest", "confirmed_at")
"""Further columns that the first listing of a server sets, unless its tools wait for a person."""

MAX_SERVERS: Final = 200

GIVEN: Final = (
    "headers",
    "environment",
    "directory",
    "own_process",
    "connect_seconds",
    "calls_at_once",
    "review",
    "pinned",
)
"""The columns for what a server is given, except for its token (`domain.catalogue.given`), and for its limits and
settings."""

TOOL: Final = "tool"
"""The key in `unread` of `store_snapshot` that stands for the list of tools; the other keys are values of
`OfferKind`."""


@dataclass(frozen=True, slots=True)
class Listed:
    """A tool as a server lists it."""

    name: str
    definition: dict[str, Any]
    digest: str
    rejected: str
    hint_mode: TaskMode | None
    read_only: bool
    idempotent: bool


@dataclass(frozen=True, slots=True)
class SyncedServer:
    """A server that workers should be connected to."""

    id: int
    tenant_id: int
    name: str
    transport: str
    target: str = field(repr=False)
    prefix: str
    calls_at_once: int
    """The most calls at once from one worker."""
    shared: bool = False
    """Whether clients share the server's processes or sessions."""
    token: str = field(default="", repr=False)
    """Sent as `Authorization: Bearer …` to an HTTP server; empty for none."""
    unusable: str = ""
    """Text for people: why workers must not connect to the server; empty if they may."""
    own_headers: tuple[tuple[str, str], ...] = field(default=(), repr=False)
    environment: tuple[tuple[str, str], ...] = field(default=(), repr=False)
    """The variables that a command is given."""
    directory: str = ""
    """The working directory of a command; empty for the worker's own."""
    own_process: bool = False
    """Whether a `python:` server runs in a process of its own."""
    connect_seconds: int = CONNECT_SECONDS
    pinned: str = ""
    """The version of the protocol to speak with the server; empty for the newest that it speaks."""
    era: str = field(default="", compare=False)
    """The `core.versions.Era` in which the server answered last, as a hint for the first connection; empty if not
    known."""
    oauth: str = ""
    """How the hub is authorized at the server by OAuth (`domain.credentials.records.Way`); empty if it is not."""
    limited: bool = False
    """Whether `calls_at_once` was set for this server, and is not the default of its transport."""

    @property
    def headers(self) -> tuple[tuple[str, str], ...]:
        """The headers for every request to an HTTP server: its own, and the token."""
        return (*self.own_headers, *((("Authorization", f"Bearer {self.token}"),) if self.token else ()))


def enabled_servers() -> list[SyncedServer]:
    """All enabled servers of all tenants."""
    return [synced(server) for server in Server.objects.filter(enabled=True).select_related("oauth").order_by("id")]


def server_to_test(*, tenant_id: int, server_id: int, actor: Actor) -> SyncedServer:
    """The server with its secrets, also if it is disabled, for a test of its connection, which is recorded in the audit
    log. Raises `NotFound`."""
    server = Server.objects.filter(tenant_id=tenant_id, pk=server_id, removed_at=None).select_related("oauth").first()
    if server is None:
        raise NotFound("No such server.")
    record_event("server.tested", tenant_id=tenant_id, target=server.name, actor=actor)
    return synced(server)


def synced(server: Server) -> SyncedServer:
    """The server with its secrets, as workers need it."""
    unusable = lost(server)
    token = b"" if unusable or server.credentials is None else bytes(server.credentials)
    return SyncedServer(
        server.pk,
        server.tenant_id,
        server.name,
        server.transport,
        server.target if unusable else target_of(server),
        server.prefix,
        server.calls_at_once or CALLS_AT_ONCE[server.transport],
        server.shared,
        vault().decrypt(token) if token else "",
        unusable,
        () if unusable else opened(server.headers),
        () if unusable else opened(server.environment),
        server.directory,
        server.own_process,
        server.connect_seconds or CONNECT_SECONDS,
        server.pinned,
        server.era,
        server.oauth.way if hasattr(server, "oauth") else "",
        server.calls_at_once is not None,
    )


def _kept(transport: str, target: str) -> dict[str, Any]:
    """The values of the columns that store a target. `target` is redacted; if the target has a secret, `sealed_target`
    is the whole target, encrypted."""
    shown = redacted(transport, target)
    return {"target": shown, "sealed_target": None if shown == target else vault().encrypt(target)}


def new_server(
    *,
    tenant_id: int,
    name: str,
    transport: str,
    target: str,
    prefix: str = "",
    credentials: bytes | None = None,
    given: Mapping[str, Any] = MappingProxyType({}),
    actor: Actor,
) -> Server | None:
    """Create and record a server, in the caller's transaction. `given`: columns of `GIVEN`. Returns `None` if a server
    has that name. Raises `Refused` if the tenant has `MAX_SERVERS` already."""
    there = Server.objects.filter(tenant_id=tenant_id, removed_at=None)
    if not there.filter(name=name).exists() and there.count() >= MAX_SERVERS:
        raise Refused(f"There are {MAX_SERVERS} servers already.", field="name")
    server, made = Server.objects.get_or_create(
        tenant_id=tenant_id,
        name=name,
        removed_at=None,
        defaults={
            "transport": transport,
            **_kept(transport, target),
            "prefix": prefix,
            "credentials": credentials,
            **given,
        },
    )
    if not made:
        return None
    shown = {"transport": transport, "target": redacted(transport, target), "prefix": prefix}
    after = {**shown, "token": credentials is not None, **shown_given(server)}
    record_event("server.added", tenant_id=tenant_id, target=name, actor=actor, after=after)
    return server


def shown_given(server: Server) -> dict[str, Any]:
    """The values of the columns `GIVEN` that are not empty, for the audit log: of headers and variables only the
    names."""
    columns = {name: getattr(server, name) for name in GIVEN}
    return {name: sorted(value) if isinstance(value, dict) else value for name, value in columns.items() if value}


def connect_server(*, tenant_id: int, name: str, transport: str, target: str, actor: Actor, named: bool = True) -> int:
    """Ensure that the server of this name has this target: create it, change it, or leave it as it is. Returns its id.
    For commands; the console uses `writes.add_server`.

    If the name was derived from the spec (`named=False`), no server is changed: if a server has this target, under any
    name, it is left as it is. Raises `Refused` if the derived name belongs to a server with another target."""
    with transaction.atomic():
        if not named:
            shown = redacted(transport, target)
            alike = Server.objects.filter(tenant_id=tenant_id, removed_at=None, transport=transport, target=shown)
            for same in alike.select_for_update().order_by("pk"):
                if is_target(same, target):
                    return int(same.pk)
        made = new_server(tenant_id=tenant_id, name=name, transport=transport, target=target, actor=actor)
        if made is not None:
            notify(CatalogueChanged())
            return int(made.pk)
        server = Server.objects.select_for_update().get(tenant_id=tenant_id, name=name, removed_at=None)
        if server.transport == transport and is_target(server, target):
            return int(server.pk)
        if not named:
            there = spec_of(server.transport, server.target)
            raise Refused(f"There is a server named {name} already, {there}. Write NAME=SPEC with another name.")
        set_target(server, transport, target, actor)
    return int(server.pk)


def set_shared(server: Server, shared: bool, actor: Actor) -> None:
    """Set whether clients share the processes or sessions of a server, whose row is locked, in the caller's
    transaction."""
    if server.shared != shared:
        server.shared = shared
        server.save(update_fields=["shared"])
        _record(server, "server.changed", server.name, {"shared": not shared}, {"shared": shared}, actor)
        notify(CatalogueChanged())


def set_target(server: Server, transport: str, target: str, actor: Actor) -> None:
    """Give a server, whose row is locked, another target, in the caller's transaction. Its token, headers, variables
    and authorization are dropped. If only the version in a command differs, the variables are kept."""
    before = {"transport": server.transport, "target": server.target, **shown_given(server)}
    kept = _kept(transport, target)
    if not _is_version_of(server, transport, target):
        server.environment = {}
    server.own_process = server.own_process and transport == "python"
    if transport != "stdio" and not server.own_process:
        server.directory = ""
    server.transport, server.state = transport, "unknown" if server.enabled else "disabled"
    server.target, server.sealed_target = kept["target"], kept["sealed_target"]
    server.credentials, server.headers = None, {}
    server.era = ""
    drop_oauth(server)
    server.save(update_fields=["transport", "target", "sealed_target", "state", "credentials", "era", *GIVEN])
    close_breaker(server, actor)
    after = {"transport": transport, "target": server.target, **shown_given(server)}
    _record(server, "server.changed", server.name, before, after, actor)
    notify(CatalogueChanged())


def drop_oauth(server: Server) -> None:
    """Forget how the hub is authorized at the server, with all grants. Call it in a transaction that records the
    change."""
    ServerGrant.objects.filter(server=server).delete()
    ServerOAuth.objects.filter(server=server).delete()


def _is_version_of(server: Server, transport: str, target: str) -> bool:
    if (server.transport, transport) != ("stdio", "stdio"):
        return False
    try:
        return unversioned(target_of(server)) == unversioned(target)
    except (InvalidToken, ValueError):
        return False


def is_target(server: Server, target: str) -> bool:
    """Whether the server, whose row is locked, has this target. If its secret cannot be decrypted, the redacted targets
    are compared; if they are equal, the given target is stored."""
    try:
        return target_of(server) == target
    except InvalidToken:
        kept = _kept(server.transport, target)
        if server.target != kept["target"]:
            return False
    server.sealed_target = kept["sealed_target"]
    server.save(update_fields=["sealed_target"])
    notify(CatalogueChanged(), ServerStale(server.pk))
    return True


def preset_tool(server: Server, name: str, policy: Policy) -> Tool:
    """Store the policy of a tool that is not listed yet, in a transaction of `locked_with_names`."""
    now = datetime.now(UTC)
    return Tool.objects.create(
        server=server,
        name=name,
        exposed_name=tool_names(server, now).give(name),
        definition={},
        digest="",
        gone_at=now,
        **values_of(policy),
    )


def store_snapshot(
    server_id: int,
    *,
    protocol: str,
    info: dict[str, Any],
    tools: Sequence[Listed],
    era: str = "",
    offers: Sequence[ListedOffer] = (),
    unread: Mapping[str, str] = MappingProxyType({}),
    capabilities: Mapping[str, Any] = MappingProxyType({}),
) -> bool:
    """Store what the server offers now. `unread` maps each kind that could not be listed (`TOOL`, or one of
    `OfferKind`) to the reason. `era`: how the server was spoken to (`core.versions.Era`). Returns whether clients could
    see a difference. For a removed server, nothing is stored.

    A tool that is no longer listed is kept with `gone_at` (tasks refer to it) and comes back with its policy and its
    name. The name that clients see is given at the first listing (`domain.catalogue.naming`). Definitions are kept as
    versions (`domain.catalogue.versions`). Tools of the first listing count as confirmed, unless the server's tools
    wait for a person (`domain.catalogue.confirmations`).
    """
    now = datetime.now(UTC)
    with transaction.atomic():
        server = locked_with_names(server_id)
        if server.removed_at is not None:
            return False
        known = {tool.name: tool for tool in Tool.objects.filter(server=server)}
        names = tool_names(server, now)
        trusted = server.catalogue_at is None and not server.review
        changed = False
        redefined: list[Tool] = []
        for position, listed in enumerate(tools):
            old = known.pop(listed.name, None)
            if old is None:
                old = Tool(server=server, name=listed.name, first_seen_at=now)
                old.exposed_name = names.give(listed.name)
            elif (
                old.digest == listed.digest
                and old.gone_at is None
                and old.position == position
                # These columns are derived from the definition, but the release that stored them may have derived them
                # in another way.
                and (old.rejected, old.hint_mode) == (listed.rejected, listed.hint_mode)
                and (old.read_only, old.idempotent) == (listed.read_only, listed.idempotent)
            ):
                continue
            changed = True
            if old.pk and old.digest != listed.digest:
                _record(server, "tool.changed", listed.name, {"digest": old.digest}, {"digest": listed.digest})
            if (old.digest, old.rejected, old.gone_at) != (listed.digest, listed.rejected, None) or old.pk is None:
                redefined.append(old)
            if trusted:
                old.confirmed_digest, old.confirmed_at = listed.digest, now
            old.position, old.definition = position, listed.definition
            old.digest, old.rejected, old.hint_mode = listed.digest, listed.rejected, listed.hint_mode
            old.read_only, old.idempotent = listed.read_only, listed.idempotent
            old.changed_at, old.gone_at = now, None
            # Never the columns of the policy: somebody may be changing them right now.
            old.save(update_fields=None if old.pk is None else (*SEEN, *CONFIRMED) if trusted else SEEN)
        for gone in known.values():
            if gone.gone_at is None and TOOL not in unread:
                changed = True
                gone.gone_at = now
                gone.save(update_fields=["gone_at"])
                redefined.append(gone)
        keep_versions([tool.pk for tool in redefined], listed=now, seen=server.catalogue_at)
        changed = store_offers(server, offers, unread.keys(), now) or changed
        lacking = jsonx.repaired("; ".join(f"{kind}s: {why}" for kind, why in unread.items()))
        incomplete = without_its_secrets(server, lacking)[:1_000]
        if (server.capabilities, server.incomplete) != (dict(capabilities), incomplete):
            changed = True
        server.capabilities, server.incomplete = dict(capabilities), incomplete
        changed = close_breaker(server) or changed
        if server.state != "ready":
            _record(server, "server.ready", server.name, {"state": server.state}, {"state": "ready"})
            changed = True
        server.state, server.problem, server.protocol, server.info = "ready", "", protocol, info
        server.era = era
        server.catalogue_at = server.last_seen_at = now
        server.save(
            update_fields=[
                "state",
                "problem",
                "protocol",
                "era",
                "info",
                "capabilities",
                "incomplete",
                "catalogue_at",
                "last_seen_at",
            ]
        )
        if changed:
            notify(CatalogueChanged())
    return changed


def store_problem(server_id: int, problem: str, *, state: str = "unreachable") -> None:
    """Record that the server cannot be reached, and why; or with the state `unauthorized`, that it has to be
    authorized. Its tools stay listed."""
    with transaction.atomic():
        server = Server.objects.select_for_update().get(pk=server_id)
        if server.removed_at is None and mark_unreachable(server, problem, state=state):
            notify(CatalogueChanged())


def _record(
    server: Server, action: str, target: str, before: dict[str, Any], after: dict[str, Any], actor: Actor = WORKER
) -> None:
    record_event(
        action,
        tenant_id=server.tenant_id,
        target=server.name if target == server.name else f"{server.name}/{target}",
        actor=actor,
        before=before,
        after=after,
    )

"""Reads a tenant's configuration as it is, with the secrets in it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final

from django.db.models import Q

from taskhub.core.names import PERSON_ISSUERS
from taskhub.core.policy import POLICY_FIELDS, Policy
from taskhub.domain.catalogue.reads import opened, spec_of, target_of, vault
from taskhub.domain.clients.reads import OWN_ISSUER
from taskhub.domain.configuration.records import (
    ClientConfig,
    Configuration,
    Given,
    OAuthConfig,
    PersonConfig,
    ServerConfig,
    Spec,
)
from taskhub.domain.configuration.references import References
from taskhub.domain.rules.blocks import without
from taskhub.domain.rules.reads import present as present_rules
from taskhub.lib.signing import InvalidToken
from taskhub.store.models import AuthContext, Membership, Server, ServerOAuth, Tenant, Tool

_PLAIN: Final = (
    *("by_file", "prefix", "enabled", "shared", "own_process", "directory", "connect_seconds", "calls_at_once"),
    *("review", "pinned"),
)
"""The columns of a server that are fields of its configuration, with the same values."""


def lock(tenant_id: int) -> None:
    """Lock the tenant until the caller's transaction ends. Other transactions that apply a configuration to it, or
    change its people, wait until then."""
    list(Tenant.objects.select_for_update(no_key=True).filter(pk=tenant_id))


def present(tenant_id: int, references: References | None = None) -> Configuration:
    """The tenant's configuration. `references` makes up the references that stand for its secrets in a file. Clients
    that are a person with a program are left out, because they are identified by numbers of this hub."""
    return Configuration(
        rules=without(present_rules(tenant_id).rules),
        servers=tuple(_servers_of(tenant_id, references or References())),
        people=_people(tenant_id),
        clients=_clients(tenant_id),
    )


def present_server(tenant_id: int, name: str) -> ServerConfig:
    """The configuration of the server `name`, which has to exist."""
    (found,) = _servers_of(tenant_id, References(), name=name)
    return found


def tenant_slug(tenant_id: int) -> str:
    """The short name of a tenant."""
    return str(Tenant.objects.values_list("slug", flat=True).get(pk=tenant_id))


def _servers_of(tenant_id: int, references: References, **only: str) -> Iterator[ServerConfig]:
    rows = Server.objects.filter(tenant_id=tenant_id, removed_at=None, **only).select_related("oauth")
    found = sorted(rows, key=lambda row: row.name)
    tools = _policies([row.pk for row in found])
    for row in found:
        yield _server(row, tools.get(row.pk, {}), references)


def _policies(servers: Sequence[int]) -> dict[int, dict[str, Policy]]:
    """The policies that differ from the policy of a new tool, by server id and tool name. Tools that are gone or not
    listed yet count too."""
    found: dict[int, dict[str, Policy]] = {}
    here = Tool.objects.filter(server__in=servers)
    for row in sorted(here.values("server_id", "name", *POLICY_FIELDS).iterator(), key=lambda row: row["name"]):
        policy = Policy(**{name: row[name] for name in POLICY_FIELDS})
        if policy != Policy():
            found.setdefault(row["server_id"], {})[row["name"]] = policy
    return found


def _server(row: Server, tools: dict[str, Policy], references: References) -> ServerConfig:
    plain: dict[str, Any] = {name: getattr(row, name) for name in _PLAIN}
    return ServerConfig(
        name=row.name,
        spec=Spec(
            references.spec(row.name, row.transport, row.target), _target(row), "", spec_of(row.transport, row.target)
        ),
        **plain,
        token=None if row.credentials is None else Given(references.secret(row.name, "token"), _clear(row.credentials)),
        headers=_given(row, row.headers, "header", references),
        environment=_given(row, row.environment, "variable", references),
        oauth=_oauth(row.name, row.oauth, references) if hasattr(row, "oauth") else None,
        tools=tools,
    )


def _target(row: Server) -> str | None:
    try:
        return spec_of(row.transport, target_of(row))
    except InvalidToken:
        return None


def _clear(sealed: bytes | memoryview) -> str | None:
    try:
        return vault().decrypt(bytes(sealed))
    except InvalidToken:
        return None


def _given(row: Server, stored: dict[str, str], what: str, references: References) -> dict[str, Given]:
    found = {}
    for name in sorted(stored):
        try:
            ((_, value),) = opened({name: stored[name]})
        except InvalidToken:
            value = None
        found[name] = Given(references.secret(row.name, what, name), value)
    return found


def _oauth(server: str, row: ServerOAuth, references: References) -> OAuthConfig:
    secret = row.client_secret
    return OAuthConfig(
        way=row.way,
        issuer=row.issuer,
        client_id=row.client_id,
        secret=None if secret is None else Given(references.secret(server, "client", "secret"), _clear(secret)),
        scopes=row.scopes,
    )


def _people(tenant_id: int) -> tuple[PersonConfig, ...]:
    rows = Membership.objects.filter(tenant_id=tenant_id).select_related("user")
    found = [
        PersonConfig(
            username=row.user.get_username(), role=row.role, groups=tuple(row.groups), enabled=row.user.is_active
        )
        for row in rows.iterator()
    ]
    return tuple(sorted(found, key=lambda person: person.username))


def _clients(tenant_id: int) -> tuple[ClientConfig, ...]:
    """The clients whose tokens the hub issues, and those of other issuers that have a setting."""
    was_set = Q(disabled_at__isnull=False) | Q(patience_ms__isnull=False) | Q(hub_tools__isnull=False)
    here = AuthContext.objects.filter(tenant_id=tenant_id).exclude(issuer__in=PERSON_ISSUERS)
    found = [
        ClientConfig(
            name=row.name,
            issuer=row.issuer,
            subject="" if row.issuer == OWN_ISSUER else row.subject,
            client_id="" if row.issuer == OWN_ISSUER else row.client_id,
            locked=row.disabled_at is not None,
            patience_seconds=None if row.patience_ms is None else row.patience_ms // 1_000,
            hub_tools=row.hub_tools,
        )
        for row in here.filter(was_set | Q(issuer=OWN_ISSUER)).iterator()
    ]
    return tuple(sorted(found, key=lambda client: client.key))

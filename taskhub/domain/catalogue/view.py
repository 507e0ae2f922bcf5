"""A tenant's catalogue: tools with their policy in force, prompts, resources, templates, and the tenant's rules. Each
process caches it until a hint says that it changed, or for 30 seconds."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final

from django.db.models import F, Q

from taskhub.core.policy import Policy, values_of
from taskhub.core.records import OfferKind, OfferRecord, TaskMode, ToolRecord, Upstream
from taskhub.core.rules import Client, RuleList
from taskhub.domain.rules.decisions import Rules, Steps, at_once
from taskhub.domain.rules.reads import present
from taskhub.lib.caches import ExpiringCache
from taskhub.store.models import Offer, Server, Tool


@dataclass(frozen=True, slots=True)
class Catalogue:
    """The tools, prompts, resources and templates that a tenant's clients may use, in the order of the servers' ids and
    of each server's lists. Each digest changes when clients could see a change in its list. If two servers offer a URI,
    only the resource of the server that was added first is here."""

    tenant_id: int
    tools: tuple[ToolRecord, ...]
    by_name: dict[str, ToolRecord]
    digest: str
    prompts: tuple[OfferRecord, ...] = ()
    resources: tuple[OfferRecord, ...] = ()
    templates: tuple[OfferRecord, ...] = ()
    prompts_digest: str = ""
    resources_digest: str = ""
    """Digest of resources and templates together, since MCP has one notification for both."""
    hidden_uris: frozenset[str] = frozenset()
    """URIs and templates of disabled servers. A client's read of them must not go to another server. Servers that the
    rules hide are left out: otherwise a client could find out which URIs they have."""
    upstreams: tuple[Upstream, ...] = ()
    """The enabled servers, by id."""
    plain_tools: tuple[ToolRecord, ...] = ()
    """The tools that a client without tasks can call, in the order of `tools`: all but those in mode `required`."""
    rules: Rules = field(default_factory=lambda: Rules(RuleList(0, ())))
    """The tenant's rules."""
    offered: Mapping[OfferKind, tuple[OfferRecord, ...]] = field(default_factory=dict)
    """All prompts, resources and templates of enabled servers, also those whose URI an earlier server offers."""
    disabled: tuple[tuple[Upstream, frozenset[str]], ...] = ()
    """The disabled servers that have resources, each with its own URIs in `hidden_uris`."""
    _seen: dict[Client, Catalogue] = field(default_factory=dict, compare=False, repr=False)
    _views: dict[tuple[frozenset[int], frozenset[int]], Catalogue] = field(
        default_factory=dict, compare=False, repr=False
    )

    def seen_by(self, client: Client) -> Catalogue:
        """The part of the catalogue that the rules let the client see: without hidden tools, and without the prompts
        and resources of hidden servers. Clients that see the same get the same object."""
        return at_once(self.seeing(client))

    def seen_before(self, client: Client) -> Catalogue | None:
        """`seen_by`, if it is known without evaluating rules; otherwise `None`."""
        return self._seen.get(client) if self.rules.hide else self

    def seeing(self, client: Client) -> Steps[Catalogue]:
        """`seen_by`, in steps."""
        if (known := self.seen_before(client)) is not None:
            return known
        hidden_tools, hidden_servers = set(), set()
        for tool in self.tools:
            if (yield from self.rules.finding_hidden(client, tool)) is not None:
                hidden_tools.add(tool.id)
        for one in (*self.upstreams, *(server for server, _ in self.disabled)):
            if (yield from self.rules.hiding_server(client, one.name)):
                hidden_servers.add(one.id)
        tools, servers = frozenset(hidden_tools), frozenset(hidden_servers)
        seen = self._views.get((tools, servers))
        if seen is None:
            seen = self._without(tools, servers)
            _bounded(self._views)[tools, servers] = seen
        _bounded(self._seen)[client] = seen
        return seen

    def _without(self, tools: frozenset[int], servers: frozenset[int]) -> Catalogue:
        if not tools and not servers:
            return self

        def shown(kind: OfferKind) -> tuple[OfferRecord, ...]:
            return _firsts(offer for offer in self.offered[kind] if offer.server_id not in servers)

        prompts, resources, templates = shown(OfferKind.PROMPT), shown(OfferKind.RESOURCE), shown(OfferKind.TEMPLATE)
        left = tuple(tool for tool in self.tools if tool.id not in tools)
        disabled = tuple((one, uris) for one, uris in self.disabled if one.id not in servers)
        return replace(
            self,
            tools=left,
            by_name={tool.exposed_name: tool for tool in left},
            digest=_tools_digest(left),
            prompts=prompts,
            resources=resources,
            templates=templates,
            prompts_digest=_digest(prompts),
            resources_digest=_digest((*resources, *templates)),
            hidden_uris=frozenset[str]().union(*(uris for _, uris in disabled)),
            disabled=disabled,
            upstreams=tuple(one for one in self.upstreams if one.id not in servers),
            plain_tools=tuple(tool for tool in self.plain_tools if tool.id not in tools),
            _seen={},
            _views={},
        )

    def prompt(self, name: str) -> OfferRecord | None:
        """The prompt with this exposed name; `None` if there is none."""
        return self._found(self.prompts, name)

    def resource(self, uri: str) -> OfferRecord | None:
        """The resource with this URI; `None` if there is none."""
        return self._found(self.resources, uri)

    def template(self, template: str) -> OfferRecord | None:
        """The template with exactly this text; `None` if there is none."""
        return self._found(self.templates, template)

    def upstream(self, server_id: int) -> Upstream | None:
        """The enabled server with this id; `None` if there is none."""
        return next((server for server in self.upstreams if server.id == server_id), None)

    @staticmethod
    def _found(offers: tuple[OfferRecord, ...], name: str) -> OfferRecord | None:
        return next((offer for offer in offers if offer.exposed_name == name), None)


_MOST_KEPT: Final = 1_000
"""The most clients, and most different views, that are kept for a catalogue."""
_kept: ExpiringCache[int, Catalogue] = ExpiringCache(30.0, most=1_000)


def cached_catalogue(tenant_id: int) -> Catalogue | None:
    """The tenant's catalogue if this process has cached it, otherwise `None`. Never reads the database."""
    return _kept.get(tenant_id)


def catalogue(tenant_id: int) -> Catalogue:
    """The tenant's catalogue, read if it is not cached."""
    known = cached_catalogue(tenant_id)
    if known is not None:
        return known
    since = _kept.since()
    rows = (
        Tool.objects.filter(
            server__tenant_id=tenant_id, server__enabled=True, enabled=True, gone_at__isnull=True, rejected=""
        )
        # If a server's tools wait for a person, only the confirmed tools (domain.catalogue.confirmations).
        .filter(Q(server__review=False) | Q(confirmed_digest=F("digest")))
        .select_related("server")
        .order_by("server_id", "position", "id")
    )
    tools = tuple(_records(rows))
    offered, disabled = _offers(tenant_id)
    prompts, resources, templates = (
        _firsts(offered[kind]) for kind in (OfferKind.PROMPT, OfferKind.RESOURCE, OfferKind.TEMPLATE)
    )
    servers = Server.objects.filter(tenant_id=tenant_id, enabled=True).order_by("id")
    fresh = Catalogue(
        tenant_id=tenant_id,
        tools=tools,
        by_name={tool.exposed_name: tool for tool in tools},
        digest=_tools_digest(tools),
        prompts=prompts,
        resources=resources,
        templates=templates,
        prompts_digest=_digest(prompts),
        resources_digest=_digest((*resources, *templates)),
        hidden_uris=frozenset[str]().union(*(uris for _, uris in disabled)),
        upstreams=tuple(Upstream(row.pk, row.name, row.capabilities) for row in servers),
        plain_tools=tuple(tool for tool in tools if tool.mode is not TaskMode.REQUIRED),
        rules=Rules(present(tenant_id)),
        offered=offered,
        disabled=disabled,
    )
    _kept.keep(tenant_id, fresh, since)
    return fresh


def _firsts(offers: Iterable[OfferRecord]) -> tuple[OfferRecord, ...]:
    """The offers without those whose exposed name an earlier offer has. Unlike a name, a URI cannot be changed: if
    several servers offer it, only the server that was added first counts."""
    found: dict[str, OfferRecord] = {}
    for offer in offers:
        found.setdefault(offer.exposed_name, offer)
    return tuple(found.values())


def _offers(
    tenant_id: int,
) -> tuple[dict[OfferKind, tuple[OfferRecord, ...]], tuple[tuple[Upstream, frozenset[str]], ...]]:
    """The offers of enabled servers by kind, and the disabled servers with their uris and templates."""
    rows = (
        Offer.objects.filter(server__tenant_id=tenant_id, gone_at__isnull=True, rejected="")
        .select_related("server")
        .order_by("server_id", "position", "id")
    )
    found: dict[OfferKind, list[OfferRecord]] = {kind: [] for kind in OfferKind}
    disabled: dict[tuple[int, str], set[str]] = {}
    for row in rows:
        kind = OfferKind(row.kind)
        if not row.server.enabled:
            if kind is not OfferKind.PROMPT:
                disabled.setdefault((row.server_id, row.server.name), set()).add(row.key)
            continue
        offer = OfferRecord(
            id=row.pk,
            server_id=row.server_id,
            server_name=row.server.name,
            kind=kind,
            key=row.key,
            exposed_name=row.exposed_name,
            definition=row.definition,
            digest=row.digest,
        )
        found[kind].append(offer)
    kept = tuple((Upstream(number, name, {}), frozenset(uris)) for (number, name), uris in disabled.items())
    return {kind: tuple(offers) for kind, offers in found.items()}, kept


def _tools_digest(tools: tuple[ToolRecord, ...]) -> str:
    # The mode too: it decides which clients see the tool, and is part of what clients of 2025-11-25 see.
    return "|".join(f"{tool.exposed_name}:{tool.digest}:{tool.mode}" for tool in tools)


def _bounded(kept: dict[Any, Catalogue]) -> dict[Any, Catalogue]:
    """`kept`, emptied if it is full."""
    if len(kept) >= _MOST_KEPT:
        kept.clear()
    return kept


def _digest(offers: Iterable[OfferRecord]) -> str:
    text = "|".join(f"{offer.exposed_name}:{offer.digest}" for offer in offers)
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def forget_catalogues() -> None:
    """Drop the cached catalogues of all tenants, because a server, tool, policy or rule has changed."""
    _kept.forget()


def tool_by_id(tool_id: int) -> ToolRecord | None:
    """The tool with this id, even if it is disabled or gone; `None` if there is none."""
    return next(iter(_records(Tool.objects.filter(pk=tool_id).select_related("server"))), None)


def _records(rows: Iterable[Tool]) -> Iterable[ToolRecord]:
    for row in rows:
        definition: dict[str, Any] = row.definition
        policy = Policy(**values_of(row))
        yield ToolRecord(
            id=row.pk,
            server_id=row.server_id,
            server_name=row.server.name,
            name=row.name,
            exposed_name=row.exposed_name,
            definition=definition,
            digest=row.digest,
            mode=policy.mode_for(row.hint_mode),
            hint_mode=TaskMode(row.hint_mode) if row.hint_mode else None,
            at_least_once=policy.repeats(harmless=row.read_only or row.idempotent),
            server_away=row.server.open_since is not None,
            **values_of(policy),
        )

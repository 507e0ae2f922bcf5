"""The catalogue that clients see: which server is asked for what."""

from __future__ import annotations

import pytest

from taskhub.core.rules import Client, Rule, Then
from taskhub.core.states import OfferKind
from taskhub.domain.catalogue.view import catalogue
from taskhub.domain.rules.changes import save_rules
from taskhub.protocol.relays import servers_of
from taskhub.store.models import Offer, Server
from tests.factories import ROOT, make_server, make_tenant

pytestmark = pytest.mark.django_db


def offer(server: Server, kind: OfferKind, key: str) -> None:
    Offer.objects.create(server=server, kind=kind, key=key, exposed_name=key, definition={}, digest="1" * 64)


def test_which_addresses_a_hidden_server_has_is_not_told() -> None:
    """A disabled one's neither: they are asked of those who would have them without it."""
    tenant = make_tenant()
    first, second, off = (make_server(tenant, name) for name in ("first", "second", "off"))
    Server.objects.filter(pk=second.pk).update(capabilities={"resources": {}})
    for server in (first, off):
        offer(server, OfferKind.RESOURCE, f"vault://{server.name}")
        offer(server, OfferKind.RESOURCE, "vault://all")
    offer(second, OfferKind.RESOURCE, "vault://all")
    offer(second, OfferKind.TEMPLATE, "vault://{name}")
    Server.objects.filter(pk=off.pk).update(enabled=False)
    when = 'client.name == "agent" && server.name in ["first", "off"]'
    save_rules(tenant.pk, [Rule(name="Hides", when=when, then=Then.HIDE)], expected=0, actor=ROOT)
    whole = catalogue(tenant.pk)
    assert [offer.server_name for offer in whole.resources] == ["first", "first"]
    assert servers_of(whole, "vault://off") == ()
    seen = whole.seen_by(Client(1, "agent", "taskhub", "x", "x"))
    assert [(offer.server_name, offer.key) for offer in seen.resources] == [("second", "vault://all")]
    for uri in ("vault://first", "vault://off", "vault://all", "vault://nobody", "other://x"):
        assert [server.name for server in servers_of(seen, uri)] == ["second"], uri


def test_what_a_disabled_server_offers_is_asked_of_no_other() -> None:
    tenant = make_tenant()
    first, second = make_server(tenant, "first"), make_server(tenant, "second")
    Server.objects.filter(pk=second.pk).update(capabilities={"resources": {}})
    offer(first, OfferKind.RESOURCE, "vault://known")
    offer(first, OfferKind.TEMPLATE, "vault://{name}/key")
    offer(second, OfferKind.RESOURCE, "vault://mine")
    Server.objects.filter(pk=first.pk).update(enabled=False)
    found = catalogue(tenant.pk)
    for uri in ("vault://known", "vault://a/key"):
        assert servers_of(found, uri) == ()
    assert [server.name for server in servers_of(found, "vault://mine")] == ["second"]
    # What nobody lists is asked of whoever has its scheme, and not of somebody for being the only one left.
    assert [server.name for server in servers_of(found, "vault://other")] == ["second"]
    assert servers_of(found, "other://x") == ()

"""The catalogue that clients see: which server is asked for what."""

from __future__ import annotations

import pytest

from taskhub.core.states import OfferKind
from taskhub.domain.catalogue.view import catalogue
from taskhub.protocol.relays import servers_of
from taskhub.store.models import Offer, Server
from tests.factories import make_server, make_tenant

pytestmark = pytest.mark.django_db


def offer(server: Server, kind: OfferKind, key: str) -> None:
    Offer.objects.create(server=server, kind=kind, key=key, exposed_name=key, definition={}, digest="1" * 64)


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

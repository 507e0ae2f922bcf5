"""The catalogue that clients see: every tool under a name of its own, whatever was stored when."""

from __future__ import annotations

import pytest

from taskhub.core.states import OfferKind
from taskhub.domain.catalogue.sync import Listed, store_snapshot
from taskhub.domain.catalogue.view import catalogue, forget_catalogues
from taskhub.protocol.relays import servers_of
from taskhub.store.models import Offer, Server, Tool
from tests.factories import make_server, make_tenant, make_tool

pytestmark = pytest.mark.django_db


def listing(name: str) -> Listed:
    """A tool as its server lists it."""
    return Listed(name, {"name": name, "inputSchema": {"type": "object"}}, "1" * 64, "", None, False, False)


def test_two_tools_stored_under_one_name_are_told_apart() -> None:
    """As they are when the later server was reached first."""
    tenant = make_tenant()
    first, second = make_server(tenant, "first"), make_server(tenant, "second")
    late = make_tool(second, "look")
    early = make_tool(first, "look")
    found = catalogue(tenant.pk)
    assert [(tool.exposed_name, tool.id) for tool in found.tools] == [("look", early.id), ("second.look", late.id)]
    assert found.by_name["look"].server_name == "first"


def test_the_name_that_tells_a_tool_apart_may_be_taken_too() -> None:
    tenant = make_tenant()
    first, second = make_server(tenant, "first"), make_server(tenant, "second")
    rows = [make_tool(first, "look"), make_tool(first, "second.look"), make_tool(second, "look")]
    found = catalogue(tenant.pk)
    names = ["look", "second.look", "second.second.look"]
    assert [(tool.exposed_name, tool.id) for tool in found.tools] == list(
        zip(names, [row.id for row in rows], strict=True)
    )
    assert {name: found.by_name[name].id for name in names} == dict(zip(names, [row.id for row in rows], strict=True))
    store_snapshot(second.pk, protocol="", info={}, tools=[listing("look")])
    assert Tool.objects.get(server=second).exposed_name == "second.second.look"


@pytest.mark.parametrize("turned_off", ["server", "tool", "listing"])
def test_a_name_that_is_not_on_offer_passes_to_no_other_server(turned_off: str) -> None:
    tenant = make_tenant()
    first, second = make_server(tenant, "first"), make_server(tenant, "second")
    mine = make_tool(first, "echo")
    make_tool(second, "echo")
    if turned_off == "server":
        Server.objects.filter(pk=first.pk).update(enabled=False)
    elif turned_off == "tool":
        Tool.objects.filter(pk=mine.id).update(enabled=False)
    else:
        store_snapshot(first.pk, protocol="", info={}, tools=[])
    forget_catalogues()
    assert [tool.exposed_name for tool in catalogue(tenant.pk).tools] == ["second.echo"]


def test_a_later_server_is_listed_beside_the_names_of_a_disabled_one() -> None:
    tenant = make_tenant()
    first, second = make_server(tenant, "first"), make_server(tenant, "second")
    make_tool(first, "echo")
    Server.objects.filter(pk=first.pk).update(enabled=False)
    store_snapshot(second.pk, protocol="", info={}, tools=[listing("echo")])
    assert Tool.objects.get(server=second).exposed_name == "second.echo"


def offer(server: Server, kind: OfferKind, key: str) -> None:
    Offer.objects.create(server=server, kind=kind, key=key, exposed_name=key, definition={}, digest="1" * 64)


def test_what_a_disabled_server_offers_is_asked_of_no_other() -> None:
    tenant = make_tenant()
    first, second = make_server(tenant, "first"), make_server(tenant, "second")
    Server.objects.filter(pk=second.pk).update(capabilities={"resources": {}})
    offer(first, OfferKind.PROMPT, "hello")
    offer(first, OfferKind.RESOURCE, "vault://known")
    offer(first, OfferKind.TEMPLATE, "vault://{name}/key")
    offer(second, OfferKind.PROMPT, "hello")
    offer(second, OfferKind.RESOURCE, "vault://mine")
    Server.objects.filter(pk=first.pk).update(enabled=False)
    found = catalogue(tenant.pk)
    assert [prompt.exposed_name for prompt in found.prompts] == ["second.hello"]
    for uri in ("vault://known", "vault://a/key"):
        assert servers_of(found, uri) == ()
    assert [server.name for server in servers_of(found, "vault://mine")] == ["second"]
    # What nobody lists is asked of whoever has its scheme, and not of somebody for being the only one left.
    assert [server.name for server in servers_of(found, "vault://other")] == ["second"]
    assert servers_of(found, "other://x") == ()

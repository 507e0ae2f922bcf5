"""The catalogue that clients see: every tool under a name of its own, whatever was stored when."""

from __future__ import annotations

import pytest

from taskhub.lifecycle.catalogue import Listed, store_snapshot
from taskhub.queries.catalogue import catalogue, forget_catalogues
from taskhub.store.models import Server, Tool
from tests.factories import make_server, make_tenant, make_tool

pytestmark = pytest.mark.django_db


def test_two_tools_stored_under_one_name_are_told_apart() -> None:
    """As they are when the later server was reached first."""
    tenant = make_tenant()
    first, second = make_server(tenant, "first"), make_server(tenant, "second")
    late = make_tool(second, "look")
    early = make_tool(first, "look")
    found = catalogue(tenant.pk)
    assert [(tool.exposed_name, tool.id) for tool in found.tools] == [("look", early.id), ("second.look", late.id)]
    assert found.by_name["look"].server_name == "first"


@pytest.mark.parametrize("turned_off", ["server", "tool"])
def test_a_name_that_is_not_on_offer_passes_to_no_other_server(turned_off: str) -> None:
    tenant = make_tenant()
    first, second = make_server(tenant, "first"), make_server(tenant, "second")
    mine = make_tool(first, "echo")
    make_tool(second, "echo")
    if turned_off == "server":
        Server.objects.filter(pk=first.pk).update(enabled=False)
    else:
        Tool.objects.filter(pk=mine.id).update(enabled=False)
    forget_catalogues()
    assert [tool.exposed_name for tool in catalogue(tenant.pk).tools] == ["second.echo"]


def test_a_later_server_is_listed_beside_the_names_of_a_disabled_one() -> None:
    tenant = make_tenant()
    first, second = make_server(tenant, "first"), make_server(tenant, "second")
    make_tool(first, "echo")
    Server.objects.filter(pk=first.pk).update(enabled=False)
    definition = {"name": "echo", "inputSchema": {"type": "object"}}
    listed = Listed("echo", definition, "1" * 64, "", None, False, False)
    store_snapshot(second.pk, protocol="", info={}, tools=[listed])
    assert Tool.objects.get(server=second).exposed_name == "second.echo"

"""The catalogue that clients see: every tool under a name of its own, whatever was stored when."""

from __future__ import annotations

import pytest

from taskhub.queries.catalogue import catalogue
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

"""The definitions that a server has listed of a tool, and which of them are kept."""

from __future__ import annotations

from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from taskhub.control import servers
from taskhub.control.caller import Caller, of_shell
from taskhub.domain.catalogue.sync import store_snapshot
from taskhub.domain.catalogue.versions import MAX_VERSIONS, tool_versions
from taskhub.store.models import Server, Tool, ToolVersion
from taskhub.upstream.catalogue import vetted
from tests.factories import make_server, make_tenant

pytestmark = pytest.mark.django_db


@pytest.fixture
def server() -> Server:
    return make_server(make_tenant(), "files")


def definition(text: str, name: str = "look") -> dict[str, Any]:
    return {"name": name, "description": text, "inputSchema": {"type": "object"}}


def lists(server: Server, *definitions: dict[str, Any]) -> bool:
    """The server is read, and lists tools with these definitions."""
    return store_snapshot(server.pk, protocol="", info={}, tools=[vetted(one) for one in definitions])


def texts(server: Server, name: str = "look") -> list[tuple[int, str, bool]]:
    """The versions of a tool, newest first: number, description, and whether the server lists it now."""
    found = tool_versions(server.tenant_id, Tool.objects.get(server=server, name=name).pk)
    return [(one.number, one.definition["description"], one.last_seen_at is None) for one in found]


def test_each_definition_is_a_version_from_its_first_listing_to_its_last(server: Server) -> None:
    lists(server, definition("one"))
    at = Server.objects.get(pk=server.pk).catalogue_at
    lists(server, definition("two"))
    assert texts(server) == [(2, "two", True), (1, "one", False)]
    two, one = tool_versions(server.tenant_id, Tool.objects.get().pk)
    assert one.first_seen_at == one.last_seen_at == at, "the listing before this one had it last"
    assert two.first_seen_at == Server.objects.get(pk=server.pk).catalogue_at
    assert (two.digest, two.definition) == (Tool.objects.get().digest, definition("two"))
    assert tool_versions(make_tenant().pk, Tool.objects.get().pk) == ()


def test_a_definition_that_comes_back_is_its_version_again(server: Server) -> None:
    for text in ("one", "two", "one"):
        lists(server, definition(text))
    assert texts(server) == [(2, "two", False), (1, "one", True)]
    lists(server, definition("three"))
    assert texts(server) == [(3, "three", True), (2, "two", False), (1, "one", False)]


def test_a_tool_that_is_gone_or_rejected_has_no_version_that_is_listed_now(server: Server) -> None:
    lists(server, definition("one"))
    lists(server)
    assert texts(server) == [(1, "one", False)]
    lists(server, definition("one"))
    assert texts(server) == [(1, "one", True)]
    lists(server, {**definition("wrong"), "inputSchema": None})
    assert Tool.objects.get().rejected
    assert texts(server) == [(1, "one", False)], "what clients are never offered is no version"


def test_the_newest_versions_are_kept_and_the_confirmed_one(server: Server) -> None:
    for number in range(MAX_VERSIONS + 5):
        lists(server, definition(str(number)))
    found = [number for number, _, _ in texts(server)]
    assert found == [*range(MAX_VERSIONS + 5, 5, -1), 1]
    assert Tool.objects.get().confirmed_digest == ToolVersion.objects.get(number=1).digest
    for text in ("5", "7", "5", "7"):
        lists(server, definition(text))
    assert len(texts(server)) <= MAX_VERSIONS + 2
    assert texts(server)[0][0] == MAX_VERSIONS + 5, "no number is given twice"


def test_a_listing_that_changes_nothing_costs_no_statement_more(server: Server) -> None:
    def statements(*definitions: dict[str, Any]) -> int:
        with CaptureQueriesContext(connection) as run:
            lists(server, *definitions)
        return sum("tool_version" in query["sql"] for query in run)

    lists(server, definition("one"), definition("b", "other"))
    assert statements(definition("one"), definition("b", "other")) == 0
    assert statements(definition("b", "other"), definition("one")) == 0, "only in another order"
    before = ToolVersion.objects.count()
    lists(server, definition("two"), definition("c", "other"))
    assert ToolVersion.objects.count() == before + 2


def test_a_removed_server_keeps_no_versions(server: Server) -> None:
    lists(server, definition("one"))
    servers.remove_server(Caller(server.tenant_id, of_shell().actor), server.pk)
    assert ToolVersion.objects.count() == 0

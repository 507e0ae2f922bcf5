"""A client that asks for what its token does not include is on record: once a minute, however often it asks."""

from __future__ import annotations

import secrets
from typing import Any

import pytest

from tests.support.client import Client
from tests.support.hub import RunningHub

pytestmark = pytest.mark.processes


def make_client(hub: RunningHub, *scopes: str) -> tuple[str, Client]:
    """A client of its own: its name, and one that calls with a token of these scopes."""
    name = f"denied-{secrets.token_hex(4)}"
    return name, Client(hub.base, hub.token(name, *scopes))


def denials(hub: RunningHub, name: str) -> list[tuple[Any, ...]]:
    return hub.sql(
        "SELECT e.target, e.after ->> 'lacking', e.door, e.address FROM event e JOIN auth_context c"
        " ON c.id = e.context_id AND c.tenant_id = e.tenant_id"
        " WHERE e.action = 'access.denied' AND e.actor = %s AND c.name = %s ORDER BY e.id",
        [name, name],
    )


def test_a_client_that_asks_in_a_loop_is_on_record_once(hub: RunningHub) -> None:
    name, client = make_client(hub, "tasks:read")
    with client:
        for _ in range(4):
            assert client.tool("greet", {"name": "x"}).status == 403
            assert denials(hub, name) == [("POST /mcp", "tasks:call", "client", "127.0.0.1")]


def test_each_scope_that_is_missing_is_on_record(hub: RunningHub) -> None:
    name, client = make_client(hub, "tasks:answer")
    with client:
        assert client.tool("greet", {"name": "x"}).status == 403
        assert client.get("no-such-task-no-such-task").status == 403
        assert client.cancel("no-such-task-no-such-task").status == 403
        assert client.tool("greet", {"name": "x"}).status == 403
    assert [lacking for _, lacking, _, _ in denials(hub, name)] == ["tasks:call", "tasks:read", "tasks:cancel"]


def test_each_client_is_on_record_for_itself(hub: RunningHub) -> None:
    both = [make_client(hub, "tasks:read") for _ in range(2)]
    for _, client in both:
        with client:
            assert client.tool("greet", {"name": "x"}).status == 403
    assert [len(denials(hub, name)) for name, _ in both] == [1, 1]


def test_who_may_and_who_is_nobody_is_not_on_record(hub: RunningHub, nobody: Client) -> None:
    before = hub.sql("SELECT count(*) FROM event WHERE action = 'access.denied'")
    name, client = make_client(hub, "tasks:call")
    with client:
        assert client.tool("greet", {"name": "x"}).status == 200
        assert client.tool("no-such-tool").messages
    assert nobody.tool("greet", {"name": "x"}).status == 401
    assert denials(hub, name) == []
    assert hub.sql("SELECT count(*) FROM event WHERE action = 'access.denied'") == before

"""The database lets nobody in for a while: what clients of each revision are told, and that their sessions go on."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from psycopg import sql

from tests.support.client import Client
from tests.support.hub import RunningHub, wait_until
from tests.support.session import SessionClient

pytestmark = pytest.mark.processes


@contextmanager
def away(hub: RunningHub) -> Iterator[None]:
    """Cut every connection of the hub and let it open no other."""
    name = sql.Identifier(hub.database)
    hub._admin(sql.SQL("ALTER DATABASE {} ALLOW_CONNECTIONS false").format(name))
    cut = "SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity WHERE datname = {}"
    hub._admin(sql.SQL(cut).format(sql.Literal(hub.database)))
    try:
        yield
    finally:
        hub._admin(sql.SQL("ALTER DATABASE {} ALLOW_CONNECTIONS true").format(name))


@pytest.mark.req("B25-20", "B25-10", "T26-44", "B26-33")
def test_requests_are_told_to_come_back_and_sessions_go_on(hub: RunningHub) -> None:
    unknown = hub.token("agent-a")  # which no process has looked up yet: already who it is cannot be told
    with (
        SessionClient(hub.base, hub.tokens["agent-a"]) as session,
        Client(hub.base, hub.tokens["agent-a"]) as modern,
        Client(hub.base, unknown) as stranger,
    ):
        assert modern.call("server/discover").status == 200
        with away(hub):
            for token in (session.token, unknown):
                session.token = token
                refused = session.call("tools/call", {"name": "greet", "arguments": {"name": "x"}})
                assert (refused.status, refused.error["code"]) == (200, 50300)
                assert int(refused.headers["retry-after"]) > 0
                assert session.notify("notifications/roots/list_changed") == 202
            assert modern.get("A" * 32).refusal == (503, 50300)
            refused = stranger.call("server/discover")
            assert refused.refusal == (503, 50300)
            assert int(refused.headers["retry-after"]) > 0
        session.token = hub.tokens["agent-a"]

        def answered() -> bool:
            answer = session.call("tools/call", {"name": "greet", "arguments": {"name": "again"}})
            return "result" in answer.messages[-1]

        wait_until(answered, "a call on the same session", 60)

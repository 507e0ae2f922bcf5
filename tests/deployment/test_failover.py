"""The primary is lost under load and its standby promoted: the hub finds it by itself, and nothing acknowledged is
gone."""

from __future__ import annotations

import time
from collections.abc import Iterator

import psycopg
import pytest
from psycopg import sql

from tests.support.hub import RunningHub, wait_until
from tests.support.load import all_completed, load
from tests.support.pair import Pair, pair

pytestmark = pytest.mark.processes

DEMO = "python:taskhub.demo.server:server"
SECONDS = 30.0
"""After the promotion the hub goes on within these; it takes less than one where nothing else runs."""


@pytest.fixture
def servers() -> Iterator[Pair]:
    with pair() as found:
        yield found


def test_a_hub_goes_on_with_the_promoted_standby_and_has_lost_nothing(servers: Pair) -> None:
    class Behind(RunningHub):
        """A hub that knows both servers."""

        @staticmethod
        def url_of(database: str) -> str:
            return servers.url.replace("/taskhub?", f"/{database}?")

        @staticmethod
        def _connect(database: str) -> psycopg.Connection[tuple[object, ...]]:
            url = f"{Behind.url_of(database)}&target_session_attrs=read-write"
            return psycopg.connect(url, autocommit=True)

        @staticmethod
        def _admin(statement: sql.Composed) -> None:
            with Behind._connect("taskhub") as connection:
                connection.execute(statement)

    hub = Behind(servers=(DEMO,), other_tables=True)
    try:
        with load(hub.base, hub.tokens["agent-a"]) as acknowledged:
            wait_until(lambda: len(acknowledged) >= 20, "load", 30)
            servers.kill_primary()
            servers.promote()
            promoted, before = time.monotonic(), len(acknowledged)
            wait_until(lambda: len(acknowledged) >= before + 20, "new tasks", SECONDS)
            print(f"new tasks {time.monotonic() - promoted:.1f} s after the promotion")
        all_completed(hub.base, hub.tokens["agent-a"], acknowledged)
        assert hub.sql("SELECT pg_is_in_recovery()") == [(False,)]
        assert "ended (" not in hub.log.read_text()
    finally:
        hub.stop()

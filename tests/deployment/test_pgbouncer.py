"""Behind Debian's PgBouncer, as docs/run/scaling.md has it: everything works where sessions are pooled, and where
transactions are, `doctor` says so."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial

import psycopg
import pytest
from django.db import connection

from taskhub.config import env
from taskhub.core.errors import Unavailable
from taskhub.core.names import HINT_CHANNEL
from taskhub.store import call
from tests.cli.shell import run
from tests.push.kit import listening, until
from tests.store.flushing import _flush_past_the_guards
from tests.store.test_session import asking, held
from tests.support.client import Client
from tests.support.hub import FIXTURES, RunningHub, wait_until
from tests.support.pgbouncer import PgBouncer, pgbouncer

__all__ = ["_flush_past_the_guards"]
pytestmark = pytest.mark.processes


@pytest.fixture(scope="module")
def bouncer() -> Iterator[PgBouncer]:
    """It pools sessions."""
    with pgbouncer() as running:
        yield running


@contextmanager
def behind(bouncer: PgBouncer) -> Iterator[None]:
    """This process's own connections go through it."""
    settings = connection.settings_dict
    before = {key: settings[key] for key in ("HOST", "PORT", "USER", "PASSWORD")}
    connection.close()
    there = {"HOST": "127.0.0.1", "PORT": str(bouncer.port), "USER": bouncer.user, "PASSWORD": bouncer.password}
    settings.update(there)
    try:
        yield
    finally:
        connection.close()
        settings.update(before)


def server_pid() -> int:
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_backend_pid()")
        return int(cursor.fetchone()[0])


def test_startup_options_are_refused_which_is_why_we_send_none(bouncer: PgBouncer) -> None:
    with pytest.raises(psycopg.OperationalError, match="unsupported startup parameter: options"):
        psycopg.connect(bouncer.url("postgres"), options="-c statement_timeout=5s")


def test_every_session_has_our_settings_also_one_that_somebody_had_before(
    bouncer: PgBouncer, transactional_db: None
) -> None:
    with behind(bouncer):
        assert held() == env.SESSION
        before = server_pid()

        def again() -> bool:
            connection.close()
            return server_pid() == before

        # It goes to the next client after DISCARD ALL, which takes a moment.
        wait_until(again, "the same session", 30)
        assert held() == env.SESSION


def test_a_statement_is_ended_by_the_server_when_its_time_is_over(bouncer: PgBouncer, transactional_db: None) -> None:
    with behind(bouncer), asking(statement_timeout="300ms"):
        began = time.monotonic()
        with pytest.raises(Unavailable, match="too busy"):
            call.run(b"SELECT pg_sleep(60)", (), lambda cursor: None, again=False, prepare=True)
        assert time.monotonic() - began < 30


def test_hints_are_heard(bouncer: PgBouncer, transactional_db: None) -> None:
    async def hear() -> None:
        async with listening() as heard:
            with psycopg.connect(bouncer.url(str(connection.settings_dict["NAME"])), autocommit=True) as other:
                other.execute("SELECT pg_notify(%s, 'through it')", (HINT_CHANNEL,))
            await until(partial(heard.holds, "through it", 1))

    with behind(bouncer):
        asyncio.run(hear())


def test_the_doctor_finds_nothing_wrong_with_it(bouncer: PgBouncer, transactional_db: None) -> None:
    with behind(bouncer):
        _, out, _ = run("doctor")
    assert "ok   session settings: as wanted\n" in out
    assert "ok   jit: off in our sessions\n" in out
    assert "ok   sessions: each connection has one of its own\n" in out


def test_a_whole_hub_makes_a_call_from_beginning_to_end(bouncer: PgBouncer) -> None:
    class Behind(RunningHub):
        """All its processes connect through PgBouncer."""

        @staticmethod
        def url_of(database: str) -> str:
            return bouncer.url(database)

    hub = Behind(servers=(FIXTURES,))
    try:
        with Client(hub.base, hub.tokens["agent-a"]) as client:
            assert client.tool("greet", {"name": "you"}).text == "Hello, you!"
            task = client.create("slow_compute", {"seconds": 1, "label": "x"})
            assert client.until(task, "completed")["status"] == "completed"
        log = hub.log.read_text()
    finally:
        hub.stop()
    assert "database" not in log, log


def failures(**changed: str) -> list[str]:
    """What `doctor` says is wrong, behind one that is configured so."""
    with pgbouncer(**changed) as running, behind(running):
        code, out, _ = run("doctor")
    assert code == 1
    return [line for line in out.splitlines() if line.startswith("FAIL ")]


SHARED = (
    "FAIL sessions: two connections share one, as behind a PgBouncer that pools transactions or statements: settings,"
    " prepared statements and hints get lost. Set pool_mode = session there. Nothing else was looked at"
)


def test_the_doctor_says_where_transactions_are_pooled(transactional_db: None) -> None:
    assert failures(pool_mode="transaction") == [SHARED]


def test_the_doctor_names_the_settings_that_got_lost_so(transactional_db: None) -> None:
    settings, *_, sessions = failures(pool_mode="transaction", server_reset_query_always="1")
    assert "statement_timeout is 0, wanted 5s" in settings
    assert "th.hints is not set, wanted app" in settings
    assert sessions == SHARED

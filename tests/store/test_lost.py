"""Connections that are lost: while nobody used them, with a statement under way, and with one of unknown fate."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import psutil
import pytest
from django.db import connection, transaction
from psycopg.pq import TransactionStatus

from taskhub.core.errors import Unavailable
from taskhub.store import call
from taskhub.store.models import Tenant
from tests.factories import make_tenant
from tests.store import raw as sql
from tests.store.flushing import superuser
from tests.support.hub import wait_until
from tests.support.proxy import database_door

pytestmark = pytest.mark.usefixtures("transactional_db")

ADD = b"INSERT INTO tenant (slug, name) SELECT $1, $1 FROM pg_sleep($2::float8)"


def add(slug: str, seconds: float = 0) -> None:
    """A write, as every statement of ours is made."""
    call.run(ADD, (slug, seconds), lambda cursor: None, again=False, prepare=True)


def pid() -> int:
    connection.ensure_connection()
    return int(connection.connection.info.backend_pid)


def end() -> None:
    """End our session, which is idle; returns when it has."""
    with superuser(autocommit=True) as other:
        assert other.execute("SELECT pg_terminate_backend(%s, 5000)", (pid(),)).fetchone() == (True,)


def in_atomic() -> None:
    with transaction.atomic():
        make_tenant()


@pytest.mark.parametrize(
    "do",
    [lambda: add("once"), Tenant.objects.count, in_atomic, lambda: Tenant.objects.create(slug="x", name="x")],
    ids=["our own write", "the ORM", "a transaction", "a write of the ORM"],
)
def test_a_connection_that_ended_while_idle_is_replaced_before_it_is_used(do: Callable[[], object]) -> None:
    before = pid()
    end()
    do()
    assert pid() != before


def test_the_replacement_has_the_same_settings() -> None:
    before = connection.connection
    end()
    add("once")
    assert connection.connection is not before
    assert connection.connection.session == {**connection.settings_dict["SESSION"]}
    assert connection.connection.seconds == 7.0


@pytest.fixture
def beside() -> Iterator[ThreadPoolExecutor]:
    """A thread with a connection of its own, which has prepared the write."""
    with ThreadPoolExecutor(1) as made:
        made.submit(add, "first").result(30)
        yield made
        made.submit(lambda: connection.close()).result(30)  # noqa: PLW0108 - its own, not ours


def slugs() -> list[str]:
    with sql.connect() as other:
        return [
            slug for (slug,) in other.execute("SELECT slug FROM tenant WHERE slug IN ('first', 'second') ORDER BY id")
        ]


def test_a_write_that_met_the_end_of_its_session_is_made_once(beside: ThreadPoolExecutor) -> None:
    """The session was told to end, and reads that first; nobody could see it before the statement was sent."""
    raw = beside.submit(lambda: connection.connection).result(30)
    backend = psutil.Process(raw.info.backend_pid)
    backend.send_signal(signal.SIGSTOP)
    try:
        with superuser(autocommit=True) as other:
            other.execute("SELECT pg_terminate_backend(%s)", (backend.pid,))
        writing = beside.submit(add, "second")
        wait_until(lambda: raw.pgconn.transaction_status == TransactionStatus.ACTIVE, "the statement to be sent", 30)
    finally:
        backend.send_signal(signal.SIGCONT)
    writing.result(30)
    assert beside.submit(pid).result(30) != backend.pid
    assert slugs() == ["first", "second"]


def test_a_write_that_was_ended_while_it_ran_is_made_once(beside: ThreadPoolExecutor) -> None:
    before = beside.submit(pid).result(30)
    writing = beside.submit(add, "second", 2)
    with superuser(autocommit=True) as other:
        wait_until(lambda: active(other, before), "the write to run", 30)
        other.execute("SELECT pg_terminate_backend(%s)", (before,))
    writing.result(30)
    assert slugs() == ["first", "second"]


def active(other: Any, backend: int) -> bool:
    asked = "SELECT wait_event = 'PgSleep' FROM pg_stat_activity WHERE pid = %s"
    return bool(other.execute(asked, (backend,)).fetchone()[0])


def test_a_write_of_unknown_fate_is_not_made_again() -> None:
    """The way to the database is cut while it runs, and the database goes on."""
    settings = connection.settings_dict
    before = {key: settings[key] for key in ("HOST", "PORT")}
    with database_door() as door, superuser(autocommit=True) as other:
        connection.close()
        settings.update({"HOST": "127.0.0.1", "PORT": str(door.port)})
        try:
            add("first")
            backend = pid()
            with ThreadPoolExecutor(1) as cutting:

                def cut() -> None:
                    wait_until(lambda: active(other, backend), "the write to run", 30)
                    door.shut()
                    door.open()

                cut_off = cutting.submit(cut)
                with pytest.raises(Unavailable, match="away"):
                    add("second", 3)
                cut_off.result(30)
        finally:
            connection.close()
            settings.update(before)
        wait_until(lambda: not backend_lives(other, backend), "the write to end", 30)
    assert slugs() == ["first", "second"], "it was carried out, and nobody could tell"


def backend_lives(other: Any, backend: int) -> bool:
    return bool(other.execute("SELECT 1 FROM pg_stat_activity WHERE pid = %s", (backend,)).fetchone())

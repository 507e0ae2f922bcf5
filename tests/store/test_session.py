"""Our sessions at Postgres are as the settings want them, whoever connects."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import psycopg
import pytest
from django.db import connection

from taskhub.config import env
from taskhub.store.backend.base import deadline
from taskhub.worker import jobs

ASKED = "SELECT name, current_setting(name, true) AS value FROM unnest(%(names)s::text[]) AS n (name)"


@contextmanager
def asking(**changed: str) -> Iterator[None]:
    """New connections of ours ask for these too."""
    settings = connection.settings_dict
    before = settings["SESSION"]
    settings["SESSION"] = {**before, **changed}
    connection.close()
    try:
        yield
    finally:
        settings["SESSION"] = before
        connection.close()


def held() -> Mapping[str, str]:
    with connection.cursor() as cursor:
        cursor.execute(ASKED, {"names": list(env.SESSION)})
        return dict(cursor.fetchall())


def test_djangos_sessions_have_our_settings_and_no_startup_options(transactional_db: None) -> None:
    connection.close()
    assert held() == env.SESSION
    raw: psycopg.Connection[Any] = connection.connection
    assert raw.info.options == ""
    assert raw.autocommit


def test_what_an_operator_asks_for_holds_and_moves_the_clients_deadline_with_it(transactional_db: None) -> None:
    with asking(statement_timeout="90000"):
        assert held() == {**env.SESSION, "statement_timeout": "90s"}
        assert connection.connection.seconds == 92.0


async def test_procrastinates_sessions_have_our_settings(transactional_db: None) -> None:
    async with jobs.app().open_async() as app:
        rows = await app.connector.execute_query_all_async(ASKED, names=list(env.SESSION))
        assert {row["name"]: row["value"] for row in rows} == env.SESSION


@pytest.mark.parametrize(
    ("statement_timeout", "seconds"),
    [("5s", 7.0), ("0", None), ("500", 2.5), ("250 ms", 2.25), ("1.5s", 3.5), ("2min", 122.0), ("1h", 3602.0)],
)
def test_the_client_gives_up_two_seconds_after_the_server_would(statement_timeout: str, seconds: float | None) -> None:
    assert deadline(statement_timeout) == seconds

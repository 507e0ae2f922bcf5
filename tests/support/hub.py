"""A whole TaskHub, web and worker, as processes of their own over a database on the tests' Postgres."""

from __future__ import annotations

import atexit
import contextlib
import functools
import json
import os
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import urlsplit

import psutil
import psycopg
from psycopg import sql

from tests.postgres import BEGUN, PLACE, PREPARED

ROOT = Path(__file__).resolve().parents[2]
FIXTURES = "python:tests.conformance.fixture_server:server"
EXTRA = "extra=python:tests.support.upstream:server"
START_SECONDS = 120.0
STOP_SECONDS = 10.0

T = TypeVar("T")


def wait_until(look: Callable[[], T | None], what: str, seconds: float = 10.0) -> T:
    """The first true thing `look` returns. Fails, naming `what`, when time runs out."""
    deadline = time.monotonic() + seconds
    while True:
        found = look()
        if found:
            return found
        assert time.monotonic() < deadline, f"waited {seconds:g} s for {what}"
        time.sleep(0.02)


def wait_for_status(
    get: Callable[[], dict[str, Any]], task_id: str, statuses: Sequence[str], seconds: float
) -> dict[str, Any]:
    """The task, which `get` reads, as soon as it shows one of the statuses. Fails with what it shows instead."""
    last: dict[str, Any] = {}

    def look() -> dict[str, Any] | None:
        nonlocal last
        last = get()
        return last if last["status"] in statuses else None

    try:
        return wait_until(look, f"{task_id} to be {' or '.join(statuses)}", seconds)
    except AssertionError as error:
        raise AssertionError(f"{error}; it is {last}") from None


@functools.cache
def _prepared() -> tuple[str, Path]:
    """A database and a data directory as `up` leaves them at its first start, before it connects servers. A
    hub that begins with a copy has nothing to migrate, and nobody's password to hash."""
    if PREPARED in os.environ:
        return BEGUN, Path(os.environ[PREPARED])
    # A Postgres that somebody else made.
    database, directory = (
        f"prepared_{secrets.token_hex(6)}",
        Path(tempfile.mkdtemp(prefix="prepared-", dir=os.environ[PLACE])),
    )
    RunningHub._admin(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(database)))

    def tidy() -> None:
        shutil.rmtree(directory, ignore_errors=True)
        with contextlib.suppress(psycopg.OperationalError):  # a Postgres of our own has gone
            RunningHub._admin(sql.SQL("DROP DATABASE {}").format(sql.Identifier(database)))

    atexit.register(tidy)
    environment = {**os.environ, "DATABASE_URL": RunningHub.url_of(database), "TASKHUB_DATA_DIR": str(directory)}
    subprocess.run([sys.executable, "-m", "tests.support.prepare"], cwd=ROOT, env=environment, check=True)
    return database, directory


class RunningHub:
    """Started by the constructor; ready when it returns. `stop` proves a clean end."""

    def __init__(
        self,
        *options: str,
        servers: Sequence[str] = (FIXTURES, EXTRA),
        source: Path = ROOT,
        other_tables: bool = False,
        **environment: str,
    ) -> None:
        self.database = f"hub_{secrets.token_hex(6)}"
        self.directory = Path(tempfile.mkdtemp(prefix="hub-", dir=os.environ[PLACE]))
        create = sql.SQL("CREATE DATABASE {} TEMPLATE {}")
        template = "template1"
        if not other_tables:  # which the code in `source` makes itself
            template, found = _prepared()
            shutil.copytree(found, self.data)
        self._admin(create.format(sql.Identifier(self.database), sql.Identifier(template)))
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port: int = probe.getsockname()[1]
        self.base = f"http://127.0.0.1:{self.port}"
        self.environment = {
            **{key: value for key, value in os.environ.items() if key not in ("TASKHUB_DATA_DIR", "PYTHONPATH")},
            "DATABASE_URL": self.url_of(self.database),
            "LOG_LEVEL": "WARNING",
            "TASKHUB_CONTEXT_REQUESTS": "0",  # a test may ask as fast as it can
            "TASKHUB_CONTEXT_KIB": "0",
            **environment,
        }
        self._shell: subprocess.Popen[str] | None = None
        self._asked: psycopg.Connection[tuple[Any, ...]] | None = None
        self.log = self.directory / "log"
        command = [
            sys.executable,
            "manage.py",
            "up",
            "--no-demo",
            "--data-dir",
            str(self.data),
            "--port",
            str(self.port),
            "--verbose",  # what its parts log is in `log` as well
        ]
        for spec in servers:
            command += ["--server", spec]
        with self.log.open("wb") as log:
            self.process = subprocess.Popen(
                [*command, *options], cwd=source, env=self.environment, stdout=log, stderr=log
            )
        try:
            wait_until(self._listed, f"a ready hub:\n{self.log.read_text()}", START_SECONDS)
        except BaseException:
            self.process.terminate()  # its children follow it
            self.process.wait(STOP_SECONDS)
            raise
        self.tokens: dict[str, str] = json.loads((self.data / "credentials.json").read_text())["tokens"]

    @property
    def data(self) -> Path:
        """The hub's data directory."""
        return self.directory / "data"

    def _listed(self) -> bool:
        assert self.process.poll() is None, f"the hub ended:\n{self.log.read_text()}"
        try:
            with urllib.request.urlopen(f"{self.base}/readyz?full", timeout=5) as answer:
                if answer.status != 200:
                    return False
        except urllib.error.HTTPError as error:
            error.close()
            return False
        except (urllib.error.URLError, OSError):
            return False
        # Ready means that a worker lives; the tools come when it has listed each server once.
        return self.sql("SELECT count(DISTINCT server_id) = (SELECT count(*) FROM server) FROM tool")[0][0] is True

    def stop(self, seconds: float = STOP_SECONDS) -> None:
        """SIGTERM, and the proof: an end within so many seconds and no process left behind."""
        try:
            self.end(seconds)
        finally:
            self.drop()

    def end(self, seconds: float = STOP_SECONDS) -> None:
        """As `stop`, but its database and directory stay."""
        family = [self.process_of(self.process.pid), *self.process_of(self.process.pid).children(recursive=True)]
        self.process.send_signal(signal.SIGTERM)
        try:
            code = self.process.wait(seconds)
            left = [process.pid for process in family if process.is_running() and process.status() != "zombie"]
            assert (code, left) == (0, []), f"exit code {code}, left behind: {left}\n{self.log.read_text()}"
        finally:
            for process in family:
                with contextlib.suppress(psutil.NoSuchProcess):
                    process.kill()

    def drop(self) -> None:
        """Leave nothing of it."""
        if self._shell is not None:
            self._shell.communicate()  # the end of its input is its own
        if self._asked is not None:
            self._asked.close()
        self._admin(sql.SQL("DROP DATABASE {} WITH (FORCE)").format(sql.Identifier(self.database)))
        shutil.rmtree(self.directory, ignore_errors=True)

    def part(self, name: str) -> psutil.Process:
        """The process in which `up` runs `manage.py NAME`."""
        for child in self.process_of(self.process.pid).children():
            if name in child.cmdline():
                return child
        raise AssertionError(f"no {name} process")

    @staticmethod
    def process_of(pid: int) -> psutil.Process:
        """The process with this id."""
        return psutil.Process(pid)

    @staticmethod
    def url_of(database: str) -> str:
        """The URL of a database on the tests' Postgres."""
        parts = urlsplit(os.environ["DATABASE_URL"])
        return parts._replace(path=f"/{database}").geturl()

    @staticmethod
    def _admin(statement: sql.Composed) -> None:
        with RunningHub._connect(urlsplit(os.environ["DATABASE_URL"]).path.lstrip("/")) as connection:
            connection.execute(statement)

    @staticmethod
    def _connect(database: str) -> psycopg.Connection[tuple[Any, ...]]:
        return psycopg.connect(RunningHub.url_of(database), autocommit=True)

    def sql(self, statement: str, params: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        """Ask the hub's own database."""
        # On one connection, since many ask until something has come true.
        if self._asked is None:
            self._asked = self._connect(self.database)
        try:
            cursor = self._asked.execute(statement, params)
        except psycopg.OperationalError:
            if not self._asked.closed:
                raise
            # Tests cut connections, this one among them.
            self._asked = self._connect(self.database)
            cursor = self._asked.execute(statement, params)
        return cursor.fetchall() if cursor.description else []

    def demo_tool(self, name: str) -> tuple[int, int]:
        """The ids of the demo server and of its tool `name`. Other tests connect servers with tools of that name."""
        [(server, tool)] = self.sql(
            "SELECT s.id, t.id FROM tool AS t JOIN server AS s ON s.id = t.server_id"
            " WHERE t.name = %s AND s.id = (SELECT min(id) FROM server WHERE name = 'demo')",
            [name],
        )
        return server, tool

    def told(self) -> str:
        """What whoever reads of a failed test wants to know of the hub: its processes, its database, its log."""
        lines = []
        with contextlib.suppress(psutil.Error):
            up = self.process_of(self.process.pid)
            for process in [up, *up.children(recursive=True)]:
                with contextlib.suppress(psutil.Error):
                    times = process.cpu_times()
                    words = " ".join(process.cmdline()[-3:])
                    lines.append(f"{process.pid} {process.status()} {times.user:.0f}+{times.system:.0f} s  {words}")
        for statement in (
            "SELECT worker, state, count(*), now() - min(created_at) FROM task WHERE ended_at IS NULL GROUP BY 1, 2",
            "SELECT pid, now() - heartbeat_at, busy, slots, stopped_at FROM worker",
            "SELECT name, enabled, state, problem FROM server",
            "SELECT pid, application_name, state, wait_event, now() - state_change, left(query, 90)"
            " FROM pg_stat_activity WHERE datname = current_database() ORDER BY state_change LIMIT 20",
        ):
            with contextlib.suppress(psycopg.Error):
                lines += [statement, *("  " + " | ".join(map(str, row)) for row in self.sql(statement))]
        log = [*self.data.glob("*.log"), self.log]
        for file in log:
            lines += [f"{file.name}:", *file.read_text(errors="replace").splitlines()[-25:]]
        return "\n".join(lines)

    def token(self, client: str, *scopes: str) -> str:
        """A fresh token from the command line, as an operator makes one."""
        return self._manage("token", "create", client, *(("--scopes", ",".join(scopes)) if scopes else ()))

    def person(self, *words: str) -> str:
        """What `manage.py person …` prints."""
        return self._manage("person", *words)

    def manage(self, *words: str) -> str:
        """What `manage.py` prints with these words. Fails as the command does."""
        return self._manage(*words)

    def _manage(self, *words: str) -> str:
        if self._shell is None:
            self._shell = subprocess.Popen(
                [sys.executable, "-m", "tests.support.shell"],
                cwd=ROOT,
                env={**self.environment, "TASKHUB_DATA_DIR": str(self.data)},
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
            )
        assert self._shell.stdin is not None
        assert self._shell.stdout is not None
        self._shell.stdin.write(f"{json.dumps(words)}\n")
        self._shell.stdin.flush()
        said = json.loads(self._shell.stdout.readline())
        assert "error" not in said, said["error"]
        return str(said["out"]).strip()

    def raw(self, request: bytes, seconds: float = 10.0) -> bytes:
        """Send bytes no HTTP library would, and read until the peer closes or has answered whole."""
        with socket.create_connection(("127.0.0.1", self.port), timeout=seconds) as connection:
            connection.sendall(request)
            found = b""
            while not _whole(found):
                chunk = connection.recv(65_536)
                if not chunk:
                    break
                found += chunk
            return found


def _whole(answer: bytes) -> bool:
    head, gap, body = answer.partition(b"\r\n\r\n")
    if not gap:
        return False
    for line in head.split(b"\r\n"):
        name, _, value = line.partition(b":")
        if name.lower() == b"content-length":
            return len(body) >= int(value)
    return False


_shared: list[RunningHub] = []
_holders = 0


@contextlib.contextmanager
def shared() -> Iterator[RunningHub]:
    """The one hub of the session: started by the first who asks, stopped after the last."""
    global _holders
    if not _shared:
        _shared.append(
            RunningHub(
                TASKHUB_INLINE_WAIT_MS="300",
                TASKHUB_LEAVE_SECONDS="2",
                # What failed tests leave running must not take the slots of all others.
                TASKHUB_SLOTS="96",
                TASKHUB_CONTEXT_RUNNING="16",
            )
        )
    _holders += 1
    try:
        yield _shared[0]
    finally:
        _holders -= 1
        if not _holders:
            _shared.pop().stop()

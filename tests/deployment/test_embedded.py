"""The embedded Postgres in data directories of any name: it starts, its commands find it, and no other user of the
machine gets in."""

from __future__ import annotations

import contextlib
import os
import pwd
import re
import signal
import stat
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import psutil
import psycopg
import pytest

from taskhub.cli.embedded import Embedded
from taskhub.cli.sockets import NotPrivate, make_private, place_for
from taskhub.config import env
from tests.cli.shell import Command
from tests.postgres import ended
from tests.support.hub import wait_until

pytestmark = pytest.mark.processes

LONG = "a-directory-with-a-name-that-is-longer-than-all-others/" * 3 + "data"
NAMES = {
    "plain": "data",
    "quotes": 'it\'s "called" data',
    "shell": "$HOME `false` \\ & ; one,two?host=three#4%20 data",
    "long": LONG,
}
GET_IN = """
import os, sys, psycopg
os.setgroups([])
os.setgid(int(sys.argv[3]))
os.setuid(int(sys.argv[2]))  # only now: the interpreter itself may be where nobody else may look
for user in ("postgres", "taskhub"):
    try:
        psycopg.connect(host=sys.argv[1], user=user, dbname="postgres", connect_timeout=5).close()
    except psycopg.OperationalError as error:
        print("refused:", error)
    else:
        print("in as", user)
"""


@pytest.fixture
def somewhere() -> Iterator[Path]:
    """A short directory that the user of Postgres may pass through."""
    with tempfile.TemporaryDirectory(prefix="th-", dir="/tmp", ignore_cleanup_errors=True) as made:
        Path(made).chmod(0o755)
        yield Path(made)


@contextlib.contextmanager
def started(data: Path) -> Iterator[tuple[Embedded, Path]]:
    """A server over `data`, and where its socket is."""
    data.mkdir(parents=True, exist_ok=True)
    embedded = Embedded(data)
    try:
        yield embedded, reached(embedded.start())
    finally:
        embedded.stop()


def reached(url: str) -> Path:
    """Where the socket is, after it was used as Django would use it."""
    found = env.database(url)
    with psycopg.connect(dbname=found["NAME"], user=found["USER"], host=found["HOST"]) as connection:
        assert connection.execute("SELECT current_user, current_setting('is_superuser')").fetchone() == (
            "taskhub",
            "off",
        )
    return Path(str(found["HOST"]))


def kept_out(place: Path) -> bool:
    """Whether another user of this machine cannot connect. Only root can try."""
    if os.geteuid() != 0:
        return stat.S_IMODE(place.stat().st_mode) == 0o700
    nobody = pwd.getpwnam("nobody")
    command = [sys.executable, "-c", GET_IN, str(place), str(nobody.pw_uid), str(nobody.pw_gid)]
    tried = subprocess.run(command, capture_output=True, text=True, check=True)
    return tried.stdout.count("Permission denied") == 2


@pytest.mark.parametrize("name", NAMES.values(), ids=NAMES)
def test_it_starts_in_any_directory_and_lets_nobody_else_in(somewhere: Path, name: str) -> None:
    with started(somewhere / name) as (embedded, place):
        assert kept_out(place)
        assert place == (embedded.database if name == "data" else place_for(embedded.database))
        postmaster = psutil.Process(int((embedded.database / "postmaster.pid").read_text().splitlines()[0]))
        postmaster.send_signal(signal.SIGQUIT)  # a crash leaves its socket and its directory behind
        ended(postmaster)
        assert reached(embedded.start()) == place
        assert Embedded(embedded.data_dir).start() == f"postgresql://taskhub@/taskhub?host={place}"
        assert kept_out(place)
    assert not embedded.running()
    if place != embedded.database:
        assert not place.exists()
    assert reached(embedded.start()) == place
    embedded.stop()


def test_a_server_whose_socket_others_reach_is_started_again(somewhere: Path) -> None:
    """As an older TaskHub had it, and left it when it was killed."""
    with started(somewhere / LONG) as (embedded, place):
        place.chmod(0o777)
        assert not kept_out(place)
        assert kept_out(reached(embedded.start()))


@pytest.mark.parametrize("what", ["link", "open", "somebody's", "file"])
def test_what_somebody_else_put_there_is_not_used(tmp_path: Path, what: str) -> None:
    place = tmp_path / "place"
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir(mode=0o700)
    if what == "link":
        place.symlink_to(elsewhere)
    elif what == "file":
        place.write_text("")
    else:
        place.mkdir(mode=0o700)
        place.chmod(0o755 if what == "open" else 0o700)
    if what == "somebody's":
        if os.geteuid() != 0:
            pytest.skip("only root can give a directory away")
        os.chown(place, pwd.getpwnam("nobody").pw_uid, -1)
    with pytest.raises(NotPrivate, match=str(place)):
        make_private(place, os.geteuid())
    assert list(elsewhere.iterdir()) == []


def test_up_and_its_commands_find_it(somewhere: Path) -> None:
    """With everything that is hard about a name at once."""
    data = somewhere / "a b'c\"d" / LONG
    data.parent.mkdir(parents=True)
    where = {"TASKHUB_DATA_DIR": str(data), "SECRET_KEY": ""}
    arguments = ("up", "--no-demo", "--port", _free_port())
    with Command(somewhere / "up", *arguments, environment=where) as up:
        wait_until(lambda: "TaskHub is ready" in up.out, "a ready hub", 90)
        with Command(somewhere / "doctor", "doctor", environment=where) as doctor:
            code, out = doctor.outcome()
        assert (code, "FAIL" in out) == (0, False), out + doctor.err
        assert "Sign in as" in up.out
        steps, _, rest = up.out.partition("\n\n")
        assert steps.splitlines() == [
            f"  Making the database, in {data / 'pg'} … done",
            "  Bringing its tables up to date … done",
            "  Starting the server … done",
            "  Starting a worker … done",
        ]
        assert f"  Log:                 {data / 'taskhub.log'}\n" in rest
        assert up.err == "", "nothing else stands between somebody new and the address"
        up.interrupt()
        assert up.code() == 0, up.err
    log = data / "taskhub.log"
    assert stat.S_IMODE(log.stat().st_mode) == 0o600
    assert all(part in log.read_text() for part in (" web ", " worker ", "uvicorn.error"))
    with Command(somewhere / "again", *arguments, environment=where) as up:
        wait_until(lambda: "TaskHub is ready" in up.out, "a ready hub again", 90)
        (worker,) = (one for one in psutil.Process(up.pid).children() if "worker" in one.cmdline())
        # A hub is ready as soon as its worker shows signs of life, a moment before that worker logs its start.
        started = rf".*: worker \S*:{worker.pid} started: "
        wait_until(lambda: re.search(started, log.read_text()), "a line of the worker to tell", 20)
        worker.kill()
        wait_until(lambda: "worker 1 ended" in up.err, "the end of the worker to be told", 20)
        told = f"taskhub: the end of {log}:\n"
        wait_until(lambda: up.err.partition(told)[2].startswith("  "), f"its last lines, after {up.err!r}")
        lines = [line.strip() for line in up.err.partition(told)[2].splitlines() if line.startswith("  ")]
        assert lines
        assert [line for line in lines if line not in log.read_text()] == []
        up.interrupt()
        assert up.code() == 0, up.err
        assert f"Starting the database, in {data / 'pg'} … done" in up.out
        assert "Sign in as" not in up.out, "whoever looks on now need not be who was told"
        assert f"Sign-ins and tokens: {data / 'credentials.json'}" in up.out
    # Without `up` it is started for as long as the command runs.
    with Command(somewhere / "verify", "audit", "verify", environment=where) as verify:
        assert verify.code() == 0, verify.err
    assert not place_for(data / "pg").exists()


@pytest.mark.parametrize(
    ("number", "seen"),
    [(signal.SIGINT, "up.lock"), (signal.SIGTERM, "pg/postmaster.pid"), (signal.SIGTERM, "database_url")],
)
def test_a_start_that_is_not_wanted_any_more_leaves_nothing_running(
    somewhere: Path, number: signal.Signals, seen: str
) -> None:
    """Whatever it is doing at that moment: making the database, starting it, or what comes after."""
    data = somewhere / "data"
    where = {"TASKHUB_DATA_DIR": str(data), "SECRET_KEY": ""}
    with Command(somewhere / "up", "up", "--no-demo", "--port", _free_port(), environment=where) as up:
        wait_until((data / seen).exists, "the first steps", 60)
        up.interrupt(number)
        assert up.code() == 0, up.err
        assert "Traceback" not in up.err
        assert up.err.endswith("taskhub: stopped\n")
    assert not Embedded(data).running()


@pytest.fixture
def left(somewhere: Path) -> Iterator[tuple[Path, subprocess.Popen[bytes]]]:
    """A data directory whose server is gone but for its lock file, which names a process of the server's user."""
    data = somewhere / "data"
    with started(data) as (embedded, _):
        lock = embedded.database / "postmaster.pid"
        kept = lock.read_text().splitlines(keepends=True)
    owner = embedded.database.stat()
    with subprocess.Popen(["sleep", "600"], user=owner.st_uid, group=owner.st_gid) as process:
        lock.write_text("".join([f"{process.pid}\n", *kept[1:]]))
        os.chown(lock, owner.st_uid, owner.st_gid)
        yield data, process
        process.kill()


@pytest.mark.parametrize("collected", [False, True], ids=["ended", "alive"])
def test_up_waits_for_a_lock_whose_process_goes_away(
    somewhere: Path, left: tuple[Path, subprocess.Popen[bytes]], collected: bool
) -> None:
    """As right after a `kill -9` of everything: the system has not collected it yet, or not even ended it."""
    data, process = left
    if not collected:
        process.kill()
        ended(psutil.Process(process.pid))
    where = {"TASKHUB_DATA_DIR": str(data), "SECRET_KEY": ""}
    with Command(somewhere / "up", "up", "--no-demo", "--port", _free_port(), environment=where) as up:
        wait_until(lambda: f"waiting for Postgres: process {process.pid} (sleep)" in up.err, "what it waits for", 60)
        process.kill()
        process.wait()
        wait_until(lambda: "TaskHub is ready" in up.out, "a ready hub", 90)
        up.interrupt()
        assert up.code() == 0, up.err


def test_up_says_which_process_holds_the_lock_for_good(
    somewhere: Path, left: tuple[Path, subprocess.Popen[bytes]]
) -> None:
    data, process = left
    process.kill()
    ended(psutil.Process(process.pid))
    where = {"TASKHUB_DATA_DIR": str(data), "SECRET_KEY": ""}
    with Command(somewhere / "up", "up", "--no-demo", "--port", _free_port(), environment=where) as up:
        assert up.code() == 1
        *_, line = up.err.splitlines()
    assert line.startswith(f"CommandError: The embedded Postgres did not start: process {process.pid} (sleep), which")
    assert f"was not collected by process {os.getpid()} (" in line
    assert f"holds {data / 'pg' / 'postmaster.pid'} for more than 20 s" in line
    with Command(somewhere / "stopped", "up", "--no-demo", "--port", _free_port(), environment=where) as up:
        wait_until(lambda: "waiting for Postgres" in up.err, "what it waits for", 60)
        up.interrupt(signal.SIGTERM)
        assert up.code() == 0, up.err
    assert up.err.endswith("taskhub: stopped\n")


def _free_port() -> str:
    import socket

    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return str(probe.getsockname()[1])

"""Debian's PgBouncer in front of the tests' Postgres, with the configuration that docs/run/scaling.md gives."""

from __future__ import annotations

import os
import re
import socket
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

from tests.postgres import PLACE
from tests.support.hub import ROOT, STOP_SECONDS, wait_until
from tests.support.needed import program

_DOCUMENTED = re.compile(r"```ini\n(\[databases\].*?)```", re.DOTALL)


class PgBouncer:
    """One that runs. Its clients bring `password`."""

    def __init__(self, port: int, user: str, password: str, log: Path) -> None:
        self.port, self.user, self.password, self.log = port, user, password, log

    def url(self, database: str) -> str:
        """Of a database, through it."""
        return f"postgresql://{self.user}:{self.password}@127.0.0.1:{self.port}/{database}"


@contextmanager
def pgbouncer(**changed: str) -> Iterator[PgBouncer]:
    """For the block. Besides addresses nothing of the documented configuration is replaced but what is `changed`."""
    command = program("PgBouncer", "pgbouncer")
    parts = urlsplit(os.environ["DATABASE_URL"])
    query = parse_qs(parts.query)
    host = query.get("host", [parts.hostname or "127.0.0.1"])[0]
    port = str(parts.port or query.get("port", ["5432"])[0])
    user, password = parts.username or "taskhub", parts.password or "a-secret-of-tests"
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        own = str(probe.getsockname()[1])
    place = Path(tempfile.mkdtemp(prefix="pgbouncer-", dir=os.environ[PLACE]))
    place.chmod(0o755)
    (place / "userlist.txt").write_text(f'"{user}" "{password}"\n')
    text = _documented()
    for before, after in (
        ("host=127.0.0.1 port=5432", f"host={host} port={port}"),
        ("listen_port = 6432", f"listen_port = {own}"),
        ("/etc/pgbouncer/userlist.txt", str(place / "userlist.txt")),
    ):
        assert text.count(before) == 1, f"{before} is not in the documented configuration"
        text = text.replace(before, after)
    for name, value in changed.items():
        text = re.sub(rf"^{name} = .*\n", "", text, flags=re.MULTILINE) + f"{name} = {value}\n"
    (place / "pgbouncer.ini").write_text(text)
    # It does not run as root: as whoever Postgres runs as, whose socket it can reach.
    whom: int | str | None = None
    if os.geteuid() == 0:
        whom = Path(host).stat().st_uid if host.startswith("/") else "nobody"
    running = PgBouncer(int(own), user, password, place / "log")
    with running.log.open("wb") as log:
        process = subprocess.Popen([str(command), str(place / "pgbouncer.ini")], stdout=log, stderr=log, user=whom)
    try:
        wait_until(lambda: _answers(running, process), "PgBouncer", 30)
        yield running
    finally:
        process.terminate()
        process.wait(STOP_SECONDS)


def _documented() -> str:
    (found,) = _DOCUMENTED.findall((ROOT / "docs" / "run" / "scaling.md").read_text())
    return str(found)


def _answers(running: PgBouncer, process: subprocess.Popen[bytes]) -> bool:
    assert process.poll() is None, running.log.read_text()
    try:
        socket.create_connection(("127.0.0.1", running.port), timeout=5).close()
    except ConnectionRefusedError:
        return False
    return True

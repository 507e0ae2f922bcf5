"""A door in front of the tests' Postgres that can be shut: one web process loses its database, the others do not."""

from __future__ import annotations

import contextlib
import os
import select
import socket
import threading
from collections.abc import Callable, Iterator
from urllib.parse import parse_qs, urlencode, urlsplit


class DatabaseDoor:
    """Listens on a TCP port of this machine and passes everything on, until it is `shut` (whoever comes is
    refused, whoever is in is thrown out) or `mute` (all connections stay, and nothing moves)."""

    def __init__(self, connect: Callable[[], socket.socket] | None = None) -> None:
        """`connect` leads to another server than Postgres."""
        self._connect = connect or _server
        self._listener: socket.socket | None = None
        self._pairs: list[tuple[socket.socket, socket.socket]] = []
        self._moving = threading.Event()
        self._moving.set()
        self.port = 0
        self.open()

    def url(self, url: str) -> str:
        """The same database, through this door."""
        parts = urlsplit(url)
        query = {key: values[0] for key, values in parse_qs(parts.query).items() if key not in ("host", "port")}
        user = f"{parts.username}{f':{parts.password}' if parts.password else ''}"
        return parts._replace(netloc=f"{user}@127.0.0.1:{self.port}", query=urlencode(query)).geturl()

    def open(self) -> None:
        """Take connections again."""
        if self._listener is None:
            self._listener = socket.create_server(("127.0.0.1", self.port), backlog=128)
            self.port = self._listener.getsockname()[1]
            threading.Thread(target=self._accept, args=(self._listener,), daemon=True).start()

    def shut(self) -> None:
        """As after the end of a server: connections break, new ones are refused."""
        self._moving.set()
        listener, self._listener = self._listener, None
        if listener is not None:
            # Wakes the thread in `accept`, which a mere close would leave there, with the port still taken.
            listener.shutdown(socket.SHUT_RDWR)
            listener.close()
        pairs, self._pairs = self._pairs, []
        for pair in pairs:
            for side in pair:
                with contextlib.suppress(OSError):
                    side.shutdown(socket.SHUT_RDWR)

    def mute(self) -> None:
        """As when a machine hangs: connections break, new ones are taken, and nothing ever comes back."""
        self.shut()
        self._moving.clear()
        self.open()

    def _accept(self, listener: socket.socket) -> None:
        while True:
            try:
                inner, _ = listener.accept()
            except OSError:
                return
            try:
                outer = self._connect()
            except OSError:  # nobody is there
                inner.close()
                continue
            pair = (inner, outer)
            self._pairs.append(pair)
            threading.Thread(target=self._pass_on, args=pair, daemon=True).start()

    def _pass_on(self, inner: socket.socket, outer: socket.socket) -> None:
        with inner, outer, contextlib.suppress(OSError):
            while True:
                ready, _, _ = select.select([inner, outer], [], [])
                self._moving.wait()
                for side in ready:
                    data = side.recv(65_536)
                    if not data:
                        return
                    (outer if side is inner else inner).sendall(data)


def _server() -> socket.socket:
    parts = urlsplit(os.environ["DATABASE_URL"])
    query = parse_qs(parts.query)
    host = query["host"][0] if "host" in query else parts.hostname or "localhost"
    port = parts.port or int(query.get("port", ["5432"])[0])
    if not host.startswith("/"):
        return socket.create_connection((host, port), timeout=None)
    found = socket.socket(socket.AF_UNIX)
    found.connect(f"{host}/.s.PGSQL.{port}")
    return found


@contextlib.contextmanager
def database_door() -> Iterator[DatabaseDoor]:
    """A door, open; shut at the end of the block."""
    door = DatabaseDoor()
    try:
        yield door
    finally:
        door.shut()

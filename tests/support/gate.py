"""A gate in front of a hub, with TLS or without: what a proxy is to a client, and where an answer can be lost."""

from __future__ import annotations

import contextlib
import socket
import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.support.documents import certificate


class Gate:
    """Passes everything on to the port `to` of this machine. With a `directory` it speaks TLS, under an authority of
    its own whose certificate is the file `authority`. A request for which `loses` is true reaches the hub, and its
    caller never hears what came of it."""

    def __init__(
        self, to: int, directory: Path | None = None, loses: Callable[[bytes], bool] = lambda request: False
    ) -> None:
        self._to, self._loses = to, loses
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self._tls: ssl.SSLContext | None = None
        if directory is not None:
            self.authority = directory / "authority.pem"
            self._tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            self._tls.load_cert_chain(certificate(directory, self.authority))
        self.base = f"{'http' if self._tls is None else 'https'}://localhost:{self.port}"
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):  # closed
            while True:
                taken, _ = self._listener.accept()
                threading.Thread(target=self._serve, args=(taken,), daemon=True).start()

    def _serve(self, taken: socket.socket) -> None:
        with contextlib.suppress(OSError), taken:
            side = taken if self._tls is None else self._tls.wrap_socket(taken, server_side=True)
            with side, socket.create_connection(("127.0.0.1", self._to)) as behind:
                threading.Thread(target=_pass, args=(behind, side), daemon=True).start()
                while data := side.recv(65_536):
                    behind.sendall(data)
                    if self._loses(data):
                        return

    def close(self) -> None:
        """Take no more connections."""
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()


def _pass(behind: socket.socket, side: socket.socket) -> None:
    with contextlib.suppress(OSError):
        while data := behind.recv(65_536):
            side.sendall(data)
        side.shutdown(socket.SHUT_RDWR)


@contextmanager
def gate(
    to: int, directory: Path | None = None, loses: Callable[[bytes], bool] = lambda request: False
) -> Iterator[Gate]:
    """One of them, for a while."""
    made = Gate(to, directory, loses)
    try:
        yield made
    finally:
        made.close()

"""A service that Apprise reaches by `json://`: a real HTTP server on this machine, which keeps what it is given."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


@dataclass(frozen=True)
class Received:
    """A message that came: to which path, and what."""

    path: str
    title: str
    text: str

    @property
    def link(self) -> str:
        return self.text.split("\n", 1)[0]


class Service:
    """Answers each message with `status`."""

    def __init__(self, port: int = 0) -> None:
        service = self
        self.status = 200
        self.received: list[Received] = []
        self.before_answer: Callable[[Received], object] = lambda message: None

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["content-length"])))
                message = Received(self.path, body["title"], body["message"])
                service.received.append(message)
                service.before_answer(message)
                self.send_response(service.status)
                self.send_header("location", "/elsewhere")
                self.send_header("content-length", "0")
                self.end_headers()

            def log_message(self, *args: Any) -> None:
                pass

        class Server(ThreadingHTTPServer):
            daemon_threads = True
            allow_reuse_address = True

            def handle_error(self, request: Any, client_address: Any) -> None:
                """Whoever sent it may have been killed."""

        self._server = Server(("127.0.0.1", port), Handler)
        self.port = int(self._server.server_address[1])
        threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()

    @property
    def url(self) -> str:
        """As the setting has it: with a token of the hub, and a place for a person's part."""
        return f"json://127.0.0.1:{self.port}/token-of-the-hub/{{to}}"

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()

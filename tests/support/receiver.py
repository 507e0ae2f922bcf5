"""A receiver of webhooks: a real HTTP server on this machine, which verifies each message by the published library."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from standardwebhooks import Webhook


@dataclass(frozen=True)
class Received:
    """A message that came, with the headers in lower case."""

    id: str
    attempt: int
    body: dict[str, Any]
    headers: dict[str, str]
    raw: bytes


class Receiver:
    """Answers each message with `status`, or as `answers` says. `secret` verifies it; empty: nothing is verified."""

    def __init__(self, port: int = 0) -> None:
        receiver = self
        self.secret = ""
        self.status = 200
        self.said = b"thanks"
        self.extra: dict[str, str] = {}
        self.received: list[Received] = []
        self.before_answer: Callable[[Received], None] = lambda message: None
        self.problems: list[Exception] = []

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                raw = self.rfile.read(int(self.headers["content-length"]))
                headers = {name.lower(): value for name, value in self.headers.items()}
                try:
                    body = Webhook(receiver.secret).verify(raw, headers) if receiver.secret else json.loads(raw)
                except Exception as error:  # noqa: BLE001 - told by the test
                    receiver.problems.append(error)
                    body = {}
                message = Received(headers["webhook-id"], int(headers["taskhub-attempt"]), body, headers, raw)
                receiver.received.append(message)
                receiver.before_answer(message)
                self.send_response(receiver.status)
                for name, value in receiver.extra.items():
                    self.send_header(name, value)
                self.send_header("content-length", str(len(receiver.said)))
                self.end_headers()
                self.wfile.write(receiver.said)

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
        return f"http://127.0.0.1:{self.port}/hooks/of-mine"

    def ids(self) -> list[str]:
        return [message.id for message in self.received]

    def types(self) -> list[str]:
        return [str(message.body.get("type")) for message in self.received]

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()

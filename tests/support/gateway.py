"""A gateway before a server, which waits for the answer to a call until it is told to give up, and then says 504."""

from __future__ import annotations

import contextlib
import http.client
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

_OWN = ("connection", "content-length", "host", "keep-alive", "transfer-encoding", "date", "server")


class Gateway:
    """Listens on a port of this machine, and passes requests on to the port `behind`."""

    def __init__(self, behind: int) -> None:
        self.behind = behind
        self._waiting: set[threading.Event] = set()
        gateway = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                gateway.pass_on(self)

            do_GET = do_DELETE = do_POST  # noqa: N815 - names of the library

            def log_message(self, format: str, *args: Any) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self.port = int(self._server.server_address[1])
        threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True).start()

    def give_up(self) -> None:
        """Say 504 to all calls that wait."""
        for over in list(self._waiting):
            over.set()

    def close(self) -> None:
        """Listen no more."""
        self._server.shutdown()
        self._server.server_close()

    def pass_on(self, asked: BaseHTTPRequestHandler) -> None:
        """Answer a request."""
        body = asked.rfile.read(int(asked.headers.get("Content-Length", 0)))
        headers = {name: value for name, value in asked.headers.items() if name.lower() not in _OWN}
        server = http.client.HTTPConnection("127.0.0.1", self.behind)
        with contextlib.closing(server), contextlib.suppress(OSError, http.client.HTTPException):
            server.request(asked.command, asked.path, body, headers)
            if asked.headers.get("Mcp-Method") == "tools/call":
                self._wait(asked, server)
            else:
                answer = server.getresponse()
                self._begin(asked, answer)
                while part := answer.read1(65_536):
                    asked.wfile.write(part)

    def _wait(self, asked: BaseHTTPRequestHandler, server: http.client.HTTPConnection) -> None:
        found: list[tuple[http.client.HTTPResponse, bytes]] = []
        over = threading.Event()

        def read() -> None:
            with contextlib.suppress(OSError, http.client.HTTPException):
                answer = server.getresponse()
                found.append((answer, answer.read()))
            over.set()

        self._waiting.add(over)
        threading.Thread(target=read, daemon=True).start()
        over.wait()
        self._waiting.discard(over)
        if found:
            answer, whole = found[0]
            self._begin(asked, answer)
            asked.wfile.write(whole)
        else:
            asked.send_response(504)
            asked.send_header("Content-Length", "0")
            asked.end_headers()

    @staticmethod
    def _begin(asked: BaseHTTPRequestHandler, answer: http.client.HTTPResponse) -> None:
        asked.send_response(answer.status)
        for name, value in answer.getheaders():
            if name.lower() not in _OWN:
                asked.send_header(name, value)
        asked.end_headers()  # HTTP/1.0: the answer ends with its connection

#!/usr/bin/env python3
"""An external authorization service over HTTP for a gateway in front of MCP servers, such as Envoy (`ext_authz`) or
agentgateway (`extAuthz`): has each `tools/call` approved in TaskHub before it passes.

    TASKHUB_URL=https://hub.example.com TASKHUB_TOKEN=… approval_gateway.py --port 9000 --route /github=github

The gateway sends each request's path, headers and body; 200 lets it pass, any other answer is the client's. Without
TASKHUB_TOKEN each request is asked with its own bearer token. See docs/use/approvals.md.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
from decimal import Decimal
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from taskhub_approvals import Answer, Approvals, token

MOST_BYTES = 1_048_576
ALLOW = Answer("allow")


class Unreadable(Exception):
    """A request that two programs could read differently, so that it does not pass."""


class Gateway(ThreadingHTTPServer):
    """The service. `routes` maps the beginnings of paths to servers' names in TaskHub."""

    daemon_threads = True

    def __init__(self, address: tuple[str, int], *, url: str, token: str, routes: dict[str, str], wait: float) -> None:
        super().__init__(address, Check)
        self.url, self.token, self.routes, self.wait = url, token, routes, wait

    def server_of(self, path: str) -> str | None:
        """The server to which a path leads; `None` for one that leads to none that is decided here."""
        path = path.partition("?")[0]
        fitting = [begin for begin in self.routes if f"{path}/".startswith(f"{begin.rstrip('/')}/")]
        return self.routes[max(fitting, key=len)] if fitting else None


class Check(BaseHTTPRequestHandler):
    """One request of the gateway."""

    protocol_version = "HTTP/1.1"
    server: Gateway

    def answer(self) -> None:
        """Let the request pass, or answer it."""
        call: Any = None
        try:
            body = self._body()
            call = read(body) if body else None
            answer = self._decided(call)
        except Unreadable as error:
            answer = Answer("deny", str(error))
        except Exception as error:
            answer = Answer("deny", f"TaskHub could not be asked: {error!r}")
        if answer.status == "allow":
            self._send(200, b"")
            return
        words = {"pending": "Make this call again later. "}.get(answer.status, "") + answer.words
        error = {"code": -32000, "message": words, "data": {"taskhub": answer.status}}
        of = call.get("id") if isinstance(call, dict) else None
        self._send(403, json.dumps({"jsonrpc": "2.0", "id": of, "error": error}).encode())

    do_GET = do_POST = do_DELETE = do_PUT = do_PATCH = do_HEAD = do_OPTIONS = answer

    def _decided(self, call: Any) -> Answer:
        if call is None or (isinstance(call, dict) and call.get("method") != "tools/call"):
            return ALLOW
        if not isinstance(call, dict):
            raise Unreadable("Send one message at a time.")
        server = self.server.server_of(self.path)
        if server is None:
            raise Unreadable("No calls are made here.")
        params = call.get("params")
        name = params.get("name") if isinstance(params, dict) else None
        arguments = params.get("arguments", {}) if isinstance(params, dict) else None
        if not isinstance(name, str) or not isinstance(arguments, dict):
            raise Unreadable("A tools/call has a name and arguments.")
        given = self.headers.get("authorization", "")
        bearer = self.server.token or given.partition(" ")[2]
        session = hashlib.sha256(f"{given}\n{self.headers.get('mcp-session-id', '')}".encode()).hexdigest()
        approvals = Approvals(self.server.url, bearer, program="gateway")
        return approvals.ask(server, name, arguments, wait=self.server.wait, session=session)

    def _body(self) -> bytes:
        if self.headers.get("x-envoy-auth-partial-body", "false") != "false":
            raise Unreadable("The body is too large.")
        if "transfer-encoding" in self.headers:
            self.close_connection = True
            raise Unreadable("The body has no length.")
        size = int(self.headers.get("content-length") or 0)
        if size > MOST_BYTES:
            self.close_connection = True
            raise Unreadable("The body is too large.")
        return self.rfile.read(size)

    def _send(self, status: int, body: bytes) -> None:
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:
        """Says nothing: the gateway has the log."""


def read(body: bytes) -> Any:
    """The JSON of a body. Raises `Unreadable` for what another program may read otherwise."""

    def pairs(found: list[tuple[str, Any]]) -> dict[str, Any]:
        if len({name for name, _ in found}) != len(found):
            raise Unreadable("The body has two members of one name.")
        return dict(found)

    def constant(word: str) -> Any:
        raise Unreadable(f"{word} is not JSON.")

    def number(text: str) -> float:
        # People would be asked about the rounded number, and the server gets the digits.
        value = float(text)
        if Decimal(text) != Decimal(repr(value)):
            raise Unreadable("A number has more digits than are kept.")
        return value

    try:
        return json.loads(body.decode(), object_pairs_hook=pairs, parse_constant=constant, parse_float=number)
    except (ValueError, ArithmeticError, RecursionError):
        raise Unreadable("The body is not JSON.") from None


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=9000)
    parser.add_argument("--wait", type=float, default=20.0, help="seconds to wait for people (default 20)")
    parser.add_argument("--route", action="append", required=True, metavar="PATH=SERVER")
    given = parser.parse_args()
    routes = dict(route.split("=", 1) for route in given.route)
    address = (given.host, given.port)
    with Gateway(address, url=os.environ["TASKHUB_URL"], token=token(), routes=routes, wait=given.wait) as gateway:
        print(f"asking {os.environ['TASKHUB_URL']} on port {gateway.server_address[1]}", flush=True)
        gateway.serve_forever()


if __name__ == "__main__":
    main()

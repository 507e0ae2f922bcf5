"""A server of 2024-11-05 over HTTP with SSE, written by hand: it can break its stream, refuse messages and name another
address."""

from __future__ import annotations

import json
import queue
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

from taskhub.upstream.bounds import MAX_ANSWER
from taskhub.upstream.target import Target
from tests.upstream.old_server import FORM, NOT_FOUND, text

TOOLS = ("echo", "large", "lavish", "hold", "ask", "nonsense", "fail", "error")


class OldSseServer:
    """The server while `serving` runs."""

    def __init__(self) -> None:
        self.port = 0
        self.endpoint = "/messages?session={session}"
        self.version = "2024-11-05"
        self.stream_status = 200
        self.stream_headers = {"Content-Type": "text/event-stream"}
        self.methods: list[str] = []
        """The methods of all messages so far, and `GET` for each stream."""
        self.runs: list[str] = []
        """The tools that were called."""
        self.headers: list[dict[str, str]] = []
        """The headers of all requests."""
        self.asking: Any = None
        """The id of the call that has asked, or is not answered."""
        self.streams: dict[str, queue.SimpleQueue[bytes | None]] = {}

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/sse"

    @property
    def target(self) -> Target:
        return Target("http", f"sse+{self.url}", (("Authorization", "Bearer s3cret-of-ours"),))

    def cut(self) -> None:
        """Break all streams."""
        for stream in self.streams.values():
            stream.put(None)

    def say(self, session: str, message: dict[str, Any]) -> None:
        self.send(session, json.dumps({"jsonrpc": "2.0", **message}))

    def send(self, session: str, data: str) -> None:
        self.streams[session].put(f"event: message\r\ndata: {data}\r\n\r\n".encode())

    def took(self, session: str, message: dict[str, Any]) -> int:
        """The status with which a message is taken; its answer is sent on the stream."""
        method, number = message.get("method", "answer"), message.get("id")
        self.methods.append(method)
        if session not in self.streams:
            return 404
        if method == "answer":
            self.say(session, {"id": self.asking, "result": text(json.dumps(message["result"], sort_keys=True))})
        elif method == "initialize":
            info = {"name": "old-sse", "version": "0"}
            found = {"protocolVersion": self.version, "capabilities": {"tools": {}}, "serverInfo": info}
            self.say(session, {"id": number, "result": found})
        elif method == "tools/list":
            tools = [{"name": name, "inputSchema": {"type": "object"}} for name in TOOLS]
            self.say(session, {"id": number, "result": {"tools": tools}})
        elif method == "tools/call":
            return self.called(session, message)
        elif number is not None:
            self.say(session, {"id": number, "error": NOT_FOUND})
        return 202

    def called(self, session: str, message: dict[str, Any]) -> int:
        number, name = message["id"], message["params"]["name"]
        self.asking = number
        self.runs.append(name)
        match name:
            case "echo":
                self.say(session, {"id": number, "result": text(message["params"]["arguments"]["text"])})
            case "large":
                self.say(session, {"id": number, "result": text("x" * 3_000_000)})
            case "lavish":
                self.say(session, {"id": number, "result": text("x" * MAX_ANSWER)})
            case "nonsense":
                self.send(session, json.dumps({"jsonrpc": "2.0", "id": number, "result": 5}))
            case "error":
                self.say(session, {"id": number, "error": {"code": -32001, "message": "no"}})
            case "fail":
                return 500
            case "ask":
                params = {"message": "Which word?", "requestedSchema": FORM}
                self.say(session, {"id": "mine", "method": "elicitation/create", "params": params})
        return 202


@contextmanager
def serving(server: OldSseServer) -> Iterator[OldSseServer]:
    """Run the server."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            server.methods.append("GET")
            server.headers.append(dict(self.headers))
            session = str(len(server.streams))
            server.streams[session] = stream = queue.SimpleQueue()
            self.send_response(server.stream_status)
            for name, value in server.stream_headers.items():
                self.send_header(name, value)
            self.end_headers()
            if server.stream_status != 200:
                return
            self.wfile.write(f"event: endpoint\ndata: {server.endpoint.format(session=session)}\n\n".encode())
            with suppress(OSError):
                while (event := stream.get()) is not None:
                    self.wfile.write(event)

        def do_POST(self) -> None:
            server.headers.append(dict(self.headers))
            body = self.rfile.read(int(self.headers["Content-Length"]))
            parts = urlsplit(self.path)
            if parts.path != "/messages":
                self.send_error(405)
                return
            session = parse_qs(parts.query).get("session", [""])[0]
            if len(body) < int(self.headers["Content-Length"]):
                return  # the client has closed the connection meanwhile
            with suppress(OSError):
                self.send_response(server.took(session, json.loads(body)))
                self.send_header("Content-Length", "8")
                self.end_headers()
                self.wfile.write(b"Accepted")

        def log_message(self, *args: Any) -> None:
            pass

    http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.port = http.server_port
    thread = threading.Thread(target=http.serve_forever, args=(0.01,))
    thread.start()
    try:
        yield server
    finally:
        server.cut()
        http.shutdown()
        http.server_close()
        thread.join()

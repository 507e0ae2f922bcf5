"""A few pages on this machine, for servers that read the web."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Final

from tests.servers.kinds import BIG

SLOW_SECONDS: Final = 60.0
PAGE: Final = """<!doctype html>
<html lang="en"><head><title>A page</title><link rel="icon" href="data:,"></head><body><h1>A page</h1>
<p>It has a form, and <a href="other.html">another page</a>.</p>
<form><label>Name <input id="name"></label>
<label>Colour <select id="colour"><option>red</option><option>green</option></select></label>
<button id="go" type="button">Greet</button> <button id="alert" type="button">Alert</button>
<input type="file" id="file" aria-label="File"></form>
<p id="said"></p><div id="a" draggable="true">Drag me</div><div id="b">Drop here</div>
<script>
document.querySelector('#go').onclick = () => {
  document.querySelector('#said').textContent = 'Hello ' + document.querySelector('#name').value;
};
document.querySelector('#alert').onclick = () => alert('Hey');
console.log('loaded');
</script></body></html>
"""
OTHER: Final = """<!doctype html>
<html lang="en"><head><title>Another</title><link rel="icon" href="data:,"></head><body><p>Other</p></body></html>
"""
PAGES: Final = {
    "/page.html": PAGE,
    "/other.html": OTHER,
    "/big.html": f"<!doctype html><html><body><p>{'word ' * (BIG // 5)}</p></body></html>",
}


class _Site(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Pages)
        self.ended = threading.Event()


class _Pages(BaseHTTPRequestHandler):
    server: _Site
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        if self.path == "/slow.html":
            self.server.ended.wait(SLOW_SECONDS)
        body = PAGES.get(self.path, "").encode()
        self.send_response(200 if body else 404)
        self.send_header("content-type", "text/html; charset=utf-8")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        pass


@contextlib.contextmanager
def site() -> Iterator[str]:
    """The address of the pages."""
    server = _Site()
    serving = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    serving.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.ended.set()
        server.shutdown()
        server.server_close()
